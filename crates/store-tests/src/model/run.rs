//! One run of operations on several stores at once: each operation is resolved by what the model
//! shows, asked of every store, and every answer must be the model's.

use std::sync::Arc;
use std::time::Duration;

use fencepost_app::ports::{
    Acquired, AskedRemedy, Beat, Bid, Claimed, ClaimedRemedies, CursorMove, CursorMoved, Decided,
    Decision, Enqueued, Held, Holder, LaneBatch, LaneCreated, LaneMoved, LaneMoves, LanePromotion,
    Move, NewRemedy, NewTx, Orphan, PauseChange, Paused, READ_LIMIT_MAX, Reach, RemedyId, Renewed,
    Settle, Settled, Store, StoreError, Terms,
};
use fencepost_domain::ids::{Incarnation, Lane, LaneId, NodeId, Nonce, Token};
use fencepost_domain::state::Wait;

use super::plain::{Names, Plain};
use crate::Harness;
use crate::bench::{only, url};
use crate::builders::{audit, chain_id};
use crate::dump::Dump;

/// An operation with everything that the stores must agree on; lanes and remedies by their number.
#[derive(Debug, Clone)]
pub(super) enum Call {
    Join(NodeId),
    Beat(Holder),
    Acquire(Holder, usize, bool),
    Renew(Holder, usize, Token),
    Release(Holder, usize, Token),
    Advance(Duration),
    Accept(usize, Accept),
    Move(Holder, usize, Token, Vec<(Move, Option<usize>)>),
    ClaimDue(Holder, usize, Token),
    Ask(NewRemedy),
    ClaimRemedies(Holder, usize, Token),
    /// The remedy by its number, which stands in for its id.
    Decide(Holder, usize, Token, usize, Decided),
    Settle(Settle),
    Operate(usize, Operate),
}

/// What is to be stored.
#[derive(Debug, Clone)]
pub(super) enum Accept {
    Create(Holder, LaneBatch),
    Enqueue(Vec<NewTx>, usize),
    Promote(Holder, LanePromotion),
}

/// What is done to a lane.
#[derive(Debug, Clone)]
pub(super) enum Operate {
    Pause(PauseChange),
    Raise(Holder, Token, Nonce),
    Forget(Holder, Token, Nonce),
    Lower(Nonce),
}

/// What a store said.
#[derive(Debug, PartialEq)]
pub(super) enum Answer {
    Joined(Incarnation),
    Beat(Beat),
    Acquired(Acquired),
    Renewed(Vec<Renewed>),
    Released(Vec<LaneId>),
    Advanced(Vec<Orphan>, Vec<LaneId>),
    Created(LaneCreated),
    Enqueued(Vec<Enqueued>),
    Moved(LaneMoved),
    Claimed(Claimed),
    Asked(AskedRemedy),
    Remedies(ClaimedRemedies),
    Decided(Decision),
    Settled(Settled),
    Paused(Paused),
    Cursor(CursorMoved),
    Invalid,
}

impl Answer {
    fn plain(&mut self, names: &Names) {
        match self {
            Self::Acquired(answer) => answer.plain(names),
            Self::Released(answer) => answer.plain(names),
            Self::Advanced(orphans, to_remedy) => {
                orphans.plain(names);
                to_remedy.plain(names);
            }
            Self::Created(answer) => answer.plain(names),
            Self::Enqueued(answer) => answer.plain(names),
            Self::Moved(answer) => answer.plain(names),
            Self::Claimed(answer) => answer.plain(names),
            Self::Asked(answer) => answer.plain(names),
            Self::Remedies(answer) => answer.plain(names),
            Self::Settled(answer) => answer.plain(names),
            Self::Joined(_)
            | Self::Beat(_)
            | Self::Renewed(_)
            | Self::Paused(_)
            | Self::Cursor(_)
            | Self::Decided(_)
            | Self::Invalid => {}
        }
    }
}

/// One store of a run.
pub(super) struct Side<'h> {
    harness: &'h dyn Harness,
    pub(super) store: Arc<dyn Store>,
    names: Names,
}

impl<'h> Side<'h> {
    pub(super) async fn new(harness: &'h dyn Harness, lanes: &[Lane]) -> Self {
        let store = harness.store().await;
        let lanes = store.open_lanes(lanes).await.unwrap();
        let remedies = Vec::new();
        Self {
            harness,
            store,
            names: Names { lanes, remedies },
        }
    }

    pub(super) fn terms(&self) -> Terms {
        self.harness.terms()
    }

    pub(super) fn lane(&self, number: usize) -> LaneId {
        self.names.lanes[number]
    }

    pub(super) fn remedies(&self) -> usize {
        self.names.remedies.len()
    }

    pub(super) fn remedy_number(&self, id: RemedyId) -> usize {
        self.names.remedy_number(id)
    }

    /// Everything that can be read, comparable with other stores.
    pub(super) async fn dump(&self) -> Dump {
        let mut dump = Dump::of(&*self.store).await;
        dump.plain(&self.names);
        dump
    }

    /// Asks this store, and makes its answer comparable with others'.
    pub(super) async fn ask(&mut self, call: &Call) -> Result<Answer, String> {
        let mut answer = match self.put(call).await {
            Ok(answer) => answer,
            Err(StoreError::Invalid(_)) => Answer::Invalid,
            Err(error) => return Err(format!("{call:?}\nfailed: {error:?}")),
        };
        if let Answer::Asked(AskedRemedy::Asked(id)) = answer {
            self.names.remedies.push(id);
        }
        answer.plain(&self.names);
        Ok(answer)
    }

