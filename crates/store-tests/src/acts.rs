//! The audit: what was asked for and done, to transactions and to lanes, and where something is left
//! to do.

use fencepost_app::ports::{
    Act, Action, Acts, AskedRemedy, Audit, Closing, CursorMove, NewRemedy, PauseChange,
    PauseReason, Progress, RemedyId,
};
use fencepost_domain::attempt::SignedFees;
use fencepost_domain::ids::LaneId;
use fencepost_domain::transition::Input;

use crate::Harness;
use crate::bench::{Bench, Seat, only, written};
use crate::builders::{accepted, audit, id, lane, mined, nonce, sign, token, tx, txs};

fn wish(n: u64, round: u32) -> NewRemedy {
    NewRemedy {
        tx: id(n),
        round,
        action: Action::Replace,
        fees: Some(SignedFees {
            max_fee: u128::MAX,
            max_priority_fee: None,
        }),
        audit: audit(),
    }
}

async fn ask(bench: &Bench<'_>, n: u64, round: u32) -> RemedyId {
    let answer = bench.store.ask_remedy(&wish(n, round)).await.unwrap();
    let AskedRemedy::Asked(remedy) = answer else {
        panic!("not asked: {answer:?}");
    };
    remedy
}

async fn claim(seat: &Seat) -> usize {
    let held = [seat.held];
    let claimed = seat.store.claim_remedies(&seat.holder, &held, 10).await;
    claimed.unwrap().remedies.len()
}

/// Closes a remedy by a move that any signed transaction can make.
async fn close(seat: &Seat, n: u64, remedy: RemedyId, refused: Option<&str>) {
    let closing = Closing {
        remedy,
        refused: refused.map(str::to_owned),
    };
    let plan = seat.plan(id(n), accepted()).await.closing(closing);
    written(seat.write(vec![plan]).await);
}

async fn acts(bench: &Bench<'_>, of: Acts) -> Vec<Act> {
    bench.store.acts(of, None, 100).await.unwrap()
}

async fn remedies(bench: &Bench<'_>, n: u64) -> Vec<Act> {
    acts(bench, Acts::Tx(id(n))).await
}

/// A remedy is told from the moment it is asked for to its end, with everything that was said.
pub async fn the_audit_follows_a_remedy_to_its_end(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = bench.seat("a", lane(1)).await;
    a.accept(txs([1])).await;
    a.step(id(1), sign(11)).await;
    assert_eq!(remedies(&bench, 1).await, []);
    let id1 = ask(&bench, 1, 3).await;
    let asked = only(remedies(&bench, 1).await);
    let expected = Act {
        id: id1,
        lane: Some(lane(1)),
        tx: Some(id(1)),
        round: Some(3),
        action: "REPLACE".to_owned(),
        fees: wish(1, 3).fees,
        severity: None,
        after: None,
        audit: audit(),
        progress: Progress::Asked,
        claimed: None,
        result: None,
        token: None,
        before_after: None,
        asked_at: asked.asked_at,
        closed_at: None,
    };
    assert_eq!(asked, expected);
    claim(&a).await;
    let claimed = Act {
        progress: Progress::Claimed,
        claimed: Some((a.holder.node.clone(), token(1))),
        ..asked
    };
    assert_eq!(only(remedies(&bench, 1).await), claimed);
    bench.lapse().await;
    let b = bench.seat("b", lane(1)).await;
    claim(&b).await;
    close(&b, 1, id1, Some("at the cap")).await;
    let closed = only(remedies(&bench, 1).await);
    assert!(closed.closed_at.is_some());
    let expected = Act {
        progress: Progress::Refused,
        claimed: Some((b.holder.node.clone(), token(2))),
        result: Some("at the cap".to_owned()),
        closed_at: closed.closed_at,
        ..claimed
    };
    assert_eq!(closed, expected);
}

/// What came too late is told as refused, by the leader that found it so.
pub async fn the_audit_tells_that_a_remedy_came_too_late(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = bench.seat("a", lane(1)).await;
    a.accept(txs([1])).await;
    a.step(id(1), sign(11)).await;
    ask(&bench, 1, 1).await;
    a.step(id(1), mined(11, 100)).await;
    a.step(id(1), Input::Final).await;
    assert_eq!(claim(&a).await, 0);
    let act = only(remedies(&bench, 1).await);
    assert_eq!(act.progress, Progress::Refused);
    assert_eq!(act.result.as_deref(), Some("already final"));
    assert_eq!(act.claimed, Some((a.holder.node, token(1))));
    assert!(act.closed_at.is_some());
}

