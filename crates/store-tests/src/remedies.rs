//! Remedies: asked for by anyone, one at a time, carried out by whoever leads.

use fencepost_app::ports::{
    Action, AskedRemedy, ClaimedRemedy, Closing, LaneMoved, Move, NewRemedy, Record, RemedyId,
};
use fencepost_domain::attempt::{self, SignedFees};
use fencepost_domain::event::{self, Event};
use fencepost_domain::state::{Wait, Why};
use fencepost_domain::transition::{Input, Transition};

use crate::Harness;
use crate::bench::{Bench, Seat, only, written};
use crate::builders::{TTL, accepted, audit, hash, id, lane, lane_seq, loan, sign, tx, txs};
use crate::dump::Dump;

fn replace(n: u64, round: u32) -> NewRemedy {
    NewRemedy {
        tx: id(n),
        round,
        action: Action::Replace,
        fees: Some(SignedFees {
            max_fee: u128::MAX,
            max_priority_fee: Some(7),
        }),
        audit: audit(),
    }
}

async fn ask(bench: &Bench<'_>, n: u64, round: u32) -> AskedRemedy {
    bench.store.ask_remedy(&replace(n, round)).await.unwrap()
}

async fn asked(bench: &Bench<'_>, n: u64, round: u32) -> RemedyId {
    let answer = ask(bench, n, round).await;
    let AskedRemedy::Asked(remedy) = answer else {
        panic!("not asked: {answer:?}");
    };
    remedy
}

async fn claim(seat: &Seat, limit: usize) -> Vec<ClaimedRemedy> {
    let held = [seat.held];
    let claimed = seat.store.claim_remedies(&seat.holder, &held, limit).await;
    claimed.unwrap().remedies
}

/// Closes a remedy by signing new bytes, as carrying out does.
async fn carry_out(seat: &Seat, n: u64, sent: u64, remedy: RemedyId) -> LaneMoved {
    let bump = Input::Sign(attempt::Kind::Replacement, hash(sent));
    let closing = Closing {
        remedy,
        refused: None,
    };
    let plan = seat.plan(id(n), bump).await.closing(closing);
    seat.write(vec![plan]).await
}

/// A transaction on its way, with bytes to replace.
async fn on_its_way(bench: &Bench<'_>) -> Seat {
    let a = bench.seat("a", lane(1)).await;
    a.accept(txs([1])).await;
    a.step(id(1), sign(11)).await;
    a.step(id(1), accepted()).await;
    a
}

/// A remedy is claimed with everything that was asked, and closed by the move that carries it out.
pub async fn a_remedy_is_asked_claimed_and_carried_out(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = on_its_way(&bench).await;
    let before = bench.dump().await;
    let remedy = asked(&bench, 1, 1).await;
    let after = Dump {
        remedies: before.remedies.clone(),
        ..bench.dump().await
    };
    after.assert_same(&before, "asking is an audit row and nothing else");
    let claimed = only(claim(&a, 10).await);
    let expected = replace(1, 1);
    assert_eq!((claimed.id, claimed.round), (remedy, expected.round));
    assert_eq!(
        (claimed.action, claimed.fees),
        (expected.action, expected.fees)
    );
    assert_eq!(claimed.audit, expected.audit);
    assert_eq!(claimed.record, a.read(id(1)).await);
    assert_eq!(claim(&a, 10).await, [], "it is claimed once");

    written(carry_out(&a, 1, 12, remedy).await);
    assert_eq!(a.read(id(1)).await.attempts, 2);
    assert_eq!(claim(&a, 10).await, []);
    let next = asked(&bench, 1, 2).await;
    assert!(next != remedy);
    bench.dump().await.assert_sound();
}

