//! The stuck policy: what the business wants done about the head of a lane that does not move.

use std::time::Duration;

use async_trait::async_trait;
use fencepost_domain::attempt::{self, SignedFees};
use fencepost_domain::decision::{After, Severity};
use fencepost_domain::flat::Name;
use fencepost_domain::ids::{Lane, Nonce, RequestId, TxId};
use fencepost_domain::request::{Meta, Payload};
use fencepost_domain::state::{Kind, Why};
use fencepost_domain::{B256, Bytes};

use super::Action;

/// What a policy is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plight {
    /// The chain's configured name.
    pub chain: String,
    /// The lane.
    pub lane: Lane,
    /// The transaction that all later ones of the lane wait for.
    pub tx: TxId,
    /// What it is for.
    pub kind: Kind,
    /// Its nonce.
    pub nonce: Nonce,
    /// The client's own name for it.
    pub request_id: Option<RequestId>,
    /// The client's own words.
    pub meta: Option<Meta>,
    /// All hashes that were ever stored for it, the newest last.
    pub hashes: Vec<B256>,
    /// The fees of the newest bytes.
    pub fees: Option<SignedFees>,
    /// Their kind.
    pub newest: Option<attempt::Kind>,
    /// What it is to execute; none for a placeholder.
    pub payload: Option<Payload>,
    /// Where it stands.
    pub state: Name,
    /// Its sub-state.
    pub sub_state: Option<&'static str>,
    /// Why it does not move; none where somebody has asked about one that is not stuck.
    pub why: Option<Why>,
    /// How often a send was tried.
    pub submit_attempts: u32,
    /// The newest error's text.
    pub last_error: Option<String>,
    /// For how long the lane has waited for it.
    pub age: Duration,
    /// How many of the lane hold a nonce and are in no block, this one among them.
    pub backlog: u64,
    /// Nonces below it that nobody holds.
    pub gaps: Vec<Nonce>,
    /// Which round this is, from 1; operators' remedies count too.
    pub round: u32,
}

/// What a policy says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Advice {
    /// What is to be done; none is NOOP. Never [`Action::Decide`].
    pub action: Option<Action>,
    /// For an action that signs: with which fees; none leaves the choice to the replacement rules.
    pub fees: Option<SignedFees>,
    /// For an action that signs: what is executed or sent instead.
    pub instead: Option<Instead>,
    /// How urgent it is for people.
    pub severity: Option<Severity>,
    /// Where the transaction stands afterwards; none leaves that to the action.
    pub after: Option<After>,
    /// For a replacement without fees: by how many percent more, instead of the chain's setting.
    pub bump_percent: Option<u32>,
    /// For a replacement without fees: it pays no more than this, beside the chain's own ceiling.
    pub fee_max: Option<u128>,
    /// In the words of whoever decided.
    pub reason: String,
    /// JSON text of whoever decided: ticket and the like.
    pub details: Option<String>,
}

/// What a policy brings of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Instead {
    /// A payload, which we sign.
    Payload(Payload),
    /// Bytes that were signed elsewhere for this signer, chain and nonce.
    Raw(Bytes),
}

impl Advice {
    /// Nothing is to be done.
    #[must_use]
    pub fn noop(reason: impl Into<String>) -> Self {
        Self {
            action: None,
            fees: None,
            instead: None,
            severity: None,
            after: None,
            bump_percent: None,
            fee_max: None,
            reason: reason.into(),
            details: None,
        }
    }
}

/// Who decides about stuck transactions. It is asked once for each round, by the lane's leader, after
/// the round was claimed in the store; an answer that does not come in time is NOOP.
#[async_trait]
pub trait Policy: Send + Sync {
    /// The word that audits and logs show: `noop`, `rules`, `http` or the embedder's own.
    fn name(&self) -> &str;

    /// Whether it never says anything but NOOP: then it is never asked.
    fn is_passive(&self) -> bool {
        false
    }

    /// Whether it would say anything but NOOP. Asked often and before a round is claimed, so it must
    /// be quick and touch nothing outside.
    fn is_worth_asking(&self, plight: &Plight) -> bool;

    /// What is to be done.
    async fn decide(&self, plight: &Plight) -> Advice;
}

/// The default: alert, and keep trying.
#[derive(Debug, Clone, Copy, Default)]
pub struct Noop;

#[async_trait]
impl Policy for Noop {
    fn name(&self) -> &'static str {
        "noop"
    }

    fn is_passive(&self) -> bool {
        true
    }

    fn is_worth_asking(&self, _: &Plight) -> bool {
        false
    }

    async fn decide(&self, _: &Plight) -> Advice {
        Advice::noop("nothing is done by itself")
    }
}
