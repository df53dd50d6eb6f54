//! From accepted to final on a chain that behaves.

use fencepost_app::ports::Body;
use fencepost_devchain::{EndpointId, Fault, FaultKind, When, revert_call};
use fencepost_domain::Address;
use fencepost_domain::request::Draft;

use super::life::{Life, transfer, with};
use super::nodes::accepted;

#[tokio::test(start_paused = true)]
async fn transactions_of_four_signers_are_signed_sent_followed_and_ended() {
    let life = Life::new(1, 4).await;
    let node = life.world.node("a").await;
    for lane in &life.lanes {
        life.send(&node, *lane, 50).await;
    }
    life.until_ended().await;
    life.check().await;
    life.check_feed().await;
    for lane in &life.lanes {
        for row in life.world.rows(*lane).await {
            assert_eq!(row.state.name().word(), "CONFIRMED");
            assert_eq!((row.attempts, row.submit_attempts), (1, 1));
            assert!(row.receipt.unwrap().contains("blockHash"));
            assert!(row.confirmed_at.is_some());
        }
    }
    let ended = |state, sub| {
        node.meter(&format!(
            "fencepost_tx_end_total{{state=\"{state}\",sub_state=\"{sub}\"}}"
        ))
    };
    assert_eq!(
        (ended("CONFIRMED", ""), ended("FAILED_FINAL", "REVERTED")),
        (200, 0)
    );
    assert_eq!(
        node.meter("fencepost_resubmit_total{result=\"accepted\"}"),
        0
    );
}

/// The pool never holds more of a lane than the window, and the chain sees them in nonce order.
#[tokio::test(start_paused = true)]
async fn a_lane_sends_in_order_and_no_more_than_its_window() {
    let mut life = Life::new(1, 1).await;
    life.world.settings.window = 8;
    let node = life.world.node("a").await;
    let lane = life.lanes[0];
    life.send(&node, lane, 200).await;
    life.until_ended().await;
    life.check().await;
    let chain = life.chain.lock();
    let most = chain.pooled_max_of(lane.signer);
    assert!((5..=8).contains(&most), "{most}");
    let sends: Vec<u64> = chain
        .sends_of(lane.signer)
        .iter()
        .map(|each| each.nonce)
        .collect();
    assert_eq!(sends, (0..200).collect::<Vec<_>>());
}

/// More unfinished than are kept in mind: what is beyond is read when its time comes.
#[tokio::test(start_paused = true)]
async fn a_long_backlog_goes_through_and_is_not_kept_in_mind() {
    let mut life = Life::new(1, 1).await;
    life.world.settings.window = 4;
    life.rest();
    let node = life.world.node("a").await;
    let lane = life.lanes[0];
    let put: Vec<_> = (0..300).map(|n| node.put(lane, transfer(n + 1))).collect();
    for answer in put {
        accepted(answer.await.unwrap());
    }
    life.work();
    for _ in 0..3 {
        super::life::seconds(25).await;
    }
    life.until_ended().await;
    life.check().await;
}

#[tokio::test(start_paused = true)]
async fn a_reverted_one_fails_for_the_reason_that_the_node_gives() {
    let life = Life::new(1, 1).await;
    let node = life.world.node("a").await;
    let lane = life.lanes[0];
    let bad = with(Draft {
        to: Some(Address::repeat_byte(9).to_string()),
        data: Some(revert_call("no such order").to_string()),
        gas: Some("100000".to_owned()),
        ..Draft::default()
    });
    let bad = accepted(node.ask(lane, bad).await);
    let good = accepted(node.ask(lane, transfer(1)).await);
    life.until_ended().await;
    life.check().await;
    life.check_feed().await;
    assert_eq!(life.words(&bad).await, "FAILED_FINAL/REVERTED");
    assert_eq!(life.words(&good).await, "CONFIRMED");
    let row = life.world.record(bad.tx).await;
    assert!(row.last_error.unwrap().contains("no such order"));
}

