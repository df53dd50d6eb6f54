//! What no store can hold: it is refused with a name, or cleaned where others wrote it, and nothing is
//! half written.

use std::time::Duration;

use anyhow::Result;
use fencepost_app::ports::{
    Acquired, Action, Audit, Bid, Closing, CursorMove, CursorMoved, Decided, Decision, Enqueued,
    Held, LaneBatch, LaneCreated, LaneMoved, LaneMoves, LanePromotion, LaneRefusal, NewRemedy,
    PauseChange, Paused, RemedyId, Renewed, StoreError, WRITE_LIMIT_MAX, check,
};
use fencepost_domain::Bytes;
use fencepost_domain::ids::{LaneId, LaneSeq, NodeId, Nonce};
use fencepost_domain::request::{BadMeta, Meta};
use fencepost_domain::state::Wait;
use fencepost_store_tests::bench::{only, url};
use fencepost_store_tests::builders::{accepted, audit, id, mined, nonce, sign, token, tx, txs};

use super::post::{LONG, Post};

fn assert_invalid<T: std::fmt::Debug>(answer: &Result<T, StoreError>, what: &str) {
    assert!(
        matches!(answer, Err(StoreError::Invalid(_))),
        "{what}: {answer:?}"
    );
}

#[tokio::test]
async fn a_lane_at_the_end_of_its_numbers_gives_no_more() -> Result<()> {
    let post = Post::new(LONG).await?;
    let a = &post.seat;
    let last = Nonce::new(Nonce::MAX.get() - 1)?;
    let raise = CursorMove::Raise {
        holder: a.holder.clone(),
        held: a.held,
        to: last,
    };
    let raised = a.store.move_cursor(a.held.lane, &raise, &audit()).await?;
    assert_eq!(
        raised,
        CursorMoved::Now {
            from: Nonce::ZERO,
            to: last
        }
    );
    let before = post.dump().await;
    let exhausted = LaneCreated::Refused(LaneRefusal::Exhausted);
    assert_eq!(a.create(txs([1, 2])).await, exhausted);
    post.dump().await.assert_same(&before, "one too many");
    assert_eq!(a.accept(txs([1])).await, [last.get()]);
    a.store
        .enqueue(&[(a.held.lane, tx(2))], Wait::Leader, 9)
        .await?;
    let before = post.dump().await;
    assert_eq!(a.create(txs([3])).await, exhausted);
    assert_eq!(a.promote(vec![id(2)]).await, exhausted);
    post.dump().await.assert_same(&before, "no nonce is left");
    Ok(())
}

/// Counters of ours at their end: no statement wraps around or writes a part.
#[tokio::test]
async fn counters_at_their_end_refuse_and_write_nothing() -> Result<()> {
    let post = Post::new(LONG).await?;
    let a = &post.seat;
    a.accept(txs([1])).await;
    let end = "UPDATE signer_lease SET lane_seq = 9223372036854775807";
    post.onlooker.batch_execute(end).await?;
    let (me, both) = (&a.holder, [id(1), id(2)]);
    let before = a.store.find_many(&both).await?;
    let batch = a.batch(txs([2])).await;
    assert_invalid(&a.store.create(me, &[batch]).await, "lane_seq");
    let moves = vec![a.plan(id(1), sign(1)).await];
    let moves = LaneMoves {
        held: a.held,
        moves,
    };
    assert_invalid(&a.store.apply(me, &[moves]).await, "lane_seq");
    let end = "UPDATE signer_lease SET fencing_token = 9223372036854775807";
    post.onlooker.batch_execute(end).await?;
    let bid = Bid {
        lane: a.held.lane,
        fresh: true,
    };
    let answer = a.store.acquire(me, &url("a"), &[bid]).await;
    assert_invalid(&answer, "fencing_token");
    assert_eq!(a.store.find_many(&both).await?, before);
    Ok(())
}

/// A decision to do nothing.
fn undecided(audit: &Audit) -> Decided {
    Decided {
        remedy: RemedyId(1),
        action: None,
        fees: None,
        raw: None,
        severity: None,
        after: None,
        audit: audit.clone(),
    }
}

