//! `fencepost audit export`: the whole audit as JSON lines, each as the node wrote it.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::Client;
use crate::cli::audit::{AuditCommand, Export};
use crate::config::environment::Environment;
use crate::failure::Failure;
use crate::output::print;

/// The largest page a node gives.
const PAGE: u32 = 1_000;

/// A stretch of the audit.
#[derive(Deserialize)]
struct Stretch {
    entries: Vec<Box<RawValue>>,
    next: u64,
}

/// Does what the command says.
pub(crate) async fn run(command: AuditCommand, environment: &Environment) -> Result<(), Failure> {
    let AuditCommand::Export(asked) = command;
    let client = Client::new(&asked.remote, environment)?;
    export(&client, &asked).await
}

/// Ends where nothing more is there. A key that sees some signers only gets on without seeing an entry.
async fn export(client: &Client, asked: &Export) -> Result<(), Failure> {
    let mut out = asked.out.as_deref().map(Lines::open).transpose()?;
    let mut after = asked.after;
    loop {
        let query = [
            ("after", Some(after.to_string())),
            ("limit", Some(PAGE.to_string())),
        ];
        let body = client.get(&["audit"], &query).await?;
        let stretch: Stretch = serde_json::from_str(&body)
            .map_err(|error| Failure::new("the answer is not an audit", error))?;
        for entry in &stretch.entries {
            match &mut out {
                None => print(entry.get())?,
                Some(out) => out.add(entry.get())?,
            }
        }
        if stretch.next == after {
            return out.map_or(Ok(()), |out| out.finish());
        }
        after = stretch.next;
    }
}

/// A file that is only added to, so that an export can go on where the last one ended.
struct Lines {
    file: File,
    name: String,
}

impl Lines {
    fn open(file: &Path) -> Result<Self, Failure> {
        let name = file.display().to_string();
        let opened = OpenOptions::new().create(true).append(true).open(file);
        let failed = |error| Failure::new(format!("{name} cannot be opened"), error);
        let file = opened.map_err(failed)?;
        Ok(Self { file, name })
    }

    fn add(&mut self, line: &str) -> Result<(), Failure> {
        let written = writeln!(self.file, "{line}");
        written.map_err(|error| self.unwritten(error))
    }

    fn finish(&self) -> Result<(), Failure> {
        let synced = self.file.sync_all();
        synced.map_err(|error| self.unwritten(error))
    }

    fn unwritten(&self, error: std::io::Error) -> Failure {
        Failure::new(format!("{} cannot be written", self.name), error)
    }
}
