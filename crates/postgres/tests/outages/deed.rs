//! The deeds: each kind of critical write, with the truth that its caller must be told and the
//! traces that it must leave exactly once, whatever happened to its replies.

use std::time::Duration;

use anyhow::Result;
use fencepost_app::ports::{
    Acquired, Action, AskedRemedy, Audit, Bid, Decided, Decision, Enqueued, Held, Holder,
    LaneBatch, LaneCreated, LaneMoved, LaneMoves, LanePromotion, NewRemedy, NewTx, Settle,
    SettleAct, Settled, Store, StoreError, Stored,
};
use fencepost_domain::attempt::SignedFees;
use fencepost_domain::ids::{LaneId, Nonce, Token};
use fencepost_domain::state::Wait;
use fencepost_domain::transition::Input;
use fencepost_store_tests::bench::{Seat, only, url, written};
use fencepost_store_tests::builders::{
    audit, feed_seq, hash, id, loan, lock, nonce, sign, tx, txs,
};

use super::post::Post;
use super::traces::Traces;

/// A kind of critical write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Deed {
    Create,
    /// On a nonce that was given back, so that the cursor does not move and cannot be the guard.
    CreateOnFree,
    Enqueue,
    Promote,
    /// As for creating.
    PromoteOnFree,
    /// An apply that stores signed bytes.
    Sign,
    Complete,
    Submit,
    Recycle,
    Ask,
    Decide,
    /// A decision to do nothing, which closes the round.
    DecideNothing,
    Acquire,
}

/// A deed with everything fixed that its caller fixes.
#[derive(Debug, Clone)]
pub(crate) enum Plan {
    Create(Holder, LaneBatch, Vec<Nonce>),
    Enqueue(Vec<(LaneId, NewTx)>),
    Promote(Holder, LanePromotion, Nonce),
    Sign(Holder, LaneMoves),
    Complete(Holder, LaneMoves, u64),
    Settle(Settle),
    Ask(NewRemedy),
    Decide(Holder, Held, Decided),
    Acquire(Holder, LaneId, Token),
}

impl Deed {
    /// Has the deed done once, so that its statement is known to the writer's connection, and plans
    /// it anew. Returns the plan, the traces so far and the writer's backend.
    pub(crate) async fn rehearse(self, post: &Post) -> Result<(Plan, Traces, i32)> {
        let rehearsal = self.plan(&post.seat, 1).await?;
        rehearsal.act(&*post.node).await?;
        let plan = self.plan(&post.seat, 2).await?;
        let writer = post.only_the_writer().await?;
        let before = Traces::read(&post.onlooker).await?;
        Ok((plan, before, writer))
    }

    /// Where the deed's statement can be stopped, when it has done all but commit.
    pub(crate) const fn place(self) -> (&'static str, &'static str) {
        match self {
            Self::Enqueue => ("lane_queue", "AFTER INSERT"),
            Self::Ask => ("remedy", "AFTER INSERT"),
            Self::Create
            | Self::CreateOnFree
            | Self::Promote
            | Self::PromoteOnFree
            | Self::Sign
            | Self::Complete
            | Self::Submit
            | Self::Recycle
            | Self::Decide
            | Self::DecideNothing
            | Self::Acquire => ("signer_lease", "AFTER UPDATE"),
        }
    }

