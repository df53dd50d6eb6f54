//! The Rust end of `supervisor.sh`, which outlives this process just long enough to clean up after it:
//! statics are never dropped and a killed process runs nothing, but its pipes are closed in any case.

use std::env;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, bail};

use super::binaries;
use super::home::{Home, User};

const SCRIPT: &str = include_str!("supervisor.sh");

#[derive(Debug)]
pub(super) struct Supervisor {
    home: Home,
    child: Child,
    /// `None` only while dropping. One order at a time: answers carry no name.
    talk: Mutex<Option<(ChildStdin, BufReader<ChildStdout>)>>,
}

impl Supervisor {
    /// From here on the directory has an owner who will remove it.
    pub(super) fn spawn() -> Result<Self> {
        let binaries = binaries::find()?;
        let home = Home::create()?;
        let mut command = Command::new("sh");
        command
            .args(["-c", SCRIPT, "fencepost-postgres"])
            .args([binaries.as_path(), home.path()])
            .env("LC_ALL", "C")
            .env("HOME", home.path())
            .current_dir(home.path())
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        // PGDATA, PGPORT, PGOPTIONS and the like are about somebody's other server.
        for (name, _) in
            env::vars_os().filter(|(name, _)| name.as_encoded_bytes().starts_with(b"PG"))
        {
            command.env_remove(name);
        }
        if let Some(User { uid, gid }) = home.user {
            command.uid(uid).gid(gid);
        }
        let mut child = command
            .spawn()
            .context("starting PostgreSQL's supervisor")?;
        let orders = child.stdin.take().context("stdin is piped")?;
        let answers = BufReader::new(child.stdout.take().context("stdout is piped")?);
        Ok(Self {
            home,
            child,
            talk: Mutex::new(Some((orders, answers))),
        })
    }

    pub(super) fn home(&self) -> &Home {
        &self.home
    }

    /// Blocks until the order is carried out.
    pub(super) fn order(&self, line: &str) -> Result<()> {
        let mut talk = self.talk.lock().unwrap_or_else(PoisonError::into_inner);
        let (orders, answers) = talk.as_mut().context("the supervisor is gone")?;
        writeln!(orders, "{line}").context("the supervisor is gone")?;
        let mut answer = String::new();
        answers.read_line(&mut answer)?;
        match answer.trim() {
            "0" => Ok(()),
            code => bail!(
                "PostgreSQL: `{line}` ended with {code:?}:\n{}",
                self.home.log()
            ),
        }
    }
}

impl Drop for Supervisor {
    /// Waits, so that a test which has passed has also cleaned up.
    fn drop(&mut self) {
        self.talk
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Err(error) = self.child.wait() {
            eprintln!("PostgreSQL's supervisor: {error}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Method: give the order without waiting for its answer, as a process does that is killed then.
    #[test]
    fn an_order_that_is_under_way_when_its_giver_dies_is_undone_too() -> Result<()> {
        for order in ["init\n", "init\nstart\n"] {
            let supervisor = Supervisor::spawn()?;
            let path = supervisor.home().path().to_owned();
            assert!(path.is_dir());
            if let Some((orders, _)) = supervisor.talk.lock().unwrap().as_mut() {
                orders.write_all(order.as_bytes())?;
            }
            drop(supervisor);
            assert!(!path.exists(), "{} is left after {order:?}", path.display());
        }
        Ok(())
    }
}
