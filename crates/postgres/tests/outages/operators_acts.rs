//! What operators do to lanes is acknowledged like anything else: after a failover it is missed where it is missing, and
//! an act that is there is no loss. Also the answers that a node reads for itself after it lost a reply.

use anyhow::Result;
use fencepost_app::ports::{
    Action, AskedRemedy, CursorMove, CursorMoved, Enqueued, Import, Imported, NewRemedy,
    PauseChange, PauseReason, Paused, Settle, SettleAct, Settled,
};
use fencepost_domain::failover::Loss;
use fencepost_domain::state::Wait;
use fencepost_postgres::Failover;
use fencepost_store_tests::bench::Seat;
use fencepost_store_tests::builders::{audit, hash, id, loan, lock, nonce, tx, txs};
use fencepost_testkit::gate::{Gate, Level, Place, is_session};

use super::post::TERMS;
use super::town::{Node, Town, fail_over, held, loss, town};

fn empty_import(next: u64) -> Import {
    Import {
        next_nonce: nonce(next),
        open: vec![],
        dry_run: false,
    }
}

/// Goal: an import and a cursor that node b has set, of which the new server knows nothing.
#[tokio::test]
async fn a_lost_import_and_a_lost_cursor_are_reported() -> Result<()> {
    let Town {
        primary,
        standby,
        a,
        b,
        ..
    } = town(TERMS, Failover::Witness).await?;
    let one = a.lead(1).await?;
    let two = a.lead(2).await?;
    for (n, seat) in [(1, &one), (2, &two)] {
        seat.accept(txs([n])).await;
        let pause = PauseChange::Pause(PauseReason::Operator);
        b.store.pause(seat.held.lane, pause, &audit()).await?;
    }
    standby.wait_caught_up().await?;
    standby.stop_receiving().await?;
    let to = CursorMove::Set { to: nonce(9) };
    let moved = b.store.move_cursor(one.held.lane, &to, &audit()).await?;
    assert!(matches!(moved, CursorMoved::Now { .. }), "{moved:?}");
    let import = empty_import(9);
    let done = b.store.import(two.held.lane, &import, &audit()).await?;
    assert!(matches!(done, Imported::Done { .. }), "{done:?}");
    let _promoted = fail_over(&primary, standby, &[&a, &b]).await?;
    let said = b.vouch().await?;
    for seat in [&one, &two] {
        assert!(
            matches!(
                loss(&said, seat.held.lane),
                Some(Loss::Acknowledged { count: 1, .. })
            ),
            "{said:?}"
        );
    }
    a.vouch().await?;
    assert_eq!((a.paused(1).await?, a.paused(2).await?), (held(), held()));
    Ok(())
}

/// Goal: a planned switchover after an operator has lowered a cursor. The leader remembers the higher cursor, and the
/// operator's act is why the server has a lower one.
#[tokio::test]
async fn a_cursor_that_was_lowered_is_no_loss() -> Result<()> {
    let Town {
        primary,
        standby,
        a,
        b,
        ..
    } = town(TERMS, Failover::Witness).await?;
    let one = a.lead(1).await?;
    one.accept(txs([1])).await;
    let raise = CursorMove::Raise {
        holder: a.holder.clone(),
        held: one.held,
        to: nonce(9),
    };
    a.store.move_cursor(one.held.lane, &raise, &audit()).await?;
    let pause = PauseChange::Pause(PauseReason::Operator);
    b.store.pause(one.held.lane, pause, &audit()).await?;
    let lower = CursorMove::Set { to: nonce(5) };
    let moved = b.store.move_cursor(one.held.lane, &lower, &audit()).await?;
    assert!(matches!(moved, CursorMoved::Now { .. }), "{moved:?}");
    standby.wait_caught_up().await?;
    let _promoted = fail_over(&primary, standby, &[&a, &b]).await?;
    for node in [&a, &b, &a] {
        assert_eq!(node.vouch().await?.lost, []);
    }
    Ok(())
}

