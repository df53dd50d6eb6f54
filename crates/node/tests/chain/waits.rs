//! Clients that wait: for the hash in one answer, at the leader and at a follower, over a leader's death, and a
//! thousand of them at once.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use fencepost_domain::Address;
use fencepost_testkit::postgres::{connect, shared};
use fencepost_testkit::wait;
use futures::future::join_all;
use reqwest::StatusCode;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::fleet::{CHAIN_ID, Chain, Fleet, accounts};
use super::ledger::id;
use super::member::Member;

/// So long that no block comes by itself while a test runs.
const NO_BLOCKS: Duration = Duration::from_secs(3_600);
const CHAIN: &str = "poll_interval = \"50ms\"\nfinality.confirmations = 2";
const CROWD: usize = 1_000;
/// The connections that two nodes with two writers and three readers each may have.
const POOLS: i64 = 2 * (2 + 3);
/// For all of them to come in. A busy machine lets fewer in by then; half of them are enough to show it.
const ALL_WAIT: Duration = Duration::from_secs(25);

fn request(signer: Address, name: &str) -> Value {
    json!({
        "signer": signer.to_string(),
        "requestId": name,
        "payload": { "to": Address::repeat_byte(0xee).to_string(), "value": "1" },
    })
}

/// Two nodes; the first leads the lane of the only signer.
async fn leader_and_follower(fleet: &Fleet, signer: Address) -> Result<[Member; 2]> {
    let nodes = [fleet.start("a").await?, fleet.start("b").await?];
    let (status, told) = nodes[0].post(&request(signer, "first")).await?;
    ensure!(status == StatusCode::ACCEPTED, "{told}");
    let lane = nodes[0].get(&format!("/api/v1/signers/{signer}")).await?;
    ensure!(lane["leader"]["node"] == "a", "{lane}");
    Ok(nodes)
}

