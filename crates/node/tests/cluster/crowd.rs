//! More clients than a worker's queue holds.

use std::time::Duration;

use anyhow::{Context, Result};
use fencepost_testkit::postgres::{connect, shared};
use futures::future::join_all;
use reqwest::{Client, StatusCode};
use tokio::time::Instant;

use super::fleet::{Fleet, request};

/// Clients that wait at once.
const CROWD: usize = 10_000;
/// What all of them together may cost.
const MEMORY_KB: u64 = 400_000;
/// What waits for a worker.
const QUEUE: usize = 100;
/// What is refused without having waited for anyone is told within this; the lane's row is held for
/// longer.
const AT_ONCE: Duration = Duration::from_millis(500);
/// A lane that is not stuck answers within this, on a machine that has other tests to run.
const OTHER_BOUND: Duration = Duration::from_secs(2);

/// How long an answer may take.
const ANSWER: Duration = Duration::from_secs(60);

/// The lane's row is held by another session, so that its worker stands still.
#[tokio::test]
async fn a_full_queue_is_told_at_once_and_other_lanes_go_on() -> Result<()> {
    let database = shared().await?.create_database().await?;
    let more = "[writer]\nworkers = 4\nqueue_max = 100\nbatch_max = 50\n";
    let mut fleet = Fleet::new(database.url())?.with(more);
    fleet.http = Client::builder().timeout(ANSWER).build()?;
    let node = fleet.start("a").await?;
    for n in 1..=4 {
        node.post(&request(n, None)).await?;
    }
    let before = node.memory_kb()?;
    let mut blocker = connect(&database.url()).await?;
    let held = blocker.transaction().await?;
    held.execute(
        "SELECT FROM signer_lease WHERE lane_id = 1 FOR NO KEY UPDATE",
        &[],
    )
    .await?;
    let blocked =
        fleet.number("SELECT get_byte(signer, 0)::bigint FROM signer_lease WHERE lane_id = 1");
    let blocked = u8::try_from(blocked.await?)?;
    let beside = blocked % 4 + 1;

    let body = request(blocked, None);
    let crowd = join_all((0..CROWD).map(|_| node.post(&body)));
    // Somebody of another lane, while as many wait as the queue holds.
    let timed = || async {
        let began = Instant::now();
        let answer = node.post(&body).await;
        answer.map(|answer| (began.elapsed(), answer))
    };
    let filled = join_all((0..QUEUE * 3).map(|_| timed()));
    let other = async {
        let mut slowest = Duration::ZERO;
        for _ in 0..20 {
            let began = Instant::now();
            let answer = node.post(&request(beside, None)).await?;
            assert!(answer.is_accepted(), "{answer:?}");
            slowest = slowest.max(began.elapsed());
        }
        anyhow::Ok(slowest)
    };
    let (filled, slowest) = tokio::join!(filled, other);
    let told = filled.into_iter().flatten();
    let refused: Vec<Duration> = told
        .filter(|(_, answer)| answer.body["code"] == "overloaded")
        .map(|(took, _)| took)
        .collect();
    let count = refused.len();
    assert!(count >= QUEUE, "{count} were told that it is full");
    let fastest = refused.iter().min().context("someone")?;
    assert!(*fastest < AT_ONCE, "the first was told after {fastest:?}");
    assert!(slowest? < OTHER_BOUND, "the other lane waited");
    let answers = crowd.await;
    let mut full = 0;
    for answer in answers {
        let answer = answer?;
        assert!(
            answer.is_accepted() || answer.body["code"] == "overloaded",
            "{answer:?}"
        );
        if answer.status == StatusCode::SERVICE_UNAVAILABLE {
            assert!(answer.retry_after.is_some(), "{answer:?}");
            full += 1;
        }
    }
    assert!(full > 0, "nobody was told that it is full");
    let grown = node.memory_kb()?.saturating_sub(before);
    assert!(grown < MEMORY_KB, "grew by {grown} kB");
    // The node may have ended whoever blocked its lane for so long.
    let _ = held.rollback().await;
    for n in 1..=4 {
        assert!(node.post(&request(n, None)).await?.is_accepted());
    }
    Ok(())
}
