//! `notAfter`: no nonce is given after it, by the store's clock, whatever the caller believes the time to be.

use std::time::Duration;

use fencepost_app::ports::{Enqueued, LaneRefusal, NewTx};
use fencepost_domain::state::Wait;
use fencepost_domain::transition::Input;
use jiff::Timestamp;

use crate::Harness;
use crate::bench::{Bench, Seat, done, known, refused};
use crate::builders::{hash, id, lane, nonce, request, tx};

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_hours(1);
const PLENTY: usize = 1_000;

fn until(new: NewTx, at: Timestamp) -> NewTx {
    let not_after = Some(at);
    NewTx { not_after, ..new }
}

async fn now(seat: &Seat) -> Timestamp {
    seat.store.now().await.unwrap()
}

/// A lane with one late transaction gets no nonce in that call; other lanes are written, and what is known is answered.
pub async fn a_late_transaction_is_given_no_nonce(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = bench.seat("a", lane(1)).await;
    let b = bench.seat_of(&a.holder, lane(2)).await;
    let in_time = now(&a).await + HOUR;
    let named = until(request(1, "pay", 7), in_time);
    a.accept(vec![named.clone()]).await;
    let before = a.view().await;
    let past = now(&a).await - SECOND;
    let batches = [
        a.batch(vec![tx(2), until(tx(3), past)]).await,
        b.batch(vec![tx(4), until(tx(5), in_time)]).await,
    ];
    let answers = bench.store.create(&a.holder, &batches).await.unwrap();
    let [late, written] = <[_; 2]>::try_from(answers).unwrap();
    let LaneRefusal::Late(told) = refused(late) else {
        panic!("it was late");
    };
    assert!(past < told && told <= now(&a).await, "{told}");
    assert_eq!(done(written).0.len(), 2);
    let view = a.view().await;
    assert_eq!(view.next_nonce, before.next_nonce);
    assert_eq!(view.lane_seq, before.lane_seq);
    let again = until(request(6, "pay", 7), past);
    assert_eq!(known(&done(a.create(vec![again]).await).0[0]).tx, id(1));
    bench.dump().await.assert_sound();
}

/// The queue takes a late transaction, and nothing promotes it; once it has ended, what is behind it goes on.
pub async fn a_late_transaction_is_not_promoted(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = bench.seat("a", lane(1)).await;
    let (past, in_time) = (now(&a).await - SECOND, now(&a).await + HOUR);
    let waiting = [until(tx(1), past), until(tx(2), in_time)].map(|new| (a.held.lane, new));
    let stored = bench.store.enqueue(&waiting, Wait::Leader, PLENTY).await;
    let is_queued = |answer: &Enqueued| matches!(answer, Enqueued::Queued { .. });
    assert!(stored.unwrap().iter().all(is_queued));
    let before = bench.dump().await;
    for front in [vec![id(1)], vec![id(1), id(2)]] {
        assert_eq!(refused(a.promote(front).await), LaneRefusal::Stale);
    }
    bench.dump().await.assert_same(&before, "a late promotion");
    a.step(id(1), Input::Expire).await;
    done(a.promote(vec![id(2)]).await);
    assert_eq!(a.read(id(2)).await.state.nonce(), Some(nonce(0)));
}

/// A row keeps the seal that it was stored with, with a nonce, in the queue, and beyond it.
pub async fn a_row_keeps_its_seal(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = bench.seat("a", lane(1)).await;
    let sealed = |n: u64| NewTx {
        seal: Some(hash(n)),
        ..tx(n)
    };
    a.accept(vec![sealed(1), tx(2)]).await;
    let queued = [sealed(3), tx(4)].map(|new| (a.held.lane, new));
    let stored = bench.store.enqueue(&queued, Wait::Leader, PLENTY).await;
    stored.unwrap();
    for promoted in [false, true] {
        if promoted {
            done(a.promote(vec![id(3), id(4)]).await);
        }
        for (n, seal) in [(1, Some(hash(1))), (2, None), (3, Some(hash(3))), (4, None)] {
            let proof = a.read(id(n)).await.proof;
            let hash = tx(n).payload().map(|(_, hash)| *hash);
            assert_eq!((proof.hash, proof.seal), (hash, seal), "{n}");
        }
    }
}
