//! The built program, started as a user does, with its files in a directory of its own.

use std::io;
use std::process::Stdio;

use tempfile::TempDir;
use tokio::process::{Child, Command};

pub(crate) fn start(place: &TempDir, arguments: &[&str]) -> io::Result<Child> {
    Command::new(env!("CARGO_BIN_EXE_fencepost"))
        .args(arguments)
        .env("TMPDIR", place.path())
        // What the caller has set for other nodes is not for these.
        .env("FENCEPOST__STORE__URL", "postgres://nobody@nowhere/none")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
}
