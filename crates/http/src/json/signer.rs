//! A signer on a chain, as an operator sees it.

use fencepost_app::ports::{LaneView, Leader, PauseReason, Record};
use fencepost_app::query::{Counts, Unbegun};
use fencepost_domain::ids::Nonce;
use jiff::Timestamp;
use serde::Serialize;
use utoipa::ToSchema;
use uuid::Uuid;

use super::scalar::{Eip55, Moment};
use super::why::why;
use super::words;
use crate::access::{Caller, HIDDEN};
use crate::chains::Chains;

/// A signer on a chain
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Signer {
    /// The address
    signer: Eip55,
    /// The chain's configured name
    chain: String,
    /// Who leads it now
    #[schema(required = true)]
    leader: Option<LeaderView>,
    /// The next nonce to be given; none for keys that see no nonces
    #[schema(required = true)]
    next_nonce: Option<u64>,
    /// How many transactions of it the chain has in blocks, where the chain can be asked; lists of signers
    /// ask no chain
    #[schema(required = true)]
    chain_latest: Option<u64>,
    /// The same with what waits in the pools
    #[schema(required = true)]
    chain_pending: Option<u64>,
    /// Transactions that hold a nonce and are in no block
    in_flight: u64,
    /// Transactions that wait for a nonce
    queued: u64,
    /// Age of the oldest transaction that has not ended
    #[schema(required = true)]
    oldest_age_seconds: Option<u64>,
    /// Transactions that cannot move by themselves
    stuck: u64,
    /// Nonces that nobody holds and that later transactions wait for: those that were given back are among
    /// them. Where the chain was not asked, none below the oldest unfinished one but those. Empty for keys that
    /// see no nonces
    gaps: Vec<u64>,
    /// Nonces that were given back and are given out next; empty for keys that see no nonces
    free_nonces: Vec<u64>,
    /// Why no nonces are given, if so
    #[schema(schema_with = words::paused, required = true)]
    paused: Option<&'static str>,
    /// Why its first nonce cannot be given yet; lists of signers ask no chain and leave it out
    #[schema(required = true)]
    waiting: Option<Waiting>,
    /// The unfinished transaction with the lowest nonce
    #[schema(required = true)]
    head: Option<Head>,
}

/// Why a signer that has been given no nonce here cannot begin; its requests are QUEUED meanwhile
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Waiting {
    /// Which of the reasons
    #[schema(schema_with = words::waiting, required = true)]
    reason: &'static str,
    /// The reason in words, with the counts
    why: String,
}

impl From<Unbegun> for Waiting {
    fn from(unbegun: Unbegun) -> Self {
        let (reason, why) = match unbegun {
            Unbegun::Unreachable => (
                words::CHAIN_UNREACHABLE,
                "no endpoint says how many transactions the account has sent".to_owned(),
            ),
            Unbegun::Disagreed(count) => (
                words::ENDPOINTS_DISAGREE,
                format!(
                    "endpoints disagree: the lowest count of the account's transactions is {}, the highest {}",
                    count.lowest, count.highest
                ),
            ),
            Unbegun::Used { start, latest } => (
                words::START_USED,
                format!(
                    "the configured start is nonce {start}, and the chain has used all below {latest}"
                ),
            ),
        };
        Self { reason, why }
    }
}

/// Who leads a signer
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Leader)]
pub(crate) struct LeaderView {
    /// The node's id
    node: String,
    /// Where other nodes reach it
    url: String,
    /// Its fencing token
    token: u64,
    /// Until when, unless it renews
    expires_at: Moment,
}

/// The unfinished transaction with the lowest nonce: what all later ones wait for
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Head {
    /// The transaction
    tx_id: Uuid,
    /// Its nonce
    #[schema(required = true)]
    nonce: Option<u64>,
    /// Where it stands
    #[schema(schema_with = words::state, required = true)]
    state: &'static str,
    /// Why it stands there
    #[schema(schema_with = words::sub_state, required = true)]
    sub_state: Option<&'static str>,
    /// Why it stands there, in words, with its newest error
    why: String,
}

impl Signer {
    pub(crate) fn of(view: &LaneView, gaps: &[Nonce], chains: &Chains, now: Timestamp) -> Self {
        let age = view.oldest_at.map(|at| now.duration_since(at).as_secs());
        Self {
            signer: Eip55(view.lane.signer),
            chain: chains.name(view.lane.chain).into_owned(),
            leader: view.leader.as_ref().map(LeaderView::from),
            next_nonce: Some(view.next_nonce.get()),
            chain_latest: None,
            chain_pending: None,
            in_flight: view.in_flight,
            queued: view.queued,
            // The clocks of the store and of this node may differ; nothing is younger than now.
            oldest_age_seconds: age.map(|age| age.max(0).unsigned_abs()),
            stuck: view.stuck,
            gaps: gaps.iter().map(|nonce| nonce.get()).collect(),
            free_nonces: view.free.iter().map(|nonce| nonce.get()).collect(),
            paused: view.paused.map(|reason| reason.word()),
            waiting: None,
            head: view.head.as_deref().map(|head| Head::of(head, gaps, now)),
        }
    }

    /// The same, with what the chain says.
    pub(crate) fn counted(self, counts: Counts) -> Self {
        Self {
            chain_latest: counts.latest.map(|count| count.highest.get()),
            chain_pending: counts.pending.map(|count| count.highest.get()),
            ..self
        }
    }

    /// The same, with why its first nonce cannot be given.
    pub(crate) fn waiting(self, unbegun: Option<Unbegun>) -> Self {
        Self {
            waiting: unbegun.map(Waiting::from),
            ..self
        }
    }

    /// The same, as a caller may see it.
    pub(crate) fn shown_to(mut self, caller: &Caller) -> Self {
        if caller.sees_nonces {
            return self;
        }
        (self.next_nonce, self.chain_latest, self.chain_pending) = (None, None, None);
        self.gaps.clear();
        self.free_nonces.clear();
        if let Some(waiting) = &mut self.waiting {
            // The counts in it are nonces; that and for which reason it waits is told.
            HIDDEN.clone_into(&mut waiting.why);
        }
        if let Some(head) = &mut self.head {
            head.nonce = None;
            head.why = caller.words(std::mem::take(&mut head.why));
        }
        self
    }

    /// The same, with another answer to why no nonces are given.
    pub(crate) fn paused(self, paused: Option<PauseReason>) -> Self {
        Self {
            paused: paused.map(PauseReason::word),
            ..self
        }
    }
}

impl From<&Leader> for LeaderView {
    fn from(leader: &Leader) -> Self {
        Self {
            node: leader.node.as_str().to_owned(),
            url: leader.url.clone(),
            token: leader.token.get(),
            expires_at: Moment(leader.expires_at),
        }
    }
}

impl Head {
    fn of(record: &Record, gaps: &[Nonce], now: Timestamp) -> Self {
        Self {
            tx_id: record.tx.0,
            nonce: record.state.nonce().map(|nonce| nonce.get()),
            state: record.state.name().word(),
            sub_state: record.state.sub(),
            why: why(record, gaps, now),
        }
    }
}

/// Signers, chain by chain
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Signers {
    /// The signers
    pub(crate) signers: Vec<Signer>,
    /// Gives the next page; none where there is none
    #[schema(required = true)]
    pub(crate) next_cursor: Option<String>,
}