#[tokio::test]
async fn an_unknown_lane_is_named_as_such_everywhere() -> Result<()> {
    let post = Post::new(LONG).await?;
    let a = &post.seat;
    a.accept(txs([1])).await;
    let held = Held {
        lane: LaneId(4711),
        token: token(1),
    };
    let (cursor, free) = (Nonce::ZERO, vec![]);
    let batch = LaneBatch {
        held,
        cursor,
        free: free.clone(),
        txs: txs([2]),
    };
    let promotion = LanePromotion {
        held,
        cursor,
        free,
        txs: vec![id(2)],
    };
    let moves = |step| LaneMoves {
        held,
        moves: vec![step],
    };
    let apply = moves(a.plan(id(1), sign(1)).await);
    let lower = CursorMove::Set { to: cursor };
    let raise = CursorMove::Raise {
        holder: a.holder.clone(),
        held,
        to: nonce(1),
    };
    let bid = Bid {
        lane: held.lane,
        fresh: false,
    };
    let (store, me, audit) = (&a.store, &a.holder, audit());
    let before = post.dump().await;
    let unknown = LaneCreated::Refused(LaneRefusal::UnknownLane);
    assert_eq!(only(store.create(me, &[batch]).await?), unknown);
    assert_eq!(only(store.promote(me, &[promotion]).await?), unknown);
    assert_eq!(
        only(store.apply(me, &[apply]).await?),
        LaneMoved::UnknownLane
    );
    let queued = store
        .enqueue(&[(held.lane, tx(2))], Wait::Leader, 9)
        .await?;
    assert_eq!(only(queued), Enqueued::UnknownLane);
    let acquired = store.acquire(me, &url("a"), &[bid]).await?;
    assert_eq!(only(acquired), Acquired::UnknownLane);
    assert_eq!(only(store.renew(me, &[held]).await?), Renewed::Fenced);
    assert_eq!(store.release(me, &[held]).await?, []);
    let paused = store.pause(held.lane, PauseChange::Resume, &audit).await?;
    assert_eq!(paused, Paused::UnknownLane);
    let decided = undecided(&audit);
    assert_eq!(
        store.decide_remedy(me, held, &decided).await?,
        Decision::Fenced
    );
    for to in [lower, raise] {
        let moved = store.move_cursor(held.lane, &to, &audit).await?;
        assert_eq!(moved, CursorMoved::UnknownLane, "{to:?}");
    }
    post.dump().await.assert_same(&before, "an unknown lane");
    Ok(())
}

#[tokio::test]
async fn a_batch_beyond_the_limit_is_refused_before_it_is_sent() -> Result<()> {
    let post = Post::new(LONG).await?;
    let a = &post.seat;
    let many = txs(0..u64::try_from(WRITE_LIMIT_MAX)? + 1);
    let queue: Vec<_> = many.iter().map(|tx| (a.held.lane, tx.clone())).collect();
    let batch = a.batch(many).await;
    let before = post.dump().await;
    assert_invalid(&a.store.create(&a.holder, &[batch]).await, "create");
    let answer = a.store.enqueue(&queue, Wait::Leader, usize::MAX).await;
    assert_invalid(&answer, "enqueue");
    post.dump().await.assert_same(&before, "a giant batch");
    Ok(())
}

#[test]
fn meta_with_a_nul_is_no_meta() {
    assert_eq!(Meta::new("a\0b"), Err(BadMeta::Nul));
}