/// Goal: a lane that only a failover holds is not paused. Its leader may be about to go on.
#[tokio::test]
async fn a_failovers_hold_is_no_operators_pause() -> Result<()> {
    let Town {
        primary,
        standby,
        a,
        b,
        ..
    } = town(TERMS, Failover::Hold).await?;
    let one = a.lead(1).await?;
    standby.wait_caught_up().await?;
    let _promoted = fail_over(&primary, standby, &[&a, &b]).await?;
    a.vouch().await?;
    assert_eq!(a.paused(1).await?, held());
    let lane = one.held.lane;
    let to = CursorMove::Set { to: nonce(9) };
    let moved = a.store.move_cursor(lane, &to, &audit()).await?;
    assert_eq!(moved, CursorMoved::NotPaused);
    let done = a.store.import(lane, &empty_import(9), &audit()).await?;
    assert_eq!(done, Imported::NotPaused);
    let pause = PauseChange::Pause(PauseReason::Operator);
    a.store.pause(lane, pause, &audit()).await?;
    let moved = a.store.move_cursor(lane, &to, &audit()).await?;
    assert!(matches!(moved, CursorMoved::Now { .. }), "{moved:?}");
    Ok(())
}

/// A write that needs no leader.
#[derive(Debug, Clone, Copy)]
enum Call {
    Enqueue,
    Pause,
    Ask,
    Submit,
}

impl Call {
    const fn place(self) -> (&'static str, &'static str) {
        match self {
            Self::Enqueue => ("lane_queue", "AFTER INSERT"),
            Self::Pause | Self::Ask => ("remedy", "AFTER INSERT"),
            Self::Submit => ("managed_tx", "AFTER UPDATE"),
        }
    }

    async fn send(self, node: &Node, seat: &Seat) -> Result<()> {
        let lane = seat.held.lane;
        match self {
            Self::Enqueue => {
                let requests = [(lane, tx(41))];
                let queued = node.store.enqueue(&requests, Wait::Leader, 100).await?;
                assert!(matches!(queued[..], [Enqueued::Queued { .. }]));
            }
            Self::Pause => {
                let pause = PauseChange::Pause(PauseReason::Operator);
                let paused = node.store.pause(lane, pause, &audit()).await?;
                assert_eq!(paused, Paused::Now(Some(PauseReason::Operator)));
            }
            Self::Ask => {
                let remedy = NewRemedy {
                    tx: id(1),
                    round: 1,
                    action: Action::Resubmit,
                    fees: None,
                    audit: audit(),
                };
                let asked = node.store.ask_remedy(&remedy).await?;
                assert!(matches!(asked, AskedRemedy::Asked(_)), "{asked:?}");
            }
            Self::Submit => {
                let call = Settle {
                    reservation: id(2),
                    lock: lock(2),
                    act: SettleAct::Submitted {
                        hash: hash(2),
                        due_in: std::time::Duration::ZERO,
                    },
                };
                let settled = node.store.settle(&call).await?;
                assert!(matches!(settled, Settled::Done(_)), "{settled:?}");
            }
        }
        Ok(())
    }
}

/// Goal: node b commits a write, loses the reply, finds by reading that it is stored, and acknowledges it. The standby
/// lacks it.
async fn check(call: Call) -> Result<()> {
    let Town {
        primary,
        standby,
        a,
        b,
        database,
    } = town(TERMS, Failover::Witness).await?;
    let one = a.lead(1).await?;
    one.accept(vec![tx(1), loan(2)]).await;
    let when = is_session("b");
    let (table, timing) = call.place();
    let place = Place {
        table,
        timing,
        level: Level::Row,
        when: Some(&when),
    };
    let mut gate = Gate::install(&database.url(), place).await?;
    standby.wait_caught_up().await?;
    standby.stop_receiving().await?;
    gate.close().await?;
    let sending = call.send(&b, &one);
    let losing = async {
        gate.wait_for_waiter().await?;
        b.proxy.swallow_replies();
        gate.open().await?;
        b.proxy.wait_for_lost_reply().await?;
        b.proxy.cut();
        anyhow::Ok(())
    };
    let (sent, lost) = tokio::join!(sending, losing);
    lost?;
    sent?;
    let _promoted = fail_over(&primary, standby, &[&a, &b]).await?;
    a.vouch().await?;
    let said = b.vouch().await?;
    assert!(
        matches!(
            loss(&said, one.held.lane),
            Some(Loss::Acknowledged { .. } | Loss::Events { .. })
        ),
        "{call:?}: {said:?}"
    );
    assert_eq!(b.paused(1).await?, held());
    Ok(())
}

#[tokio::test]
async fn a_request_that_was_found_queued_is_remembered() -> Result<()> {
    check(Call::Enqueue).await
}

#[tokio::test]
async fn a_pause_that_was_found_is_remembered() -> Result<()> {
    check(Call::Pause).await
}

#[tokio::test]
async fn a_remedy_that_was_found_is_remembered() -> Result<()> {
    check(Call::Ask).await
}

#[tokio::test]
async fn a_reservation_that_was_found_submitted_is_remembered() -> Result<()> {
    check(Call::Submit).await
}
