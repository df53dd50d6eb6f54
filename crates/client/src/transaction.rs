//! A transaction, as it stands.

use alloy_primitives::{Address, B256};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;
use uuid::Uuid;

use crate::payload::Payload;

words! {
    /// What a transaction is for.
    Kind {
        /// Fencepost signs and sends it.
        Managed = "managed",
        /// A business signs and sends it with a nonce that it was lent.
        Reserved = "reserved",
        /// It only uses up a nonce that nobody holds.
        Placeholder = "placeholder",
    }
}

words! {
    /// Where a transaction or a reservation stands.
    State {
        /// Stored, without a nonce.
        Queued = "QUEUED",
        /// It has its nonce; no node of the chain has taken it.
        Allocated = "ALLOCATED",
        /// It is, or may be, on its way.
        Tracking = "TRACKING",
        /// Final: executed.
        Confirmed = "CONFIRMED",
        /// Final: not executed as asked.
        FailedFinal = "FAILED_FINAL",
        /// It cannot move by itself; it still ends if the chain lets it.
        Stuck = "STUCK",
        /// A nonce lent out, nothing said to be sent.
        Reserved = "RESERVED",
        /// The holder says that it has sent something.
        Submitted = "SUBMITTED",
        /// Final: the lent nonce is used on chain, by whomever and however it went:
        /// [`Transaction::has_succeeded`] tells whether it was as asked.
        Used = "USED",
        /// Final: the lent nonce was given back.
        Recyclable = "RECYCLABLE",
    }
}

impl State {
    /// It has ended. Only a reorg of a final block, which the feed tells as a correction, changes that.
    #[must_use]
    pub const fn is_final(&self) -> bool {
        match self {
            Self::Confirmed | Self::FailedFinal | Self::Used | Self::Recyclable => true,
            Self::Queued
            | Self::Allocated
            | Self::Tracking
            | Self::Stuck
            | Self::Reserved
            | Self::Submitted
            | Self::Other(_) => false,
        }
    }
}

words! {
    /// Why a transaction stands where it stands. A word may belong to several states.
    SubState {
        /// QUEUED: nobody leads the signer.
        WaitingLeader = "WAITING_LEADER",
        /// QUEUED: as many are in flight as may be.
        WaitingWindow = "WAITING_WINDOW",
        /// ALLOCATED: signed, perhaps sent.
        Signed = "SIGNED",
        /// ALLOCATED and STUCK: the chain's nodes refuse it.
        Refused = "REFUSED",
        /// TRACKING: a node of the chain took it.
        Broadcast = "BROADCAST",
        /// TRACKING: nobody can say whether it was taken.
        Ambiguous = "AMBIGUOUS",
        /// TRACKING and SUBMITTED: in a block that is not deep enough.
        Mined = "MINED",
        /// TRACKING and SUBMITTED: its block was replaced.
        Reorged = "REORGED",
        /// FAILED_FINAL: executed with status 0.
        Reverted = "REVERTED",
        /// FAILED_FINAL: a cancel won, or it was cancelled before it had a nonce.
        Cancelled = "CANCELLED",
        /// FAILED_FINAL: a placeholder won.
        Placeholder = "PLACEHOLDER",
        /// FAILED_FINAL: another payload won, which a stuck policy had decided on.
        Substituted = "SUBSTITUTED",
        /// FAILED_FINAL and STUCK: a transaction that is not ours has its nonce.
        NonceTaken = "NONCE_TAKEN",
        /// FAILED_FINAL: `notAfter` passed before it had a nonce.
        Expired = "EXPIRED",
        /// FAILED_FINAL: refused before anything was signed.
        Rejected = "REJECTED",
        /// STUCK: sent, and for too long in no block.
        NoReceipt = "NO_RECEIPT",
        /// STUCK: a lower nonce is held by nobody.
        Gap = "GAP",
        /// STUCK: the signer cannot pay.
        NoFunds = "NO_FUNDS",
        /// STUCK: the key cannot be used.
        SignerError = "SIGNER_ERROR",
        /// STUCK: a block that was final has been replaced.
        ReorgAfterFinal = "REORG_AFTER_FINAL",
        /// STUCK: the stored row is not the one that was accepted, so it is not signed.
        Tampered = "TAMPERED",
    }
}

/// A transaction, as it stands.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Transaction {
    /// Its id, the same on every node for ever.
    pub tx_id: Uuid,
    /// What it is for.
    pub kind: Kind,
    /// The chain's configured name.
    pub chain: String,
    /// Who sends.
    pub signer: Address,
    /// The caller's own name for it.
    pub request_id: Option<String>,
    /// Its nonce, once it has one.
    pub nonce: Option<u64>,
    /// Where it stands.
    pub state: State,
    /// Why it stands there.
    pub sub_state: Option<SubState>,
    /// The mined attempt's hash, else the newest one's.
    pub tx_hash: Option<B256>,
    /// What is to be executed; none where nothing is.
    pub payload: Option<Payload>,
    /// How often a send was tried.
    pub submit_attempts: u32,
    /// The newest error's text.
    pub last_error: Option<String>,
    /// The block it is in.
    pub block_number: Option<u64>,
    /// That block's hash.
    pub block_hash: Option<B256>,
    /// The receipt as the chain's node gave it.
    pub receipt: Option<Value>,
    /// When it became final.
    pub confirmed_at: Option<Timestamp>,
    /// When it was stored.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// It is given no nonce after this time.
    pub not_after: Option<Timestamp>,
    /// The caller's own words.
    pub meta: Option<Value>,
    /// The name of the API key that asked for it, for keys with the scope operate.
    #[serde(default)]
    pub created_by: Option<String>,
}

impl Transaction {
    /// It has ended: see [`State::is_final`].
    #[must_use]
    pub const fn is_final(&self) -> bool {
        self.state.is_final()
    }

    /// It has ended as asked: executed, with success. That a lent nonce is used says neither by whom nor how it
    /// went: it has succeeded only if what its holder named is in the final block and its receipt has status 1.
    #[must_use]
    pub fn has_succeeded(&self) -> bool {
        match self.state {
            State::Confirmed => true,
            State::Used => self.block_number.is_some() && self.is_executed(),
            State::Queued
            | State::Allocated
            | State::Tracking
            | State::FailedFinal
            | State::Stuck
            | State::Reserved
            | State::Submitted
            | State::Recyclable
            | State::Other(_) => false,
        }
    }

    /// Whether the receipt says so. One that cannot be read says nothing.
    fn is_executed(&self) -> bool {
        let status = self.receipt.as_ref().and_then(|receipt| {
            let digits = receipt.get("status")?.as_str()?.strip_prefix("0x")?;
            u64::from_str_radix(digits, 16).ok()
        });
        status == Some(1)
    }
}
