//! Nonces that another service has given: on a paused lane, all or nothing.

use std::time::Duration;

use fencepost_app::ports::{
    Acts, Import, Imported, Key, Loan, OpenBody, OpenTx, PauseChange, PauseReason, Settle,
    SettleAct, Settled, StoreError, Unimportable,
};
use fencepost_domain::attempt;
use fencepost_domain::ids::LaneId;
use fencepost_domain::transition::Input;

use crate::Harness;
use crate::bench::{Bench, Seat};
use crate::builders::{
    GRACE, TTL, attempt, audit, hash, id, lane, lent_mined, loan, lock, mined, nonce, nonces,
    payload, request, request_id, sign, txs,
};

fn terms(n: u64) -> Loan {
    Loan {
        lock: lock(n),
        ttl: TTL,
        grace: GRACE,
    }
}

fn open(n: u64, at: u64, body: OpenBody) -> OpenTx {
    OpenTx {
        tx: id(n),
        seal: Some(hash(n + 500)),
        nonce: nonce(at),
        request_id: None,
        body,
    }
}

fn reserved(n: u64, at: u64) -> OpenTx {
    open(n, at, OpenBody::Reserved(terms(n)))
}

fn submitted(n: u64, at: u64) -> OpenTx {
    open(n, at, OpenBody::Submitted(terms(n), hash(n)))
}

fn tracking(n: u64, at: u64) -> OpenTx {
    let bytes = attempt(attempt::Kind::Original, n);
    open(n, at, OpenBody::Tracking(payload(n), bytes))
}

fn named(open: OpenTx, name: &str) -> OpenTx {
    OpenTx {
        request_id: Some(request_id(name)),
        ..open
    }
}

fn import(next: u64, open: Vec<OpenTx>) -> Import {
    Import {
        next_nonce: nonce(next),
        open,
        dry_run: false,
    }
}

async fn take(seat: &Seat, import: &Import) -> Imported {
    let lane = seat.held.lane;
    seat.store.import(lane, import, &audit()).await.unwrap()
}

async fn paused(bench: &Bench<'_>) -> Seat {
    let a = bench.seat("a", lane(1)).await;
    crate::lanes::pause(&a).await;
    a
}

const fn done(from: fencepost_domain::ids::Nonce) -> Imported {
    Imported::Done { from }
}

/// A nonce that was lent out elsewhere is lent out here, a hash is followed, and bytes are a transaction of
/// ours with one attempt; the history says where they came from.
pub async fn what_is_taken_over_is_followed_and_lent_like_our_own(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = paused(&bench).await;
    let items = vec![
        named(reserved(1, 5), "order-1"),
        submitted(2, 6),
        named(tracking(3, 8), "order-3"),
    ];
    assert_eq!(take(&a, &import(9, items)).await, done(nonce(0)));
    let states = async || {
        let open = a.store.unfinished(a.held.lane, None, 10).await.unwrap();
        let told = open.iter().map(|row| {
            let sub = row.state.sub().unwrap_or("-");
            let (name, nonce) = (row.state.name().word(), row.state.nonce().unwrap());
            format!("{nonce} {name}/{sub} {}", row.attempts)
        });
        told.collect::<Vec<_>>()
    };
    let expected = [
        "5 RESERVED/- 0",
        "6 SUBMITTED/- 1",
        "8 TRACKING/AMBIGUOUS 1",
    ];
    assert_eq!(states().await, expected);
    let view = a.view().await;
    assert_eq!((view.next_nonce, view.lane_seq.get()), (nonce(9), 3));
    for (n, word) in [(1, "RESERVED"), (2, "SUBMITTED"), (3, "TRACKING")] {
        assert_eq!(a.read(id(n)).await.proof.seal, Some(hash(n + 500)));
        let history = a
            .store
            .history(id(n), Default::default(), 10)
            .await
            .unwrap();
        let [told] = history.as_slice() else {
            panic!("{history:?}");
        };
        assert_eq!(told.event.note.as_deref(), Some("imported"));
        assert_eq!((told.to.0.as_str(), told.from.clone()), (word, None));
    }
    let row = a.read(id(3)).await;
    assert_eq!((row.payload, row.submit_attempts), (Some(payload(3)), 1));
    let found = a.store.find(&Key::Hash(lane(1).chain, hash(3))).await;
    assert_eq!(found.unwrap().unwrap().tx, id(3));
    let [act] = &bench
        .store
        .acts(Acts::Lane(a.held.lane), None, 1)
        .await
        .unwrap()[..]
    else {
        panic!("one act");
    };
    assert_eq!(act.action, "IMPORT");
    let change = "next_nonce=0 -> next_nonce=9 open=3";
    assert_eq!(act.before_after.as_deref(), Some(change));

    resumed_and_ended(&bench, &a).await;
}

