//! Reservations: nonces lent to those who sign themselves. Their lock is the fence.

use std::time::Duration;

use fencepost_app::ports::{Key, LATE_HASHES_MAX, Record, Settle, SettleAct, Settled};
use fencepost_domain::attempt;
use fencepost_domain::event;
use fencepost_domain::flat::Name;
use fencepost_domain::state::{Kind, Lent, Recyclable, Reserved, State, Submitted, Used};
use fencepost_domain::transition::{Input, Refusal};

use crate::Harness;
use crate::bench::{Bench, done, known, only};
use crate::builders::{
    TTL, hash, id, lane, lane_on, lane_seq, lent_mined, loan, lock, nonce, nonces, sign, token, tx,
    txs, version,
};

async fn settle(bench: &Bench<'_>, n: u64, act: SettleAct) -> Settled {
    let call = Settle {
        reservation: id(n),
        lock: lock(n),
        act,
    };
    bench.store.settle(&call).await.unwrap()
}

async fn submitted(bench: &Bench<'_>, n: u64, sent: u64) -> Settled {
    settle(
        bench,
        n,
        SettleAct::Submitted {
            hash: hash(sent),
            due_in: Duration::ZERO,
        },
    )
    .await
}

fn settled(answer: Settled) -> Record {
    let Settled::Done(record) = answer else {
        panic!("not done: {answer:?}");
    };
    *record
}

const LOST: Settled = Settled::LockLost { recorded: false };
const RECORDED: Settled = Settled::LockLost { recorded: true };

/// A reservation takes a nonce like a transaction does, and says until when.
pub async fn a_reservation_shares_the_lanes_nonces(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = bench.seat("a", lane(1)).await;
    assert_eq!(a.accept(vec![tx(1), loan(2), tx(3)]).await, [0, 1, 2]);
    let record = a.read(id(2)).await;
    assert_eq!(record.state, State::Reserved(Reserved { nonce: nonce(1) }));
    assert_eq!((record.kind, &record.payload), (Kind::Reserved, &None));
    let terms = record.reservation.unwrap();
    assert_eq!(terms.lock, lock(2));
    // Two readings of a clock within one statement may differ a little.
    let lasts = terms.expires_at.duration_since(record.created_at);
    assert_eq!(lasts.as_secs(), i64::try_from(TTL.as_secs()).unwrap());
    let view = a.view().await;
    assert_eq!((view.in_flight, view.next_nonce), (3, nonce(3)));
    // A retry with another lock gets the one that was given first.
    let retry = fencepost_app::ports::NewTx {
        body: loan(9).body,
        ..loan(2)
    };
    let (stored, ..) = done(a.create(vec![retry]).await);
    assert_eq!(*known(&stored[0]), record);
    // What was given back is lent before the cursor moves.
    a.step(id(1), Input::Reject).await;
    assert_eq!(a.accept(vec![loan(4)]).await, [0]);
}

/// A holder names its hash once; saying it again changes nothing, another one is refused.
pub async fn a_holder_names_what_it_has_sent(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = bench.seat("a", lane(1)).await;
    a.accept(vec![loan(1)]).await;
    let record = settled(submitted(&bench, 1, 11).await);
    let state = Submitted {
        nonce: nonce(0),
        hash: hash(11),
        seen: Lent::Awaited,
    };
    assert_eq!(record.state, State::Submitted(state));
    assert_eq!((record.version, record.attempts), (version(2), 1));
    assert_eq!(record, a.read(id(1)).await);
    let stored = only(bench.store.attempts(&[id(1)]).await.unwrap());
    assert_eq!(
        (stored.n, stored.attempt.kind),
        (1, attempt::Kind::External)
    );
    assert_eq!((stored.attempt.hash, stored.attempt.fees), (hash(11), None));
    assert!(stored.attempt.raw.is_empty());
    let event = bench.store.history(id(1), lane_seq(1), 10).await.unwrap();
    let event = only(event);
    assert_eq!(event.event.kind, event::Kind::Submitted);
    assert_eq!((event.node, event.token), (None, token(1)));
    // It is followed from now on, not only when its time is over.
    let due = a.claim_due(TTL, 10).await.records;
    assert_eq!(only(due).tx, id(1));

    let before = bench.dump().await;
    let again = settled(submitted(&bench, 1, 11).await);
    assert_eq!(again, a.read(id(1)).await);
    let other = submitted(&bench, 1, 12).await;
    assert_eq!(other, Settled::Refused(Refusal::OtherHash));
    bench.dump().await.assert_same(&before, "a second word");
    bench.dump().await.assert_sound();
}

