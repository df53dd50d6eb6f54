//! How borrowing a nonce can go wrong, for the closure and around it. Each way says who has the nonce now.

use alloy_primitives::B256;

use crate::error::Error;
use crate::loan::Lent;
use crate::problem::Problem;
use crate::reservation::Reservation;

/// Why the closure has no hash to name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NonceError<E> {
    /// It is given up, and **nothing was sent** with this nonce, in this run or an earlier one, not even perhaps:
    /// the nonce is given back, and someone else is given it next. After an error that leaves open whether a
    /// node of the chain has the bytes, this is the wrong one. Where an earlier run was retryable, or the nonce was
    /// lent to an earlier call ([`Lent::was_known`]), nobody can know that, and the nonce is left to expire.
    Permanent(E),
    /// It may go well the next time, or the bytes may have been sent: the nonce is kept, and the closure is run
    /// again with it. It should send the same bytes, not others.
    Retryable(E),
}

/// Why [`Client::with_nonce`](crate::Client::with_nonce) has no hash.
#[derive(Debug, thiserror::Error)]
pub enum WithNonceError<E> {
    /// No nonce was lent, and the closure was not run. Where the outcome is unknown, one may be lent under this
    /// request id until it expires by itself.
    #[error("no nonce was lent")]
    NotLent {
        /// Under which it was asked for.
        request_id: String,
        /// Why.
        #[source]
        source: Error,
    },
    /// The request id belongs to a reservation that has ended without its holder having named anything: it was given
    /// back, or its nonce was used by `reservation.tx_hash`, which nobody has named. The closure was not run. Unless
    /// that transaction is yours, nothing of this request was executed.
    #[error("the request id belongs to a reservation that is {}", reservation.state)]
    Ended {
        /// The reservation.
        reservation: Box<Reservation>,
    },
    /// The nonce is used for good by another transaction than the one that was named, in this call or in an earlier
    /// one under the same request id: by `reservation.tx_hash`. What was named will never be executed. If you
    /// replaced it yourself, all is well; if not, someone else uses the signer, and nothing of this request has
    /// happened. A person should look.
    #[error("it was sent as {named}, but the nonce was used by another transaction")]
    UsedByAnother {
        /// What was named.
        named: B256,
        /// The reservation.
        reservation: Box<Reservation>,
    },
    /// The closure gave up for good.
    #[error("the closure gave up: {error}")]
    GivenUp {
        /// The closure's own error.
        error: E,
        /// The nonce.
        lent: Box<Lent>,
        /// Why the nonce could not be given back at once. It is given back when it expires.
        unreturned: Option<Error>,
    },
    /// The closure gave up for good, but an earlier run may have sent, or an earlier call under the same request id:
    /// the nonce is not given back. It is left to expire, and the nodes look at the chain before they lend it again.
    #[error(
        "the closure gave up: {error}; the nonce may have been used before and is left to expire"
    )]
    LeftToExpire {
        /// The closure's own error.
        error: E,
        /// The nonce.
        lent: Box<Lent>,
    },
    /// The closure failed as often as it may. The nonce is kept until it expires: the bytes may have been sent.
    #[error("the closure failed {} times: {error}", lent.run)]
    Exhausted {
        /// The closure's last error.
        error: E,
        /// The nonce.
        lent: Box<Lent>,
    },
    /// The closure was not run, or not once more, because the reservation ends too soon and could not be
    /// extended. The nonce is kept until it expires.
    #[error("the reservation ends too soon to run the closure")]
    TooLate {
        /// The closure's last error, if it was run.
        error: Option<E>,
        /// The nonce.
        lent: Box<Lent>,
        /// Why it could not be extended.
        #[source]
        source: Option<Error>,
    },
    /// The closure was still running shortly before the reservation's end, and was cut off. It may have sent. The
    /// nonce is kept until it expires; if you know the hash, name it with [`Client::submitted`](crate::Client::submitted).
    #[error("the closure was cut off shortly before the reservation's end")]
    CutOff {
        /// The nonce.
        lent: Box<Lent>,
    },
    /// The nonce is no longer ours: it was given back and another transaction may have it, or someone has settled
    /// the reservation under the same request id. A person should look. Whether a hash that
    /// was to be named was recorded all the same is in the problem's detail.
    #[error("the nonce is no longer ours: {problem}")]
    LockLost {
        /// What the closure has sent, if it has.
        hash: Option<B256>,
        /// The nonce.
        lent: Box<Lent>,
        /// What the node said.
        problem: Box<Problem>,
    },
    /// The closure has sent, and the nodes do not know it. Where the source is retryable, **tell it again**:
    /// `client.submitted(lent.reservation_id, &lent.lock_token, hash)`, until it is answered. Where it is a
    /// refusal, such as `hash_differs`, a person should look.
    #[error("it was sent as {hash}, which could not be told")]
    Untold {
        /// What was sent.
        hash: B256,
        /// The nonce, with all that is needed to tell it again.
        lent: Box<Lent>,
        /// Why it could not be told.
        #[source]
        source: Error,
    },
}

impl<E> WithNonceError<E> {
    /// The nonce that was lent, if one was and it is not known to be used.
    #[must_use]
    pub fn lent(&self) -> Option<&Lent> {
        match self {
            Self::NotLent { .. } | Self::Ended { .. } | Self::UsedByAnother { .. } => None,
            Self::GivenUp { lent, .. }
            | Self::LeftToExpire { lent, .. }
            | Self::Exhausted { lent, .. }
            | Self::TooLate { lent, .. }
            | Self::CutOff { lent }
            | Self::LockLost { lent, .. }
            | Self::Untold { lent, .. } => Some(lent),
        }
    }
}