#[tokio::test(flavor = "multi_thread")]
async fn one_answer_has_the_hash_at_the_leader_and_at_a_follower() -> Result<()> {
    let database = shared().await?.create_database().await?;
    let signer = accounts(1).await?[0];
    let chain = Chain::start(CHAIN_ID, &[signer], Duration::from_millis(200)).await?;
    let fleet = Fleet::new(database.url(), 1)?.chain("main", CHAIN_ID, &[chain.url(0)], CHAIN);
    let nodes = leader_and_follower(&fleet, signer).await?;
    for (node, at) in nodes.iter().zip(["leader", "follower"]) {
        let body = request(signer, at);
        let (status, told) = node.post_to("/api/v1/tx?wait=signed", &body).await?;
        assert_eq!(status, StatusCode::ACCEPTED, "{told}");
        let hash = told["txHash"].as_str().context("a hash")?.to_owned();
        let (status, again) = node.post_to("/api/v1/tx?wait=mined", &body).await?;
        assert_eq!(status, StatusCode::OK, "{again}");
        assert_eq!(again["txHash"], hash);
        assert!(again["blockNumber"].is_u64(), "{again}");
        let id = told["txId"].as_str().context("an id")?;
        let path = format!("/api/v1/tx/{id}?wait=final&waitSeconds=30");
        assert_eq!(node.get(&path).await?["state"], "CONFIRMED");
        let names: Vec<Value> = (0..20)
            .map(|n| request(signer, &format!("{at} {n}")))
            .collect();
        let path = "/api/v1/tx/batch?wait=submitted&waitSeconds=30";
        let (_, told) = node.post_to(path, &json!({ "requests": names })).await?;
        let results = told["results"].as_array().context("results")?;
        assert_eq!(results.len(), 20);
        for result in results {
            assert!(result["transaction"]["txHash"].is_string(), "{result}");
            assert_ne!(result["transaction"]["state"], "ALLOCATED", "{result}");
        }
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_dies_while_clients_wait_costs_them_no_answer() -> Result<()> {
    let database = shared().await?.create_database().await?;
    let signer = accounts(1).await?[0];
    let chain = Chain::start(CHAIN_ID, &[signer], NO_BLOCKS).await?;
    let fleet = Fleet::new(database.url(), 1)?
        .chain("main", CHAIN_ID, &[chain.url(0)], CHAIN)
        .leasing_shortly();
    let [leader, follower] = leader_and_follower(&fleet, signer).await?;
    let body = request(signer, "waits");
    let waiting = follower.post_to("/api/v1/tx?wait=mined&waitSeconds=4", &body);
    let killing = async {
        wait::until("it was sent", || async {
            let path = format!("/api/v1/tx/by-request?signer={signer}&requestId=waits");
            let told = follower.get(&path).await.ok();
            Ok(told.filter(|told| told["state"] == "TRACKING"))
        })
        .await?;
        leader.kill()
    };
    let began = Instant::now();
    let (told, killed) = tokio::join!(waiting, killing);
    killed?;
    let (status, told) = told?;
    assert_eq!(status, StatusCode::ACCEPTED, "{told}");
    assert_eq!(told["state"], "TRACKING", "{told}");
    assert!(told["txHash"].is_string(), "{told}");
    assert!(began.elapsed() >= Duration::from_secs(4));
    // Nobody leads, or the follower does by now: it gets its nonce and its hash all the same.
    let body = request(signer, "after");
    let path = "/api/v1/tx?wait=signed&waitSeconds=30";
    let (status, told) = follower.post_to(path, &body).await?;
    assert_eq!(status, StatusCode::ACCEPTED, "{told}");
    assert!(told["txHash"].is_string(), "{told}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_stops_answers_those_who_wait() -> Result<()> {
    let database = shared().await?.create_database().await?;
    let signer = accounts(1).await?[0];
    let chain = Chain::start(CHAIN_ID, &[signer], NO_BLOCKS).await?;
    let fleet = Fleet::new(database.url(), 1)?.chain("main", CHAIN_ID, &[chain.url(0)], CHAIN);
    let node = fleet.start("a").await?;
    let began = Instant::now();
    let body = request(signer, "waits");
    let waiting = node.post_to("/api/v1/tx?wait=final&waitSeconds=30", &body);
    let stopping = async {
        wait::until("it was sent", || async {
            let path = format!("/api/v1/tx/by-request?signer={signer}&requestId=waits");
            let told = node.get(&path).await.ok();
            Ok(told.filter(|told| told["state"] == "TRACKING"))
        })
        .await?;
        node.stop()
    };
    let (told, stopped) = tokio::join!(waiting, stopping);
    stopped?;
    let (status, told) = told?;
    assert_eq!(
        (status, &told["state"]),
        (StatusCode::ACCEPTED, &json!("TRACKING"))
    );
    assert!(told["txHash"].is_string(), "{told}");
    assert!(
        began.elapsed() < Duration::from_secs(20),
        "{:?}",
        began.elapsed()
    );
    Ok(())
}

/// With three connections for all reads, a thousand waits leave them free for others, and open none besides.
#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_waiting_clients_cost_no_connection_of_the_store() -> Result<()> {
    let database = shared().await?.create_database().await?;
    let signer = accounts(1).await?[0];
    let chain = Chain::start(CHAIN_ID, &[signer], NO_BLOCKS).await?;
    let fleet = Fleet::new(database.url(), 1)?
        .chain("main", CHAIN_ID, &[chain.url(0)], CHAIN)
        .storing("write_connections = 2\nread_connections = 2\nclient_connections = 1\n")
        .with("[submit]\nwindow = 2000\n");
    let [leader, follower] = leader_and_follower(&fleet, signer).await?;
    let names: Vec<Value> = (0..CROWD)
        .map(|n| request(signer, &n.to_string()))
        .collect();
    let all = leader.post_all(&names).await?;
    let count = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
                    AND pid <> pg_backend_pid()";
    let sql = connect(&database.url()).await?;
    let connections = || async { anyhow::Ok(sql.query_one(count, &[]).await?.get::<_, i64>(0)) };
    let ids: Vec<String> = all.iter().map(id).collect();
    for (node, is_leader) in [(&follower, false), (&leader, true)] {
        let paths: Vec<String> = ids
            .iter()
            .map(|id| format!("/api/v1/tx/{id}?wait=mined&waitSeconds=30"))
            .collect();
        let began = Instant::now();
        let waiting = join_all(paths.iter().map(|path| node.get(path)));
        let others = async {
            let mut most = 0;
            while most < CROWD && began.elapsed() < ALL_WAIT {
                // Asked rarely: a node that is asked for its meters all the time lets nobody in.
                sleep(Duration::from_millis(250)).await;
                most = most.max(waiting_at(node).await?);
            }
            ensure!(most == CROWD, "{most} waited after {:?}", began.elapsed());
            let mut slowest = Duration::ZERO;
            for id in &ids[..20] {
                let began = Instant::now();
                node.tx(id).await?;
                slowest = slowest.max(began.elapsed());
            }
            ensure!(slowest < Duration::from_secs(2), "{slowest:?}");
            let during = connections().await?;
            ensure!(
                during <= POOLS,
                "{during} connections, and the two nodes' pools have {POOLS}"
            );
            let still = waiting_at(node).await?;
            ensure!(still == CROWD, "only {still} wait still");
            if is_leader {
                chain.shared.lock().mine(0);
            }
            anyhow::Ok(())
        };
        let (answers, others) = tokio::join!(waiting, others);
        others?;
        let answers: Vec<Value> = answers.into_iter().collect::<Result<_>>()?;
        let mined = answers.iter().filter(|told| told["blockNumber"].is_u64());
        assert_eq!(mined.count(), if is_leader { CROWD } else { 0 });
        assert_eq!(waiting_at(node).await?, 0);
    }
    Ok(())
}

/// How many transactions are waited for at a node.
async fn waiting_at(node: &Member) -> Result<usize> {
    let metrics = node.metrics().await?;
    let line = metrics
        .lines()
        .find_map(|line| line.strip_prefix("fencepost_waiting "));
    Ok(line.context("the meter")?.parse()?)
}
