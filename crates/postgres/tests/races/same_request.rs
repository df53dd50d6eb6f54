//! One request that is stored by two at the same moment: one row, one nonce, and both are told of the
//! same transaction. The first stops between its insert and its commit.

use anyhow::{Context, Result, bail};
use fencepost_app::ports::{Enqueued, LaneCreated, NewTx, Store as _, Stored};
use fencepost_domain::ids::TxId;
use fencepost_domain::state::Wait;
use fencepost_store_tests::bench::{Seat, leading, only};
use fencepost_store_tests::builders::{id, lane, request, tx};
use fencepost_testkit::gate::is_session;
use futures::future::try_join_all;
use tokio_postgres::error::SqlState;

use super::stage::{Stage, assert_sound, bid, seated};
use super::twin;

/// How a node stores a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Path {
    /// As the lane's leader, with a nonce.
    Create,
    /// As any node, without one.
    Enqueue,
}

/// The transaction that the caller is told of, and whether it was there already.
async fn store(seat: Seat, path: Path, tx: NewTx) -> Result<(TxId, bool)> {
    let own = tx.tx;
    match path {
        Path::Create => match seat.create(vec![tx]).await {
            LaneCreated::Done { txs, .. } => match only(txs) {
                Stored::New { .. } => Ok((own, false)),
                Stored::Known(record) => Ok((record.tx, true)),
                Stored::Conflict(record) => bail!("a conflict with {record:?}"),
            },
            LaneCreated::Refused(why) => bail!("{why:?}"),
        },
        Path::Enqueue => {
            let batch = [(seat.held.lane, tx)];
            match only(seat.store.enqueue(&batch, Wait::Leader, 10).await?) {
                Enqueued::Queued { .. } => Ok((own, false)),
                Enqueued::Known(record) => Ok((record.tx, true)),
                other @ (Enqueued::Conflict(_) | Enqueued::Full | Enqueued::UnknownLane) => {
                    bail!("{other:?}")
                }
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_who_store_one_request_id_get_one_transaction() -> Result<()> {
    for (first, second) in ORDERS {
        race(first, request(1, "r", 5), second, request(2, "r", 5)).await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn two_who_store_one_transaction_id_get_one_transaction() -> Result<()> {
    for (first, second) in ORDERS {
        race(first, tx(1), second, tx(1)).await?;
    }
    Ok(())
}

const ORDERS: [(Path, Path); 4] = [
    (Path::Create, Path::Create),
    (Path::Create, Path::Enqueue),
    (Path::Enqueue, Path::Create),
    (Path::Enqueue, Path::Enqueue),
];

async fn race(first: Path, one: NewTx, second: Path, other: NewTx) -> Result<()> {
    let stage = Stage::new().await?;
    let a = stage.seat("a", lane(1)).await?;
    let (early, late) = (
        stage.beside(&a, "early").await?,
        stage.beside(&a, "late").await?,
    );
    let gate = &mut stage.gate("managed_tx", "AFTER INSERT", "early").await?;
    let early = tokio::spawn(store(early, first, one));
    gate.wait_for_waiter().await?;
    let late = tokio::spawn(store(late, second, other));
    let what = format!("{first:?}, then {second:?}");
    assert!(stage.waits("late", &late).await?, "{what}: not blocked");
    gate.open().await?;
    assert_eq!(early.await??, (id(1), false), "{what}");
    assert_eq!(late.await??, (id(1), true), "{what}");
    assert_eq!(stage.number("SELECT count(*) FROM managed_tx").await?, 1);
    let spent = i64::from(first == Path::Create);
    assert_eq!(stage.lane_row(&a).await?.next_nonce, spent, "{what}");
    assert_sound(&a).await;
    Ok(())
}

/// A client that lost its answer asks the next leader, while the old one is still storing.
#[tokio::test(flavor = "multi_thread")]
async fn the_next_leader_finds_the_request_that_was_in_flight() -> Result<()> {
    let stage = Stage::new().await?;
    let a = stage.seat("a", lane(1)).await?;
    let restarted = stage.join("restarted", "a", lane(1)).await?;
    let gate = &mut stage.gate("managed_tx", "AFTER INSERT", "a").await?;
    let early = tokio::spawn(store(a.clone(), Path::Create, request(1, "r", 5)));
    gate.wait_for_waiter().await?;
    let late = tokio::spawn(async move {
        let lead = leading(bid(restarted.clone()).await?);
        let leader = seated(restarted, &lead);
        store(leader, Path::Create, request(2, "r", 5)).await
    });
    assert!(stage.waits("restarted", &late).await?, "not blocked");
    gate.open().await?;
    assert_eq!(early.await??, (id(1), false));
    assert_eq!(late.await??, (id(1), true));
    assert_eq!(stage.lane_row(&a).await?.next_nonce, 1);
    assert_sound(&a).await;
    Ok(())
}

/// From the seeds: a hundred at once.
#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_who_store_one_request_id_get_one_transaction() -> Result<()> {
    let stage = Stage::new().await?;
    let a = stage.seat("a", lane(1)).await?;
    let handles = [
        stage.beside(&a, "one").await?,
        stage.beside(&a, "two").await?,
    ];
    let tasks = (1..=100).zip(handles.iter().cycle()).map(|(n, seat)| {
        let path = if n % 2 == 0 {
            Path::Create
        } else {
            Path::Enqueue
        };
        tokio::spawn(store(seat.clone(), path, request(n, "r", 5)))
    });
    let mut told = Vec::new();
    for answer in try_join_all(tasks.collect::<Vec<_>>()).await? {
        told.push(answer?);
    }
    assert_eq!(told.iter().filter(|(_, known)| !known).count(), 1);
    let winner = told.first().context("a hundred")?.0;
    assert!(told.iter().all(|(tx, _)| *tx == winner), "{told:?}");
    assert_eq!(stage.number("SELECT count(*) FROM managed_tx").await?, 1);
    assert!(stage.lane_row(&a).await?.next_nonce <= 1);
    Ok(())
}

/// The first has stored `r1` and stops before `r2`; the second brings them the other way round.
fn before_r2() -> String {
    format!("{} AND NEW.request_id = 'r2'", is_session("early"))
}

#[tokio::test(flavor = "multi_thread")]
async fn batches_that_cross_wait_and_do_not_deadlock() -> Result<()> {
    let stage = Stage::new().await?;
    let a = stage.seat("a", lane(1)).await?;
    let lane = a.held.lane;
    let gate = &mut stage
        .gate_when("managed_tx", "BEFORE INSERT", &before_r2())
        .await?;
    let (early, late) = (stage.handle("early").await?, stage.handle("late").await?);
    let batch = [(lane, request(1, "r1", 1)), (lane, request(2, "r2", 2))];
    let crossed = [(lane, request(3, "r2", 2)), (lane, request(4, "r1", 1))];
    let early = tokio::spawn(async move { early.enqueue(&batch, Wait::Leader, 10).await });
    gate.wait_for_waiter().await?;
    let late = tokio::spawn(async move { late.enqueue(&crossed, Wait::Leader, 10).await });
    assert!(stage.waits("late", &late).await?, "not blocked");
    gate.open().await?;
    let early = early.await??;
    assert!(
        early
            .iter()
            .all(|each| matches!(each, Enqueued::Queued { .. }))
    );
    let known = |each: Enqueued| {
        let Enqueued::Known(record) = each else {
            return None;
        };
        Some(record.tx)
    };
    let late: Vec<_> = late.await??.into_iter().map(known).collect();
    assert_eq!(late, [Some(id(2)), Some(id(1))]);
    let queue: Vec<_> = a.store.queued(lane, 10).await?;
    assert_eq!(
        queue.iter().map(|each| each.tx).collect::<Vec<_>>(),
        [id(1), id(2)]
    );
    assert_eq!(stage.deadlocks().await?, 0);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn twin_inserts_in_the_order_of_arrival_deadlock() -> Result<()> {
    for (order, deadlocks) in [("ORDER BY i.request_id", false), ("", true)] {
        let stage = Stage::new().await?;
        let gate = &mut stage
            .gate_when("managed_tx", "BEFORE INSERT", &before_r2())
            .await?;
        let insert = |requests: &str| {
            format!(
                "INSERT INTO managed_tx (tx_id, lane_id, kind, request_id, payload, payload_hash,
                                         state, sub_state, fencing_token)
                 SELECT gen_random_uuid(), 1, 'managed', i.request_id, 'p', sha256('p'), 'QUEUED',
                        'WAITING_LEADER', 0
                   FROM unnest('{requests}'::text[]) AS i(request_id) {order}
                 ON CONFLICT (lane_id, request_id) WHERE request_id IS NOT NULL DO NOTHING"
            )
        };
        let early = twin::send(stage.session("early").await?, insert("{r1,r2}"));
        gate.wait_for_waiter().await?;
        let late = twin::send(stage.session("late").await?, insert("{r2,r1}"));
        stage.blocked("late").await?;
        gate.open().await?;
        let answers = [early.await?, late.await?];
        let victims = answers
            .iter()
            .filter(|answer| twin::is_refused(answer, &SqlState::T_R_DEADLOCK_DETECTED));
        assert_eq!(victims.count(), usize::from(deadlocks), "{answers:?}");
    }
    Ok(())
}