/// Acts are read newest first, page by page, each once.
pub async fn acts_are_read_from_the_newest_down(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = bench.seat("a", lane(1)).await;
    a.accept(txs([1, 2])).await;
    a.step(id(1), sign(11)).await;
    let mut asked = Vec::new();
    for round in 1..=5 {
        let remedy = ask(&bench, 1, round).await;
        claim(&a).await;
        close(&a, 1, remedy, None).await;
        asked.insert(0, remedy);
        // Another's are not among them.
        crate::lanes::pause(&a).await;
    }
    ask(&bench, 2, 1).await;
    let of = Acts::Tx(id(1));
    let mut read = Vec::new();
    for page in [2, 2, 1, 0] {
        let before = read.last().copied();
        let acts = bench.store.acts(of, before, 2).await.unwrap();
        assert_eq!(acts.len(), page);
        read.extend(acts.iter().map(|act| act.id));
    }
    assert_eq!(read, asked);
    let all: Vec<_> = remedies(&bench, 1).await.iter().map(|act| act.id).collect();
    assert_eq!(all, asked);
    let done = remedies(&bench, 1).await;
    let done = done.iter().map(|act| (act.progress, act.result.is_none()));
    assert!(done.eq([(Progress::Done, true); 5]));
    let of = Acts::Lane(a.held.lane);
    let pauses = bench.store.acts(of, None, 3).await.unwrap();
    let oldest = pauses.last().map(|act| act.id);
    let rest = bench.store.acts(of, oldest, 100).await.unwrap();
    assert_eq!((pauses.len(), rest.len()), (3, 2));
    assert!(pauses.iter().chain(&rest).is_sorted_by(|a, b| a.id > b.id));
}

/// What was done to a lane is told with what it changed, apart from what was done to its transactions.
pub async fn acts_on_a_lane_tell_what_they_changed(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = bench.seat("a", lane(1)).await;
    a.accept(txs([1])).await;
    ask(&bench, 1, 1).await;
    assert_eq!(acts(&bench, Acts::Lane(a.held.lane)).await, []);
    let store = &bench.store;
    for change in [
        PauseChange::Pause(PauseReason::CursorJump),
        PauseChange::Reconcile { at_least: nonce(4) },
        PauseChange::Resume,
        PauseChange::Pause(PauseReason::Operator),
    ] {
        store.pause(a.held.lane, change, &audit()).await.unwrap();
    }
    let raise = CursorMove::Raise {
        holder: a.holder.clone(),
        held: a.held,
        to: nonce(9),
    };
    let lower = CursorMove::Set { to: nonce(2) };
    for to in [raise.clone(), raise, lower.clone(), lower] {
        store.move_cursor(a.held.lane, &to, &audit()).await.unwrap();
    }
    let told = acts(&bench, Acts::Lane(a.held.lane)).await;
    let changes: Vec<_> = told
        .iter()
        .map(|act| (act.action.as_str(), act.before_after.as_deref().unwrap()))
        .collect();
    let expected = [
        ("LOWER_CURSOR", "next_nonce=9 -> next_nonce=2"),
        ("RAISE_CURSOR", "next_nonce=4 -> next_nonce=9"),
        (
            "PAUSE",
            "paused=none next_nonce=4 -> paused=OPERATOR next_nonce=4",
        ),
        (
            "RESUME",
            "paused=CURSOR_JUMP next_nonce=4 -> paused=none next_nonce=4",
        ),
        (
            "RECONCILE",
            "paused=CURSOR_JUMP next_nonce=1 -> paused=CURSOR_JUMP next_nonce=4",
        ),
        (
            "PAUSE",
            "paused=none next_nonce=1 -> paused=CURSOR_JUMP next_nonce=1",
        ),
    ];
    assert_eq!(changes, expected, "what changes nothing is not told");
    // A cursor that an operator sets moves the token on.
    let tokens: Vec<_> = told.iter().map(|act| act.token).collect();
    let (first, second) = (Some(token(1)), Some(token(2)));
    assert_eq!(tokens, [second, first, first, first, first, first]);
    for act in &told {
        assert_eq!(act.lane, Some(lane(1)));
        assert_eq!((act.tx, act.round, act.fees), (None, None, None));
        assert_eq!((act.progress, &act.claimed), (Progress::Done, &None));
        assert_eq!((&act.audit, &act.result), (&audit(), &None));
        assert!(act.closed_at.is_some_and(|at| at >= act.asked_at));
    }
    assert_eq!(remedies(&bench, 1).await.len(), 1);
}