    /// What it leaves behind when it has happened once, and nothing else.
    pub(crate) const fn traces(self) -> &'static [(&'static str, i64)] {
        match self {
            Self::Create => &[
                ("txs", 2),
                ("versions", 2),
                ("cursors", 2),
                ("lane_seqs", 2),
                ("events", 2),
                ("due", 2),
            ],
            Self::CreateOnFree => &[
                ("txs", 1),
                ("versions", 1),
                ("free", -1),
                ("lane_seqs", 1),
                ("events", 1),
                ("due", 1),
            ],
            Self::Enqueue => &[("txs", 2), ("versions", 2), ("queued", 2)],
            Self::Promote => &[
                ("versions", 1),
                ("queued", -1),
                ("cursors", 1),
                ("lane_seqs", 1),
                ("events", 1),
                ("due", 1),
            ],
            Self::PromoteOnFree => &[
                ("versions", 1),
                ("queued", -1),
                ("free", -1),
                ("lane_seqs", 1),
                ("events", 1),
                ("due", 1),
            ],
            Self::Sign | Self::Submit => &[
                ("versions", 1),
                ("attempts", 1),
                ("lane_seqs", 1),
                ("events", 1),
            ],
            Self::Complete => &[
                ("versions", 1),
                ("completions", 1),
                ("feed_head", 1),
                ("lane_seqs", 1),
                ("events", 1),
                ("due", -1),
            ],
            Self::Recycle => &[
                ("versions", 1),
                ("free", 1),
                ("lane_seqs", 1),
                ("events", 1),
                ("due", -1),
            ],
            Self::Ask => &[("remedies", 1)],
            Self::Decide => &[("questions", -1)],
            Self::DecideNothing => &[("questions", -1), ("closed remedies", 1)],
            Self::Acquire => &[("tokens", 1)],
        }
    }

    /// Prepares the n-th time of this deed.
    pub(crate) async fn plan(self, seat: &Seat, n: u64) -> Result<Plan> {
        let me = seat.holder.clone();
        let first = 10 * n;
        Ok(match self {
            Self::Create => {
                let batch = seat.batch(txs([first, first + 1])).await;
                let nonces = vec![batch.cursor, batch.cursor.plus(1)?];
                Plan::Create(me, batch, nonces)
            }
            Self::CreateOnFree => {
                let free = give_back(seat, first).await;
                Plan::Create(me, seat.batch(txs([first + 1])).await, vec![free])
            }
            Self::Enqueue => {
                let both = txs([first, first + 1]);
                Plan::Enqueue(both.into_iter().map(|tx| (seat.held.lane, tx)).collect())
            }
            Self::Promote => {
                enqueue(seat, first).await?;
                let promotion = seat.promotion(vec![id(first)]).await;
                let nonce = promotion.cursor;
                Plan::Promote(me, promotion, nonce)
            }
            Self::PromoteOnFree => {
                let free = give_back(seat, first + 1).await;
                enqueue(seat, first).await?;
                Plan::Promote(me, seat.promotion(vec![id(first)]).await, free)
            }
            Self::Sign => {
                seat.accept(vec![tx(first)]).await;
                Plan::Sign(me, moves(seat, first, sign(first)).await)
            }
            Self::Complete => {
                seat.accept(vec![tx(first)]).await;
                seat.mine(id(first), first).await;
                Plan::Complete(me, moves(seat, first, Input::Final).await, n)
            }
            Self::Submit => lend(seat, first, submitted(first)).await,
            Self::Recycle => lend(seat, first, SettleAct::Recycle).await,
            Self::Ask => {
                seat.accept(vec![tx(first)]).await;
                Plan::Ask(NewRemedy {
                    tx: id(first),
                    round: 1,
                    action: Action::Cancel,
                    fees: None,
                    audit: audit(),
                })
            }
            Self::Decide => question(seat, first, Some(Action::Replace)).await?,
            Self::DecideNothing => question(seat, first, None).await?,
            Self::Acquire => {
                let before = seat.view().await.token;
                let held = Held {
                    lane: seat.held.lane,
                    token: before,
                };
                seat.store.release(&seat.holder, &[held]).await?;
                Plan::Acquire(me, seat.held.lane, before.plus(1)?)
            }
        })
    }
}

impl Plan {
    /// Does it through this handle, and checks that the caller is told the truth.
    pub(crate) async fn act(&self, store: &dyn Store) -> Result<(), StoreError> {
        match self {
            Self::Create(me, batch, nonces) => {
                let answer = only(store.create(me, std::slice::from_ref(batch)).await?);
                assert_eq!(stored(answer), *nonces);
            }
            Self::Enqueue(both) => {
                let answers = store.enqueue(both, Wait::Leader, 100).await?;
                let waits = |answer: &Enqueued| matches!(answer, Enqueued::Queued { .. });
                assert!(answers.iter().all(waits), "{answers:?}");
            }
            Self::Promote(me, promotion, nonce) => {
                let answer = store.promote(me, std::slice::from_ref(promotion)).await?;
                assert_eq!(stored(only(answer)), [*nonce]);
            }
            Self::Sign(me, moves) => {
                let answer = store.apply(me, std::slice::from_ref(moves)).await?;
                assert_eq!(only(answer), LaneMoved::Done(vec![]));
            }
            Self::Complete(me, moves, seq) => {
                let answer = store.complete(me, std::slice::from_ref(moves)).await?;
                assert_eq!(written(only(answer)), [feed_seq(*seq)]);
            }
            Self::Settle(call) => {
                let answer = store.settle(call).await?;
                assert!(matches!(answer, Settled::Done(_)), "{answer:?}");
            }
            Self::Ask(remedy) => {
                let answer = store.ask_remedy(remedy).await?;
                assert!(matches!(answer, AskedRemedy::Asked(_)), "{answer:?}");
            }
            Self::Decide(me, held, decided) => {
                let answer = store.decide_remedy(me, *held, decided).await?;
                assert_eq!(answer, Decision::Written);
            }
            Self::Acquire(me, lane, token) => {
                let bid = Bid {
                    lane: *lane,
                    fresh: false,
                };
                let answer = only(store.acquire(me, &url("a"), &[bid]).await?);
                let Acquired::Leading(lead) = answer else {
                    panic!("not leading: {answer:?}");
                };
                assert_eq!((lead.token, lead.changed()), (*token, true));
            }
        }
        Ok(())
    }
}

