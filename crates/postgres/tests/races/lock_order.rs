//! Rule 5: statements over many lanes take their rows in one order, or skip those that are held.
//! Whatever meets, nothing deadlocks, and everything ends.

use anyhow::{Result, ensure};
use fencepost_app::ports::{Acquired, Bid, Held, LaneMoved, LaneMoves, Renewed};
use fencepost_domain::transition::Input;
use fencepost_store_tests::bench::{Seat, url};
use fencepost_store_tests::builders::{id, lane, txs};
use tokio_postgres::error::SqlState;

use super::stage::{Stage, assert_sound};
use super::twin;

const LANES: u8 = 4;
/// Enough for statements to meet in every order; each completion ends one transaction of each lane.
const ROUNDS: u64 = 40;

/// Transactions of a lane that one session ends.
const fn number(lane: u64, session: u64, round: u64) -> u64 {
    lane * 1_000 + session * 100 + round
}

fn turned<T: Clone>(items: &[T], backwards: bool) -> Vec<T> {
    let mut items = items.to_vec();
    if backwards {
        items.reverse();
    }
    items
}

/// One node's lanes, with transactions for two sessions to end.
async fn busy_lanes(stage: &Stage) -> Result<Vec<Seat>> {
    let a = stage.seat("a", lane(1)).await?;
    let mut seats = Vec::new();
    for n in 1..=LANES {
        let seat = stage.seat_of(&a, lane(n)).await?;
        for session in 1..=2 {
            let first = number(n.into(), session, 0);
            seat.accept(txs(first..first + ROUNDS)).await;
        }
        seats.push(seat);
    }
    Ok(seats)
}

/// Each returns how often it found a row held.
async fn complete(seats: Vec<Seat>, session: u64, backwards: bool) -> Result<usize> {
    for round in 0..ROUNDS {
        let mut batches = Vec::new();
        for (n, seat) in (1..).zip(&seats) {
            let ends = seat
                .plan(id(number(n, session, round)), Input::Reject)
                .await;
            batches.push(LaneMoves {
                held: seat.held,
                moves: vec![ends],
            });
        }
        let batches = turned(&batches, backwards);
        let answers = seats[0].store.complete(&seats[0].holder, &batches).await?;
        let done = |answer: &LaneMoved| matches!(answer, LaneMoved::Done(seqs) if seqs.len() == 1);
        ensure!(answers.iter().all(done), "{answers:?}");
    }
    Ok(0)
}

async fn renew(seats: Vec<Seat>, backwards: bool) -> Result<usize> {
    let mut busy = 0;
    let held: Vec<Held> = turned(&seats, backwards)
        .iter()
        .map(|seat| seat.held)
        .collect();
    for _ in 0..ROUNDS {
        let renewed = seats[0].store.renew(&seats[0].holder, &held).await?;
        ensure!(!renewed.contains(&Renewed::Fenced), "{renewed:?}");
        busy += renewed
            .iter()
            .filter(|each| **each == Renewed::Busy)
            .count();
    }
    Ok(busy)
}

/// Bids as a takeover does; the leader's own leave the token as it is.
async fn take(seats: Vec<Seat>, backwards: bool) -> Result<usize> {
    let mut busy = 0;
    let (store, holder) = (&seats[0].store, &seats[0].holder);
    let bid = |seat: &Seat| Bid {
        lane: seat.held.lane,
        fresh: false,
    };
    let bids: Vec<Bid> = turned(&seats, backwards).iter().map(bid).collect();
    for _ in 0..ROUNDS {
        for answer in store.acquire(holder, &url("a"), &bids).await? {
            let kept = matches!(&answer, Acquired::Leading(lead) if !lead.changed());
            ensure!(kept || answer == Acquired::Busy, "{answer:?}");
            busy += usize::from(!kept);
        }
    }
    Ok(busy)
}