/// A hash that is another transaction's on this chain cannot be this holder's.
pub async fn a_holder_cannot_name_someone_elses_hash(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = bench.seat("a", lane(1)).await;
    let elsewhere = bench.seat_of(&a.holder, lane_on(2, 1)).await;
    a.accept(vec![tx(1), loan(2), loan(3)]).await;
    elsewhere.accept(vec![loan(4)]).await;
    a.step(id(1), sign(11)).await;
    settled(submitted(&bench, 3, 33).await);
    let before = bench.dump().await;
    for theirs in [11, 33] {
        let answer = submitted(&bench, 2, theirs).await;
        assert_eq!(answer, Settled::Refused(Refusal::OtherHash));
    }
    bench.dump().await.assert_same(&before, "a stolen hash");
    // And the other way round: what a holder has named is nothing that we sign.
    settled(submitted(&bench, 2, 22).await);
    a.accept(txs([5])).await;
    let plan = a.plan(id(5), sign(22)).await;
    let answer = a.write(vec![plan]).await;
    assert_eq!(answer, fencepost_app::ports::LaneMoved::KnownHash(id(5)));
    // Another chain has its own hashes.
    settled(submitted(&bench, 4, 11).await);
}

/// A holder that has sent nothing gives its nonce back, and the next one gets it.
pub async fn a_recycled_nonce_is_given_out_again(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = bench.seat("a", lane(1)).await;
    a.accept(vec![loan(1), tx(2)]).await;
    let record = settled(settle(&bench, 1, SettleAct::Recycle).await);
    let state = Recyclable {
        gave_back: nonce(0),
    };
    assert_eq!(record.state, State::Recyclable(state));
    let view = a.view().await;
    assert_eq!((view.free, view.in_flight), (nonces([0]), 1));
    let before = bench.dump().await;
    let again = settled(settle(&bench, 1, SettleAct::Recycle).await);
    assert_eq!(again, record);
    bench.dump().await.assert_same(&before, "recycling again");
    let event = bench.store.history(id(1), lane_seq(2), 10).await.unwrap();
    assert_eq!(only(event).event.kind, event::Kind::Recycled);
    assert_eq!(a.accept(txs([3])).await, [0]);
    // It stays given back, whoever holds the nonce now.
    settled(settle(&bench, 1, SettleAct::Recycle).await);
    assert_eq!(a.view().await.free, []);
    bench.dump().await.assert_sound();
}

/// What a holder has sent may be mined tomorrow, so its nonce stays.
pub async fn what_was_sent_cannot_be_recycled_or_extended(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = bench.seat("a", lane(1)).await;
    a.accept(vec![loan(1)]).await;
    settled(submitted(&bench, 1, 11).await);
    let before = bench.dump().await;
    let recycled = settle(&bench, 1, SettleAct::Recycle).await;
    assert_eq!(recycled, Settled::Refused(Refusal::Signed));
    let extended = settle(&bench, 1, SettleAct::Extend(TTL * 9)).await;
    assert_eq!(extended, Settled::Refused(Refusal::Over));
    bench.dump().await.assert_same(&before, "a refusal");

    a.step(id(1), lent_mined(11, 100)).await;
    a.step(id(1), Input::Final).await;
    let before = bench.dump().await;
    for act in [SettleAct::Recycle, SettleAct::Extend(TTL)] {
        let answer = settle(&bench, 1, act).await;
        assert_eq!(answer, Settled::Refused(Refusal::Over), "{act:?}");
    }
    bench.dump().await.assert_same(&before, "a refusal");
}

