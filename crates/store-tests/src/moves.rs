//! Moves: attempts before they are sent, outcomes, receipts, reorgs; stale ones change nothing.

use fencepost_app::ports::{LaneMoved, LaneMoves, Move};
use fencepost_domain::B256;
use fencepost_domain::attempt::{self, Outcome};
use fencepost_domain::confirmation::{Publish, Stretch};
use fencepost_domain::event;
use fencepost_domain::flat::Name;
use fencepost_domain::ids::LaneId;
use fencepost_domain::state::{Allocated, Failed, Seen, Signing, State, Tracking, Why};
use fencepost_domain::transition::Input;

use crate::Harness;
use crate::bench::{Bench, only, written};
use crate::builders::{
    accepted, attempt, hash, id, included, lane, lane_on, lane_seq, mined, nonce, nonces, sign,
    token, txs, version,
};

/// Bytes are stored as they were signed, numbered, and count as a try from that moment on.
pub async fn an_attempt_is_stored_before_it_is_sent(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = bench.seat("a", lane(1)).await;
    a.accept(txs([1])).await;
    let record = a.step(id(1), sign(11)).await;
    let state = Allocated {
        nonce: nonce(0),
        bytes: Signing::Signed(hash(11)),
    };
    assert_eq!(record.state, State::Allocated(state));
    assert_eq!((record.attempts, record.submit_attempts), (1, 1));
    assert_eq!(record.version, version(2));
    assert!(record.first_submit_at.is_some());
    assert_eq!(record.last_submit_at, record.first_submit_at);

    let stored = only(bench.store.attempts(&[id(1)]).await.unwrap());
    assert_eq!((stored.tx, stored.n, stored.outcome), (id(1), 1, None));
    assert_eq!(stored.attempt, attempt(attempt::Kind::Original, 11));
    assert_eq!(stored.token, a.held.token);
    let events = bench.store.history(id(1), lane_seq(1), 10).await.unwrap();
    let event = only(events);
    assert_eq!(
        (event.seq, event.event.kind),
        (lane_seq(2), event::Kind::Signed)
    );
    assert_eq!(event.event.hash, Some(hash(11)));
    assert_eq!(event.event.note.as_deref(), Some("ORIGINAL"));
    let sub = |word: Option<&str>| (Name::Allocated.word().to_owned(), word.map(str::to_owned));
    assert_eq!(
        (event.from, event.to),
        (Some(sub(None)), sub(Some("SIGNED")))
    );
    assert_eq!((event.node, event.token), (Some(a.holder.node), token(1)));
}

/// Older attempts stay as they were stored: the chain may still mine any of them.
pub async fn attempts_are_numbered_and_never_change(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = bench.seat("a", lane(1)).await;
    a.accept(txs([1, 2])).await;
    a.step(id(1), sign(11)).await;
    let first = bench.store.attempts(&[id(1)]).await.unwrap();
    bench.lapse().await;
    let b = bench.seat("b", lane(1)).await;
    b.step(id(2), sign(21)).await;
    let bump = Input::Sign(attempt::Kind::Replacement, hash(12));
    let record = b.step(id(1), bump).await;
    assert_eq!((record.attempts, record.state.hash()), (2, Some(hash(12))));
    let cancel = Input::Sign(attempt::Kind::Cancel, hash(13));
    b.step(id(1), cancel).await;

    let all = bench.store.attempts(&[id(2), id(1)]).await.unwrap();
    let order: Vec<_> = all.iter().map(|stored| (stored.tx, stored.n)).collect();
    assert_eq!(order, [(id(1), 1), (id(1), 2), (id(1), 3), (id(2), 1)]);
    assert_eq!(all[0], first[0]);
    assert_eq!(all[2].attempt, attempt(attempt::Kind::Cancel, 13));
    assert_eq!((all[2].token, all[0].token), (token(2), token(1)));
}

