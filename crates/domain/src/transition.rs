//! What can happen to a transaction. A move consumes the old state and returns the new one with
//! the event it tells; what may not happen is refused with a reason and changes nothing.
//!
//! Each family of states has its own file; here stand what they share and who answers.

mod queued;
mod allocated;
mod tracking;
mod stuck;
mod ended;
mod lent;

use alloy_primitives::B256;

use crate::attempt::{self, Outcome};
use crate::confirmation::Publish;
use crate::event::{self, Event};
use crate::ids::Nonce;
use crate::state::{Failed, Inclusion, Seen, State, Stuck, Tracking, Why};

/// A new state and what it tells.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "nothing has happened until the store commits it"]
pub struct Transition {
    /// The new state.
    pub to: State,
    /// What the history and the outbox say.
    pub event: Event,
}

/// What can happen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// The lane's leader gave a nonce.
    Allocate(Nonce),
    /// `notAfter` passed.
    Expire,
    /// Fill, estimate or signer said no for good.
    Reject,
    /// An operator no longer wants a transaction that waits in the queue.
    Cancel,
    /// Bytes were signed.
    Sign(attempt::Kind, B256),
    /// A send came to this.
    Sent(Outcome),
    /// An attempt was seen in a block.
    Mined(Inclusion),
    /// The block under it was replaced.
    Reorged,
    /// Readers of its events do not have the blocks that are on top of the one it is in.
    Covered(Publish),
    /// The block it is in is deep enough, and the endpoints agree.
    Final,
    /// Another transaction with this nonce was seen, twice, at depth.
    Taken(Option<B256>),
    /// That other transaction is final.
    TakenFinal(Option<B256>),
    /// It cannot move. What only the chain can prove comes as `Taken` or `Reorged` instead.
    Stick(Why),
    /// What held it has passed.
    Clear,
    /// The holder of a reservation names what it has sent.
    Submit(B256),
    /// A reservation is given back: by its holder, by expiry, by an operator.
    Recycle,
}

/// Why something cannot happen in a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// It has ended; only a reorg can bring it back.
    #[error("it has ended")]
    Over,
    /// It has no nonce yet.
    #[error("it has no nonce yet")]
    NoNonce,
    /// It has its nonce already.
    #[error("it has its nonce already")]
    HasNonce,
    /// No bytes were ever stored for it.
    #[error("nothing was ever signed for it")]
    Unsigned,
    /// Bytes exist: they may be mined tomorrow, so the nonce stays and nothing is signed afresh.
    #[error("signed bytes exist, and they may still be mined")]
    Signed,
    /// It is in no block.
    #[error("it is in no block")]
    NotMined,
    /// Those blocks are not on top of the one it is in.
    #[error("those blocks are not on top of the one it is in")]
    OtherBlock,
    /// It is in a block, so nothing stands in its way.
    #[error("it is in a block")]
    InBlock,
    /// It is not stuck, not for that reason, or that reason needs more proof.
    #[error("it is not stuck for that")]
    NotStuck,
    /// Nothing would change.
    #[error("nothing would change")]
    Unchanged,
    /// We do not sign for it: its holder does.
    #[error("its holder signs for it")]
    NotOurs,
    /// It was not lent out.
    #[error("it is not a reservation")]
    NotLent,
    /// The holder named another hash before.
    #[error("another hash was named before")]
    OtherHash,
}

/// The next state, or why there is none.
pub type Outlook = Result<Transition, Refusal>;

impl Transition {
    const fn new(to: State, event: Event) -> Self {
        Self { to, event }
    }
}

impl State {
    /// Applies what happened. Total: every state has an answer to every input.
    pub fn apply(self, input: Input) -> Outlook {
        match self {
            Self::Queued(state) => state.apply(input),
            Self::Allocated(state) => state.apply(input),
            Self::Tracking(state) => state.apply(input),
            Self::Confirmed(state) => state.apply(&input),
            Self::Failed(state) => state.apply(&input),
            Self::Stuck(state) => state.apply(input),
            Self::Reserved(state) => state.apply(input),
            Self::Submitted(state) => state.apply(input),
            Self::Used(state) => state.apply(&input),
            // Its nonce is someone else's by now: nothing said here can be about it any more.
            Self::Recyclable(_) => Err(Refusal::Over),
        }
    }
}

/// Whether these may be the next bytes of a transaction of ours, `newest` being those it has.
fn signable(newest: Option<B256>, kind: attempt::Kind, hash: B256) -> Result<(), Refusal> {
    match (kind, newest) {
        // Only the holder of a reservation signs elsewhere.
        (attempt::Kind::External, _) => Err(Refusal::NotLent),
        // Equal bytes are not a new attempt.
        (_, Some(newest)) if newest == hash => Err(Refusal::Unchanged),
        // Signatures need not be deterministic and fees move: what is stored is sent again, never
        // signed again.
        (attempt::Kind::Original, Some(_)) => Err(Refusal::Signed),
        (attempt::Kind::Replacement, None) => Err(Refusal::Unsigned),
        (attempt::Kind::Original, None)
        | (attempt::Kind::Replacement, Some(_))
        | (attempt::Kind::Cancel | attempt::Kind::Placeholder | attempt::Kind::Substitute, _) => {
            Ok(())
        }
    }
}