/// Who and why must be stored as it was said, or not at all.
#[tokio::test]
async fn a_nul_in_what_must_be_kept_as_it_is_is_refused() -> Result<()> {
    let post = Post::new(LONG).await?;
    let a = &post.seat;
    a.accept(txs([1])).await;
    a.step(id(1), sign(1)).await;
    a.step(id(1), accepted()).await;
    let receipt = a.plan(id(1), mined(1, 100)).await.receipt("{\0}");
    let moves = LaneMoves {
        held: a.held,
        moves: vec![receipt],
    };
    let (lane, node) = (a.held.lane, NodeId::new("b")?);
    let bid = Bid { lane, fresh: true };
    let before = post.dump().await;
    assert_invalid(&a.store.apply(&a.holder, &[moves]).await, "receipt");
    assert_invalid(&a.store.join(&node, "http://\0").await, "url");
    let answer = a.store.acquire(&a.holder, "http://\0", &[bid]).await;
    assert_invalid(&answer, "url");
    let nul = || "a\0b".to_owned();
    let spoilt = [
        Audit {
            by: nul(),
            ..audit()
        },
        Audit {
            reason: nul(),
            ..audit()
        },
        Audit {
            details: Some(nul()),
            ..audit()
        },
    ];
    for audit in spoilt {
        let what = format!("{audit:?}");
        let lower = CursorMove::Set { to: Nonce::ZERO };
        let answer = a.store.pause(lane, PauseChange::Resume, &audit).await;
        assert_invalid(&answer, &what);
        let answer = a.store.move_cursor(lane, &lower, &audit).await;
        assert_invalid(&answer, &what);
        let remedy = NewRemedy {
            tx: id(1),
            round: 1,
            action: Action::Cancel,
            fees: None,
            audit,
        };
        assert_invalid(&a.store.ask_remedy(&remedy).await, &what);
    }
    post.dump()
        .await
        .assert_same(&before, "what cannot be kept");
    Ok(())
}

/// A node's words must never stop a move: they are stored without what no column holds.
#[tokio::test]
async fn a_nul_in_a_nodes_words_is_replaced_and_long_words_are_cut() -> Result<()> {
    let post = Post::new(LONG).await?;
    let a = &post.seat;
    a.accept(txs([1])).await;
    a.step(id(1), sign(1)).await;
    let remedy = NewRemedy {
        tx: id(1),
        round: 1,
        action: Action::Resubmit,
        fees: None,
        audit: audit(),
    };
    a.store.ask_remedy(&remedy).await?;
    let claimed = a.store.claim_remedies(&a.holder, &[a.held], 1).await?;
    let closing = Closing {
        remedy: only(claimed.remedies).id,
        refused: Some("no\0!".to_owned()),
    };
    let mut step = a.plan(id(1), accepted()).await;
    step.event = step.event.note("so\0so");
    let long = format!("bad\0{}", "ä".repeat(check::ERROR_BYTES_MAX));
    let step = step
        .error(&long)
        .closing(closing)
        .due_in(Duration::from_secs(1));
    assert_eq!(a.write(vec![step]).await, LaneMoved::Done(vec![]));
    let error = a.read(id(1)).await.last_error.unwrap();
    assert!(error.starts_with("bad\u{fffd}ä"), "{error}");
    assert!(error.len() <= check::ERROR_BYTES_MAX);
    let events = a.store.history(id(1), LaneSeq::default(), 10).await?;
    let note = events.last().and_then(|event| event.event.note.clone());
    assert_eq!(note.as_deref(), Some("so\u{fffd}so"));
    let result = "SELECT result FROM remedy WHERE tx_id = $1";
    let row = post.onlooker.query_one(result, &[&id(1).0]).await?;
    assert_eq!(row.get::<_, &str>(0), "no\u{fffd}!");
    Ok(())
}

/// A mistake of the program is stopped by a constraint, whole.
#[tokio::test]
async fn what_breaks_a_constraint_is_not_written_in_part() -> Result<()> {
    let post = Post::new(LONG).await?;
    let a = &post.seat;
    a.accept(txs([1, 2])).await;
    let sound = a.plan(id(1), sign(1)).await;
    let mut empty = a.plan(id(2), sign(2)).await;
    empty.attempt.as_mut().unwrap().raw = Bytes::new();
    let moves = LaneMoves {
        held: a.held,
        moves: vec![sound, empty],
    };
    let before = post.dump().await;
    let answer = a.store.apply(&a.holder, &[moves]).await;
    assert!(
        matches!(answer, Err(StoreError::Constraint(_))),
        "{answer:?}"
    );
    post.dump()
        .await
        .assert_same(&before, "bytes that are none");
    Ok(())
}