fn stored(answer: LaneCreated) -> Vec<Nonce> {
    let LaneCreated::Done { txs, .. } = answer else {
        panic!("not done: {answer:?}");
    };
    let nonce = |each: Stored| match each {
        Stored::New { nonce, .. } => nonce,
        Stored::Known(_) | Stored::Conflict(_) => panic!("not new: {each:?}"),
    };
    txs.into_iter().map(nonce).collect()
}

async fn moves(seat: &Seat, n: u64, input: Input) -> LaneMoves {
    LaneMoves {
        held: seat.held,
        moves: vec![seat.plan(id(n), input).await],
    }
}

async fn enqueue(seat: &Seat, n: u64) -> Result<()> {
    let new = [(seat.held.lane, tx(n))];
    let queued = seat.store.enqueue(&new, Wait::Leader, 100).await?;
    assert!(matches!(only(queued), Enqueued::Queued { .. }));
    Ok(())
}

/// Takes a nonce and gives it back, so that it is free.
async fn give_back(seat: &Seat, n: u64) -> Nonce {
    let taken = seat.accept(vec![loan(n)]).await;
    seat.step(id(n), Input::Recycle).await;
    nonce(taken[0])
}

/// A question that its leader has claimed, and the answer.
async fn question(seat: &Seat, n: u64, action: Option<Action>) -> Result<Plan> {
    seat.accept(vec![tx(n)]).await;
    let question = NewRemedy {
        tx: id(n),
        round: 1,
        action: Action::Decide,
        fees: None,
        audit: audit(),
    };
    seat.store.ask_remedy(&question).await?;
    let (me, held) = (&seat.holder, seat.held);
    let claimed = seat.store.claim_remedies(me, &[held], 10).await?;
    let decided = Decided {
        remedy: only(claimed.remedies).id,
        action,
        fees: Some(SignedFees {
            max_fee: u128::MAX,
            max_priority_fee: Some(1),
        }),
        raw: None,
        severity: None,
        after: None,
        audit: Audit {
            details: None,
            ..audit()
        },
    };
    Ok(Plan::Decide(me.clone(), held, decided))
}

fn submitted(n: u64) -> SettleAct {
    SettleAct::Submitted {
        hash: hash(n),
        due_in: Duration::ZERO,
    }
}

async fn lend(seat: &Seat, n: u64, act: SettleAct) -> Plan {
    seat.accept(vec![loan(n)]).await;
    Plan::Settle(Settle {
        reservation: id(n),
        lock: lock(n),
        act,
    })
}

/// A test for each deed: that it is done, and once.
macro_rules! once_each {
    ($check:ident) => {
        once_each! { $check:
            a_create_is_done_once = Create,
            a_create_on_a_free_nonce_is_done_once = CreateOnFree,
            an_arrival_is_queued_once = Enqueue,
            a_promotion_is_done_once = Promote,
            a_promotion_to_a_free_nonce_is_done_once = PromoteOnFree,
            signed_bytes_are_stored_once = Sign,
            a_completion_is_numbered_once = Complete,
            a_holders_hash_is_recorded_once = Submit,
            a_nonce_is_given_back_once = Recycle,
            a_remedy_is_asked_for_once = Ask,
            a_question_is_answered_once = Decide,
            a_round_is_closed_once = DecideNothing,
            a_lane_is_won_once = Acquire,
        }
    };
    ($check:ident: $($name:ident = $deed:ident,)*) => {
        $(#[tokio::test]
        async fn $name() -> Result<()> {
            $check(Deed::$deed).await
        })*
    };
}
pub(crate) use once_each;