/// A node that has taken the bytes has them, whatever is answered later; other outcomes are the
/// newest word.
pub async fn an_acceptance_is_never_unlearned(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = bench.seat("a", lane(1)).await;
    a.accept(txs([1])).await;
    a.step(id(1), sign(11)).await;
    let outcome = async || only(bench.store.attempts(&[id(1)]).await.unwrap()).outcome;
    for (said, stored) in [
        (Outcome::Refused, Outcome::Refused),
        (Outcome::Ambiguous, Outcome::Ambiguous),
        (Outcome::Accepted, Outcome::Accepted),
        (Outcome::Refused, Outcome::Accepted),
        (Outcome::Ambiguous, Outcome::Accepted),
    ] {
        let record = a.step(id(1), Input::Sent(said)).await;
        assert_eq!(outcome().await, Some(stored), "after {said:?}");
        assert_eq!(record.attempts, 1);
    }
    // The outcome of an older attempt does not touch the newest.
    let bump = Input::Sign(attempt::Kind::Replacement, hash(12));
    a.step(id(1), bump).await;
    let late = a.plan(id(1), accepted()).await.sent(1, Outcome::Refused);
    written(a.write(vec![late]).await);
    let all = bench.store.attempts(&[id(1)]).await.unwrap();
    assert_eq!(all[0].outcome, Some(Outcome::Accepted));
    assert_eq!(all[1].outcome, None);
}

/// The outcome of an attempt that was never stored is an answer to something else.
pub async fn an_outcome_needs_its_attempt(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = bench.seat("a", lane(1)).await;
    a.accept(txs([1])).await;
    a.step(id(1), sign(11)).await;
    let before = bench.dump().await;
    for n in [0, 2] {
        let plan = a.plan(id(1), accepted()).await.sent(n, Outcome::Accepted);
        assert_eq!(a.write(vec![plan]).await, LaneMoved::Stale(vec![id(1)]));
    }
    bench
        .dump()
        .await
        .assert_same(&before, "an outcome of nothing");
}

/// One hash is one transaction on its chain: bytes that are known already are not new bytes.
pub async fn a_known_hash_stops_the_whole_lane(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = bench.seat("a", lane(1)).await;
    let b = bench.seat_of(&a.holder, lane(2)).await;
    let elsewhere = bench.seat_of(&a.holder, lane_on(2, 1)).await;
    a.accept(txs([1, 2, 3])).await;
    b.accept(txs([4])).await;
    elsewhere.accept(txs([5])).await;
    a.step(id(1), sign(11)).await;
    let bump = Input::Sign(attempt::Kind::Replacement, hash(12));
    a.step(id(1), bump).await;
    let before = bench.dump().await;
    let signs = async |seat: &crate::bench::Seat, which: &[(u64, u64)]| {
        let mut moves = Vec::new();
        for (n, hash) in which {
            moves.push(seat.plan(id(*n), sign(*hash)).await);
        }
        seat.write(moves).await
    };
    // Another transaction's, an older one of its own, and another lane's on the same chain.
    let answer = signs(&a, &[(3, 13), (2, 11)]).await;
    assert_eq!(answer, LaneMoved::KnownHash(id(2)));
    let older = Input::Sign(attempt::Kind::Cancel, hash(11));
    let older = a.plan(id(1), older).await;
    assert_eq!(a.write(vec![older]).await, LaneMoved::KnownHash(id(1)));
    assert_eq!(signs(&b, &[(4, 11)]).await, LaneMoved::KnownHash(id(4)));
    // Two at once under one hash cannot both be it.
    let answer = signs(&a, &[(2, 13), (3, 13)]).await;
    assert!(matches!(answer, LaneMoved::KnownHash(_)), "{answer:?}");
    bench.dump().await.assert_same(&before, "a known hash");
    // Another chain has its own hashes.
    written(signs(&elsewhere, &[(5, 11)]).await);
}

/// A move that was decided on an older version, or for another lane, moves nothing of its lane.
pub async fn a_stale_move_changes_nothing_of_its_lane(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = bench.seat("a", lane(1)).await;
    let b = bench.seat_of(&a.holder, lane(2)).await;
    a.accept(txs([1, 2, 3])).await;
    b.accept(txs([4])).await;
    let old = a.plan(id(1), sign(11)).await;
    a.step(id(1), sign(12)).await;
    let right = a.plan(id(2), sign(21)).await;
    let foreign = b.plan(id(4), sign(41)).await;
    let missing = Move {
        tx: id(99),
        ..right.clone()
    };
    let early = Move {
        version: version(7),
        ..a.plan(id(3), sign(31)).await
    };
    let before = bench.dump().await;
    let answer = a.write(vec![right.clone(), old.clone()]).await;
    assert_eq!(answer, LaneMoved::Stale(vec![id(1)]));
    let answer = a
        .write(vec![old, right.clone(), foreign, missing, early])
        .await;
    let LaneMoved::Stale(mut stale) = answer else {
        panic!("{answer:?}");
    };
    stale.sort();
    assert_eq!(stale, [id(1), id(3), id(4), id(99)]);
    bench.dump().await.assert_same(&before, "a stale move");
    written(a.write(vec![right]).await);
}