/// Of a transaction's remedies one runs at a time, claimed or not.
pub async fn one_remedy_runs_at_a_time(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = on_its_way(&bench).await;
    a.accept(txs([2])).await;
    let remedy = asked(&bench, 1, 1).await;
    assert_eq!(ask(&bench, 1, 2).await, AskedRemedy::Running(remedy));
    assert_eq!(ask(&bench, 1, 1).await, AskedRemedy::Running(remedy));
    claim(&a, 10).await;
    assert_eq!(ask(&bench, 1, 2).await, AskedRemedy::Running(remedy));
    // Another transaction's are its own.
    assert!(asked(&bench, 2, 1).await != remedy);
}

/// Each round is asked once, so that two nodes with the same verdict do not act twice on it.
pub async fn a_round_is_asked_once(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = on_its_way(&bench).await;
    let first = asked(&bench, 1, 3).await;
    claim(&a, 10).await;
    written(carry_out(&a, 1, 12, first).await);
    for taken in [1, 2, 3] {
        let answer = ask(&bench, 1, taken).await;
        assert_eq!(answer, AskedRemedy::RoundTaken { next: 4 }, "{taken}");
    }
    asked(&bench, 1, 4).await;
}

/// Nothing can be done to what has ended or was never there; what waits in the queue can be asked
/// for.
pub async fn only_the_unfinished_can_be_remedied(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = bench.seat("a", lane(1)).await;
    a.accept(txs([1])).await;
    a.step(id(1), Input::Reject).await;
    assert_eq!(ask(&bench, 1, 1).await, AskedRemedy::AlreadyFinal);
    assert_eq!(ask(&bench, 99, 1).await, AskedRemedy::NotFound);
    let waiting = [(a.held.lane, tx(2))];
    bench
        .store
        .enqueue(&waiting, Wait::Leader, 10)
        .await
        .unwrap();
    let remedy = asked(&bench, 2, 1).await;
    let claimed = only(claim(&a, 10).await);
    assert_eq!((claimed.id, claimed.record.tx), (remedy, id(2)));
}

/// A leader that claimed and died leaves the remedy to the next, which alone can close it.
pub async fn the_next_leader_carries_out_what_was_claimed(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = on_its_way(&bench).await;
    let remedy = asked(&bench, 1, 1).await;
    assert_eq!(claim(&a, 10).await.len(), 1);
    bench.lapse().await;
    let b = bench.seat("b", lane(1)).await;
    let before = bench.dump().await;
    assert_eq!(carry_out(&a, 1, 12, remedy).await, LaneMoved::Fenced);
    bench.dump().await.assert_same(&before, "the old leader");
    assert_eq!(only(claim(&b, 10).await).id, remedy);
    assert_eq!(claim(&b, 10).await, []);
    written(carry_out(&b, 1, 12, remedy).await);
    bench.lapse().await;
    let c = bench.seat("c", lane(1)).await;
    assert_eq!(claim(&c, 10).await, []);
}

/// A remedy is closed once: a second move that would close it changes nothing.
pub async fn a_remedy_is_closed_once(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = on_its_way(&bench).await;
    a.accept(txs([2])).await;
    a.step(id(2), sign(21)).await;
    let remedy = asked(&bench, 1, 1).await;
    let other = asked(&bench, 2, 1).await;
    claim(&a, 10).await;
    written(carry_out(&a, 1, 12, remedy).await);
    let before = bench.dump().await;
    // Closed already, another transaction's, and one that never was.
    for wrong in [remedy, other, RemedyId(1_000_000)] {
        let answer = carry_out(&a, 1, 13, wrong).await;
        assert_eq!(answer, LaneMoved::Stale(vec![id(1)]), "{wrong:?}");
    }
    bench
        .dump()
        .await
        .assert_same(&before, "a remedy that is over");
    written(carry_out(&a, 2, 22, other).await);
}

/// A remedy that cannot be carried out is closed with the reason, and another can be asked.
pub async fn a_refused_remedy_is_closed_too(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = on_its_way(&bench).await;
    let remedy = asked(&bench, 1, 1).await;
    claim(&a, 10).await;
    let closing = Closing {
        remedy,
        refused: Some("at the cap".to_owned()),
    };
    let plan = a.plan(id(1), Input::Stick(Why::NoReceipt)).await;
    written(a.write(vec![plan.closing(closing)]).await);
    assert_eq!(claim(&a, 10).await, []);
    asked(&bench, 1, 2).await;
}

