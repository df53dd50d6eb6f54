//! The demo as a user runs it: a process of the built program. Goal: it ends well and leaves nothing behind,
//! and where it does not end well it says so and still leaves no node running.

#![allow(clippy::unwrap_used)] // A test may stop at any surprise.

mod program;

use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use fencepost_testkit::wait;
use serde_json::Value;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::process::{Child, ChildStderr, Command};
use tokio::time::timeout;

/// A debug build on a busy machine needs twenty.
const DURATION_MAX: Duration = Duration::from_secs(60);

/// A demo that is under way, and what it leaves behind.
struct Demo {
    child: Child,
    log: BufReader<ChildStderr>,
    place: TempDir,
}

impl Demo {
    fn start(arguments: &[&str]) -> Result<Self> {
        let place = TempDir::new()?;
        let mut child = program::start(&place, &[&["demo"], arguments].concat())?;
        let log = BufReader::new(child.stderr.take().context("stderr")?);
        Ok(Self { child, log, place })
    }

    /// The process of its first node, when that is ready.
    async fn node(&mut self) -> Result<u32> {
        let mut line = String::new();
        let found = async {
            loop {
                line.clear();
                ensure!(
                    self.log.read_line(&mut line).await? > 0,
                    "it never had a node"
                );
                let words: Vec<&str> = line.split_whitespace().collect();
                if let Some(at) = words.iter().position(|word| *word == "node")
                    && words.get(at + 2..at + 4) == Some(&["is", "ready"])
                {
                    return Ok(words[at + 1].parse()?);
                }
            }
        };
        timeout(wait::PATIENCE, found).await?
    }

    /// Its exit code, what it answered and what it told.
    async fn end(&mut self) -> Result<(Option<i32>, String, String)> {
        let (mut answered, mut told) = (String::new(), String::new());
        let mut out = self.child.stdout.take().context("stdout")?;
        let ended = async {
            tokio::try_join!(
                out.read_to_string(&mut answered),
                self.log.read_to_string(&mut told),
            )?;
            self.child.wait().await
        };
        let code = timeout(DURATION_MAX, ended).await??.code();
        Ok((code, answered, told))
    }

    fn left_behind(&self) -> Result<usize> {
        Ok(std::fs::read_dir(self.place.path())?.count())
    }
}

async fn signal(name: &str, pid: u32) -> Result<bool> {
    let (name, pid) = (format!("-{name}"), pid.to_string());
    let mut kill = Command::new("kill");
    let sent = kill
        .args([name, pid])
        .stderr(Stdio::null())
        .status()
        .await?;
    Ok(sent.success())
}

async fn is_gone(pid: u32) -> Result<bool> {
    Ok(!signal("0", pid).await?)
}

async fn until_gone(pid: u32) -> Result<()> {
    wait::until("the node is gone", || async move {
        Ok(is_gone(pid).await?.then_some(()))
    })
    .await
}

#[tokio::test]
async fn every_promise_is_kept_and_nothing_is_left_behind() -> Result<()> {
    let began = Instant::now();
    let mut demo = Demo::start(&["--json"])?;
    let (code, answered, told) = demo.end().await?;
    ensure!(code == Some(0), "{code:?} {answered} {told}");
    ensure!(began.elapsed() < DURATION_MAX, "{:?}", began.elapsed());
    ensure!(
        !answered.contains('\u{1b}') && !told.contains('\u{1b}'),
        "{told}"
    );

    let summary: Value = serde_json::from_str(&answered)?;
    let promises = summary["promises"].as_array().context("promises")?;
    ensure!(promises.len() == 11 && summary["kept"] == true, "{summary}");
    ensure!(promises.iter().all(|it| it["kept"] == true), "{summary}");
    let asked = (&summary["transactions"], &summary["signers"]);
    ensure!(*asked.0 == 200 && *asked.1 == 4, "{summary}");

    let nodes = summary["nodes"].as_array().context("nodes")?;
    ensure!(nodes.len() == 2 && nodes[0] != nodes[1], "{summary}");
    for node in nodes {
        let pid = node.as_u64().context("a pid")?;
        ensure!(is_gone(u32::try_from(pid)?).await?, "{pid} still runs");
    }
    ensure!(demo.left_behind()? == 0);
    Ok(())
}

#[tokio::test]
async fn a_smaller_story_is_a_table_and_its_directory_can_be_kept() -> Result<()> {
    let mut demo = Demo::start(&["--transactions", "20", "--signers", "1", "--keep"])?;
    let (code, answered, told) = demo.end().await?;
    ensure!(code == Some(0), "{code:?} {answered} {told}");
    ensure!(answered.matches('✔').count() == 11, "{answered}");
    ensure!(answered.contains("11 of 11 promises kept"), "{answered}");
    ensure!(
        !answered.contains('\u{1b}') && !told.contains('\u{1b}'),
        "{answered}"
    );
    ensure!(demo.left_behind()? == 1);
    Ok(())
}

#[tokio::test]
async fn a_node_that_dies_by_itself_fails_the_demo_and_its_log_is_kept() -> Result<()> {
    let mut demo = Demo::start(&["--json"])?;
    let node = demo.node().await?;
    ensure!(signal("KILL", node).await?);
    let (code, answered, told) = demo.end().await?;
    ensure!(
        code == Some(1) && answered.is_empty(),
        "{code:?} {answered}"
    );
    ensure!(told.contains("the node has ended by itself"), "{told}");
    let place = demo.place.path().display().to_string();
    let kept = told
        .split_whitespace()
        .find(|word| word.starts_with(&place));
    let kept = std::path::PathBuf::from(kept.context(told.clone())?);
    ensure!(kept.join("node.log").is_file() && kept.join("fencepost.toml").is_file());
    Ok(())
}

#[tokio::test]
async fn ctrl_c_ends_the_node_and_removes_everything() -> Result<()> {
    let mut demo = Demo::start(&[])?;
    let node = demo.node().await?;
    ensure!(signal("INT", demo.child.id().context("it runs")?).await?);
    let (code, _, told) = demo.end().await?;
    ensure!(code == Some(1), "{code:?} {told}");
    ensure!(is_gone(node).await?, "{node} still runs");
    ensure!(demo.left_behind()? == 0);
    Ok(())
}

#[tokio::test]
async fn a_demo_that_is_killed_takes_its_node_with_it() -> Result<()> {
    let mut demo = Demo::start(&[])?;
    let node = demo.node().await?;
    demo.child.kill().await?;
    until_gone(node).await
}