/// Lanes of one call are moved whole or not at all, each on its own.
pub async fn lanes_of_one_move_answer_on_their_own(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = bench.seat("a", lane(1)).await;
    let b = bench.seat_of(&a.holder, lane(2)).await;
    let c = bench.seat_of(&a.holder, lane(3)).await;
    let lost = bench.seat("b", lane(4)).await;
    for (seat, n) in [(&a, 1), (&b, 2), (&c, 3), (&lost, 4)] {
        seat.accept(txs([n, n + 10])).await;
    }
    let batch = async |seat: &crate::bench::Seat, n: u64| LaneMoves {
        held: seat.held,
        moves: vec![
            seat.plan(id(n), sign(n)).await,
            seat.plan(id(n + 10), sign(n + 10)).await,
        ],
    };
    let mut stale = batch(&b, 2).await;
    stale.moves[1].version = version(9);
    let mut unknown = batch(&a, 1).await;
    unknown.held.lane = LaneId(1_000_000);
    for each in &mut unknown.moves {
        each.tx = id(each.version.get() + 500);
    }
    unknown.moves.truncate(1);
    let empty = LaneMoves {
        held: c.held,
        moves: Vec::new(),
    };
    let batches = [
        stale,
        batch(&lost, 4).await,
        empty,
        unknown,
        batch(&a, 1).await,
    ];
    let answers = bench.store.apply(&a.holder, &batches).await.unwrap();
    let expected = [
        LaneMoved::Stale(vec![id(12)]),
        LaneMoved::Fenced,
        LaneMoved::Done(vec![]),
        LaneMoved::UnknownLane,
        LaneMoved::Done(vec![]),
    ];
    assert_eq!(answers, expected);
    let attempts = [1, 2, 3, 4, 11, 12, 13, 14].map(id);
    let attempts = bench.store.attempts(&attempts).await.unwrap();
    let signed: Vec<_> = attempts.iter().map(|stored| stored.tx).collect();
    assert_eq!(signed, [id(1), id(11)]);
    bench.dump().await.assert_sound();
}

/// A receipt is kept while its block is, cleared with it, and set again by the next one.
pub async fn a_reorg_clears_the_receipt_and_goes_back_and_forth(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = bench.seat("a", lane(1)).await;
    a.accept(txs([1])).await;
    let first = a.mine(id(1), 11).await;
    assert!(first.receipt.as_deref().unwrap().contains("100"));
    assert_eq!(first.confirmed_at, None);
    for fork in 1..4 {
        let back = a.step(id(1), Input::Reorged).await;
        let state = Tracking {
            nonce: nonce(0),
            hash: hash(11),
            seen: Seen::Reorged,
        };
        assert_eq!(back.state, State::Tracking(state));
        assert_eq!(back.receipt, None);
        let at = included(11, 100 + fork, fork);
        let again = a.step(id(1), Input::Mined(at)).await;
        assert_eq!(again.state.inclusion(), Some(at));
        assert!(again.receipt.is_some());
    }
    // A move within the block keeps the receipt that was given before.
    let sent = a.step(id(1), accepted()).await;
    assert!(sent.receipt.is_some());
    let events = bench.store.history(id(1), lane_seq(0), 100).await.unwrap();
    let forks = events.iter().filter(|event| event.event.new_fork);
    assert_eq!(forks.count(), 3);
    bench.dump().await.assert_sound();
}

