//! The feed is numbered in the order of commits: a reader that saw n never finds a new row at or below
//! n. Two completions cross each other; the first stops between its number and its commit.

use anyhow::Result;
use fencepost_app::ports::{LaneMoved, Store};
use fencepost_domain::state::Why;
use fencepost_domain::transition::Input;
use fencepost_store_tests::bench::Seat;
use fencepost_store_tests::builders::{feed_seq, id, lane, lane_on, txs};

use super::stage::{Stage, assert_sound};
use super::twin::{self, fill};

/// A number is taken and never given back, whoever commits first.
const BY_SEQUENCE: &str = "), listed AS (
    INSERT INTO tx_completion (seq, tx_id, lane_id, nonce, state, sub_state)
    SELECT nextval('by_sequence'), i.tx_id, lane.lane_id, i.nonce, i.state, i.sub_state
      FROM unnest($8::integer[], $9::uuid[], $13::bigint[], $11::text[], $12::text[])
           AS i(k, tx_id, nonce, state, sub_state)
      JOIN lane ON lane.k = i.k
";

/// Two nodes, each with something to end in a lane of its own.
async fn two_leaders(each: u64) -> Result<(Stage, Seat, Seat)> {
    let stage = Stage::new().await?;
    let a = stage.seat("a", lane(1)).await?;
    let b = stage.seat("b", lane_on(2, 1)).await?;
    a.accept(txs(1..=each)).await;
    b.accept(txs(1_001..=1_000 + each)).await;
    Ok((stage, a, b))
}

async fn end(seat: Seat, tx: u64) -> LaneMoved {
    let ends = seat.plan(id(tx), Input::Reject).await;
    seat.write(vec![ends]).await
}

/// What a reader finds, from the very beginning.
async fn numbers(store: &dyn Store) -> Result<Vec<u64>> {
    let feed = store.completions(feed_seq(0), 1_000).await?;
    let numbers: Vec<u64> = feed.completions.iter().map(|each| each.seq.get()).collect();
    assert_eq!(numbers.last().copied().unwrap_or(0), feed.head.get());
    Ok(numbers)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_completion_waits_for_the_number_before_its_own() -> Result<()> {
    let (stage, a, b) = two_leaders(1).await?;
    let gate = &mut stage.gate("tx_completion", "AFTER INSERT", "a").await?;
    let first = tokio::spawn(end(a.clone(), 1));
    gate.wait_for_waiter().await?;
    let second = tokio::spawn(end(b, 1_001));
    assert!(stage.waits("b", &second).await?, "numbered past the first");
    assert_eq!(numbers(&*a.store).await?, [0; 0]);
    gate.open().await?;
    assert_eq!(first.await?, LaneMoved::Done(vec![feed_seq(1)]));
    assert_eq!(second.await?, LaneMoved::Done(vec![feed_seq(2)]));
    assert_eq!(numbers(&*a.store).await?, [1, 2]);
    assert_sound(&a).await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn twin_numbers_from_a_sequence_appear_behind_the_readers_back() -> Result<()> {
    let (stage, a, b) = two_leaders(1).await?;
    let sequence = "CREATE SEQUENCE by_sequence";
    stage.probe.batch_execute(sequence).await?;
    let gate = &mut stage.gate("tx_completion", "AFTER INSERT", "first").await?;
    let complete = twin::moves_with(BY_SEQUENCE);
    let mut running = Vec::new();
    for (session, seat, tx) in [("first", &a, id(1)), ("second", &b, id(1_001))] {
        let ends = [seat.plan(tx, Input::Reject).await];
        let sql = fill(&complete, &twin::moves(seat, &ends));
        let task = twin::send(stage.session(session).await?, sql);
        if session == "first" {
            gate.wait_for_waiter().await?;
        }
        running.push(task);
    }
    let second = running.pop().expect("two");
    assert_eq!(second.await??, 1, "nobody waits");
    let read = "SELECT coalesce(array_agg(seq ORDER BY seq), '{}') FROM tx_completion";
    let seen: Vec<i64> = stage.probe.query_one(read, &[]).await?.get(0);
    assert_eq!(seen, [2], "a reader goes on from 2");
    gate.open().await?;
    assert_eq!(running.pop().expect("one").await??, 1);
    let seen: Vec<i64> = stage.probe.query_one(read, &[]).await?.get(0);
    assert_eq!(seen, [1, 2], "and never reads 1");
    Ok(())
}

/// Two nodes end transactions as fast as they can, and a reader looks as often as it can.
#[tokio::test(flavor = "multi_thread")]
async fn a_reader_never_sees_a_hole_while_nodes_race() -> Result<()> {
    const EACH: u64 = 60;
    let (stage, a, b) = two_leaders(EACH).await?;
    let reader = stage.handle("reader").await?;
    let reading = tokio::spawn(async move {
        let (mut seen, mut reads) = (0, 0_u64);
        while seen < 4 * EACH {
            let after = feed_seq(seen);
            for each in reader.completions(after, 1_000).await?.completions {
                seen += 1;
                assert_eq!(each.seq.get(), seen, "a hole, or a row that came late");
            }
            reads += 1;
        }
        anyhow::Ok(reads)
    });
    let race = |seat: Seat, first: u64| async move {
        for tx in first..first + EACH {
            // Told twice: that it cannot move, and that it has ended.
            seat.step(id(tx), Input::Stick(Why::NoFunds)).await;
            seat.step(id(tx), Input::Reject).await;
        }
    };
    let racing = [
        tokio::spawn(race(a.clone(), 1)),
        tokio::spawn(race(b, 1_001)),
    ];
    for node in racing {
        node.await?;
    }
    let reads = reading.await??;
    assert!(reads > 10, "only {reads} reads");
    assert_sound(&a).await;
    Ok(())
}
