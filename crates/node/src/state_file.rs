//! The node's state file: which store it works on and the newest server of it. It stands beside the configuration, or in
//! `node.state_dir`, and outlives the process. A node without one compares its lanes with the chain before it gives a
//! nonce.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use fencepost_app::store_memory::{Keeper, Kept};
use fencepost_domain::ids::NodeId;
use fencepost_domain::store_identity::{Server, StoreId};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::failure::Failure;

/// A file of another version is refused: what it says may mean something else.
const VERSION: u32 = 1;

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Text {
    version: u32,
    store: Uuid,
    server: Option<ServerText>,
    left_behind: Vec<Uuid>,
    peers: Vec<String>,
}

#[derive(Debug, Serialize, Deserialize)]
struct ServerText {
    system: i64,
    timeline: i64,
    era: Uuid,
}

/// Where one node keeps its state.
pub(crate) struct StateFile {
    path: PathBuf,
}

impl StateFile {
    /// The file of this node in a directory. A node's id may hold what no file name does.
    pub(crate) fn of(directory: &Path, node: &NodeId) -> Self {
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        let id = node.as_str().chars();
        let id: String = id.map(|c| if plain(c) { c } else { '_' }).collect();
        let path = directory.join(format!("fencepost-{id}.state.json"));
        Self { path }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// What an earlier process has kept. None where there is no such file.
    pub(crate) fn read(&self) -> Result<Option<Kept>, Failure> {
        let shown = self.path.display();
        let doing = || {
            format!(
                "the node's state file {shown} cannot be read; without it the node compares its lanes with the chain"
            )
        };
        let text = match fs::read(&self.path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Failure::new(doing(), error)),
        };
        let text: Text =
            serde_json::from_slice(&text).map_err(|error| Failure::new(doing(), error))?;
        if text.version != VERSION {
            let why = format!("its version is {} and not {VERSION}", text.version);
            return Err(Failure::new(doing(), why));
        }
        Ok(Some(text.read()))
    }

    /// Durable when it returns: a file beside it takes its place whole.
    fn write(&self, kept: &Kept) -> io::Result<()> {
        let text = serde_json::to_vec_pretty(&Text::of(kept))?;
        let beside = self.path.with_extension("json.new");
        let mut file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&beside)?;
        file.write_all(&text)?;
        file.sync_all()?;
        fs::rename(&beside, &self.path)?;
        let directory = self.path.parent().filter(|path| *path != Path::new(""));
        File::open(directory.unwrap_or(Path::new(".")))?.sync_all()
    }
}

impl Keeper for StateFile {
    fn keep(&self, kept: &Kept) {
        if let Err(error) = self.write(kept) {
            let file = self.path.display();
            tracing::error!(
                %file, %error,
                "the node's state file cannot be written: after a restart the node may not notice an old primary. Set node.state_dir to a directory that it can write to"
            );
        }
    }
}

impl Text {
    fn of(kept: &Kept) -> Self {
        Self {
            version: VERSION,
            store: kept.store.0,
            server: kept.server.map(|server| ServerText {
                system: server.system,
                timeline: server.timeline,
                era: server.era,
            }),
            left_behind: kept.left.clone(),
            peers: kept.peers.clone(),
        }
    }

    fn read(self) -> Kept {
        Kept {
            store: StoreId(self.store),
            server: self.server.map(|server| Server {
                system: server.system,
                timeline: server.timeline,
                era: server.era,
            }),
            left: self.left_behind,
            peers: self.peers,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn kept() -> Kept {
        Kept {
            store: StoreId(Uuid::from_u128(1)),
            server: Some(Server {
                system: -5,
                timeline: 3,
                era: Uuid::from_u128(2),
            }),
            left: vec![Uuid::from_u128(4)],
            peers: vec!["http://b:8700".to_owned()],
        }
    }

    #[test]
    fn what_is_kept_is_read_back_and_others_cannot_read_it() {
        let home = tempfile::tempdir().unwrap();
        let file = StateFile::of(home.path(), &NodeId::new("a/b c").unwrap());
        assert_eq!(file.path(), home.path().join("fencepost-a_b_c.state.json"));
        assert_eq!(file.read().unwrap(), None);
        file.keep(&kept());
        file.keep(&kept());
        assert_eq!(file.read().unwrap(), Some(kept()));
        let mode = fs::metadata(file.path()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn a_damaged_file_or_one_of_another_version_is_refused() {
        let home = tempfile::tempdir().unwrap();
        let file = StateFile::of(home.path(), &NodeId::new("a").unwrap());
        file.keep(&kept());
        let text = fs::read_to_string(file.path()).unwrap();
        for wrong in ["", "{}", &text.replace("\"version\": 1", "\"version\": 2")] {
            fs::write(file.path(), wrong).unwrap();
            assert!(file.read().is_err(), "{wrong}");
        }
    }
}
