//! Large payloads that many clients read at once: what the node holds in memory is bounded, and others are unharmed.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use fencepost_testkit::postgres::shared;
use fencepost_testkit::wait;
use futures::future::try_join_all;
use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use super::fleet::{BEARER, Fleet, Member, request, signer};

/// Near the largest that a node of a chain takes, and as many as outweigh every bound here several times.
const DATA_BYTES: usize = 120_000;
const COUNT: usize = 160;
const READERS: usize = 6;
/// Clients that ask for a page and never read it.
const DEAF: usize = 16;
/// What bodies and answers may take.
const BUDGET_MIB: usize = 64;
/// The node alone takes some 60 MB, and pages that are put together take some.
const PEAK_KB: u64 = 400_000;

async fn fill(node: &Member) -> Result<()> {
    let data = format!("0x{}", "00".repeat(DATA_BYTES));
    let data = &data;
    let clients = (1..=4_u8).map(|n| async move {
        for _ in 0..COUNT / 4 {
            let payload = json!({ "to": signer(0x99), "value": "1", "data": data });
            let body = json!({ "signer": signer(n), "payload": payload });
            let answer = node.post(&body).await?;
            ensure!(answer.is_accepted(), "{}", answer.status);
        }
        Ok(())
    });
    try_join_all(clients).await?;
    Ok(())
}

/// Reads all pages, and comes again where the node has too much in hand.
async fn read_all(node: &Member) -> Result<(BTreeSet<String>, usize)> {
    let (mut seen, mut pages, mut path) = (BTreeSet::new(), 0, "/api/v1/tx?limit=1000".to_owned());
    loop {
        let page = wait::until("a page", || async {
            let answer = node.get(&path).await?;
            let is_full = answer.body["code"] == "overloaded" && answer.retry_after.is_some();
            ensure!(is_full || answer.status == 200, "{:?}", answer.status);
            Ok((!is_full).then_some(answer.body))
        });
        let page = page.await?;
        pages += 1;
        for tx in page["transactions"].as_array().context("a list")? {
            let id = tx["txId"].as_str().context("an id")?;
            ensure!(seen.insert(id.to_owned()), "{id} twice");
        }
        let Some(cursor) = page["nextCursor"].as_str() else {
            return Ok((seen, pages));
        };
        path = format!("/api/v1/tx?limit=1000&cursor={cursor}");
    }
}

#[tokio::test]
async fn lists_of_large_payloads_take_bounded_memory() -> Result<()> {
    let database = shared().await?.create_database().await?;
    let more = format!("[api]\nmemory_max_mib = {BUDGET_MIB}\n");
    let fleet = Fleet::new(database.url())?.with(&more).keyed()?;
    let node = fleet.start("a").await?;
    fill(&node).await?;
    let readers = try_join_all((0..READERS).map(|_| read_all(&node)));
    let beside = async {
        for _ in 0..20 {
            let answer = node.post(&request(1, None)).await?;
            ensure!(answer.is_accepted(), "{answer:?}");
        }
        anyhow::Ok(())
    };
    let (read, beside) = tokio::join!(readers, beside);
    beside?;
    for (seen, pages) in read? {
        ensure!(
            seen.len() >= COUNT && pages > 1,
            "{} in {pages}",
            seen.len()
        );
    }
    let peak = node.memory_peak_kb()?;
    println!("peak after readers: {peak} kB");
    ensure!(peak < PEAK_KB, "{peak} kB");
    refused_beside_the_deaf(&node).await?;
    let peak = node.memory_peak_kb()?;
    println!("peak after clients that do not read: {peak} kB");
    ensure!(peak < PEAK_KB, "{peak} kB");
    Ok(())
}

/// Clients that do not read use the budget up: large answers are refused then, and nothing else is.
async fn refused_beside_the_deaf(node: &Member) -> Result<()> {
    let address = node.url.trim_start_matches("http://");
    let mut deaf = Vec::new();
    for _ in 0..DEAF {
        let mut stream = TcpStream::connect(address).await?;
        let ask = format!(
            "GET /api/v1/tx?limit=1000 HTTP/1.1\r\nHost: x\r\nAuthorization: {BEARER}\r\n\r\n"
        );
        stream.write_all(ask.as_bytes()).await?;
        deaf.push(stream);
    }
    wait::until("a large answer is refused", || async {
        let answer = node.get("/api/v1/tx?limit=1000").await?;
        Ok((answer.body["code"] == "overloaded").then_some(()))
    })
    .await?;
    let answer = node.post(&request(1, None)).await?;
    ensure!(answer.is_accepted(), "{answer:?}");
    ensure!(node.get("/readyz").await?.status == 200, "it is ready");
    ensure!(node.get("/api/v1/tx?limit=1").await?.status == 200);
    drop(deaf);
    wait::until("large answers are given again", || async {
        let answer = node.get("/api/v1/tx?limit=1000").await?;
        Ok((answer.status == 200).then_some(()))
    })
    .await
}
