//! The leader is killed, or stops gracefully, under load.

use std::time::Duration;

use anyhow::{Context, Result};
use fencepost_testkit::postgres::shared;
use fencepost_testkit::wait;
use tokio::time::Instant;

use super::fleet::{DEADLINE, Fleet, LEASE, Member, SKEW, request};
use super::load::Load;

/// The member that leads the first signer's lane, and the others.
async fn leader_of(fleet: &Fleet, nodes: [Member; 3]) -> Result<(Member, [Member; 2])> {
    let (_, led, rest) = named_leader_of(fleet, nodes).await?;
    Ok((led, rest))
}

/// The same, with its name.
async fn named_leader_of(
    fleet: &Fleet,
    nodes: [Member; 3],
) -> Result<(String, Member, [Member; 2])> {
    let leader = fleet.leader(1).await?.context("a leader")?;
    let place = ["a", "b", "c"].iter().position(|name| *name == leader);
    let mut nodes = Vec::from(nodes);
    let led = nodes.remove(place.context("one of ours")?);
    let rest = <[Member; 2]>::try_from(nodes).ok().context("two")?;
    Ok((leader, led, rest))
}

/// Every name is stored once, as the transaction it was told.
async fn stored_once(fleet: &Fleet, acked: usize) -> Result<()> {
    let distinct = "SELECT count(DISTINCT request_id) FROM managed_tx";
    let all = "SELECT count(*) FROM managed_tx WHERE request_id IS NOT NULL";
    let stored = fleet.number(all).await?;
    assert_eq!(
        fleet.number(distinct).await?,
        stored,
        "a name is stored twice"
    );
    assert_eq!(usize::try_from(stored)?, acked, "acked and stored differ");
    Ok(())
}

#[tokio::test]
async fn a_killed_leader_loses_nothing_and_accepting_goes_on() -> Result<()> {
    let database = shared().await?.create_database().await?;
    let fleet = Fleet::new(database.url())?;
    let nodes = fleet.three().await?;
    nodes[0].post(&request(1, Some("first"))).await?;
    let (old, leader, rest) = named_leader_of(&fleet, nodes).await?;
    // Clients know two nodes; the third answers only as the leader behind them.
    let load = Load::start(&fleet, &[&rest[0].url, &rest[1].url], 8);
    load.goes_on(50).await?;
    let before = fleet.number("SELECT count(*) FROM managed_tx").await?;
    leader.kill().await?;
    let killed = Instant::now();
    // Stored while nobody leads; the dead one still has its lease.
    let queued = rest[0].post(&request(1, Some("after the kill"))).await?;
    assert_eq!(queued.body["state"], "QUEUED", "{queued:?}");
    let bound = LEASE + SKEW + Duration::from_secs(1);
    wait::until("another leads", || async {
        Ok(fleet.leader(1).await?.filter(|leader| *leader != old))
    })
    .await?;
    let took = killed.elapsed();
    assert!(took <= bound, "led after {took:?}");
    let path = format!("/api/v1/tx/{}", queued.tx());
    wait::until("what waited has its nonce", || async {
        Ok(rest[1].get(&path).await?.body["nonce"].as_u64())
    })
    .await?;
    let took = killed.elapsed();
    assert!(took <= bound, "allocated after {took:?}");
    load.goes_on(50).await?;
    let seen = load.stop().await?;
    assert_eq!(seen.changed, [""; 0], "told two transactions for one name");
    assert!(
        i64::try_from(seen.acked.len())? > before,
        "accepting went on"
    );
    // Two posts for each name; each may have waited for the dead leader once.
    assert!(seen.slowest < DEADLINE * 3, "{:?}", seen.slowest);
    let acked = seen.acked.len() + 2;
    fleet.all_allocated(1, acked).await?;
    stored_once(&fleet, acked).await?;
    for (name, tx) in seen.acked.iter().step_by(50) {
        let path = format!(
            "/api/v1/tx/by-request?signer={}&requestId={name}",
            super::fleet::signer(1)
        );
        let answer = rest[1].get(&path).await?;
        assert_eq!(answer.tx(), *tx, "{answer:?}");
    }
    Ok(())
}

#[tokio::test]
async fn queued_requests_get_their_nonces_in_order_of_arrival() -> Result<()> {
    let database = shared().await?.create_database().await?;
    let fleet = Fleet::new(database.url())?;
    let nodes = fleet.three().await?;
    nodes[0].post(&request(1, None)).await?;
    let (leader, rest) = leader_of(&fleet, nodes).await?;
    leader.kill().await?;
    let mut queued = Vec::new();
    for n in 0..10 {
        let answer = rest[n % 2].post(&request(1, None)).await?;
        assert!(answer.is_accepted(), "{answer:?}");
        queued.push(answer.tx());
    }
    fleet.all_allocated(1, 11).await?;
    for (nonce, tx) in (1..).zip(queued) {
        let answer = rest[0].get(&format!("/api/v1/tx/{tx}")).await?;
        assert_eq!(answer.body["nonce"], nonce, "{answer:?}");
    }
    Ok(())
}

#[tokio::test]
async fn a_leader_that_stops_gracefully_is_replaced_within_half_a_second() -> Result<()> {
    let database = shared().await?.create_database().await?;
    let fleet = Fleet::new(database.url())?;
    let nodes = fleet.three().await?;
    nodes[0].post(&request(1, Some("first"))).await?;
    let (name, mut leader, rest) = named_leader_of(&fleet, nodes).await?;
    let load = Load::start(&fleet, &[&rest[0].url, &rest[1].url], 4);
    load.goes_on(50).await?;
    leader.signal("TERM")?;
    let asked = Instant::now();
    let old = leader.ended().await?;
    assert!(old.success(), "{old:?}");
    let stopped = asked.elapsed();
    wait::until("another leads", || async {
        Ok(fleet.leader(1).await?.filter(|leader| *leader != name))
    })
    .await?;
    let took = asked.elapsed();
    assert!(
        took < Duration::from_millis(500) + stopped,
        "stopped after {stopped:?}, led after {took:?}"
    );
    assert!(stopped < Duration::from_secs(2), "{stopped:?}");
    let seen = load.stop().await?;
    assert_eq!(seen.changed, [""; 0]);
    fleet.all_allocated(1, seen.acked.len() + 1).await?;
    stored_once(&fleet, seen.acked.len() + 1).await
}