/// Takes every row and waits for it, in order.
async fn claim(seats: Vec<Seat>, backwards: bool) -> Result<usize> {
    let held: Vec<Held> = turned(&seats, backwards)
        .iter()
        .map(|seat| seat.held)
        .collect();
    let (store, holder) = (&seats[0].store, &seats[0].holder);
    for _ in 0..ROUNDS {
        let claimed = store.claim_remedies(holder, &held, 10).await?;
        ensure!(claimed.fenced.is_empty(), "{claimed:?}");
    }
    Ok(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn statements_over_the_same_lanes_in_opposite_orders_do_not_deadlock() -> Result<()> {
    let stage = Stage::new().await?;
    let seats = busy_lanes(&stage).await?;
    let mut running = Vec::new();
    for (session, backwards) in [(1, false), (2, true)] {
        let store = stage.handle(&format!("session {session}")).await?;
        let through = |seat: &Seat| Seat {
            store: store.clone(),
            ..seat.clone()
        };
        let seats: Vec<Seat> = seats.iter().map(through).collect();
        running.push(tokio::spawn(complete(seats.clone(), session, backwards)));
        running.push(tokio::spawn(renew(seats.clone(), backwards)));
        running.push(tokio::spawn(take(seats.clone(), backwards)));
        running.push(tokio::spawn(claim(seats, backwards)));
    }
    let mut busy = 0;
    for task in running {
        busy += task.await??;
    }
    assert!(busy > 0, "they never met");
    assert_eq!(stage.deadlocks().await?, 0);
    let told = "SELECT count(*) FROM tx_completion";
    let expected = 2 * ROUNDS * u64::from(LANES);
    assert_eq!(u64::try_from(stage.number(told).await?)?, expected);
    assert_sound(&seats[0]).await;
    Ok(())
}

/// The first holds one row and stops; the second comes from the other side.
#[tokio::test(flavor = "multi_thread")]
async fn twin_rows_taken_in_the_order_of_the_input_deadlock() -> Result<()> {
    for (ordered, deadlocks) in [(true, false), (false, true)] {
        let stage = Stage::new().await?;
        let a = stage.seat("a", lane(1)).await?;
        stage.seat_of(&a, lane(2)).await?;
        let renewal = |first: i64, second: i64| {
            let order = if ordered {
                "ORDER BY l.lane_id FOR NO KEY UPDATE OF l"
            } else {
                ""
            };
            format!(
                "WITH mine AS MATERIALIZED (
                     SELECT l.lane_id
                       FROM (VALUES ({first}::bigint), ({second}::bigint)) AS i(lane_id)
                      CROSS JOIN LATERAL (SELECT * FROM signer_lease s WHERE s.lane_id = i.lane_id) l
                      {order})
                 UPDATE signer_lease l SET expires_at = clock_timestamp() + interval '1 minute'
                   FROM mine WHERE l.lane_id = mine.lane_id"
            )
        };
        let gate = &mut stage.gate("signer_lease", "BEFORE UPDATE", "first").await?;
        let mut running = Vec::new();
        for (session, lanes) in [("first", (1, 2)), ("second", (2, 1))] {
            let client = stage.session(session).await?;
            // The order of the rows is the plan's to choose; this one keeps that of the input.
            client
                .batch_execute("SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_seqscan = off")
                .await?;
            running.push(twin::send(client, renewal(lanes.0, lanes.1)));
            match session {
                "first" => drop(gate.wait_for_waiter().await?),
                _ => stage.blocked(session).await?,
            }
        }
        gate.open().await?;
        let mut victims = 0;
        for task in running {
            let answer = task.await?;
            let deadlock = twin::is_refused(&answer, &SqlState::T_R_DEADLOCK_DETECTED);
            ensure!(deadlock || answer.is_ok(), "{answer:?}");
            victims += i64::from(deadlock);
        }
        assert_eq!(victims, i64::from(deadlocks));
    }
    Ok(())
}
