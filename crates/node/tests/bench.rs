//! The bench as a user runs it: a process of the built program. Goal: each case is one JSON object with figures in
//! it, and nothing that was started stays behind, whether it comes to its end or is stopped.

mod program;

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use fencepost_testkit::wait;
use serde_json::Value;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::time::timeout;

const DURATION_MAX: Duration = Duration::from_secs(120);

/// A bench whose processes can be told from those of others: their files are in a directory of its own.
fn start(place: &TempDir, arguments: &[&str]) -> Result<Child> {
    let all = [&["bench", "--quick"], arguments].concat();
    Ok(program::start(place, &all)?)
}

/// Processes whose command line names the directory.
fn processes(place: &TempDir) -> Result<Vec<u32>> {
    let name = place.path().to_str().context("a path")?.as_bytes();
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc")?.flatten() {
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let names_it = line.windows(name.len()).any(|part| part == name);
        let pid = entry
            .file_name()
            .to_str()
            .and_then(|pid| pid.parse::<u32>().ok());
        found.extend(pid.filter(|_| names_it));
    }
    Ok(found)
}

async fn gone(place: &TempDir) -> Result<()> {
    wait::until("nothing of the bench is left", async || {
        let is_empty = std::fs::read_dir(place.path())?.next().is_none();
        Ok((processes(place)?.is_empty() && is_empty).then_some(()))
    })
    .await
}

#[tokio::test]
async fn each_case_is_one_json_object_with_figures() -> Result<()> {
    let place = TempDir::new()?;
    let plots = TempDir::new()?;
    let drawn = plots.path().to_str().context("a path")?;
    let arguments = [
        "--case",
        "limit",
        "--case",
        "create",
        "--seconds",
        "0.2",
        "--json",
    ];
    let began = Instant::now();
    let child = start(&place, &[&arguments[..], &["--plots", drawn]].concat())?;
    let output = timeout(DURATION_MAX, child.wait_with_output()).await??;
    let told = String::from_utf8(output.stdout)?;
    let log = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{}: {log}", output.status);
    ensure!(log.contains("DEBUG BUILD"), "it warns of what it is: {log}");
    let objects: Vec<Value> = told
        .lines()
        .map(serde_json::from_str)
        .collect::<Result<_, _>>()?;
    let cases: Vec<&str> = objects
        .iter()
        .filter_map(|it| it["case"].as_str())
        .collect();
    assert_eq!(cases, ["limit", "create"]);
    for object in &objects {
        for part in object["parts"]
            .as_array()
            .context("parts")?
            .iter()
            .chain([object])
        {
            for key in ["ratio", "rate", "limit", "noise"] {
                let figure = part[key]
                    .as_f64()
                    .with_context(|| format!("{key} in {part}"))?;
                ensure!(figure > 0.0, "{key} is {figure} in {part}");
            }
        }
        ensure!(object["environment"]["cores"].is_u64(), "{object}");
        assert_eq!(object["settings"]["fsync"], "on");
        let case = object["case"].as_str().context("a case")?;
        ensure!(plots.path().join(format!("{case}.svg")).is_file());
    }
    let rows = &objects[1]["rowsPerTx"];
    ensure!(
        rows.as_f64()
            .is_some_and(|rows| (3.0..20.0).contains(&rows)),
        "{rows}"
    );
    eprintln!("it took {:?}", began.elapsed());
    gone(&place).await
}

#[tokio::test]
async fn a_bench_that_is_stopped_leaves_nothing_behind() -> Result<()> {
    for signal in ["INT", "KILL"] {
        let place = TempDir::new()?;
        let mut child = start(&place, &["--case", "failover"])?;
        let mut log = BufReader::new(child.stderr.take().context("stderr")?).lines();
        let began = timeout(DURATION_MAX, async {
            while let Some(line) = log.next_line().await? {
                if line.contains("failover: kill -9") {
                    return Ok(());
                }
            }
            anyhow::bail!("it never had its nodes")
        });
        began.await??;
        // One of them may have been killed already, and come back.
        let both = async || Ok((processes(&place)?.len() >= 2).then_some(()));
        wait::until("its nodes run", both).await?;
        let pid = child.id().context("it runs")?;
        let sent = Command::new("sh")
            .args(["-c", &format!("kill -{signal} {pid}")])
            .status();
        ensure!(sent.await?.success());
        let ended = timeout(DURATION_MAX, child.wait()).await??;
        ensure!(!ended.success(), "it tells that it was stopped");
        if signal == "INT" {
            gone(&place).await.context(signal)?;
        } else {
            // Nobody is left to remove the files of the nodes; the processes go all the same.
            let none = async || Ok(processes(&place)?.is_empty().then_some(()));
            wait::until("no process is left", none).await?;
        }
    }
    Ok(())
}
