//! `with-postgres`: that its command gets a server, and that nothing remains however it ends.

use std::path::PathBuf;
use std::process::Stdio;

use anyhow::{Context, Result};
use fencepost_testkit::postgres::connect;
use fencepost_testkit::wait;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::time::timeout;

/// Says who it is and where the server is, and lasts as long as its parent.
const COMMAND: &str = "echo $$ $FENCEPOST_TEST_PG; while kill -0 $PPID; do sleep 0.05; done";

/// What must be gone in the end.
struct Traces {
    directory: PathBuf,
    server_pids: Vec<i32>,
    command_pid: i32,
}

fn with_postgres(script: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_with-postgres"));
    command
        .args(["sh", "-c", script])
        .stdin(Stdio::null())
        .stderr(Stdio::null());
    command
}

async fn start() -> Result<(Child, Traces)> {
    let mut child = with_postgres(COMMAND)
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let mut lines = BufReader::new(child.stdout.take().context("stdout is piped")?).lines();
    let line = lines
        .next_line()
        .await?
        .context("the command said nothing")?;
    let (command_pid, url) = line.split_once(' ').context("a pid and a URL")?;
    let client = connect(url).await?;
    let data: String = client.query_one("SHOW data_directory", &[]).await?.get(0);
    let directory = PathBuf::from(data)
        .parent()
        .context("data lies in a home")?
        .to_owned();
    let rows = client
        .query("SELECT pid FROM pg_stat_activity", &[])
        .await?;
    let server_pids: Vec<i32> = rows.iter().map(|row| row.get(0)).collect();
    let traces = Traces {
        directory,
        server_pids,
        command_pid: command_pid.parse()?,
    };
    assert!(traces.directory.is_dir() && traces.pids().all(alive));
    Ok((child, traces))
}

impl Traces {
    fn pids(&self) -> impl Iterator<Item = i32> {
        self.server_pids.iter().copied().chain([self.command_pid])
    }

    async fn wait_until_gone(&self) -> Result<()> {
        wait::until("server, directory and command are gone", || async {
            Ok((!self.directory.exists() && !self.pids().any(alive)).then_some(()))
        })
        .await
    }
}

/// A zombie is dead; when it is buried is up to init.
fn alive(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"));
    stat.is_ok_and(|stat| !stat.contains(") Z "))
}

#[tokio::test]
async fn the_command_gets_a_server_and_its_exit_code_is_returned() -> Result<()> {
    let url = "postgres://fencepost@127.0.0.1:*/postgres";
    let script = format!("case $FENCEPOST_TEST_PG in {url}) exit 7;; esac");
    assert_eq!(with_postgres(&script).status().await?.code(), Some(7));
    Ok(())
}

#[tokio::test]
async fn a_killed_process_leaves_nothing() -> Result<()> {
    let (mut child, traces) = start().await?;
    child.kill().await?;
    traces.wait_until_gone().await
}

#[tokio::test]
async fn an_interrupted_process_ends_its_command_and_has_cleaned_up_when_it_returns() -> Result<()>
{
    for signal in ["INT", "TERM", "HUP"] {
        let (mut child, traces) = start().await?;
        let pid = child.id().context("it runs")?;
        Command::new("sh")
            .args(["-c", &format!("kill -{signal} {pid}")])
            .status()
            .await?;
        assert_eq!(
            child.wait().await?.code(),
            Some(128 + 9),
            "the command was killed"
        );
        assert!(!traces.directory.exists() && !alive(traces.command_pid));
        traces.wait_until_gone().await?;
    }
    Ok(())
}

/// Method: a shell starts it in the background and is killed; nobody tells the orphan anything.
#[tokio::test]
async fn an_orphaned_process_ends_too() -> Result<()> {
    let program = env!("CARGO_BIN_EXE_with-postgres");
    let script = format!("'{program}' sh -c '{COMMAND}' 2>/dev/null; true");
    let mut shell = Command::new("sh")
        .args(["-c", &script])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut lines = BufReader::new(shell.stdout.take().context("stdout is piped")?).lines();
    let line = lines
        .next_line()
        .await?
        .context("the command said nothing")?;
    let command_pid: i32 = line.split(' ').next().context("a pid")?.parse()?;
    assert!(alive(command_pid));
    shell.kill().await?;
    // The pipe ends when the last of them has closed it.
    assert_eq!(timeout(wait::PATIENCE, lines.next_line()).await??, None);
    assert!(!alive(command_pid));
    Ok(())
}
