//! Where the password of the role comes from.

use std::path::PathBuf;

use secrecy::{ExposeSecret, SecretString};

use crate::reach::Unreached;

/// Where the password of the role comes from.
#[derive(Debug, Clone, Default)]
pub enum Password {
    /// The URL, or none is needed.
    #[default]
    OfUrl,
    /// A file, read anew for each connection: a password that was changed there is used from then on.
    File(PathBuf),
    /// The environment.
    Value(SecretString),
}

impl Password {
    pub(crate) async fn read(&self) -> Result<Option<Vec<u8>>, Unreached> {
        match self {
            Self::OfUrl => Ok(None),
            Self::Value(value) => Ok(Some(value.expose_secret().as_bytes().to_vec())),
            Self::File(file) => {
                let failed = |why: &dyn std::fmt::Display| {
                    let file = file.display();
                    Unreached::unfit(format!("store.password_file: {file} {why}"))
                };
                let path = file.clone();
                let read = tokio::task::spawn_blocking(move || std::fs::read(path)).await;
                let read = read.unwrap_or_else(|panic| Err(panic.into()));
                let mut bytes =
                    read.map_err(|error| failed(&format!("cannot be read: {error}")))?;
                // Editors end a file with an end of line.
                while bytes.last().is_some_and(|last| b"\r\n".contains(last)) {
                    bytes.pop();
                }
                if bytes.is_empty() {
                    return Err(failed(&"is empty"));
                }
                Ok(Some(bytes))
            }
        }
    }
}
