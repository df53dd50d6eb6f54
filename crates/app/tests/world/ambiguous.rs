//! Sends of which nobody can say what became of them: no second nonce, no false failure, and an end.

use fencepost_devchain::{EndpointId, Fault, FaultKind, Rejection, When};

use super::life::{Life, on_send, seconds};

async fn ends_well(endpoints: usize, faults: impl Fn(&Life)) {
    let life = Life::new(endpoints, 1).await;
    let node = life.world.node("a").await;
    let lane = life.lanes[0];
    faults(&life);
    life.send(&node, lane, 10).await;
    seconds(4).await;
    life.heal();
    life.until_ended().await;
    life.check().await;
    life.check_feed().await;
    let rows = life.world.rows(lane).await;
    assert_eq!(rows.len(), 10);
    for row in rows {
        assert_eq!(row.state.name().word(), "CONFIRMED", "{row:?}");
        assert_eq!(row.attempts, 1, "the same bytes, however often");
    }
}

#[tokio::test(start_paused = true)]
async fn taken_and_the_answer_never_comes() {
    ends_well(1, |life| {
        life.fault(0, on_send(FaultKind::Hang(When::After)))
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn not_taken_and_the_answer_never_comes() {
    ends_well(1, |life| {
        life.fault(0, on_send(FaultKind::Hang(When::Before)))
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn taken_and_the_connection_is_cut() {
    ends_well(1, |life| {
        life.fault(0, on_send(FaultKind::Disconnect(When::After)))
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn answered_with_a_hash_and_forgotten() {
    ends_well(1, |life| life.fault(0, on_send(FaultKind::Forget))).await;
}

#[tokio::test(start_paused = true)]
async fn what_is_sent_again_and_what_nobody_answers_is_counted_by_outcome() {
    let life = Life::new(1, 1).await;
    let node = life.world.node("a").await;
    let count = |name: &str, result: &str| {
        node.meter(&format!("fencepost_{name}_total{{result=\"{result}\"}}"))
    };
    life.fault(0, on_send(FaultKind::Forget));
    life.send(&node, life.lanes[0], 3).await;
    seconds(4).await;
    // Sent for the first time, and forgotten: nothing was sent again so far but what was due.
    let first = count("tx_submit", "accepted");
    assert!(first >= 3, "{first}");
    life.heal();
    life.until_ended().await;
    let again = count("resubmit", "accepted");
    assert!(again >= 3, "{again}");
    assert_eq!(count("tx_submit", "accepted"), again + 3);
    assert_eq!(count("resubmit", "refused"), 0);
}

#[tokio::test(start_paused = true)]
async fn one_endpoint_takes_it_and_another_refuses() {
    for kind in [
        Rejection::NoFunds,
        Rejection::IntrinsicGas,
        Rejection::PoolFull,
    ] {
        let when = When::Before;
        ends_well(2, |life| {
            life.fault(0, on_send(FaultKind::Refuse { kind, when }))
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_error_for_what_was_taken() {
    for kind in fencepost_devchain::REJECTIONS {
        let when = When::After;
        ends_well(1, |life| {
            life.fault(0, on_send(FaultKind::Refuse { kind, when }))
        })
        .await;
    }
}

/// Whatever words a client has for them.
#[tokio::test(start_paused = true)]
async fn already_known_and_nonce_too_low_of_every_client() {
    for dialect in fencepost_devchain::DIALECTS {
        for kind in [Rejection::AlreadyKnown, Rejection::NonceTooLow] {
            for when in [When::Before, When::After] {
                ends_well(1, |life| {
                    life.chain
                        .lock()
                        .set_dialect(EndpointId(0), dialect)
                        .unwrap();
                    life.fault(0, on_send(FaultKind::Refuse { kind, when }));
                })
                .await;
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn refused_by_all_for_a_while() {
    for kind in [
        Rejection::PoolFull,
        Rejection::Underpriced,
        Rejection::Syncing,
    ] {
        let when = When::Before;
        ends_well(2, |life| {
            life.fault(0, on_send(FaultKind::Refuse { kind, when }));
            life.fault(1, on_send(FaultKind::Refuse { kind, when }));
        })
        .await;
    }
}

/// The head of the lane is told as stuck, nothing behind it is sent, and it goes on when there is money.
#[tokio::test(start_paused = true)]
async fn without_funds_the_lane_waits_with_the_same_bytes() {
    let life = Life::new(1, 1).await;
    let node = life.world.node("a").await;
    let lane = life.lanes[0];
    let rich = life.chain.lock().state().balance(&lane.signer);
    life.chain.lock().set_balance(
        lane.signer,
        rich / fencepost_domain::U256::from(10).pow(fencepost_domain::U256::from(20)),
    );
    let rows = life.send(&node, lane, 5).await;
    life.until_state(&rows[0], "STUCK/NO_FUNDS").await;
    assert_eq!(node.meter("fencepost_stuck_total{reason=\"NO_FUNDS\"}"), 1);
    life.chain.lock().set_balance(lane.signer, rich);
    life.until_ended().await;
    life.check().await;
    life.check_feed().await;
    for row in life.world.rows(lane).await {
        assert_eq!((row.state.name().word(), row.attempts), ("CONFIRMED", 1));
    }
}

/// Every node says that the signer cannot pay, and then that the nonce is used: the reason is not that of before.
/// What has used it cannot be told, as the states of that block are gone.
#[tokio::test(start_paused = true)]
async fn a_nonce_that_is_used_does_not_wait_for_funds() {
    let life = Life::new(1, 1).await;
    let node = life.world.node("a").await;
    let lane = life.lanes[0];
    let (kind, when) = (Rejection::NoFunds, When::Before);
    life.fault(0, on_send(FaultKind::Refuse { kind, when }));
    let rows = life.send(&node, lane, 1).await;
    life.until_state(&rows[0], "STUCK/NO_FUNDS").await;
    life.heal();
    life.fault(0, Fault::new(FaultKind::Pruned(0)));
    life.foreign(lane, 0).await;
    life.until_state(&rows[0], "STUCK/NO_RECEIPT").await;
    life.heal();
    life.until_state(&rows[0], "FAILED_FINAL/NONCE_TAKEN").await;
    life.check_feed().await;
}

/// No node will ever take these bytes: that is told, and a person must act; nothing is given back.
#[tokio::test(start_paused = true)]
async fn bytes_that_every_node_calls_invalid_are_stuck_and_keep_their_nonce() {
    let life = Life::new(2, 1).await;
    let node = life.world.node("a").await;
    let lane = life.lanes[0];
    let (kind, when) = (Rejection::IntrinsicGas, When::Before);
    for endpoint in 0..2 {
        life.fault(endpoint, on_send(FaultKind::Refuse { kind, when }));
    }
    let rows = life.send(&node, lane, 1).await;
    life.until_state(&rows[0], "STUCK/REFUSED").await;
    let row = life.world.record(rows[0].tx).await;
    assert_eq!(row.state.nonce().unwrap().get(), 0);
    life.heal();
    life.until_ended().await;
    life.check().await;
}

/// What a node says with its yes ("already known") does not take the place of why another said no before.
#[tokio::test(start_paused = true)]
async fn the_words_of_an_acceptance_do_not_hide_why_it_was_refused() {
    let mut life = Life::new(1, 1).await;
    life.rest();
    let node = life.world.node("a").await;
    let full = FaultKind::Refuse {
        kind: Rejection::PoolFull,
        when: When::Before,
    };
    life.fault(0, on_send(full).times(1));
    let rows = life.send(&node, life.lanes[0], 1).await;
    life.until_state(&rows[0], "ALLOCATED/REFUSED").await;
    let refused = life.world.record(rows[0].tx).await.last_error;
    assert!(refused.is_some());
    let known = FaultKind::Refuse {
        kind: Rejection::AlreadyKnown,
        when: When::After,
    };
    life.fault(0, on_send(known));
    life.until_state(&rows[0], "TRACKING/BROADCAST").await;
    assert_eq!(life.world.record(rows[0].tx).await.last_error, refused);
}
