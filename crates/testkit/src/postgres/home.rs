//! The directory a server lives in, and the user it runs as: PostgreSQL refuses to run as root.

use std::env;
use std::fs::{self, DirBuilder, OpenOptions, Permissions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::unique;

/// A socket's whole path must fit into about a hundred bytes; the rest of it is ours.
const BASE_LENGTH_MAX: usize = 60;

/// Whom the server runs as when we are root.
#[derive(Clone, Copy, Debug)]
pub(super) struct User {
    pub(super) uid: u32,
    pub(super) gid: u32,
}

/// A directory of one server: `data`, the logs and the socket. The supervisor removes it.
#[derive(Debug)]
pub(super) struct Home {
    path: PathBuf,
    /// `None`: as ourselves.
    pub(super) user: Option<User>,
}

impl Home {
    pub(super) fn create() -> Result<Self> {
        let user = server_user()?;
        let bases = [env::temp_dir(), "/tmp".into(), "/var/tmp".into()];
        let base = bases
            .iter()
            .find(|base| fits(base, user.is_some()))
            .with_context(|| format!("none of {bases:?} can be used by the server's user"))?;
        let path = loop {
            let path = base.join(format!("fencepost-pg-{:x}", unique()));
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => break path,
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error).context(format!("making {}", path.display())),
            }
        };
        if let Some(User { uid, gid }) = user {
            chown(&path, Some(uid), Some(gid))?;
        }
        Ok(Self { path, user })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn append_settings(&self, lines: &str) -> Result<()> {
        let path = self.path.join("data/postgresql.conf");
        let mut file = OpenOptions::new().append(true).open(&path)?;
        Ok(file.write_all(lines.as_bytes())?)
    }

    /// Writes a file that only the server's user may read, as PostgreSQL asks of keys.
    pub(super) fn write(&self, name: &str, contents: &str) -> Result<()> {
        let path = self.path.join(name);
        fs::write(&path, contents)?;
        fs::set_permissions(&path, Permissions::from_mode(0o600))?;
        if let Some(User { uid, gid }) = self.user {
            chown(&path, Some(uid), Some(gid))?;
        }
        Ok(())
    }

    /// What the programs and the server said, for error messages as much as for tests.
    pub(super) fn log(&self) -> String {
        let read = |name| fs::read(self.path.join(name)).unwrap_or_default();
        let all = [read("programs.log"), read("server.log")].concat();
        String::from_utf8_lossy(&all).into_owned()
    }

    pub(super) fn forget_log(&self) -> Result<()> {
        Ok(fs::remove_file(self.path.join("server.log"))?)
    }

    pub(super) fn postmaster(&self) -> Result<i32> {
        let file = fs::read_to_string(self.path.join("data/postmaster.pid"))?;
        Ok(file
            .lines()
            .next()
            .context("postmaster.pid is empty")?
            .parse()?)
    }
}

/// The server's user must reach the base, and must be allowed to remove its own directory there.
fn fits(base: &Path, other_user: bool) -> bool {
    const PASS: u32 = 0o001;
    const WRITE: u32 = 0o002;
    let allows =
        |path: &Path, bits| fs::metadata(path).is_ok_and(|meta| meta.mode() & bits == bits);
    let reachable = base.ancestors().all(|ancestor| allows(ancestor, PASS));
    base.is_absolute()
        && base.is_dir()
        && base.as_os_str().len() <= BASE_LENGTH_MAX
        && (!other_user || (reachable && allows(base, PASS | WRITE)))
}

fn server_user() -> Result<Option<User>> {
    if id(&["-u"])? != 0 {
        return Ok(None);
    }
    let ids = |name: &str| {
        Ok(User {
            uid: id(&["-u", name])?,
            gid: id(&["-g", name])?,
        })
    };
    ids("postgres")
        .or_else(|_: anyhow::Error| ids("nobody"))
        .map(Some)
}

fn id(arguments: &[&str]) -> Result<u32> {
    let output = Command::new("id").args(arguments).output()?;
    ensure!(
        output.status.success(),
        "id {arguments:?}: {}",
        output.status
    );
    Ok(String::from_utf8(output.stdout)?.trim().parse()?)
}