/// Extending moves the time and the moment of being due by the same, and never shortens.
pub async fn an_extension_gives_more_time_and_never_less(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = bench.seat("a", lane(1)).await;
    a.accept(vec![loan(1)]).await;
    let until = a.read(id(1)).await.reservation.unwrap().expires_at;
    let shorter = settled(settle(&bench, 1, SettleAct::Extend(TTL / 4)).await);
    assert_eq!(shorter.reservation.unwrap().expires_at, until);
    let longer = settled(settle(&bench, 1, SettleAct::Extend(TTL * 2)).await);
    let terms = longer.reservation.unwrap();
    assert!(terms.expires_at >= until + TTL, "{terms:?}");
    assert_eq!(terms.lock, lock(1));
    assert_eq!(longer.state.name(), Name::Reserved);
    assert_eq!(a.view().await.lane_seq, lane_seq(1), "no event");

    let due = async || {
        let a = bench.seat_of(&a.holder, lane(1)).await;
        a.claim_due(TTL, 10).await.records
    };
    bench.advance(TTL * 2).await;
    assert_eq!(due().await, [], "its grace is not over");
    bench.advance(TTL).await;
    assert_eq!(only(due().await).tx, id(1));
}

/// A wrong lock opens nothing, in any state.
pub async fn a_wrong_lock_opens_nothing(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = bench.seat("a", lane(1)).await;
    a.accept(vec![loan(1), loan(2), loan(3)]).await;
    settled(submitted(&bench, 2, 22).await);
    settled(settle(&bench, 3, SettleAct::Recycle).await);
    let before = bench.dump().await;
    for n in 1..=3 {
        for act in [
            SettleAct::Submitted {
                hash: hash(22),
                due_in: Duration::ZERO,
            },
            SettleAct::Submitted {
                hash: hash(99),
                due_in: Duration::ZERO,
            },
            SettleAct::Recycle,
            SettleAct::Extend(TTL * 9),
        ] {
            let call = Settle {
                reservation: id(n),
                lock: lock(77),
                act,
            };
            assert_eq!(bench.store.settle(&call).await.unwrap(), LOST, "{call:?}");
        }
    }
    bench.dump().await.assert_same(&before, "a wrong lock");
}

/// What is no reservation has no holder.
pub async fn only_a_reservation_can_be_settled(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = bench.seat("a", lane(1)).await;
    a.accept(txs([1])).await;
    let before = bench.dump().await;
    for n in [1, 99] {
        let answer = submitted(&bench, n, 11).await;
        assert_eq!(answer, Settled::NotFound);
    }
    bench.dump().await.assert_same(&before, "a stranger's call");
}

