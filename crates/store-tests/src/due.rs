//! Due work: claimed oldest first, put off before anything is sent, and counted.

use std::time::Duration;

use fencepost_app::ports::{Claimed, Settle, SettleAct};
use fencepost_domain::flat::Name;
use fencepost_domain::ids::TxId;
use fencepost_domain::state::{Wait, Why};
use fencepost_domain::transition::Input;

use crate::Harness;
use crate::bench::{Bench, only, written};
use crate::builders::{
    GRACE, TTL, accepted, hash, id, lane, loan, lock, mined, sign, token, tx, txs, version,
};

const LATER: Duration = Duration::from_secs(5);

fn ids(claimed: &Claimed) -> Vec<TxId> {
    claimed.records.iter().map(|record| record.tx).collect()
}

/// What waits longest is taken first, whatever its nonce; what is taken comes in order of nonces.
pub async fn the_longest_due_is_claimed_first(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = bench.seat("a", lane(1)).await;
    let b = bench.seat_of(&a.holder, lane(2)).await;
    a.accept(txs([1, 2])).await;
    assert_eq!(ids(&a.claim_due(LATER, 10).await), [id(1), id(2)]);
    bench.advance(Duration::from_secs(1)).await;
    b.accept(txs([3])).await;
    bench.advance(Duration::from_secs(1)).await;
    a.accept(txs([4])).await;
    bench.advance(LATER).await;
    // Both of lane 1 are due since just now, the others for longer.
    let both = [a.held, b.held];
    let later = u64::try_from(LATER.as_millis()).unwrap();
    let claim = async |limit| bench.store.claim_due(&a.holder, &both, later, limit).await;
    assert_eq!(ids(&claim(1).await.unwrap()), [id(3)]);
    assert_eq!(ids(&claim(1).await.unwrap()), [id(4)]);
    assert_eq!(ids(&claim(10).await.unwrap()), [id(1), id(2)]);
    assert_eq!(ids(&claim(10).await.unwrap()), []);
    bench.advance(LATER).await;
    let all = [id(1), id(2), id(4), id(3)];
    assert_eq!(ids(&claim(10).await.unwrap()), all, "by lane and nonce");
}

/// A claim puts work off, so that it is not taken twice, and not for ever.
pub async fn a_claim_puts_work_off(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = bench.seat("a", lane(1)).await;
    a.accept(txs([1])).await;
    let before = a.read(id(1)).await;
    let claimed = only(a.claim_due(LATER, 10).await.records);
    assert_eq!(claimed, a.read(id(1)).await);
    assert_eq!(claimed.version, version(2));
    assert_eq!(claimed.state, before.state);
    bench.advance(LATER / 2).await;
    assert_eq!(ids(&a.claim_due(LATER, 10).await), []);
    bench.advance(LATER / 2).await;
    assert_eq!(ids(&a.claim_due(LATER, 10).await), [id(1)]);
    // It is no event: the lane has told of nothing but the nonce.
    assert_eq!(a.view().await.lane_seq.get(), 1);
    bench.dump().await.assert_sound();
}

/// A claim counts a try for bytes that are to be sent, and for nothing else.
pub async fn only_bytes_to_send_count_a_try(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = bench.seat("a", lane(1)).await;
    a.accept(txs(1..=6)).await;
    for n in 2..=6 {
        a.step(id(n), sign(n)).await;
    }
    a.step(id(3), accepted()).await;
    a.step(id(4), accepted()).await;
    a.step(id(4), mined(4, 100)).await;
    a.step(id(5), Input::Stick(Why::NoReceipt)).await;
    a.step(id(6), mined(6, 100)).await;
    a.step(id(6), Input::Reorged).await;
    let before: Vec<_> = bench.dump().await.records;
    let claimed = a.claim_due(LATER, 10).await.records;
    let tries: Vec<_> = claimed.iter().map(|each| each.submit_attempts).collect();
    // Unsigned, signed, on its way, in a block, stuck, reorged.
    assert_eq!(tries, [0, 2, 2, 1, 2, 2]);
    assert_eq!(claimed[0].first_submit_at, None);
    for record in &claimed {
        let old = before.iter().find(|old| old.tx == record.tx).unwrap();
        assert_eq!(record.first_submit_at, old.first_submit_at);
        assert!(record.last_submit_at >= old.last_submit_at);
        assert_eq!(record.attempts, old.attempts);
    }
}

