//! Decisions: a round that was asked of the policy becomes what the policy says, once, by the leader
//! that claimed it.

use fencepost_app::ports::{
    Act, Action, Acts, AskedRemedy, Audit, Closing, Decided, Decision, LaneMoved, NewRemedy,
    Progress, RemedyId, StoreError,
};
use fencepost_domain::Bytes;
use fencepost_domain::attempt::{self, SignedFees};
use fencepost_domain::decision::{After, Severity};
use fencepost_domain::transition::Input;

use crate::Harness;
use crate::bench::{Bench, Seat, only, written};
use crate::builders::{audit, hash, id, lane, sign, token, txs};

const FEES: SignedFees = SignedFees {
    max_fee: u128::MAX,
    max_priority_fee: Some(9),
};

/// Whose words a decision is, other than the question's.
fn said() -> Audit {
    Audit {
        by: "policy".to_owned(),
        reason: "理由 — the fee is too low".to_owned(),
        details: None,
        node: None,
    }
}

fn decision(remedy: RemedyId, action: Option<Action>) -> Decided {
    Decided {
        remedy,
        action,
        fees: action.map(|_| FEES),
        raw: None,
        severity: None,
        after: None,
        audit: said(),
    }
}

async fn decide(seat: &Seat, remedy: RemedyId, action: Option<Action>) -> Decision {
    let decided = decision(remedy, action);
    let answer = seat
        .store
        .decide_remedy(&seat.holder, seat.held, &decided)
        .await;
    answer.unwrap()
}

async fn ask(seat: &Seat, n: u64, round: u32, action: Action) -> RemedyId {
    let remedy = NewRemedy {
        tx: id(n),
        round,
        action,
        fees: None,
        audit: audit(),
    };
    let answer = seat.store.ask_remedy(&remedy).await.unwrap();
    let AskedRemedy::Asked(remedy) = answer else {
        panic!("not asked: {answer:?}");
    };
    remedy
}

async fn claim(seat: &Seat) -> Vec<(RemedyId, Action)> {
    let held = [seat.held];
    let claimed = seat.store.claim_remedies(&seat.holder, &held, 10).await;
    let remedies = claimed.unwrap().remedies;
    remedies.iter().map(|each| (each.id, each.action)).collect()
}

async fn newest(seat: &Seat, n: u64) -> Act {
    only(seat.store.acts(Acts::Tx(id(n)), None, 1).await.unwrap())
}

/// A question about the first of two signed transactions, claimed by its leader.
async fn questioned(bench: &Bench<'_>) -> (Seat, RemedyId) {
    let a = bench.seat("a", lane(1)).await;
    a.accept(txs([1, 2])).await;
    a.step(id(1), sign(11)).await;
    a.step(id(2), sign(21)).await;
    let question = ask(&a, 1, 1, Action::Decide).await;
    assert_eq!(claim(&a).await, [(question, Action::Decide)]);
    (a, question)
}

/// What a policy says takes the place of the question, stays claimed, and is carried out by a move.
pub async fn a_decision_takes_the_place_of_the_question(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let (a, question) = questioned(&bench).await;
    let before = newest(&a, 1).await;
    let record = a.read(id(1)).await;
    let answer = decide(&a, question, Some(Action::Replace)).await;
    assert_eq!(answer, Decision::Written);
    let expected = Act {
        action: "REPLACE".to_owned(),
        fees: Some(FEES),
        audit: said(),
        ..before
    };
    assert_eq!(newest(&a, 1).await, expected);
    assert_eq!(expected.progress, Progress::Claimed);
    let leader = (a.holder.node.clone(), a.held.token);
    assert_eq!(expected.claimed, Some(leader));
    assert_eq!(a.read(id(1)).await, record, "the transaction has not moved");
    assert_eq!(claim(&a).await, [], "it is claimed already");

    let bump = Input::Sign(attempt::Kind::Replacement, hash(12));
    let closing = Closing {
        remedy: question,
        refused: None,
    };
    let plan = a.plan(id(1), bump).await.closing(closing);
    written(a.write(vec![plan]).await);
    let done = newest(&a, 1).await;
    assert_eq!((done.progress, done.result), (Progress::Done, None));
    assert!(done.closed_at.is_some());
    ask(&a, 1, 2, Action::Decide).await;
    bench.dump().await.assert_sound();
}