/// Whether a transaction with these newest bytes can be stuck for this reason on our word alone.
const fn stickable(newest: Option<B256>, why: Why) -> Result<(), Refusal> {
    match (why, newest) {
        // A negative verdict needs proof, and these two begin one.
        (Why::NonceTaken | Why::ReorgAfterFinal, _) => Err(Refusal::NotStuck),
        (Why::NoReceipt | Why::Refused, None) => Err(Refusal::Unsigned),
        (Why::NoReceipt | Why::Refused, Some(_))
        | (Why::Gap | Why::NoFunds | Why::SignerError | Why::Tampered, _) => Ok(()),
    }
}

fn failed(to: Failed) -> Transition {
    Transition::new(State::Failed(to), Event::new(event::Kind::Failed))
}

/// Anything but the payload's first bytes is what somebody wanted done about it.
fn signed(kind: attempt::Kind, hash: B256) -> Event {
    let told = match kind {
        attempt::Kind::Original => event::Kind::Signed,
        attempt::Kind::Replacement
        | attempt::Kind::Cancel
        | attempt::Kind::Placeholder
        | attempt::Kind::Substitute
        | attempt::Kind::External => event::Kind::Remedied,
    };
    Event::new(told).hash(Some(hash)).note(kind.word())
}

fn submitted(hash: B256, outcome: Outcome) -> Event {
    Event::new(event::Kind::Submitted)
        .hash(Some(hash))
        .note(outcome.word())
}

/// Seen in a block. Another block than before means that a fork has replaced the first.
fn receipt(before: Option<Inclusion>, at: Inclusion) -> Result<Event, Refusal> {
    if before == Some(at) {
        return Err(Refusal::Unchanged);
    }
    let mut event = Event::new(event::Kind::Receipt)
        .hash(Some(at.hash))
        .block(at.block);
    event.new_fork = before.is_some_and(|before| before.block != at.block);
    Ok(event)
}

/// What is published of the blocks on top of the one it is in.
fn covered(at: Inclusion, publish: Publish) -> Result<Event, Refusal> {
    let event = Event::new(event::Kind::Confirmations).hash(Some(at.hash));
    let (event, blocks, stands) = match publish {
        Publish::Nothing => return Err(Refusal::Unchanged),
        Publish::Append(blocks) => {
            let above = blocks.base().0 > at.block.number;
            (event, blocks, above)
        }
        Publish::Replace(blocks) => {
            let base = (at.block.number.plus(1), at.block.hash);
            let stands = (Ok(blocks.base().0), blocks.base().1) == base;
            (event.fork(), blocks, stands)
        }
    };
    if stands {
        Ok(event.confirmations(blocks))
    } else {
        Err(Refusal::OtherBlock)
    }
}

fn forked(at: Inclusion) -> Event {
    Event::new(event::Kind::Confirmations)
        .hash(Some(at.hash))
        .block(at.block)
        .fork()
}

/// An attempt of ours is in a block, whatever we thought of it before.
fn mined(nonce: Nonce, newest: Option<B256>, before: Option<Inclusion>, at: Inclusion) -> Outlook {
    let hash = newest.ok_or(Refusal::Unsigned)?;
    // A hash that a former holder of the nonce has named is not this transaction: its being mined
    // executes nothing of ours, it takes the nonce.
    if at.by == attempt::Kind::External {
        return Err(Refusal::NotLent);
    }
    let event = receipt(before, at)?;
    let to = Tracking {
        nonce,
        hash,
        seen: Seen::Mined(at),
    };
    Ok(Transition::new(State::Tracking(to), event))
}

fn stick(nonce: Nonce, hash: Option<B256>, why: Why) -> Outlook {
    stickable(hash, why)?;
    let to = Stuck {
        nonce,
        hash,
        why,
        foreign: None,
    };
    let event = Event::new(event::Kind::Stuck).hash(hash).note(why.word());
    Ok(Transition::new(State::Stuck(to), event))
}

/// What used a nonce is foreign only until the transaction turns out to have those bytes itself.
fn another(foreign: Option<B256>, own: B256) -> Option<B256> {
    foreign.filter(|hash| *hash != own)
}

/// Bytes of our own never take our nonce from us: then it is simply in a block.
fn foreign_to(newest: Option<B256>, foreign: Option<B256>) -> Result<(), Refusal> {
    if foreign.is_some() && foreign == newest {
        return Err(Refusal::InBlock);
    }
    Ok(())
}

fn taken(nonce: Nonce, hash: Option<B256>, foreign: Option<B256>) -> Outlook {
    foreign_to(hash, foreign)?;
    let to = Stuck {
        nonce,
        hash,
        why: Why::NonceTaken,
        foreign,
    };
    let event = Event::new(event::Kind::Stuck)
        .hash(foreign)
        .note(Why::NonceTaken.word());
    Ok(Transition::new(State::Stuck(to), event))
}