/// A move says when it is due next, or leaves the time alone.
pub async fn a_move_sets_the_time_or_keeps_it(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = bench.seat("a", lane(1)).await;
    a.accept(txs([1, 2])).await;
    let off = a.plan(id(1), sign(11)).await.due_in(LATER);
    let kept = a.plan(id(2), sign(22)).await;
    written(a.write(vec![off, kept]).await);
    assert_eq!(ids(&a.claim_due(LATER * 4, 10).await), [id(2)]);
    a.step(id(2), accepted()).await;
    bench.advance(LATER).await;
    assert_eq!(ids(&a.claim_due(LATER * 4, 10).await), [id(1)]);
    bench.advance(LATER).await;
    let now = a.plan(id(1), accepted()).await.due_in(Duration::ZERO);
    written(a.write(vec![now]).await);
    assert_eq!(ids(&a.claim_due(LATER, 10).await), [id(1)]);
}

/// A reservation is due when its time and the grace after it are over, and not before.
pub async fn a_reservation_is_due_after_its_grace(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = bench.seat("a", lane(1)).await;
    a.accept(vec![loan(1), tx(2)]).await;
    assert_eq!(ids(&a.claim_due(TTL * 4, 10).await), [id(2)]);
    bench.advance(TTL + GRACE / 2).await;
    let a = bench.seat_of(&a.holder, lane(1)).await;
    assert_eq!(ids(&a.claim_due(LATER, 10).await), []);
    bench.advance(GRACE / 2).await;
    let a = bench.seat_of(&a.holder, lane(1)).await;
    let claimed = only(a.claim_due(LATER, 10).await.records);
    assert_eq!((claimed.tx, claimed.submit_attempts), (id(1), 0));
}

/// When a hash was named, the reservation is due when the call says, however long its own time still lasts.
pub async fn a_submitted_nonce_is_due_when_the_call_says(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = bench.seat("a", lane(1)).await;
    a.accept(vec![loan(1), loan(2), loan(3)]).await;
    assert_eq!(ids(&a.claim_due(LATER, 10).await), []);
    let call = |n: u64, due_in| Settle {
        reservation: id(n),
        lock: lock(n),
        act: SettleAct::Submitted {
            hash: hash(n),
            due_in,
        },
    };
    bench.store.settle(&call(1, Duration::ZERO)).await.unwrap();
    bench.store.settle(&call(2, LATER)).await.unwrap();
    let claimed = only(a.claim_due(LATER, 10).await.records);
    assert_eq!(claimed.tx, id(1));
    assert_eq!(claimed.state.name(), Name::Submitted);
    assert_eq!(claimed.submit_attempts, 0, "we have nothing to send");
    assert_eq!(ids(&a.claim_due(LATER, 10).await), [], "it is put off");
    bench.advance(LATER).await;
    assert_eq!(ids(&a.claim_due(LATER, 10).await), [id(1), id(2)]);
    // Saying it again is no news.
    bench.store.settle(&call(1, Duration::ZERO)).await.unwrap();
    assert_eq!(ids(&a.claim_due(LATER, 10).await), []);
}

/// The next leader finds the work where the last one left it, under its own token.
pub async fn the_next_leader_claims_what_the_last_one_left(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = bench.seat("a", lane(1)).await;
    a.accept(txs([1, 2])).await;
    a.claim_due(LATER, 10).await;
    bench.lapse().await;
    let b = bench.seat("b", lane(1)).await;
    let claimed = b.claim_due(LATER, 10).await.records;
    assert_eq!(claimed.len(), 2);
    assert_eq!(claimed[0].token, token(2));
}

/// Following goes on in a paused lane: its work is claimed as ever.
pub async fn a_paused_lanes_work_is_still_claimed(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = bench.seat("a", lane(1)).await;
    a.accept(txs([1])).await;
    crate::lanes::pause(&a).await;
    assert_eq!(ids(&a.claim_due(LATER, 10).await), [id(1)]);
}