/// Every action and every way to give fees can be decided, and is handed out to the next leader.
pub async fn whatever_was_decided_is_claimed_by_the_next_leader(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = bench.seat("a", lane(1)).await;
    a.accept(txs(0..4)).await;
    let legacy = SignedFees {
        max_fee: 1,
        max_priority_fee: None,
    };
    let actions = [
        (Action::Resubmit, None),
        (Action::Replace, Some(legacy)),
        (Action::Cancel, Some(FEES)),
        (Action::Placeholder, None),
    ];
    let mut decided = Vec::new();
    let raw = Some(Bytes::from_static(&[0xc0]));
    for (n, (action, fees)) in (0..).zip(actions) {
        let signs = !matches!(action, Action::Resubmit);
        let question = ask(&a, n, 1, Action::Decide).await;
        claim(&a).await;
        let decision = Decided {
            fees,
            raw: raw.clone().filter(|_| signs),
            severity: Severity::ALL.get(usize::try_from(n).unwrap()).copied(),
            after: signs.then_some(After::Stuck),
            ..decision(question, Some(action))
        };
        let answer = a.store.decide_remedy(&a.holder, a.held, &decision).await;
        assert_eq!(answer.unwrap(), Decision::Written, "{action:?}");
        decided.push(decision);
    }
    bench.lapse().await;
    let b = bench.seat("b", lane(1)).await;
    let claimed = b.store.claim_remedies(&b.holder, &[b.held], 10).await;
    let claimed = claimed.unwrap().remedies;
    assert_eq!(claimed.len(), decided.len());
    for (claimed, decided) in claimed.into_iter().zip(decided) {
        let again = Decided {
            remedy: claimed.id,
            action: Some(claimed.action),
            fees: claimed.fees,
            raw: claimed.raw,
            severity: claimed.severity,
            after: claimed.after,
            audit: claimed.audit,
        };
        assert_eq!(again, decided);
        assert!(!claimed.is_first_claim, "somebody was asked");
    }
    let (first, second) = (newest(&b, 0).await, newest(&b, 1).await);
    assert_eq!((first.severity, first.after), (Some(Severity::Info), None));
    let told = (second.severity, second.after);
    assert_eq!(told, (Some(Severity::Warning), Some(After::Stuck)));
}

/// A question that nobody has claimed was asked of nobody: its first leader may ask, and no later one.
pub async fn a_first_claim_is_told_from_a_later_one(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = bench.seat("a", lane(1)).await;
    a.accept(txs([1])).await;
    a.step(id(1), sign(11)).await;
    ask(&a, 1, 1, Action::Decide).await;
    for (who, is_first) in [("b", true), ("c", false)] {
        bench.lapse().await;
        let seat = bench.seat(who, lane(1)).await;
        let held = [seat.held];
        let claimed = seat.store.claim_remedies(&seat.holder, &held, 10).await;
        let claimed = only(claimed.unwrap().remedies);
        assert_eq!(claimed.is_first_claim, is_first, "{who}");
    }
}

/// A decision to do nothing ends the round, and the audit shows who made it.
pub async fn a_decision_to_do_nothing_closes_the_round(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let (a, question) = questioned(&bench).await;
    let before = newest(&a, 1).await;
    assert_eq!(decide(&a, question, None).await, Decision::Written);
    let noop = newest(&a, 1).await;
    assert!(noop.closed_at.is_some_and(|at| at >= noop.asked_at));
    let expected = Act {
        action: "NOOP".to_owned(),
        audit: said(),
        progress: Progress::Done,
        result: Some("NOOP".to_owned()),
        closed_at: noop.closed_at,
        ..before
    };
    assert_eq!(noop, expected);
    let over = bench.dump().await;
    for action in [None, Some(Action::Cancel)] {
        assert_eq!(decide(&a, question, action).await, Decision::Gone);
    }
    bench
        .dump()
        .await
        .assert_same(&over, "a round that is over");
    assert_eq!(claim(&a).await, []);
    bench.lapse().await;
    let b = bench.seat("b", lane(1)).await;
    assert_eq!(claim(&b).await, []);
    ask(&b, 1, 2, Action::Decide).await;
}

