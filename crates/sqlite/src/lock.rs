//! One process, one file: an exclusive lock on a file beside the database, held for the store's
//! life. The operating system gives it up when the process dies, however it dies.

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};

use fencepost_app::ports::StoreError;

/// Held while it lives. The file itself stays: deleting it would let two processes lock two files
/// of the same name.
pub(crate) struct FileLock {
    _file: File,
}

impl FileLock {
    pub(crate) fn take(database: &Path) -> Result<Self, StoreError> {
        let path = beside(database);
        let unavailable = |error| StoreError::Unavailable(Box::new(error));
        let file = File::options()
            .create(true)
            .write(true)
            .truncate(false)
            .open(&path)
            .map_err(unavailable)?;
        match file.try_lock() {
            Ok(()) => Ok(Self { _file: file }),
            Err(TryLockError::WouldBlock) => Err(StoreError::InUse(format!(
                "{} is in use by another fencepost process, which holds {}. Stop that process, \
                 or give this one a file of its own in store.url; several nodes on one store \
                 need PostgreSQL",
                database.display(),
                path.display(),
            ))),
            Err(TryLockError::Error(error)) => Err(unavailable(error)),
        }
    }
}

fn beside(database: &Path) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push(".lock");
    PathBuf::from(name)
}

/// One spelling for each database, so that a link or a relative path meets the same lock.
pub(crate) fn resolved(path: &Path) -> Result<PathBuf, StoreError> {
    if let Ok(real) = path.canonicalize() {
        return Ok(real);
    }
    let Some(name) = path.file_name() else {
        let path = path.display();
        return Err(StoreError::Unfit(format!("{path} does not name a file")));
    };
    let parent = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        Some(_) | None => Path::new("."),
    };
    let parent = parent.canonicalize().map_err(|error| {
        let parent = parent.display();
        StoreError::Unfit(format!("the directory {parent} cannot be used: {error}"))
    })?;
    Ok(parent.join(name))
}
