//! The examples of the Rust client, run as they are against a node that runs.

use std::path::PathBuf;
use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use fencepost_testkit::wait;
use tokio::process::Command;

use super::care::{Care, careful, feed, remedies, until_state};
use super::member::Member;

/// The key of the phrase's first account.
const KEY: &str = "0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80";

/// Where cargo has put an example: beside the tests, which are built with it unless only some were asked for.
async fn built(name: &str) -> Result<PathBuf> {
    let test = std::env::current_exe()?;
    let profile = test.ancestors().nth(2).context("a target directory")?;
    let example = profile.join("examples").join(name);
    if !example.exists() {
        let release = profile.ends_with("release").then_some("--release");
        let target = profile.parent().context("a target directory")?;
        let cargo = std::env::var_os("CARGO").context("cargo runs the tests")?;
        let done = Command::new(cargo)
            .args(["build", "--offline", "-p", "fencepost-client", "--examples"])
            .args(release)
            .arg("--target-dir")
            .arg(target)
            .status()
            .await?;
        ensure!(done.success(), "{name} was not built");
    }
    Ok(example)
}

/// Runs an example to its good end; returns what it printed.
async fn run(name: &str, care: &Care, node: &Member) -> Result<String> {
    let output = Command::new(built(name).await?)
        .env("FENCEPOST_URL", &node.url)
        .env("FENCEPOST_RPC_URL", care.market.url())
        .env("FENCEPOST_PRIVATE_KEY", KEY)
        .env_remove("FENCEPOST_API_KEY")
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    let output = tokio::time::timeout(wait::PATIENCE, output).await;
    let output = output.with_context(|| format!("{name} goes on"))??;
    ensure!(output.status.success(), "{name}: {output:?}");
    Ok(String::from_utf8(output.stdout)?)
}

#[tokio::test(flavor = "multi_thread")]
async fn every_example_of_the_client_ends_well() -> Result<()> {
    let care = Care::new(&careful("noop", "2s", "10m")).await?;
    let node = care.fleet.start("a").await?;
    let blocks = care.market.blocks();
    let said = run("send_and_wait", &care, &node).await?;
    ensure!(said.contains("CONFIRMED in block"), "{said}");
    let said = run("batch", &care, &node).await?;
    ensure!(
        said.contains("20 stored") && said.contains("all have ended well"),
        "{said}"
    );
    let said = run("completions", &care, &node).await?;
    ensure!(said.contains("1: ") && said.contains("22: "), "{said}");
    let said = run("with_nonce", &care, &node).await?;
    ensure!(
        said.contains("run 1 with nonce 22") && said.contains("USED in block"),
        "{said}"
    );
    ensure!(
        care.market.count(care.signer).await? == 23,
        "all are on the chain"
    );
    let used = feed(&node).await?;
    let used = used.last().context("an ending")?;
    ensure!(
        used["kind"] == "reserved" && used["state"] == "USED",
        "{used}"
    );

    // An operator has something to do only when something does not move.
    drop(blocks);
    let id = care.rich(&node, 0, 1).await?.remove(0);
    until_state(&node, &id, "STUCK/NO_RECEIPT").await?;
    let said = run("operate", &care, &node).await?;
    for part in [&id, "asked to send it again", "was paused and resumed"] {
        ensure!(said.contains(part), "{part} is not in {said}");
    }
    let _blocks = care.market.blocks();
    until_state(&node, &id, "CONFIRMED").await?;
    let done = remedies(&node, &id).await?;
    ensure!(
        done.len() == 1 && done[0]["action"] == "RESUBMIT",
        "{done:#?}"
    );
    ensure!(done[0]["state"] == "DONE", "{done:#?}");
    Ok(())
}