/// Only a question that its leader has claimed can be answered, and only once.
pub async fn only_a_claimed_question_is_decided(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let (a, decided) = questioned(&bench).await;
    let other = bench.seat_of(&a.holder, lane(2)).await;
    a.accept(txs([3])).await;
    let answer = decide(&a, decided, Some(Action::Resubmit)).await;
    assert_eq!(answer, Decision::Written);
    let replacement = ask(&a, 2, 1, Action::Replace).await;
    assert_eq!(claim(&a).await, [(replacement, Action::Replace)]);
    let unclaimed = ask(&a, 3, 1, Action::Decide).await;
    let before = bench.dump().await;
    for remedy in [decided, replacement, unclaimed, RemedyId(1_000_000)] {
        for action in [None, Some(Action::Cancel)] {
            let answer = decide(&a, remedy, action).await;
            assert_eq!(answer, Decision::Gone, "{remedy:?}");
        }
    }
    bench.dump().await.assert_same(&before, "no question");
    assert_eq!(claim(&a).await, [(unclaimed, Action::Decide)]);
    let claimed = bench.dump().await;
    // The lane that it is decided for must be its own.
    let answer = decide(&other, unclaimed, None).await;
    assert_eq!(answer, Decision::Gone);
    bench.dump().await.assert_same(&claimed, "another lane's");
    assert_eq!(decide(&a, unclaimed, None).await, Decision::Written);
}

/// A question that the last leader left open is claimed anew, and only the new leader answers it.
pub async fn the_next_leader_answers_what_was_left_open(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let (a, question) = questioned(&bench).await;
    bench.lapse().await;
    let b = bench.seat("b", lane(1)).await;
    let before = bench.dump().await;
    assert_eq!(decide(&b, question, None).await, Decision::Gone);
    bench.dump().await.assert_same(&before, "not claimed yet");
    assert_eq!(claim(&b).await, [(question, Action::Decide)]);
    let before = bench.dump().await;
    let answer = decide(&a, question, Some(Action::Cancel)).await;
    assert_eq!(answer, Decision::Fenced);
    let mut stolen = b.clone();
    stolen.held.token = token(1);
    assert_eq!(decide(&stolen, question, None).await, Decision::Fenced);
    bench.dump().await.assert_same(&before, "the old leader");
    assert_eq!(decide(&b, question, None).await, Decision::Written);
    let noop = newest(&b, 1).await;
    assert_eq!(noop.claimed, Some((b.holder.node, token(2))));
}

/// The same words sent again change nothing more: a caller that heard nothing may say them again.
pub async fn a_decision_is_made_once(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let (a, question) = questioned(&bench).await;
    let twice = Some(Action::Replace);
    assert_eq!(decide(&a, question, twice).await, Decision::Written);
    let before = bench.dump().await;
    assert_eq!(decide(&a, question, twice).await, Decision::Gone);
    bench.dump().await.assert_same(&before, "the second time");
}

/// A paused lane gives no nonces and stores no bytes; what a policy says is written down all the same.
pub async fn a_paused_lanes_questions_are_decided(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let (a, question) = questioned(&bench).await;
    crate::lanes::pause(&a).await;
    let answer = decide(&a, question, Some(Action::Replace)).await;
    assert_eq!(answer, Decision::Written);
    let bump = Input::Sign(attempt::Kind::Replacement, hash(12));
    let closing = Closing {
        remedy: question,
        refused: None,
    };
    let plan = a.plan(id(1), bump).await.closing(closing);
    let answer = a.write(vec![plan]).await;
    assert!(matches!(answer, LaneMoved::Paused(_)), "{answer:?}");
    assert_eq!(newest(&a, 1).await.progress, Progress::Claimed);
}

/// To decide that somebody should decide is no decision.
pub async fn a_question_is_no_decision(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let (a, question) = questioned(&bench).await;
    let before = bench.dump().await;
    let decided = decision(question, Some(Action::Decide));
    let answer = a.store.decide_remedy(&a.holder, a.held, &decided).await;
    assert!(matches!(answer, Err(StoreError::Invalid(_))), "{answer:?}");
    bench.dump().await.assert_same(&before, "a question");
}
