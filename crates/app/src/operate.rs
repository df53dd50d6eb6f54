//! What operators and the holders of lent nonces say to a node. Any node may write it down; the lane's
//! leader is told at once, and looks by itself where that fails.

use std::time::Duration;

use fencepost_domain::attempt::SignedFees;
use fencepost_domain::flat::Name;
use fencepost_domain::ids::{Lane, Nonce, Token, Version};
use fencepost_domain::nonce::ChainCount;
use fencepost_domain::state::{State, Why};

use crate::causes::Causes;
use crate::directory::Seat;
use crate::node::Node;
use crate::ports::{
    Action, AskedRemedy, Audit, ChainUnavailable, CountMode, Held, LaneView, NewRemedy,
    PauseChange, PauseReason, Paused, Record, Settle, Settled, StoreError,
};
use crate::writes::{Line, Write, words};

/// How often the next free round is asked for; more means that others ask at this very moment.
const ROUNDS_MAX: u32 = 3;
/// How long an answer waits for the leader to have been told. It would look by itself a second later.
const NUDGE_WITHIN: Duration = Duration::from_millis(300);
/// The most gaps that reconciling tells.
const GAPS_MAX: usize = 100;

/// What someone wants done to a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wish {
    /// What. Never [`Action::Decide`].
    pub action: Action,
    /// With which fees; none leaves the choice to the replacement rules.
    pub fees: Option<SignedFees>,
    /// Who and why.
    pub audit: Audit,
}

/// What reconciling a lane with its chain comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reconciled {
    /// The lane before.
    pub before: LaneView,
    /// Where the cursor stands afterwards.
    pub next_nonce: Nonce,
    /// What the chain counts in blocks, as far as its endpoints agree.
    pub latest: Nonce,
    /// The same with what waits in the pools.
    pub pending: Nonce,
    /// Given-back nonces that are used on chain or in a pool meanwhile: they are dropped.
    pub dropped: Vec<Nonce>,
    /// Nonces that nobody holds, from the chain's count up to the cursor.
    pub gaps: Vec<Nonce>,
    /// What holds the lane afterwards.
    pub paused: Option<PauseReason>,
}