/// Lanes with work and without a living leader are found by whoever looks, page by page.
pub async fn lanes_with_work_and_no_leader_are_orphans(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = bench.node("a").await;
    let mut seats = Vec::new();
    for n in 1..=5 {
        seats.push(bench.seat_of(&a, lane(n)).await);
    }
    seats[0].accept(txs([1])).await;
    let waiting = [(seats[1].held.lane, tx(2))];
    bench
        .store
        .enqueue(&waiting, Wait::Leader, 10)
        .await
        .unwrap();
    seats[2].accept(txs([3])).await;
    seats[2].confirm(id(3), 33).await;
    seats[4].accept(vec![loan(5)]).await;
    let orphans = async |after, limit| {
        let found = bench.store.orphans(after, limit).await.unwrap();
        found.iter().map(|orphan| orphan.lane).collect::<Vec<_>>()
    };
    assert_eq!(orphans(None, 10).await, []);
    // What is given up is an orphan at once, and what has run out only after the skew.
    let first = seats[0].held;
    bench.store.release(&a, &[first]).await.unwrap();
    assert_eq!(orphans(None, 10).await, [lane(1)]);
    let terms = harness.terms();
    bench.advance(terms.duration + terms.skew / 4).await;
    assert_eq!(orphans(None, 10).await, [lane(1)]);
    bench.advance(terms.skew).await;
    assert_eq!(orphans(None, 10).await, [lane(1), lane(2), lane(5)]);
    assert_eq!(orphans(None, 2).await, [lane(1), lane(2)]);
    assert_eq!(orphans(Some(seats[1].held.lane), 2).await, [lane(5)]);
    bench.seat("b", lane(2)).await;
    assert_eq!(orphans(None, 10).await, [lane(1), lane(5)]);
}

/// A lane in which all has ended is still somebody's business for a while: a reorg may undo an end.
pub async fn lanes_that_have_just_lost_their_leader_are_found(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = bench.node("a").await;
    let mut seats = Vec::new();
    for n in 1..=4 {
        seats.push(bench.seat_of(&a, lane(n)).await);
    }
    for (seat, n) in seats.iter().zip([1, 2, 3]) {
        seat.accept(txs([n])).await;
        seat.confirm(id(n), 30 + n).await;
    }
    let terms = harness.terms();
    let unwatched = async |after, limit| {
        let within = terms.duration * 3;
        let found = bench.store.unwatched(within, after, limit).await.unwrap();
        found.iter().map(|orphan| orphan.lane).collect::<Vec<_>>()
    };
    assert_eq!(unwatched(None, 10).await, []);
    let first = seats[0].held;
    bench.store.release(&a, &[first]).await.unwrap();
    assert_eq!(unwatched(None, 10).await, [lane(1)]);
    bench.advance(terms.duration + terms.skew / 4).await;
    assert_eq!(unwatched(None, 10).await, [lane(1)]);
    bench.advance(terms.skew).await;
    // The fourth has never given a nonce.
    assert_eq!(unwatched(None, 10).await, [lane(1), lane(2), lane(3)]);
    assert_eq!(unwatched(None, 2).await, [lane(1), lane(2)]);
    assert_eq!(unwatched(Some(seats[1].held.lane), 2).await, [lane(3)]);
    bench.seat("b", lane(2)).await;
    assert_eq!(unwatched(None, 10).await, [lane(1), lane(3)]);
    bench.advance(terms.duration * 3).await;
    // Now the second has lost its leader, and that of the others is too long ago.
    assert_eq!(unwatched(None, 10).await, [lane(2)]);
}

/// A lane stays somebody's business until all of it has ended, whatever state the rest is in.
pub async fn whatever_has_not_ended_makes_an_orphan(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = bench.node("a").await;
    let mut seats = Vec::new();
    for n in 1..=6_u8 {
        seats.push(bench.seat_of(&a, lane(n)).await);
    }
    seats[0].accept(vec![loan(1)]).await;
    seats[1].accept(vec![loan(2)]).await;
    let call = Settle {
        reservation: id(2),
        lock: lock(2),
        act: SettleAct::Submitted {
            hash: hash(2),
            due_in: Duration::ZERO,
        },
    };
    bench.store.settle(&call).await.unwrap();
    seats[2].accept(txs([3])).await;
    seats[2].step(id(3), Input::Stick(Why::SignerError)).await;
    seats[3].accept(txs([4])).await;
    seats[3].mine(id(4), 4).await;
    seats[4].accept(txs([5])).await;
    seats[4].confirm(id(5), 5).await;
    seats[4].step(id(5), Input::Reorged).await;
    // All that ever was in the last one has ended.
    seats[5].accept(vec![loan(6), tx(7)]).await;
    seats[5].step(id(6), Input::Recycle).await;
    seats[5].step(id(7), Input::Reject).await;
    bench.lapse().await;
    let orphans = bench.store.orphans(None, 10).await.unwrap();
    let found: Vec<_> = orphans.iter().map(|orphan| orphan.lane).collect();
    assert_eq!(found, [1, 2, 3, 4, 5].map(lane));
}
