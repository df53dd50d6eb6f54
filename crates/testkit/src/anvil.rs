//! A chain with a real EVM: anvil as a process of its own, on a free port.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, Result, bail};
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::timeout;

use crate::wait::PATIENCE;

/// What anvil prints when it can be asked, before its address.
const LISTENING: &str = "Listening on ";

/// A running anvil. Dropping it ends it.
#[derive(Debug)]
pub struct Anvil {
    url: String,
    /// Kept because it is killed when dropped.
    _child: Child,
}

impl Anvil {
    /// Starts one, with these arguments besides the port.
    pub async fn start(arguments: &[&str]) -> Result<Self> {
        let mut child = Command::new(find()?)
            .args(["--host", "127.0.0.1", "--port", "0"])
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()?;
        let mut lines = BufReader::new(child.stdout.take().context("its output")?).lines();
        let address = timeout(PATIENCE, listening(&mut lines))
            .await
            .context("anvil never said where it listens")??;
        // It tells of every block, and stops when nobody reads that.
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        Ok(Self {
            url: format!("http://{address}"),
            _child: child,
        })
    }

    /// Where it answers.
    pub fn url(&self) -> &str {
        &self.url
    }
}

async fn listening(lines: &mut Lines<BufReader<ChildStdout>>) -> Result<String> {
    let mut said = Vec::new();
    while let Some(line) = lines.next_line().await? {
        if let Some(address) = line.strip_prefix(LISTENING) {
            return Ok(address.trim().to_owned());
        }
        said.push(line);
    }
    bail!("anvil ended: {said:?}")
}

/// The program: from PATH, else where `./test` installs it.
fn find() -> Result<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let in_path = env::split_paths(&path).map(|directory| directory.join("anvil"));
    let cache = cache();
    let installed = cache.iter().flat_map(|cache| installed(cache));
    match in_path.chain(installed).find(|program| is_program(program)) {
        Some(program) => Ok(program),
        None => bail!(
            "tests need anvil. ./test installs it; else: npm install --prefix {} @foundry-rs/anvil, \
             or put Foundry's programs on PATH",
            cache.unwrap_or_default().display()
        ),
    }
}

fn cache() -> Option<PathBuf> {
    let cache = env::var_os("XDG_CACHE_HOME").filter(|cache| !cache.is_empty());
    let home = || Some(PathBuf::from(env::var_os("HOME")?).join(".cache"));
    let cache = cache.map(PathBuf::from).or_else(home)?;
    Some(cache.join("fencepost/anvil"))
}

/// The programs of the platforms that npm has installed for.
fn installed(cache: &Path) -> Vec<PathBuf> {
    let packages = fs::read_dir(cache.join("node_modules/@foundry-rs"));
    let packages = packages.into_iter().flatten().flatten();
    packages
        .map(|package| package.path().join("bin/anvil"))
        .collect()
}

/// The script that npm puts before the program is passed over: killing it leaves the program running.
fn is_program(candidate: &Path) -> bool {
    let Ok(target) = candidate.canonicalize() else {
        return false;
    };
    let is_script = target
        .extension()
        .is_some_and(|extension| extension == "mjs");
    target.is_file() && !is_script
}