/// The whole audit is read from its beginning on: remedies, acts on lanes and refused calls in one order, with the node that
/// was called.
pub async fn the_audit_is_read_in_order_with_what_was_refused(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = bench.seat("a", lane(1)).await;
    a.accept(txs([1])).await;
    let by = |name: &str| Audit {
        by: name.to_owned(),
        node: Some(a.holder.node.clone()),
        ..audit()
    };
    let store = &bench.store;
    let read = async |after: RemedyId, limit: usize| {
        let acts = store.acts(Acts::After(after), None, limit).await;
        acts.unwrap()
    };
    assert_eq!(read(RemedyId(0), 10).await, []);
    let before = store.acts(Acts::Lane(a.held.lane), None, 10).await.unwrap();
    let pause = PauseChange::Pause(PauseReason::Operator);
    store.pause(a.held.lane, pause, &by("ops")).await.unwrap();
    let said = by("reader");
    store.record_refusal(&said, "403 forbidden").await.unwrap();
    ask(&bench, 1, 1).await;
    store.record_refusal(&said, "403 forbidden").await.unwrap();
    let all = read(RemedyId(0), 10).await;
    assert!(all.is_sorted_by(|a, b| a.id < b.id));
    let actions: Vec<&str> = all.iter().map(|act| &*act.action).collect();
    assert_eq!(actions, ["PAUSE", "CALL", "REPLACE", "CALL"]);
    assert_eq!(all[0].audit, by("ops"));
    let refused = Act {
        id: all[1].id,
        lane: None,
        tx: None,
        round: None,
        action: "CALL".to_owned(),
        fees: None,
        severity: None,
        after: None,
        audit: said,
        progress: Progress::Refused,
        claimed: None,
        result: Some("403 forbidden".to_owned()),
        token: None,
        before_after: None,
        asked_at: all[1].asked_at,
        closed_at: all[1].closed_at,
    };
    assert_eq!(all[1], refused);
    assert_eq!(all[1].closed_at, Some(all[1].asked_at));
    assert_eq!(read(RemedyId(0), 2).await, all[..2]);
    assert_eq!(read(all[1].id, 10).await, all[2..]);
    assert_eq!(read(all[3].id, 10).await, []);
    // A refused call is no act on a lane.
    let lane_acts = store.acts(Acts::Lane(a.held.lane), None, 10).await.unwrap();
    assert_eq!(lane_acts.len(), before.len() + 1);
}

/// Nobody has ever done anything to what is not there.
pub async fn the_unknown_have_no_acts(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    assert_eq!(remedies(&bench, 99).await, []);
    assert_eq!(acts(&bench, Acts::Lane(LaneId(1_000_000))).await, []);
    let first = Some(RemedyId(i64::MIN));
    let none = bench.store.acts(Acts::Tx(id(1)), first, 1).await;
    assert_eq!(none.unwrap(), []);
}

/// Lanes in which a remedy is not over are listed by id, page by page, each once, led or not.
pub async fn lanes_with_remedies_to_see_to_are_listed_by_id(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = bench.node("a").await;
    let mut seats = Vec::new();
    for n in 1..=5_u8 {
        let seat = bench.seat_of(&a, lane(n)).await;
        let first = u64::from(n) * 10;
        seat.accept(vec![tx(first), tx(first + 1)]).await;
        seat.step(id(first), sign(first)).await;
        seats.push(seat);
    }
    seats.sort_by_key(|seat| seat.held.lane);
    let lanes = async |after, limit| bench.store.remedy_lanes(after, limit).await.unwrap();
    let ids: Vec<LaneId> = seats.iter().map(|seat| seat.held.lane).collect();
    assert_eq!(lanes(None, 10).await, []);
    crate::lanes::pause(&seats[2]).await;
    assert_eq!(lanes(None, 10).await, [], "a pause is over at once");
    for n in [50, 20, 21, 10] {
        ask(&bench, n, 1).await;
    }
    let number = |n: u64| ids[usize::try_from(n / 10 - 1).unwrap()];
    let open = [number(10), number(20), number(50)];
    assert_eq!(lanes(None, 10).await, open);
    assert_eq!(lanes(None, 2).await, open[..2]);
    assert_eq!(lanes(Some(open[0]), 2).await, open[1..]);
    assert_eq!(lanes(Some(open[2]), 2).await, []);
    // Claimed is not over; closed is.
    for seat in &seats {
        claim(seat).await;
    }
    assert_eq!(lanes(None, 10).await, open);
    let remedy = remedies(&bench, 10).await[0].id;
    close(&seats[0], 10, remedy, None).await;
    let remedy = remedies(&bench, 20).await[0].id;
    close(&seats[1], 20, remedy, None).await;
    assert_eq!(
        lanes(None, 10).await,
        open[1..],
        "one is left in the second"
    );
}
