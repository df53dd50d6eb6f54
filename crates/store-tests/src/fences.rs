//! The fence: after a change of hands, every kind of write of the old leader changes nothing.

use std::time::Duration;

use fencepost_app::ports::{
    Action, Acts, AskedRemedy, CursorMove, CursorMoved, Decided, Decision, LaneMoved, LaneMoves,
    LaneRefusal, NewRemedy, Renewed,
};
use fencepost_domain::state::{Wait, Why};
use fencepost_domain::transition::Input;

use crate::Harness;
use crate::bench::{Bench, Seat, only, refused};
use crate::builders::{accepted, audit, id, lane, loan, nonce, sign, token, tx, txs};

/// A lane with something to do for every kind of write.
async fn busy_lane(bench: &Bench<'_>) -> Seat {
    let a = bench.seat("a", lane(1)).await;
    a.accept(vec![tx(1), tx(2), loan(3), tx(4)]).await;
    a.step(id(1), sign(11)).await;
    a.step(id(4), Input::Reject).await;
    let waiting = [(a.held.lane, tx(5))];
    let queued = bench.store.enqueue(&waiting, Wait::Leader, 10).await;
    assert_eq!(queued.unwrap().len(), 1);
    // A question that was claimed, and a remedy that was not.
    ask(bench, 2, Action::Decide).await;
    let claimed = bench.store.claim_remedies(&a.holder, &[a.held], 10).await;
    assert_eq!(claimed.unwrap().remedies.len(), 1);
    ask(bench, 1, Action::Replace).await;
    a
}

async fn ask(bench: &Bench<'_>, n: u64, action: Action) {
    let remedy = NewRemedy {
        tx: id(n),
        round: 1,
        action,
        fees: None,
        audit: audit(),
    };
    let asked = bench.store.ask_remedy(&remedy).await.unwrap();
    assert!(matches!(asked, AskedRemedy::Asked(_)));
}

/// Tries every fenced write from a seat that is no longer led, and sees that nothing changes.
async fn assert_fenced(bench: &Bench<'_>, seat: &Seat) {
    let store = &bench.store;
    let before = bench.dump().await;
    let unchanged = async |what| bench.dump().await.assert_same(&before, what);

    assert_eq!(refused(seat.create(txs([9])).await), LaneRefusal::Fenced);
    unchanged("create").await;
    let answer = seat.promote(vec![id(5)]).await;
    assert_eq!(refused(answer), LaneRefusal::Fenced);
    unchanged("promote").await;

    for (tx, input) in [
        (id(1), accepted()),
        (id(2), sign(22)),
        (id(3), Input::Recycle),
        (id(1), Input::Stick(Why::NoReceipt)),
        (id(2), Input::Reject),
        (id(5), Input::Expire),
    ] {
        let plan = seat.plan(tx, input.clone()).await;
        let answer = seat.write(vec![plan]).await;
        assert_eq!(answer, LaneMoved::Fenced, "{input:?}");
        unchanged("a move").await;
    }

    let claimed = seat.claim_due(Duration::from_secs(60), 10).await;
    assert_eq!(
        (claimed.records, claimed.fenced),
        (vec![], vec![seat.held.lane])
    );
    unchanged("claiming due work").await;
    let claimed = store.claim_remedies(&seat.holder, &[seat.held], 10).await;
    let claimed = claimed.unwrap();
    assert_eq!(
        (claimed.remedies, claimed.fenced),
        (vec![], vec![seat.held.lane])
    );
    unchanged("claiming remedies").await;
    let question = only(store.acts(Acts::Tx(id(2)), None, 10).await.unwrap());
    for action in [None, Some(Action::Cancel)] {
        let decided = Decided {
            remedy: question.id,
            action,
            fees: None,
            raw: None,
            severity: None,
            after: None,
            audit: audit(),
        };
        let answer = store.decide_remedy(&seat.holder, seat.held, &decided).await;
        assert_eq!(answer.unwrap(), Decision::Fenced);
    }
    unchanged("deciding").await;

    let raise = CursorMove::Raise {
        holder: seat.holder.clone(),
        held: seat.held,
        to: nonce(100),
    };
    let moved = store.move_cursor(seat.held.lane, &raise, &audit()).await;
    assert_eq!(moved.unwrap(), CursorMoved::Fenced);
    unchanged("raising the cursor").await;
    let renewed = store.renew(&seat.holder, &[seat.held]).await.unwrap();
    assert_eq!(renewed, [Renewed::Fenced]);
    unchanged("renewing").await;
}