    async fn put(&self, call: &Call) -> Result<Answer, StoreError> {
        let store = &*self.store;
        let held = |lane: &usize, token: &Token| Held {
            lane: self.lane(*lane),
            token: *token,
        };
        Ok(match call {
            Call::Join(node) => Answer::Joined(store.join(node, &url(node.as_str())).await?),
            Call::Beat(holder) => {
                let reach = |chain, usable| Reach {
                    chain: chain_id(chain),
                    usable,
                };
                let chains = [reach(1, true), reach(2, false)];
                Answer::Beat(store.beat(holder, &chains).await?)
            }
            Call::Acquire(holder, lane, fresh) => {
                let bid = Bid {
                    lane: self.lane(*lane),
                    fresh: *fresh,
                };
                let url = url(holder.node.as_str());
                Answer::Acquired(only(store.acquire(holder, &url, &[bid]).await?))
            }
            Call::Renew(holder, lane, token) => {
                Answer::Renewed(store.renew(holder, &[held(lane, token)]).await?)
            }
            Call::Release(holder, lane, token) => {
                Answer::Released(store.release(holder, &[held(lane, token)]).await?)
            }
            Call::Advance(by) => {
                self.harness.advance(*by).await;
                let orphans = store.orphans(None, READ_LIMIT_MAX).await?;
                let to_remedy = store.remedy_lanes(None, READ_LIMIT_MAX).await?;
                Answer::Advanced(orphans, to_remedy)
            }
            Call::Accept(lane, what) => self.accept(self.lane(*lane), what).await?,
            Call::Move(holder, lane, token, moves) => {
                let held = held(lane, token);
                Answer::Moved(self.move_one(holder, held, moves).await?)
            }
            Call::ClaimDue(holder, lane, token) => {
                let held = [held(lane, token)];
                Answer::Claimed(
                    store
                        .claim_due(holder, &held, 1_000, READ_LIMIT_MAX)
                        .await?,
                )
            }
            Call::ClaimRemedies(holder, lane, token) => {
                let held = [held(lane, token)];
                let claimed = store.claim_remedies(holder, &held, READ_LIMIT_MAX).await?;
                Answer::Remedies(claimed)
            }
            Call::Decide(holder, lane, token, number, decided) => {
                let decided = Decided {
                    remedy: self.names.remedies[*number],
                    ..decided.clone()
                };
                let held = held(lane, token);
                Answer::Decided(store.decide_remedy(holder, held, &decided).await?)
            }
            Call::Ask(remedy) => Answer::Asked(store.ask_remedy(remedy).await?),
            Call::Settle(call) => Answer::Settled(store.settle(call).await?),
            Call::Operate(lane, what) => self.operate(self.lane(*lane), what).await?,
        })
    }

    async fn accept(&self, lane: LaneId, what: &Accept) -> Result<Answer, StoreError> {
        Ok(match what {
            Accept::Create(holder, batch) => {
                let mut batch = batch.clone();
                batch.held.lane = lane;
                Answer::Created(only(self.store.create(holder, &[batch]).await?))
            }
            Accept::Promote(holder, promotion) => {
                let mut promotion = promotion.clone();
                promotion.held.lane = lane;
                Answer::Created(only(self.store.promote(holder, &[promotion]).await?))
            }
            Accept::Enqueue(txs, max) => {
                let txs: Vec<_> = txs.iter().map(|new| (lane, new.clone())).collect();
                Answer::Enqueued(self.store.enqueue(&txs, Wait::Leader, *max).await?)
            }
        })
    }

    async fn move_one(
        &self,
        holder: &Holder,
        held: Held,
        moves: &[(Move, Option<usize>)],
    ) -> Result<LaneMoved, StoreError> {
        let mut batch = LaneMoves {
            held,
            moves: Vec::new(),
        };
        for (each, closes) in moves {
            let mut each = each.clone();
            if let (Some(closing), Some(number)) = (&mut each.closes, closes) {
                closing.remedy = self.names.remedies[*number];
            }
            batch.moves.push(each);
        }
        let batch = [batch];
        Ok(only(if moves[0].0.event.kind.is_told() {
            self.store.complete(holder, &batch).await?
        } else {
            self.store.apply(holder, &batch).await?
        }))
    }

    async fn operate(&self, lane: LaneId, what: &Operate) -> Result<Answer, StoreError> {
        let to = match what {
            Operate::Pause(change) => {
                let paused = self.store.pause(lane, *change, &audit()).await?;
                return Ok(Answer::Paused(paused));
            }
            Operate::Raise(holder, token, to) => CursorMove::Raise {
                holder: holder.clone(),
                held: Held {
                    lane,
                    token: *token,
                },
                to: *to,
            },
            Operate::Forget(holder, token, below) => CursorMove::Forget {
                holder: holder.clone(),
                held: Held {
                    lane,
                    token: *token,
                },
                below: *below,
            },
            Operate::Lower(to) => CursorMove::Set { to: *to },
        };
        let moved = self.store.move_cursor(lane, &to, &audit()).await?;
        Ok(Answer::Cursor(moved))
    }
}
