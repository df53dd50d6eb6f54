//! A leader that is frozen past its lease wakes up as a follower.

use std::time::Duration;

use anyhow::{Context, Result};
use fencepost_testkit::postgres::shared;
use fencepost_testkit::wait;
use reqwest::StatusCode;
use tokio::time::timeout;

use super::fleet::{Fleet, request};

#[tokio::test]
async fn a_leader_frozen_past_its_lease_is_fenced_and_serves_again_as_a_follower() -> Result<()> {
    let database = shared().await?.create_database().await?;
    let fleet = Fleet::new(database.url())?;
    let (a, b) = (fleet.start("a").await?, fleet.start("b").await?);
    a.post(&request(1, None)).await?;
    assert_eq!(fleet.leader(1).await?.as_deref(), Some("a"));
    a.signal("STOP")?;
    // A request that nobody answers: it must be stored once, though the frozen leader has it too.
    let forwarded = b.post(&request(1, None)).await?;
    assert_eq!(forwarded.status, StatusCode::ACCEPTED, "{forwarded:?}");
    wait::until("b leads", || async {
        Ok(fleet.leader(1).await?.filter(|leader| leader == "b"))
    })
    .await?;
    let token = fleet
        .number("SELECT max(fencing_token) FROM signer_lease")
        .await?;
    a.signal("CONT")?;
    wait::until("a has noticed", || async {
        let fenced = a
            .meter("fencepost_lease_fenced_total{op=\"renew\"}")
            .await?;
        Ok((fenced > 0.0).then_some(()))
    })
    .await?;
    let answer = a.post(&request(1, None)).await?;
    assert_eq!(
        answer.status,
        StatusCode::ACCEPTED,
        "as a follower: {answer:?}"
    );
    assert!(
        answer.body["nonce"].is_number(),
        "the leader gave it one: {answer:?}"
    );
    // On a busy machine its lease may lapse for a moment; nobody else has taken it.
    assert_eq!(fleet.owner(1).await?.as_deref(), Some("b"));
    assert_eq!(
        fleet
            .number("SELECT max(fencing_token) FROM signer_lease")
            .await?,
        token
    );
    fleet.all_allocated(1, 3).await
}

#[tokio::test]
async fn a_request_whose_leader_stands_still_in_the_forward_is_stored_once() -> Result<()> {
    let database = shared().await?.create_database().await?;
    let fleet = Fleet::new(database.url())?.logging("info,fencepost_http=debug");
    let (a, b) = (fleet.start("a").await?, fleet.start("b").await?);
    a.post(&request(1, None)).await?;
    a.signal("STOP")?;
    let queued = b.post(&request(1, None)).await?;
    assert_eq!(queued.body["state"], "QUEUED", "{queued:?}");
    a.signal("CONT")?;
    // The woken leader takes the late forward, or finds that nobody waits for it any more; which of the two
    // is the network's choice, and either way it is stored once.
    let taken = wait::until("the late forward is taken", || async {
        Ok(a.logged("message", "taken from another node").then_some(()))
    });
    let _ = timeout(Duration::from_secs(3), taken).await;
    // Behind it before the same worker: when this one is answered, the late one has been.
    let next = a.post(&request(1, None)).await?;
    assert!(next.is_accepted(), "{next:?}");
    fleet.all_allocated(1, 3).await?;
    let path = format!("/api/v1/tx/{}", queued.tx());
    let told = b.get(&path).await?.body["nonce"].as_i64();
    assert_eq!(told.context("a nonce")?, 1);
    assert_eq!(fleet.number("SELECT count(*) FROM managed_tx").await?, 3);
    Ok(())
}