/// A leader that was taken over from writes nothing, and all of its work is left for the next.
pub async fn after_a_takeover_every_write_of_the_old_leader_is_fenced(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let old = busy_lane(&bench).await;
    bench.lapse().await;
    let new = bench.seat("b", lane(1)).await;
    assert_fenced(&bench, &old).await;
    let released = bench.store.release(&old.holder, &[old.held]).await;
    assert_eq!(released.unwrap(), []);
    assert!(new.view().await.leader.is_some());

    // Nothing was claimed, put off or used up by the attempts.
    let due = new.claim_due(Duration::from_secs(60), 10).await.records;
    let due: Vec<_> = due.iter().map(|record| record.tx).collect();
    assert_eq!(due, [id(1), id(2)]);
    let remedies = bench
        .store
        .claim_remedies(&new.holder, &[new.held], 10)
        .await;
    assert_eq!(remedies.unwrap().remedies.len(), 2);
    let promoted = new.promote(vec![id(5)]).await;
    assert_eq!(
        crate::bench::new_nonce(&only(crate::bench::done(promoted).0)),
        3
    );
    bench.dump().await.assert_sound();
}

/// A lease that has run out fences its leader even while nobody else has taken over.
pub async fn after_expiry_every_write_is_fenced(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = busy_lane(&bench).await;
    bench.advance(harness.terms().duration).await;
    assert_fenced(&bench, &a).await;
}

/// A leader that gave its lane up writes nothing any more.
pub async fn after_a_release_every_write_is_fenced(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = busy_lane(&bench).await;
    let released = bench.store.release(&a.holder, &[a.held]).await.unwrap();
    assert_eq!(released, [a.held.lane]);
    assert_fenced(&bench, &a).await;
}

/// A token that was never given, though the node leads, is no better than an old one.
pub async fn a_token_from_the_future_is_fenced(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let mut a = busy_lane(&bench).await;
    a.held.token = token(2);
    assert_fenced(&bench, &a).await;
}

/// The right token in another node's hands opens nothing.
pub async fn another_nodes_token_is_fenced(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = busy_lane(&bench).await;
    let b = bench.node("b").await;
    let thief = Seat { holder: b, ..a };
    assert_fenced(&bench, &thief).await;
}

/// In one call over many lanes, those that are lost change nothing and the others are written.
pub async fn one_lost_lane_does_not_stop_the_others(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = bench.seat("a", lane(1)).await;
    let kept = bench.seat_of(&a.holder, lane(2)).await;
    a.accept(txs([1])).await;
    kept.accept(txs([2])).await;
    let mut lost = a.held;
    lost.token = token(7);
    let moves = |held, plan| LaneMoves {
        held,
        moves: vec![plan],
    };
    let ended = [
        moves(lost, a.plan(id(1), Input::Reject).await),
        moves(kept.held, kept.plan(id(2), Input::Reject).await),
    ];
    let claimed = bench
        .store
        .claim_due(&a.holder, &[lost, kept.held], 0, 10)
        .await;
    let claimed = claimed.unwrap();
    assert_eq!(claimed.fenced, [a.held.lane]);
    assert_eq!(only(claimed.records).tx, id(2));
    // The claim has moved the row on.
    let answers = bench.store.complete(&a.holder, &ended).await.unwrap();
    assert_eq!(answers, [LaneMoved::Fenced, LaneMoved::Stale(vec![id(2)])]);
    let ended = [
        ended[0].clone(),
        moves(kept.held, kept.plan(id(2), Input::Reject).await),
    ];
    let answers = bench.store.complete(&a.holder, &ended).await.unwrap();
    assert_eq!(answers[0], LaneMoved::Fenced);
    assert_eq!(
        answers[1],
        LaneMoved::Done(vec![crate::builders::feed_seq(1)])
    );
    bench.dump().await.assert_sound();
}