/// Why a lane was not reconciled. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum Unreconciled {
    /// There is no such lane.
    #[error("there is no such lane")]
    UnknownLane,
    /// The chain cannot be asked.
    #[error("the chain cannot be asked")]
    Chain(#[source] ChainUnavailable),
    /// Endpoints say different things; the cursor would follow one of them.
    #[error("the endpoints do not agree about the account's count")]
    Disagreed,
    /// This node has no chain.
    #[error("this node has no endpoints")]
    NoChain,
    /// The store failed; whether something was written is its error's to say.
    #[error("the store failed")]
    Store(#[source] StoreError),
}

impl Node {
    /// Stores what is to be done to a transaction; whoever leads its lane does it.
    pub async fn ask_remedy(
        &self,
        record: &Record,
        wish: &Wish,
    ) -> Result<AskedRemedy, StoreError> {
        let mut remedy = NewRemedy {
            tx: record.tx,
            round: 1,
            // Whoever presses it for a gap means the gap, also if that is closed a moment later.
            action: if wish.action == Action::Placeholder && waits_for_gap(record) {
                Action::Fill
            } else {
                wish.action
            },
            fees: wish.fees,
            audit: wish.audit.clone(),
        };
        let mut answer = self.store.ask_remedy(&remedy).await?;
        for _ in 0..ROUNDS_MAX {
            let AskedRemedy::RoundTaken { next } = answer else {
                break;
            };
            remedy.round = next;
            answer = self.store.ask_remedy(&remedy).await?;
        }
        if matches!(answer, AskedRemedy::Asked(_)) {
            self.tell_leader(record.lane).await;
        }
        Ok(answer)
    }

    /// What the holder of a lent nonce says.
    pub async fn settle_loan(&self, lane: Lane, call: &Settle) -> Result<Settled, StoreError> {
        self.settle_loan_since(lane, None, call).await
    }

    /// The same, with the version at which the reservation was read before. A call that says the same again writes
    /// nothing, and is neither counted nor logged as a write.
    pub async fn settle_loan_since(
        &self,
        lane: Lane,
        version: Option<Version>,
        call: &Settle,
    ) -> Result<Settled, StoreError> {
        let settled = self.store.settle(call).await?;
        match &settled {
            Settled::Done(record) if version == Some(record.version) => {}
            Settled::Done(record) => {
                self.meters.ended(&record.state);
                let from = Name::Reserved.word();
                let line = Line {
                    write: Write::Reservation,
                    held: Held {
                        lane: record.lane_id,
                        token: record.token,
                    },
                    tx: Some(record.tx),
                    nonce: record.state.nonce().or(record.state.gave_back()),
                    from: (from, None),
                    to: words(&record.state),
                };
                self.log_write_of(&line, record.state.hash());
                self.tell_leader(lane).await;
            }
            Settled::LockLost { recorded: true } => {
                let (signer, node_id) = (lane.signer, self.holder.node.as_str());
                let seat = self.directory.seat(lane);
                let token = seat.map_or(Token::NONE, |seat| self.last_held(seat.id).token);
                self.meters.late_hash();
                tracing::error!(%signer, tx_id = %call.reservation, node_id, %token, "the holder of a nonce that was given back says that it has used it: whoever has the nonce now may lose it");
                self.tell_leader(lane).await;
            }
            Settled::LockLost { recorded: false } | Settled::Refused(_) | Settled::NotFound => {}
        }
        Ok(settled)
    }

    /// Something was written for a lane that its leader should see at once.
    pub async fn tell_leader(&self, lane: Lane) {
        let Some(seat) = self.directory.seat(lane) else {
            return;
        };
        if self.leases.held(seat.id).is_some() {
            self.look_at(seat);
            return;
        }
        let leader = match self.store.lane(lane).await {
            Ok(view) => view.and_then(|view| view.leader),
            Err(error) => {
                tracing::debug!(error = %Causes(&error), "who leads a lane could not be read");
                return;
            }
        };
        let Some(leader) = leader.filter(|leader| leader.node != self.holder.node) else {
            return;
        };
        let within = self.settings.forward_deadline.min(NUDGE_WITHIN);
        if let Err(error) = self.peers.nudge(&leader.url, lane, within).await {
            tracing::debug!(leader = leader.node.as_str(), error = %Causes(&error), "the leader was not told; it looks by itself");
        }
    }

    /// Compares a lane with its chain and, unless it is only to be told, raises its cursor to the chain,
    /// drops free nonces that are used, and ends a hold after a failover.
    pub async fn reconcile(
        &self,
        seat: Seat,
        dry: bool,
        audit: &Audit,
    ) -> Result<Reconciled, Unreconciled> {
        let chain = self.chain.as_ref().ok_or(Unreconciled::NoChain)?;
        let (latest, pending) = tokio::join!(
            chain.count(seat.lane, CountMode::Latest),
            chain.count(seat.lane, CountMode::Pending)
        );
        let latest = agreed(latest)?;
        let pending = pending.map_err(Unreconciled::Chain)?;
        let view = self
            .store
            .lane(seat.lane)
            .await
            .map_err(Unreconciled::Store)?;
        let before = view.ok_or(Unreconciled::UnknownLane)?;
        // What is in pools may differ between endpoints; nobody may be given a nonce that one of them has. But
        // one alone, whatever it claims, moves no cursor: nothing below it could be given again.
        let unanimous = pending.is_unanimous();
        let pending = pending.highest.max(latest);
        if !unanimous && pending > before.next_nonce.max(latest) {
            return Err(Unreconciled::Disagreed);
        }
        let next_nonce = before.next_nonce.max(pending);
        let gaps = self.store.gaps(seat.id, latest, GAPS_MAX).await;
        let gaps = gaps.map_err(Unreconciled::Store)?;
        let dropped = before.free.iter().copied().filter(|free| *free < pending);
        let mut told = Reconciled {
            next_nonce,
            latest,
            pending,
            dropped: dropped.collect(),
            gaps,
            paused: before.paused.filter(|why| *why != PauseReason::Failover),
            before,
        };
        if !dry {
            let change = PauseChange::Reconcile { at_least: pending };
            let paused = self.store.pause(seat.id, change, audit).await;
            match paused.map_err(Unreconciled::Store)? {
                Paused::Now(paused) => {
                    let (lane, token) = (seat.id, told.before.token);
                    let (from, to) = (told.before.next_nonce, told.next_nonce);
                    self.log_cursor(Held { lane, token }, from, to);
                    told.paused = paused;
                }
                Paused::UnknownLane => return Err(Unreconciled::UnknownLane),
            }
            self.tell_leader(seat.lane).await;
        }
        Ok(told)
    }
}

/// Whether a transaction, as it was read, waits for nonces below it that nobody holds.
#[must_use]
pub fn waits_for_gap(record: &Record) -> bool {
    matches!(&record.state, State::Stuck(stuck) if stuck.why == Why::Gap)
}

fn agreed(count: Result<ChainCount, ChainUnavailable>) -> Result<Nonce, Unreconciled> {
    let count = count.map_err(Unreconciled::Chain)?;
    if count.is_unanimous() {
        Ok(count.highest)
    } else {
        Err(Unreconciled::Disagreed)
    }
}