/// They end like any other.
async fn resumed_and_ended(bench: &Bench<'_>, a: &Seat) {
    let resume = PauseChange::Resume;
    a.store.pause(a.held.lane, resume, &audit()).await.unwrap();
    let a = bench.seat_of(&a.holder, lane(1)).await;
    let call = Settle {
        reservation: id(1),
        lock: lock(1),
        act: SettleAct::Submitted {
            hash: hash(1),
            due_in: Duration::ZERO,
        },
    };
    let settled = a.store.settle(&call).await.unwrap();
    assert!(matches!(settled, Settled::Done(_)), "{settled:?}");
    for n in [1, 2] {
        a.step(id(n), lent_mined(n, 10)).await;
        a.step(id(n), Input::Final).await;
    }
    a.step(id(3), mined(3, 10)).await;
    a.step(id(3), Input::Final).await;
    assert_eq!(a.accept(txs([10])).await, [9]);
    bench.dump().await.assert_sound();
}

/// Each item that clashes is named by its place, and nothing is written.
pub async fn an_import_is_written_whole_or_not_at_all(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = bench.seat("a", lane(1)).await;
    a.accept(vec![request(1, "order-1", 1)]).await;
    a.step(id(1), sign(1)).await;
    crate::lanes::pause(&a).await;
    let before = bench.dump().await;
    let items = vec![
        reserved(11, 0),
        reserved(12, 3),
        named(reserved(13, 4), "order-1"),
        open(14, 5, OpenBody::Submitted(terms(14), hash(1))),
    ];
    let refused = Imported::Refused(vec![
        (0, Unimportable::NonceHeld(id(1))),
        (2, Unimportable::RequestKnown(id(1))),
        (3, Unimportable::HashKnown(id(1))),
    ]);
    assert_eq!(take(&a, &import(9, items)).await, refused);
    bench.dump().await.assert_same(&before, "a refused import");
    assert_eq!(a.view().await.leader.unwrap().token, a.held.token);
}

/// A dry run answers like the import itself.
pub async fn a_dry_run_changes_nothing(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = paused(&bench).await;
    let before = bench.dump().await;
    let dry = Import {
        dry_run: true,
        ..import(4, vec![tracking(1, 3)])
    };
    assert_eq!(take(&a, &dry).await, done(nonce(0)));
    bench.dump().await.assert_same(&before, "a dry run");
    assert_eq!(a.view().await.leader.unwrap().token, a.held.token);
}

/// A lane that gives nonces takes over nothing, and neither does one that nobody knows.
pub async fn only_a_paused_lane_takes_over_anything(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = bench.seat("a", lane(1)).await;
    let one = import(4, vec![reserved(1, 3)]);
    assert_eq!(take(&a, &one).await, Imported::NotPaused);
    let unknown = bench.store.import(LaneId(9_999), &one, &audit()).await;
    assert_eq!(unknown.unwrap(), Imported::UnknownLane);
    let jump = PauseChange::Pause(PauseReason::CursorJump);
    a.store.pause(a.held.lane, jump, &audit()).await.unwrap();
    assert_eq!(take(&a, &one).await, done(nonce(0)));
}