/// What would be reverted is judged only as the head of its lane, gives its nonce back, and the nonce is
/// used by the next.
#[tokio::test(start_paused = true)]
async fn what_cannot_be_estimated_is_rejected_and_its_nonce_given_back() {
    let life = Life::new(1, 1).await;
    let node = life.world.node("a").await;
    let lane = life.lanes[0];
    let bad = with(Draft {
        to: Some(Address::repeat_byte(9).to_string()),
        data: Some(revert_call("never").to_string()),
        ..Draft::default()
    });
    let bad = accepted(node.ask(lane, bad).await);
    life.until_state(&bad, "FAILED_FINAL/REJECTED").await;
    let row = life.world.record(bad.tx).await;
    assert!(row.last_error.unwrap().contains("never"));
    let next = accepted(node.ask(lane, transfer(1)).await);
    assert_eq!(next.state.nonce().unwrap().get(), 0);
    life.until_ended().await;
    life.check().await;
}

/// Before anything is stored; what cannot be asked stops nobody.
#[tokio::test(start_paused = true)]
async fn a_preflight_says_why_it_would_be_reverted() {
    let mut life = Life::new(1, 1).await;
    life.world.settings.preflight = true;
    let node = life.world.node("a").await;
    let lane = life.lanes[0];
    let payload = |draft| match with(draft).body {
        Body::Managed(payload) => payload,
        Body::Reserved(_) | Body::Placeholder(_) => unreachable!("it is to be executed"),
    };
    let to = Some(Address::repeat_byte(9).to_string());
    let good = payload(Draft {
        to: to.clone(),
        ..Draft::default()
    });
    let bad = payload(Draft {
        to,
        data: Some(revert_call("sold out").to_string()),
        ..Draft::default()
    });
    assert_eq!(node.node.preflight(lane, &good).await, Ok(()));
    let why = node.node.preflight(lane, &bad).await.unwrap_err();
    assert!(why.contains("sold out"), "{why}");
    life.fault(0, Fault::new(FaultKind::Disconnect(When::Before)));
    assert_eq!(node.node.preflight(lane, &bad).await, Ok(()));
}

/// An operator sees how far the chain is beside how far we are.
#[tokio::test(start_paused = true)]
async fn the_chains_counts_are_told() {
    let mut life = Life::new(1, 1).await;
    let node = life.world.node("a").await;
    let lane = life.lanes[0];
    life.send(&node, lane, 2).await;
    life.until_ended().await;
    life.rest();
    let rows = life.send(&node, lane, 1).await;
    life.until_state(&rows[0], "TRACKING/BROADCAST").await;
    let counts = node.node.counts(lane).await;
    assert_eq!(counts.latest.map(|count| count.highest.get()), Some(2));
    assert_eq!(counts.pending.map(|count| count.highest.get()), Some(3));
    let health = node.node.chain_health();
    assert_eq!((health.len(), health[0].endpoints[0].state), (1, "ok"));
}

/// With a thousand pending, looking costs as much as with one: it grows with blocks.
#[tokio::test(start_paused = true)]
async fn following_costs_by_blocks_and_not_by_what_is_pending() {
    let mut life = Life::new(1, 8).await;
    life.world.settings.window = 1_000;
    life.world.settings.resubmit_interval = None;
    life.world.settings.stale_receipt_timeout = std::time::Duration::from_hours(1);
    // Nothing is mined: the fees are below what blocks ask for.
    life.chain.lock().set_base_fee(Some(1_000 * 1_000_000_000));
    let node = life.world.node("a").await;
    for lane in &life.lanes {
        life.send(&node, *lane, 125).await;
    }
    super::life::seconds(3).await;
    let requests = |life: &Life| {
        let chain = life.chain.lock();
        chain.stats(EndpointId(0)).unwrap().requests
    };
    let before = requests(&life);
    super::life::seconds(20).await;
    let each = (requests(&life) - before) / 20;
    assert!(each < 5, "{each} a second");
}
