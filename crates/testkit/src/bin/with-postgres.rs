//! `with-postgres COMMAND…` runs a command with one PostgreSQL for all the tests in it, named by
//! `FENCEPOST_TEST_PG`, and exits as the command did. The command runs in a process group of its own and
//! is ended when we are, so that neither it nor the server remains.

use std::env;
use std::os::unix::process::{ExitStatusExt, parent_id};
use std::process::{ExitCode, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use fencepost_testkit::postgres::{Cluster, Options, SHARED_SERVER};
use tokio::process::{Child, Command};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::sleep;

/// How soon we notice that whoever started us was killed.
const ORPHAN_CHECK: Duration = Duration::from_millis(500);

#[tokio::main]
async fn main() -> Result<ExitCode> {
    let parent = parent_id();
    let mut arguments = env::args_os().skip(1);
    let program = arguments
        .next()
        .context("usage: with-postgres COMMAND [ARGUMENT…]")?;
    let cluster = Cluster::start(Options::default()).await?;
    let mut child = Command::new(&program)
        .args(arguments)
        .env(SHARED_SERVER, cluster.url("postgres"))
        .stdin(Stdio::null())
        .process_group(0)
        .spawn()
        .with_context(|| format!("starting {}", program.display()))?;
    let status = tokio::select! {
        status = child.wait() => status?,
        () = ending(parent)? => end(&mut child).await?,
    };
    drop(cluster);
    Ok(ExitCode::from(exit_code(status)))
}

/// Completes when we should end: by a signal, or because whoever started us has gone.
fn ending(parent: u32) -> Result<impl Future<Output = ()>> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hangup = signal(SignalKind::hangup())?;
    Ok(async move {
        let orphaned = async {
            while parent_id() == parent {
                sleep(ORPHAN_CHECK).await;
            }
        };
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hangup.recv() => {}
            () = orphaned => {}
        }
    })
}

/// Kills the whole group: a test that catches signals would otherwise go on without its parents.
async fn end(child: &mut Child) -> Result<ExitStatus> {
    let group = child.id().context("the command has ended already")?;
    let line = format!("kill -s KILL -- -{group}");
    let status = Command::new("sh").args(["-c", &line]).status().await?;
    ensure!(
        status.success(),
        "the process group {group} could not be killed"
    );
    Ok(child.wait().await?)
}

/// As a shell says it: a signal is 128 and its number.
fn exit_code(status: ExitStatus) -> u8 {
    let code = status
        .code()
        .or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}