/// Whoever holds a nonce keeps it: a cursor below would give it again.
pub async fn a_cursor_is_never_imported_below_what_is_held(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = bench.seat("a", lane(1)).await;
    a.accept(txs(0..3)).await;
    a.confirm(id(2), 21).await;
    crate::lanes::pause(&a).await;
    for next in [0, 1, 2] {
        let held = Imported::Holds(nonce(next));
        assert_eq!(take(&a, &import(next, vec![])).await, held);
    }
    assert_eq!(
        take(&a, &import(7, vec![reserved(9, 5)])).await,
        done(nonce(3))
    );
    assert_eq!(take(&a, &import(6, vec![])).await, done(nonce(7)));
    let gaps = a.store.gaps(a.held.lane, nonce(0), 10).await.unwrap();
    assert_eq!(gaps, nonces([3, 4]));
    bench.dump().await.assert_sound();
}

/// A nonce that was given back here and used there must not be given again.
pub async fn nonces_that_were_given_back_and_are_open_elsewhere_are_free_no_longer(
    harness: &dyn Harness,
) {
    let bench = Bench::new(harness).await;
    let a = bench.seat("a", lane(1)).await;
    a.accept((0..4).map(loan).collect()).await;
    for n in [0, 2, 3] {
        a.step(id(n), Input::Recycle).await;
    }
    crate::lanes::pause(&a).await;
    assert_eq!(a.view().await.free, nonces([0, 2, 3]));
    let took = take(&a, &import(3, vec![submitted(9, 2)])).await;
    assert_eq!(took, done(nonce(4)));
    assert_eq!(a.view().await.free, nonces([0]), "3 is the cursor's again");
    bench.dump().await.assert_sound();
}

/// The leader remembers the lane as it was; under a new token it reads it anew.
pub async fn an_import_ends_what_its_leader_remembers(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = paused(&bench).await;
    assert_eq!(
        take(&a, &import(4, vec![tracking(1, 3)])).await,
        done(nonce(0))
    );
    assert_eq!(a.view().await.leader, None);
    let renewed = a.store.renew(&a.holder, &[a.held]).await.unwrap();
    assert_eq!(renewed, [fencepost_app::ports::Renewed::Fenced]);
    let orphans = a.store.orphans(None, 10).await.unwrap();
    assert_eq!(orphans.len(), 1, "whoever looks for work finds it");
    let again = bench.seat_of(&a.holder, lane(1)).await;
    assert!(again.held.token > a.held.token);
}

/// What cannot be right in itself is refused before the store is asked.
pub async fn an_import_names_nothing_twice_and_is_bounded(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = paused(&bench).await;
    let many = (0..1_001).map(|n| reserved(n, n)).collect();
    for (what, wrong) in [
        ("nonce", import(9, vec![reserved(1, 3), reserved(2, 3)])),
        ("id", import(9, vec![reserved(1, 3), reserved(1, 4)])),
        ("cursor", import(3, vec![reserved(1, 3)])),
        ("bound", import(2_000, many)),
        (
            "hash",
            import(
                9,
                vec![
                    submitted(1, 3),
                    open(2, 4, OpenBody::Submitted(terms(2), hash(1))),
                ],
            ),
        ),
        (
            "name",
            import(
                9,
                vec![named(reserved(1, 3), "a"), named(reserved(2, 4), "a")],
            ),
        ),
    ] {
        let answer = a.store.import(a.held.lane, &wrong, &audit()).await;
        assert!(matches!(answer, Err(StoreError::Invalid(_))), "{what}");
    }
    let most = (0..1_000).map(|n| tracking(n, n)).collect();
    assert_eq!(take(&a, &import(1_000, most)).await, done(nonce(0)));
    bench.dump().await.assert_sound();
}
