//! Three nodes answer as one.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use fencepost_testkit::postgres::shared;
use futures::future::join_all;
use reqwest::StatusCode;
use serde_json::json;

use super::fleet::{Fleet, request};

#[tokio::test]
async fn a_hundred_posts_of_one_request_are_one_transaction_and_one_nonce() -> Result<()> {
    let database = shared().await?.create_database().await?;
    let fleet = Fleet::new(database.url())?;
    let nodes = fleet.three().await?;
    let body = request(1, Some("pay-1"));
    let answers = join_all((0..100).map(|n| nodes[n % 3].post(&body))).await;
    let (mut new, mut ids) = (0, BTreeSet::new());
    for answer in answers {
        let answer = answer?;
        assert!(answer.is_accepted(), "{answer:?}");
        new += usize::from(answer.status == StatusCode::ACCEPTED);
        ids.insert(answer.tx());
    }
    assert_eq!((new, ids.len()), (1, 1));
    fleet.all_allocated(1, 1).await?;
    assert_eq!(
        fleet
            .number("SELECT max(next_nonce) FROM signer_lease")
            .await?,
        1
    );

    let mut other = body.clone();
    other["payload"]["value"] = json!("2");
    for node in &nodes {
        let answer = node.post(&other).await?;
        assert_eq!(answer.status, StatusCode::CONFLICT);
        assert_eq!(answer.body["code"], "idempotency_conflict");
    }
    assert_eq!(fleet.number("SELECT count(*) FROM managed_tx").await?, 1);
    Ok(())
}

#[tokio::test]
async fn a_thousand_posts_for_one_signer_get_each_nonce_once() -> Result<()> {
    let database = shared().await?.create_database().await?;
    let fleet = Fleet::new(database.url())?;
    let nodes = fleet.three().await?;
    let body = request(1, None);
    let answers = join_all((0..1_000).map(|n| nodes[n % 3].post(&body))).await;
    for answer in answers {
        let answer = answer?;
        assert_eq!(answer.status, StatusCode::ACCEPTED, "{answer:?}");
    }
    fleet.all_allocated(1, 1_000).await
}

/// What a batch says of its signer's order holds at a node that does not lead it, too.
#[tokio::test]
async fn a_batch_at_any_node_gets_its_nonces_in_order() -> Result<()> {
    let database = shared().await?.create_database().await?;
    let fleet = Fleet::new(database.url())?;
    let nodes = fleet.three().await?;
    nodes[0].post(&request(1, None)).await?;
    let batch: Vec<_> = (0..100).map(|_| request(1, None)).collect();
    let mut last = 0;
    for node in nodes.iter().cycle().take(6) {
        let answer = node.post_batch(&batch).await?;
        let results = answer.body["results"].as_array().context("results")?;
        for result in results {
            let nonce = result["transaction"]["nonce"].as_u64();
            let nonce = nonce.with_context(|| result.to_string())?;
            assert!(nonce > last, "{nonce} behind {last}");
            last = nonce;
        }
    }
    fleet.all_allocated(1, 601).await
}
