//! It starts, accepts, stops, goes on where it was, and says
//! clearly when it cannot.

use std::time::{Duration, Instant};

use super::process::{Home, SIGNER, client, run};
use anyhow::{Result, ensure};
use fencepost_devchain::{Config, Devchain, EndpointId, Server, ServerConfig, Shared};
use serde_json::json;

#[tokio::test]
async fn a_node_accepts_stops_within_a_second_and_goes_on_where_it_was() -> Result<()> {
    let home = Home::new()?;
    let mut node = home.serve().await?;
    let request = json!({
        "signer": SIGNER, "requestId": "one", "payload": { "to": SIGNER, "value": "1" },
    });
    let first = node.post(&request).await?;
    assert_eq!(first["nonce"], 0, "{first}");
    let id = first["txId"].as_str().unwrap_or_default();
    assert_eq!(
        node.get(&format!("/api/v1/tx/{id}")).await?["requestId"],
        "one"
    );

    let begun = Instant::now();
    node.signal("TERM")?;
    assert_eq!(node.ended().await?.code(), Some(0));
    let took = begun.elapsed();
    ensure!(took < Duration::from_secs(1), "it took {took:?} to stop");

    let mut node = home.serve().await?;
    let second = json!({ "signer": SIGNER, "payload": { "to": SIGNER, "value": "1" } });
    assert_eq!(node.post(&second).await?["nonce"], 1);
    node.signal("INT")?;
    assert_eq!(node.ended().await?.code(), Some(0));
    Ok(())
}

#[tokio::test]
async fn a_waiting_reader_does_not_hold_up_a_stop() -> Result<()> {
    let home = Home::new()?;
    let mut node = home.serve().await?;
    let url = format!("{}/api/v1/tx/completions?wait=30", node.url);
    let reader = tokio::spawn(client().get(url).send());
    // It waits once the feed was read for it.
    node.until_meter("fencepost_store_seconds_count{op=\"completions\"}")
        .await?;
    let begun = Instant::now();
    node.signal("TERM")?;
    assert_eq!(node.ended().await?.code(), Some(0));
    let took = begun.elapsed();
    ensure!(took < Duration::from_secs(2), "it took {took:?} to stop");
    assert_eq!(reader.await??.status(), 200);
    Ok(())
}

#[tokio::test]
async fn a_second_process_on_the_same_file_is_refused_and_the_first_goes_on() -> Result<()> {
    let home = Home::new()?;
    let node = home.serve().await?;
    let (code, log) = run(&["serve", "--config", &home.config()]).await?;
    assert_eq!(code, Some(1), "{log}");
    let said = "fencepost.db is in use by another fencepost process";
    ensure!(
        log.contains("the store cannot be opened") && log.contains(said),
        "{log}"
    );
    assert_eq!(node.get("/readyz").await?["status"], "ready");
    Ok(())
}

#[tokio::test]
async fn a_node_outlives_whoever_reads_its_log() -> Result<()> {
    let home = Home::new()?;
    let (mut node, log) = home.serve_with_log().await?;
    drop(log);
    // Leading a lane is logged.
    let request = json!({ "signer": SIGNER, "payload": { "to": SIGNER, "value": "1" } });
    assert_eq!(node.post(&request).await?["nonce"], 0);
    node.signal("TERM")?;
    assert_eq!(node.ended().await?.code(), Some(0));
    Ok(())
}

/// It signs nothing, but what others send with its nonces is followed.
#[tokio::test]
async fn a_node_that_only_watches_its_signers_starts_and_follows_its_chain() -> Result<()> {
    let chain = Devchain::new(Config {
        chain_id: 1,
        ..Config::default()
    });
    let server = Server::start(Shared::new(chain), ServerConfig::default()).await?;
    let home = Home::asking(&server.url(EndpointId(0)))?;
    let mut node = home.serve().await?;
    node.until_meter("fencepost_rpc_head_lag_blocks{").await?;
    let signer = node.get(&format!("/api/v1/signers/{SIGNER}")).await?;
    assert_eq!(signer["chainLatest"], 0, "{signer}");
    node.signal("TERM")?;
    assert_eq!(node.ended().await?.code(), Some(0));
    Ok(())
}

#[tokio::test]
async fn a_taken_port_is_told_before_the_store_is_touched() -> Result<()> {
    let home = Home::new()?;
    let taken = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    home.add(&format!("node.listen = \"{}\"", taken.local_addr()?))?;
    let (code, log) = run(&["serve", "--config", &home.config()]).await?;
    assert_eq!(code, Some(1), "{log}");
    ensure!(
        log.contains("cannot listen on 127.0.0.1") && !home.has_store(),
        "{log}"
    );
    Ok(())
}

#[tokio::test]
async fn mistakes_in_the_configuration_are_told_all_at_once() -> Result<()> {
    let home = Home::new()?;
    home.add("lease.renew_interval = \"6s\"\nwriter.workers = 0")?;
    for verb in [
        &["serve"][..],
        &["migrate"],
        &["config", "check"],
        &["config", "print"],
    ] {
        let (code, said) = run(&[verb, &["--config", &home.config()]].concat()).await?;
        assert_eq!(code, Some(2), "{said}");
        let renew = "lease.renew_interval: 6s must be below half of lease.duration (10s)";
        ensure!(
            said.contains(renew) && said.contains("writer.workers: 0 must be"),
            "{said}"
        );
    }
    let (code, said) = run(&["serve", "--config", "/nowhere.toml"]).await?;
    assert_eq!(code, Some(2), "{said}");
    ensure!(said.contains("/nowhere.toml: cannot be read"), "{said}");
    Ok(())
}

#[tokio::test]
async fn a_schema_is_made_without_running_a_node() -> Result<()> {
    let home = Home::new()?;
    let (code, said) = run(&["migrate", "--config", &home.config()]).await?;
    assert_eq!(code, Some(0), "{said}");
    ensure!(said.contains("up to date") && home.has_store(), "{said}");
    let (code, said) = run(&["config", "check", "--config", &home.config()]).await?;
    assert_eq!(code, Some(0), "{said}");
    ensure!(
        said.contains("is good: store sqlite, chains 1, signers 1, lanes 1"),
        "{said}"
    );
    Ok(())
}