/// A remedy for what has ended meanwhile is closed by whoever would claim it.
pub async fn a_remedy_for_what_has_ended_is_dropped(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = on_its_way(&bench).await;
    asked(&bench, 1, 1).await;
    a.step(id(1), crate::builders::mined(11, 100)).await;
    a.step(id(1), Input::Final).await;
    assert_eq!(claim(&a, 10).await, []);
    // After a reorg it is asked anew, in the next round.
    a.step(id(1), Input::Reorged).await;
    assert_eq!(claim(&a, 10).await, []);
    assert_eq!(ask(&bench, 1, 1).await, AskedRemedy::RoundTaken { next: 2 });
    asked(&bench, 1, 2).await;
}

/// Claims take the oldest first, of led lanes only, no more than asked for.
pub async fn remedies_are_claimed_oldest_first(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = bench.seat("a", lane(1)).await;
    let b = bench.seat_of(&a.holder, lane(2)).await;
    let other = bench.seat("b", lane(3)).await;
    a.accept(txs([1, 2])).await;
    b.accept(txs([3])).await;
    other.accept(txs([4])).await;
    let mut order = Vec::new();
    for n in [2, 3, 4, 1] {
        order.push(asked(&bench, n, 1).await);
    }
    let held = [a.held, b.held, other.held];
    let claim = async |limit| {
        let claimed = bench.store.claim_remedies(&a.holder, &held, limit).await;
        let claimed = claimed.unwrap();
        assert_eq!(claimed.fenced, [other.held.lane]);
        claimed
            .remedies
            .iter()
            .map(|each| each.id)
            .collect::<Vec<_>>()
    };
    assert_eq!(claim(2).await, [order[0], order[1]]);
    assert_eq!(claim(2).await, [order[3]]);
    let theirs = bench
        .store
        .claim_remedies(&other.holder, &[other.held], 9)
        .await;
    assert_eq!(only(theirs.unwrap().remedies).id, order[2]);
}

/// Every action and every way to give fees comes back as it was asked.
pub async fn a_remedy_is_read_back_as_it_was_asked(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = bench.seat("a", lane(1)).await;
    a.accept(txs(0..6)).await;
    let legacy = SignedFees {
        max_fee: 1,
        max_priority_fee: None,
    };
    let fees = [None, Some(legacy), None, Some(legacy), None, None];
    let mut remedies = Vec::new();
    for ((n, action), fees) in (0..).zip(Action::ALL).zip(fees) {
        let mut remedy = replace(n, u32::try_from(n).unwrap() + 1);
        (remedy.action, remedy.fees) = (action, fees);
        remedy.audit.details = None;
        remedy.audit.reason = "理由 — why".to_owned();
        let answer = bench.store.ask_remedy(&remedy).await.unwrap();
        assert!(matches!(answer, AskedRemedy::Asked(_)));
        remedies.push(remedy);
    }
    let all = claim(&a, 10).await;
    assert_eq!(all.len(), Action::ALL.len());
    for (claimed, asked) in all.iter().zip(&remedies) {
        assert_eq!((claimed.record.tx, claimed.round), (asked.tx, asked.round));
        assert_eq!((claimed.action, claimed.fees), (asked.action, asked.fees));
        assert_eq!(claimed.audit, asked.audit);
    }
}

/// A lane without a leader but with a remedy is an orphan, whatever else it has.
pub async fn a_remedy_makes_an_orphan_of_its_lane(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = bench.seat("a", lane(1)).await;
    let waiting = [(a.held.lane, tx(1))];
    bench
        .store
        .enqueue(&waiting, Wait::Leader, 10)
        .await
        .unwrap();
    asked(&bench, 1, 1).await;
    a.step(id(1), Input::Expire).await;
    bench.lapse().await;
    let orphans = async || bench.store.orphans(None, 10).await.unwrap();
    assert_eq!(only(orphans().await).lane, lane(1));
    let b = bench.seat("b", lane(1)).await;
    assert_eq!(claim(&b, 10).await, [], "it has ended");
    bench.lapse().await;
    assert_eq!(orphans().await, []);
}

