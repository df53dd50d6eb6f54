//! What a node says when it will not: RFC 9457, with a code that programs compare.

use std::fmt;
use std::time::Duration;

use serde::Deserialize;
use uuid::Uuid;

words! {
    /// What went wrong, as programs tell it apart. `docs/problems.md` of the server says what to do.
    Code {
        /// The body is not JSON.
        Malformed = "malformed",
        /// No API key, or one that is not known.
        Unauthorized = "unauthorized",
        /// The key does not allow this, or does not cover the signer.
        Forbidden = "forbidden",
        /// There is no such thing, or none that this key may see.
        NotFound = "not_found",
        /// No chain of that name is configured.
        UnknownChain = "unknown_chain",
        /// The signer is not configured on this chain.
        UnknownSigner = "unknown_signer",
        /// The route has no such method.
        MethodNotAllowed = "method_not_allowed",
        /// The body did not arrive in time.
        RequestTimeout = "request_timeout",
        /// The request id belongs to another request.
        IdempotencyConflict = "idempotency_conflict",
        /// Another node leads the signer, or nobody does now.
        NotLeader = "not_leader",
        /// The signer has as many in flight as it may, and a reservation never waits in its queue.
        InFlightLimit = "in_flight_limit",
        /// The nonce is held, or was never given.
        NonceNotOpen = "nonce_not_open",
        /// The signer has no nonces left.
        NoncesExhausted = "nonces_exhausted",
        /// Cursors are set and nonces taken over on a paused signer only.
        SignerNotPaused = "signer_not_paused",
        /// A nonce at or above the next one that was asked for is held, or was used.
        NonceHeld = "nonce_held",
        /// More nonces are open than an import takes.
        TooManyOpen = "too_many_open",
        /// The transaction has ended.
        AlreadyFinal = "already_final",
        /// Another remedy of the transaction is not done yet.
        RemedyRunning = "remedy_running",
        /// There is no stuck policy to ask.
        NoPolicy = "no_policy",
        /// The lent nonce is someone else's by now, or the lock token is wrong.
        LockLost = "lock_lost",
        /// The holder of a lent nonce has named another hash before.
        HashDiffers = "hash_differs",
        /// The holder of a lent nonce says that it was sent, so it is neither given back nor lent for longer.
        AlreadySubmitted = "already_submitted",
        /// The endpoints of the chain do not agree.
        ChainDisagrees = "chain_disagrees",
        /// The feed does not reach that far.
        FeedReset = "feed_reset",
        /// The body is too large.
        TooLarge = "too_large",
        /// The body is not declared as JSON.
        UnsupportedMediaType = "unsupported_media_type",
        /// Fields are wrong; `errors` names each of them.
        InvalidRequest = "invalid_request",
        /// It would be reverted now.
        PreflightReverted = "preflight_reverted",
        /// The signer gives no nonces now.
        SignerPaused = "signer_paused",
        /// The key asks too often.
        RateLimited = "rate_limited",
        /// A mistake in the server.
        InternalError = "internal_error",
        /// Too much waits already.
        Overloaded = "overloaded",
        /// The database cannot be used now.
        StoreUnavailable = "store_unavailable",
        /// The chain cannot be asked now.
        ChainUnavailable = "chain_unavailable",
        /// The node is stopping.
        Stopping = "stopping",
        /// The answer took too long, and nothing was changed.
        TimedOut = "timed_out",
        /// It cannot be said what became of it.
        OutcomeUnknown = "outcome_unknown",
    }
}

/// A node's refusal.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Problem {
    /// The status that goes with the code.
    pub status: u16,
    /// What programs compare.
    pub code: Code,
    /// A few words, always the same for one code.
    #[serde(default)]
    pub title: String,
    /// What went wrong this time, for a person.
    #[serde(default)]
    pub detail: String,
    /// The request that this is about, by the caller's name for it.
    #[serde(default)]
    pub request_id: Option<String>,
    /// The transaction that this is about.
    #[serde(default)]
    pub tx_id: Option<Uuid>,
    /// All fields that are wrong.
    #[serde(default)]
    pub errors: Vec<FieldError>,
    /// The number after which the feed begins, where it was asked for what it has not.
    #[serde(default)]
    pub begins_after: Option<u64>,
    /// When to try again, if the node says so.
    #[serde(default)]
    pub retry_after_seconds: Option<u64>,
    /// The name under which the node's log has it: the answer's `x-request-id`.
    #[serde(skip)]
    pub log_id: Option<String>,
}

/// One field that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct FieldError {
    /// The field, with a dot before the name of one that lies within another.
    pub field: String,
    /// What is wrong with it.
    pub detail: String,
}

impl Problem {
    /// The same may be answered otherwise a little later: too busy, not reachable, not led just now.
    #[must_use]
    pub fn is_passing(&self) -> bool {
        is_passing(self.status) || matches!(self.code, Code::NotLeader | Code::InFlightLimit)
    }

    /// Nothing was stored: the promise that goes with every 4xx and with 503.
    #[must_use]
    pub const fn is_nothing_done(&self) -> bool {
        self.status < 500 || self.status == 503
    }

    pub(crate) fn retry_after(&self) -> Option<Duration> {
        self.retry_after_seconds.map(Duration::from_secs)
    }
}

/// Statuses that pass by themselves, whoever answers them.
pub(crate) const fn is_passing(status: u16) -> bool {
    matches!(status, 429 | 502 | 503 | 504)
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {}", self.status, self.code, self.detail)?;
        for FieldError { field, detail } in &self.errors {
            write!(f, "; {field} {detail}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Problem {}
