//! A flood of requests without a key, on every route that needs none and with keys that nobody knows.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Result, ensure};
use fencepost_testkit::postgres::shared;
use fencepost_testkit::wait;
use futures::future::try_join_all;
use reqwest::{Client, StatusCode};
use tokio::runtime::Builder;
use tokio::task::spawn_blocking;
use tokio::time::Instant;

use super::fleet::{Fleet, LEASE, Member, request};

/// Who floods, each as fast as it is answered.
const FLOODERS: usize = 32;
const ROUTES: [&str; 8] = [
    "/openapi.json",
    "/docs/",
    "/docs/swagger-ui-bundle.js",
    "/docs/problems",
    "/metrics",
    "/livez",
    "/readyz",
    "/api/v1/tx?limit=1000",
];
/// Requests with a key, by as many clients as there are signers.
const CLIENTS: u8 = 4;
const EACH: usize = 100;
/// A time that is felt by nobody, on a machine that has other tests to run. The slowest of a quiet node may be luckier than that.
const FELT: Duration = Duration::from_millis(500);

/// The 99th percentile of the times that creates with a key take.
async fn create_time(node: &Member) -> Result<Duration> {
    let clients = (1..=CLIENTS).map(|n| async move {
        let mut took = Vec::new();
        for _ in 0..EACH {
            let began = Instant::now();
            let answer = node.post(&request(n, None)).await?;
            ensure!(answer.is_accepted(), "{answer:?}");
            took.push(began.elapsed());
        }
        Ok(took)
    });
    let mut took = try_join_all(clients).await?.concat();
    took.sort();
    Ok(took[took.len() * 99 / 100])
}

/// Counts what is answered, and what is refused because of its rate.
#[derive(Default)]
struct Tally {
    answered: AtomicU64,
    limited: AtomicU64,
    unhealthy: AtomicU64,
    over: AtomicBool,
}

/// On a thread of its own, so that clients that are timed do not wait for it.
fn flood(url: &str, tally: &Tally) -> Result<()> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let flooders = (0..FLOODERS).map(|n| flooder(url, n, tally));
    runtime.block_on(try_join_all(flooders))?;
    Ok(())
}

async fn flooder(url: &str, first: usize, tally: &Tally) -> Result<()> {
    let http = Client::builder().timeout(wait::PATIENCE).build()?;
    let routes = ROUTES.iter().cycle().skip(first);
    for path in routes {
        if tally.over.load(Ordering::Relaxed) {
            break;
        }
        let asked = http.get(format!("{url}{path}"));
        let answer = asked.bearer_auth("a guess").send().await?;
        let status = answer.status();
        answer.bytes().await?;
        tally.answered.fetch_add(1, Ordering::Relaxed);
        let is_limited = status == StatusCode::TOO_MANY_REQUESTS;
        tally
            .limited
            .fetch_add(is_limited.into(), Ordering::Relaxed);
        let is_sick = ["/livez", "/readyz"].contains(path) && status != StatusCode::OK;
        tally.unhealthy.fetch_add(is_sick.into(), Ordering::Relaxed);
    }
    Ok(())
}

/// Goal: no lease is lost, and clients with a key hardly notice.
#[tokio::test]
async fn a_flood_of_keyless_requests_costs_neither_leases_nor_clients() -> Result<()> {
    let database = shared().await?.create_database().await?;
    let fleet = Fleet::new(database.url())?.keyed()?;
    let node = fleet.start("a").await?;
    create_time(&node).await?;
    let quiet = create_time(&node).await?;
    let (token, expires) = fleet.lease(1).await?;
    let tally = Arc::new(Tally::default());
    let flooding = {
        let (url, tally) = (node.url.clone(), Arc::clone(&tally));
        spawn_blocking(move || flood(&url, &tally))
    };
    let measured = async {
        let flooded = create_time(&node).await;
        let later = expires + 2 * i64::try_from(LEASE.as_millis())?;
        let renewed = wait::until("the lease is renewed", || async {
            let (token, expires) = fleet.lease(1).await?;
            Ok((expires > later).then_some(token))
        });
        let renewed = renewed.await;
        tally.over.store(true, Ordering::Relaxed);
        anyhow::Ok((flooded?, renewed?))
    };
    let (flooded, renewed) = measured.await?;
    flooding.await??;
    let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
    println!(
        "quiet {quiet:?}, flooded {flooded:?}; {} answers, {} of them 429",
        of(&tally.answered),
        of(&tally.limited)
    );
    assert_eq!(renewed, token, "the lease was lost");
    assert!(
        flooded < (quiet * 3).max(FELT),
        "{quiet:?}, then {flooded:?}"
    );
    assert!(of(&tally.limited) > 0, "the flood was not limited");
    assert_eq!(of(&tally.unhealthy), 0, "health checks were refused");
    let refused = |reason: &str| format!("fencepost_http_refused_total{{reason=\"{reason}\"}}");
    wait::until("refusals are counted", || async {
        let rate = node.meter(&refused("keyless_rate")).await?;
        let unknown = node.meter(&refused("unauthorized")).await?;
        Ok((rate > 0.0 && unknown > 0.0).then_some(()))
    })
    .await?;
    let lines = node.lines("unauthorized");
    ensure!((1..=6).contains(&lines), "{lines} lines about unknown keys");
    Ok(())
}