/// A holder that sent its bytes after the nonce was given back has lost it, but what it sent is
/// never forgotten: it may be mined instead of the new holder's.
pub async fn a_late_hash_is_recorded_against_a_lost_nonce(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = bench.seat("a", lane(1)).await;
    a.accept(vec![loan(1)]).await;
    a.step(id(1), Input::Recycle).await;
    assert_eq!(a.accept(txs([2])).await, [0]);
    let before = a.read(id(1)).await;
    assert_eq!(submitted(&bench, 1, 11).await, RECORDED);
    let record = a.read(id(1)).await;
    assert_eq!(record.state, before.state, "it gets nothing back");
    assert_eq!(record.attempts, 1);
    assert_eq!(record.version, before.version.plus(1).unwrap());
    let stored = only(bench.store.attempts(&[id(1)]).await.unwrap());
    assert_eq!(stored.attempt.kind, attempt::Kind::External);
    let found = bench.store.find(&Key::Hash(lane(1).chain, hash(11))).await;
    assert_eq!(found.unwrap().unwrap().tx, id(1));
    let event = bench.store.history(id(1), lane_seq(3), 10).await.unwrap();
    let event = only(event);
    assert_eq!(event.event.kind, event::Kind::Submitted);
    assert_eq!(event.event.note.as_deref(), Some("late"));
    let recyclable = (Name::Recyclable.word().to_owned(), None);
    assert_eq!(
        (event.from, event.to),
        (Some(recyclable.clone()), recyclable)
    );

    let once = bench.dump().await;
    assert_eq!(submitted(&bench, 1, 11).await, RECORDED);
    a.step(id(2), sign(22)).await;
    let signed = bench.dump().await;
    assert_eq!(submitted(&bench, 1, 22).await, LOST, "that is another's");
    assert_eq!(settle(&bench, 1, SettleAct::Extend(TTL)).await, LOST);
    let after = bench.dump().await;
    after.assert_same(&signed, "a lost lock");
    assert_eq!(after.attempts.len(), once.attempts.len() + 1);
    assert!(after.unfinished[0] == [id(2)], "it is not due");
    after.assert_sound();
}

/// Its holder may not have sent anything: a word of his takes no nonce out of the lane, which would stand still
/// for it. If he has, whoever has the nonce is told how it ends.
pub async fn a_nonce_whose_late_hash_is_recorded_is_still_free(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = bench.seat("a", lane(1)).await;
    a.accept(vec![loan(1), loan(2)]).await;
    a.step(id(1), Input::Recycle).await;
    a.step(id(2), Input::Recycle).await;
    assert_eq!(submitted(&bench, 1, 11).await, RECORDED);
    assert_eq!(a.view().await.free, nonces([0, 1]));
    assert_eq!(a.accept(txs([3, 4])).await, [0, 1]);
    bench.dump().await.assert_sound();
}

/// Whoever gave a nonce back can name hash after hash; each is stored and watched for, so they are bounded. What
/// was recorded stays so.
pub async fn late_hashes_are_recorded_up_to_a_bound(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = bench.seat("a", lane(1)).await;
    a.accept(vec![loan(1), loan(2)]).await;
    settled(settle(&bench, 1, SettleAct::Recycle).await);
    settled(settle(&bench, 2, SettleAct::Recycle).await);
    let most = u64::from(LATE_HASHES_MAX);
    for n in 1..=most {
        assert_eq!(submitted(&bench, 1, n).await, RECORDED, "{n}");
    }
    let before = bench.dump().await;
    assert_eq!(submitted(&bench, 1, most + 1).await, LOST);
    assert_eq!(submitted(&bench, 1, most + 2).await, LOST);
    assert_eq!(submitted(&bench, 1, 1).await, RECORDED, "the first stays");
    assert_eq!(
        submitted(&bench, 1, most).await,
        RECORDED,
        "so does the last"
    );
    bench.dump().await.assert_same(&before, "one hash too many");
    assert_eq!(a.read(id(1)).await.attempts, LATE_HASHES_MAX);
    // Each reservation has its own.
    assert_eq!(submitted(&bench, 2, most + 1).await, RECORDED);
    bench.dump().await.assert_sound();
}