/// A remedy that moves nothing, carried out or not, is closed by an event alone. Whatever the state is,
/// it stays, and so does the place in the queue.
pub async fn a_remedy_is_closed_without_a_change_of_state(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = bench.seat("a", lane(1)).await;
    a.accept(vec![tx(1), tx(2), tx(3), loan(4), loan(5)]).await;
    a.mine(id(2), 21).await;
    a.step(id(3), sign(31)).await;
    a.step(id(3), Input::Stick(Why::NoReceipt)).await;
    let waiting = [(a.held.lane, tx(6)), (a.held.lane, tx(7))];
    let queued = bench.store.enqueue(&waiting, Wait::Leader, 10).await;
    queued.unwrap();
    a.claim_due(TTL, 10).await;
    let before = bench.dump().await;
    for n in 1..=6 {
        let record = a.read(id(n)).await;
        let remedy = asked(&bench, n, 1).await;
        claim(&a, 10).await;
        let refused = (n % 2 == 0).then(|| "nothing to send".to_owned());
        let closing = Closing { remedy, refused };
        written(a.write(vec![unmoved(&record).closing(closing)]).await);
        let after = a.read(id(n)).await;
        assert_eq!(after.version, record.version.plus(1).unwrap());
        let same = Record {
            version: record.version,
            updated_at: record.updated_at,
            token: record.token,
            ..after
        };
        assert_eq!(same, record);
        let events = bench.store.history(id(n), lane_seq(0), 100).await.unwrap();
        let event = events.last().unwrap();
        assert_eq!(event.event.kind, event::Kind::Remedied);
        assert_eq!(event.from.as_ref(), Some(&event.to));
    }
    assert_eq!(claim(&a, 10).await, []);
    let after = bench.dump().await;
    assert_eq!(after.queues, before.queues, "it waits where it waited");
    assert_eq!(after.unfinished, before.unfinished);
    assert_eq!(after.feed, before.feed, "the feed tells none of it");
    assert_eq!(a.claim_due(TTL, 10).await.records, [], "no time has moved");
    let promoted = a.promote(vec![id(6)]).await;
    crate::bench::done(promoted);
    bench.dump().await.assert_sound();
}

/// The record as it is, with the event that its remedy is over.
fn unmoved(record: &Record) -> Move {
    let same = Transition {
        to: record.state.clone(),
        event: Event::new(event::Kind::Remedied).note("closed"),
    };
    Move::of(record, same)
}

/// A remedy that was claimed before its transaction ended is closed afterwards, and the end stays what
/// and when it was.
pub async fn what_ended_stays_ended_when_its_remedy_is_closed(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = on_its_way(&bench).await;
    let remedy = asked(&bench, 1, 1).await;
    claim(&a, 10).await;
    a.step(id(1), crate::builders::mined(11, 100)).await;
    let ended = a.step(id(1), Input::Final).await;
    bench.advance(std::time::Duration::from_secs(1)).await;
    let feed = bench.dump().await.feed;
    let closing = Closing {
        remedy,
        refused: Some("already final".to_owned()),
    };
    written(a.write(vec![unmoved(&ended).closing(closing)]).await);
    let after = a.read(id(1)).await;
    assert_eq!(after.confirmed_at, ended.confirmed_at);
    assert_eq!(
        (after.state, after.receipt),
        (ended.state, ended.receipt.clone())
    );
    assert_eq!(a.view().await.in_flight, 0);
    assert_eq!(a.claim_due(TTL, 10).await.records, []);
    assert_eq!(bench.dump().await.feed, feed);
    assert_eq!(ask(&bench, 1, 2).await, AskedRemedy::AlreadyFinal);
    bench.dump().await.assert_sound();
}
