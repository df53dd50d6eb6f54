//! Signers as operators see them.

use alloy_primitives::Address;
use jiff::Timestamp;
use serde::Deserialize;
use uuid::Uuid;

use crate::call::Call;
use crate::client::Client;
use crate::error::Error;
use crate::transaction::{State, SubState};

words! {
    /// Why a signer gives no nonces.
    PauseReason {
        /// An operator said so.
        Operator = "OPERATOR",
        /// The chain's count ran away from the cursor.
        CursorJump = "CURSOR_JUMP",
        /// A nonce that was about to be given is held already.
        NonceClash = "NONCE_CLASH",
        /// The database was failed over; only reconciling lifts this.
        Failover = "FAILOVER",
    }
}

/// A signer on a chain.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Signer {
    /// The address.
    pub signer: Address,
    /// The chain's configured name.
    pub chain: String,
    /// Who leads it now.
    pub leader: Option<Leader>,
    /// The next nonce to be given; none where `api.hide_nonces` hides nonces from this key.
    pub next_nonce: Option<u64>,
    /// How many transactions of it the chain has in blocks, where the chain can be asked; lists ask no chain.
    pub chain_latest: Option<u64>,
    /// The same with what waits in the pools.
    pub chain_pending: Option<u64>,
    /// Transactions that hold a nonce and are in no block.
    pub in_flight: u64,
    /// Transactions that wait for a nonce.
    pub queued: u64,
    /// Age of the oldest transaction that has not ended.
    pub oldest_age_seconds: Option<u64>,
    /// Transactions that cannot move by themselves.
    pub stuck: u64,
    /// Nonces that nobody holds and that later transactions wait for.
    pub gaps: Vec<u64>,
    /// Nonces that were given back and are given out next.
    pub free_nonces: Vec<u64>,
    /// Why no nonces are given, if so.
    pub paused: Option<PauseReason>,
    /// Why its first nonce cannot be given yet; lists ask no chain and leave it out.
    pub waiting: Option<Waiting>,
    /// The unfinished transaction with the lowest nonce: what all later ones wait for.
    pub head: Option<Head>,
}

words! {
    /// Why a signer that has been given no nonce cannot begin.
    WaitingReason {
        /// No endpoint can be asked.
        ChainUnreachable = "CHAIN_UNREACHABLE",
        /// Endpoints give different counts; it begins once they agree, or where an operator sets the cursor.
        EndpointsDisagree = "ENDPOINTS_DISAGREE",
        /// The chain has used the configured first nonce.
        StartUsed = "START_USED",
    }
}

/// Why a signer that has been given no nonce cannot begin.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Waiting {
    /// Which of the reasons.
    pub reason: WaitingReason,
    /// The reason in words, with the counts.
    pub why: String,
}

/// Who leads a signer.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Leader {
    /// The node's id.
    pub node: String,
    /// Where other nodes reach it.
    pub url: String,
    /// Its fencing token.
    pub token: u64,
    /// Until when, unless it renews.
    pub expires_at: Timestamp,
}

/// The unfinished transaction with the lowest nonce.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Head {
    /// The transaction.
    pub tx_id: Uuid,
    /// Its nonce.
    pub nonce: Option<u64>,
    /// Where it stands.
    pub state: State,
    /// Why it stands there.
    pub sub_state: Option<SubState>,
    /// Why it stands there, in words for a person.
    pub why: Option<String>,
}

/// Which signers are listed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SignerFilter {
    /// Only on this chain.
    pub chain: Option<String>,
    /// How many at most, up to 1,000, which is also what is given where nothing is said.
    pub limit: Option<u32>,
    /// The `next_cursor` of the page before.
    pub cursor: Option<String>,
}

/// A page of signers.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct SignerPage {
    /// The signers, chain by chain. A key that covers some only sees theirs, so a page may be empty and not
    /// the last.
    pub signers: Vec<Signer>,
    /// Gives the next page; none where there is none.
    pub next_cursor: Option<String>,
}

impl Client {
    /// A page of signers.
    pub async fn signers(&self, filter: &SignerFilter) -> Result<SignerPage, Error> {
        let call = Call::get(["signers"])
            .with("chain", filter.chain.as_ref())
            .with("limit", filter.limit)
            .with("cursor", filter.cursor.as_ref());
        self.told(call).await
    }

    /// One signer on one chain, with what the chain counts.
    pub async fn signer(&self, signer: Address, chain: Option<&str>) -> Result<Signer, Error> {
        let signer = signer.to_string();
        self.told(Call::get(["signers", &signer]).with("chain", chain))
            .await
    }
}
