//! The log of a run: one line of JSON for each note, only ever added to.

use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result};

use crate::note::Note;

/// Where notes go.
#[derive(Debug)]
pub(crate) struct Journal {
    path: PathBuf,
    file: Mutex<BufWriter<File>>,
}

impl Journal {
    pub(crate) fn create(path: &Path) -> Result<Self> {
        let file = File::create_new(path).with_context(|| path.display().to_string())?;
        Ok(Self {
            path: path.to_owned(),
            file: Mutex::new(BufWriter::new(file)),
        })
    }

    /// A log that cannot be written ends the run: without it nothing can be checked.
    pub(crate) fn note(&self, note: &Note) {
        let mut line = serde_json::to_vec(note).expect("a note is JSON");
        line.push(b'\n');
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        file.write_all(&line).expect("the run's log can be written");
    }

    /// All that was noted so far, from the file.
    pub(crate) fn read(&self) -> Result<Vec<Note>> {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        file.flush()?;
        drop(file);
        let lines = BufReader::new(File::open(&self.path)?).lines();
        let notes = lines.map(|line| {
            let line = line?;
            serde_json::from_str(&line).with_context(|| line.clone())
        });
        notes.collect()
    }
}