/// A submitted hash is followed on chain like our own: mined, reorged, mined again, used.
pub async fn a_submitted_nonce_is_followed_to_its_use(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = bench.seat("a", lane(1)).await;
    a.accept(vec![loan(1)]).await;
    settled(submitted(&bench, 1, 11).await);
    let mined = a.step(id(1), lent_mined(11, 100)).await;
    assert_eq!(mined.state.sub(), Some("MINED"));
    assert!(mined.receipt.is_some());
    // The same word again finds it where it is.
    assert_eq!(settled(submitted(&bench, 1, 11).await), mined);
    let back = a.step(id(1), Input::Reorged).await;
    assert_eq!((back.state.sub(), &back.receipt), (Some("REORGED"), &None));
    a.step(id(1), lent_mined(11, 101)).await;
    let used = a.step(id(1), Input::Final).await;
    assert_eq!(used.state.name(), Name::Used);
    assert!(used.confirmed_at.is_some());
    assert_eq!(settled(submitted(&bench, 1, 11).await), used);
    assert_eq!(a.view().await.head, None);
    // A reorg below the end brings it back to its holder, and it is due again.
    let back = a.step(id(1), Input::Reorged).await;
    assert_eq!(back.state.name(), Name::Submitted);
    assert_eq!(back.confirmed_at, None);
    assert_eq!(only(a.claim_due(TTL, 10).await.records).tx, id(1));
    a.step(id(1), lent_mined(11, 102)).await;
    a.step(id(1), Input::Final).await;
    let feed = bench.dump().await.feed.completions;
    let told: Vec<_> = feed
        .iter()
        .map(|each| (each.state, each.corrects.map(|seq| seq.get())))
        .collect();
    assert_eq!(told, [(Name::Used, None), (Name::Used, Some(1))]);
    bench.dump().await.assert_sound();
}

/// A holder that was away while the chain used its nonce can still name its bytes; that makes
/// nothing due again.
pub async fn a_used_nonce_can_still_be_named(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = bench.seat("a", lane(1)).await;
    a.accept(vec![loan(1)]).await;
    a.step(id(1), Input::TakenFinal(None)).await;
    let named = settled(submitted(&bench, 1, 11).await);
    let state = Used {
        nonce: nonce(0),
        hash: Some(hash(11)),
        at: None,
        foreign: None,
    };
    assert_eq!((named.state, named.attempts), (State::Used(state), 1));
    let view = a.view().await;
    assert_eq!((view.in_flight, view.head, view.oldest_at), (0, None, None));
    assert_eq!(a.claim_due(TTL, 10).await.records, []);
    let answer = submitted(&bench, 1, 12).await;
    assert_eq!(answer, Settled::Refused(Refusal::OtherHash));
    bench.dump().await.assert_sound();
}

/// What holders say needs no leader, and works while the lane has none.
pub async fn holders_need_no_leader(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = bench.seat("a", lane(1)).await;
    a.accept(vec![loan(1), loan(2), loan(3)]).await;
    bench.store.release(&a.holder, &[a.held]).await.unwrap();
    let record = settled(submitted(&bench, 1, 11).await);
    assert_eq!(record.token, token(1));
    settled(settle(&bench, 2, SettleAct::Recycle).await);
    settled(settle(&bench, 3, SettleAct::Extend(TTL * 2)).await);
    let view = a.view().await;
    assert_eq!((view.leader, view.token), (None, token(1)));
    assert_eq!(view.lane_seq, lane_seq(5));
    // A decision of the leader that had read the old version is stale.
    let b = bench.seat("b", lane(1)).await;
    assert_eq!(b.accept(txs([4])).await, [1]);
    bench.dump().await.assert_sound();
}

/// A leader's decision on what it read before the holder spoke changes nothing.
pub async fn a_holder_is_faster_than_an_expiry(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = bench.seat("a", lane(1)).await;
    a.accept(vec![loan(1)]).await;
    let expiry = a.plan(id(1), Input::Recycle).await;
    settled(submitted(&bench, 1, 11).await);
    let before = bench.dump().await;
    let answer = a.write(vec![expiry]).await;
    assert_eq!(answer, fencepost_app::ports::LaneMoved::Stale(vec![id(1)]));
    bench.dump().await.assert_same(&before, "a late expiry");
    // The same race against an extension.
    a.accept(vec![loan(2)]).await;
    let expiry = a.plan(id(2), Input::Recycle).await;
    settled(settle(&bench, 2, SettleAct::Extend(TTL * 2)).await);
    let answer = a.write(vec![expiry]).await;
    assert_eq!(answer, fencepost_app::ports::LaneMoved::Stale(vec![id(2)]));
}