/// The blocks that events publish are read back as they were, and of each transaction from where its list begins.
pub async fn published_confirmations_are_read_from_where_a_list_begins(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = bench.seat("a", lane(1)).await;
    a.accept(txs([1, 2, 3])).await;
    let own = a.mine(id(1), 11).await.state.inclusion().unwrap().block;
    a.mine(id(2), 12).await;
    let blocks = |parent: B256, above: u64, hashes: &[u64]| {
        let hashes = hashes.iter().map(|n| hash(*n)).collect();
        Stretch::new(parent, own.number.plus(above).unwrap(), hashes).unwrap()
    };
    let steps = [
        Publish::Append(blocks(own.hash, 1, &[201, 202])),
        Publish::Append(blocks(hash(202), 3, &[203])),
        Publish::Replace(blocks(own.hash, 1, &[201, 302, 303])),
        Publish::Append(blocks(hash(303), 4, &[304])),
    ];
    let mut written = Vec::new();
    for (n, publish) in steps.into_iter().enumerate() {
        if n == 2 {
            let listing = bench.store.listing(&[id(1)]).await.unwrap();
            let kinds: Vec<_> = listing.iter().map(|each| each.event.kind).collect();
            use event::Kind::{Confirmations, Receipt};
            assert_eq!(kinds, [Receipt, Confirmations, Confirmations]);
        }
        let (Publish::Append(blocks) | Publish::Replace(blocks)) = &publish else {
            panic!("{publish:?}");
        };
        written.push(blocks.clone());
        a.step(id(1), Input::Covered(publish)).await;
    }
    let events = bench.store.history(id(1), lane_seq(0), 100).await.unwrap();
    let read = events
        .iter()
        .filter_map(|each| each.event.confirmations.clone());
    assert_eq!(read.collect::<Vec<_>>(), written);
    // A fork begins a list; what was never signed has none.
    let listing = bench.store.listing(&[id(3), id(2), id(1), id(9)]).await;
    let listing: Vec<_> = listing
        .unwrap()
        .into_iter()
        .map(|each| (each.tx, each.event.new_fork, each.event.confirmations))
        .collect();
    let (fork, more) = (written[2].clone(), written[3].clone());
    let expected = [
        (id(1), true, Some(fork)),
        (id(1), false, Some(more)),
        (id(2), false, None),
    ];
    assert_eq!(listing, expected);
    assert_eq!(bench.store.listing(&[]).await.unwrap(), []);
    bench.dump().await.assert_sound();
}

/// A nonce that was never signed for goes back when its transaction is rejected.
pub async fn a_rejected_transaction_gives_its_nonce_back(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = bench.seat("a", lane(1)).await;
    a.accept(txs([1, 2])).await;
    let failed = a.step(id(1), Input::Reject).await;
    let gave_back = Some(nonce(0));
    assert_eq!(failed.state, State::Failed(Failed::Rejected { gave_back }));
    let view = a.view().await;
    assert_eq!((view.free, view.in_flight), (nonces([0]), 1));
    assert_eq!(view.next_nonce, nonce(2));
    assert_eq!(a.accept(txs([3])).await, [0]);
    // Who gave it back does not hold it: the nonce's holder is the new one.
    let key = fencepost_app::ports::Key::Nonce(lane(1), nonce(0));
    let holder = bench.store.find(&key).await.unwrap().unwrap();
    assert_eq!(holder.tx, id(3));
    bench.dump().await.assert_sound();
}

/// The newest error stays until another comes, and is cut between characters.
pub async fn the_last_error_is_kept_and_cut(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = bench.seat("a", lane(1)).await;
    a.accept(txs([1])).await;
    let plan = a.plan(id(1), sign(11)).await.error("错".repeat(1_000));
    written(a.write(vec![plan]).await);
    let kept = Some("错".repeat(333));
    assert_eq!(a.read(id(1)).await.last_error, kept);
    let record = a.step(id(1), accepted()).await;
    assert_eq!(record.last_error, kept);
    let plan = a.plan(id(1), accepted()).await.error("nonce too low");
    written(a.write(vec![plan]).await);
    let record = a.read(id(1)).await;
    assert_eq!(record.last_error.as_deref(), Some("nonce too low"));
}

/// Each move writes one event, and a lane's events are numbered without holes, whoever wrote them.
pub async fn a_lanes_history_has_no_holes(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = bench.seat("a", lane(1)).await;
    a.accept(txs([1, 2, 3])).await;
    let plans = vec![a.plan(id(3), sign(31)).await, a.plan(id(1), sign(11)).await];
    written(a.write(plans).await);
    a.step(id(2), Input::Stick(Why::SignerError)).await;
    bench.lapse().await;
    let b = bench.seat("b", lane(1)).await;
    b.step(id(1), accepted()).await;
    b.step(id(1), mined(11, 100)).await;
    b.step(id(1), Input::Final).await;
    b.step(id(2), Input::Reject).await;

    let dump = bench.dump().await;
    dump.assert_sound();
    assert_eq!(b.view().await.lane_seq, lane_seq(10));
    let mut all: Vec<_> = dump.histories.into_iter().flatten().collect();
    all.sort_by_key(|event| event.seq);
    let whose: Vec<_> = all.iter().map(|event| event.tx).collect();
    let expected = [1, 2, 3, 3, 1, 2, 1, 1, 1, 2].map(id);
    assert_eq!(whose, expected);
    let page = bench.store.history(id(1), lane_seq(5), 2).await.unwrap();
    let page: Vec<_> = page.iter().map(|event| event.seq.get()).collect();
    assert_eq!(page, [7, 8]);
}
