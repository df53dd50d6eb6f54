//! The command line, as an operator types it.

use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tokio::process::Command;

use super::member::Member;

/// What a command printed, and how it ended.
#[derive(Debug)]
pub(crate) struct Typed {
    code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// The arguments of a line; what stands between quotes is one.
fn arguments(line: &str) -> Vec<&str> {
    let parts = line.split('\'').enumerate();
    parts
        .flat_map(|(n, part)| match n % 2 {
            0 => part.split_whitespace().collect(),
            _ => vec![part],
        })
        .collect()
}

/// Types `fencepost` and this line.
pub(crate) async fn type_in(node: &Member, line: &str) -> Result<Typed> {
    let output = Command::new(env!("CARGO_BIN_EXE_fencepost"))
        .args(arguments(line))
        .env("FENCEPOST_URL", &node.url)
        .env_remove("FENCEPOST_API_KEY")
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output()
        .await?;
    Ok(Typed {
        code: output.status.code(),
        out: String::from_utf8(output.stdout)?,
        err: String::from_utf8(output.stderr)?,
    })
}

impl Typed {
    /// It went well, and these words are shown.
    pub(crate) fn shows(self, words: &[&str]) -> Result<Self> {
        ensure!(self.code == Some(0) && self.err.is_empty(), "{self:?}");
        for word in words {
            ensure!(self.out.contains(word), "{word:?} is not in\n{}", self.out);
        }
        Ok(self)
    }

    /// It did not, with this exit code, nothing on stdout and these words on stderr.
    pub(crate) fn fails(self, code: i32, word: &str) -> Result<()> {
        ensure!(self.code == Some(code) && self.out.is_empty(), "{self:?}");
        ensure!(self.err.contains(word), "{word:?} is not in {self:?}");
        Ok(())
    }

    /// What it printed as JSON.
    pub(crate) fn json(self) -> Result<Value> {
        let typed = self.shows(&[])?;
        serde_json::from_str(&typed.out).with_context(|| format!("{typed:?}"))
    }
}
