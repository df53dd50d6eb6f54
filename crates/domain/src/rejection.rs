//! What nodes say to bytes, and what follows from it. Texts are hints: providers rewrite them, so
//! what is not recognised is ambiguous, and the chain decides by hash and account nonce.

use crate::attempt::Outcome;

words! {
    /// Why a node did not simply take bytes.
    Rejection("rejection") {
        /// It has these very bytes.
        AlreadyKnown = "already_known",
        /// The account's count is past the nonce.
        NonceTooLow = "nonce_too_low",
        /// A lower nonce is missing in its pool.
        NonceTooHigh = "nonce_too_high",
        /// Other bytes hold the nonce in its pool and pay about as much.
        ReplacementUnderpriced = "replacement_underpriced",
        /// The fees are too low for it, now.
        Underpriced = "underpriced",
        /// Its pool is full, or full for this account.
        PoolFull = "pool_full",
        /// The account cannot pay.
        NoFunds = "no_funds",
        /// The account may have only so many in flight, or of another kind.
        Reserved = "reserved",
        /// It cannot take anything now: it is syncing, or its pool is off.
        NotReady = "not_ready",
        /// No node will ever take these bytes: gas, size, signature, chain id.
        Invalid = "invalid",
        /// It asks us to come again later, before it has looked.
        RateLimited = "rate_limited",
        /// A text that we do not know, or no answer at all.
        Unrecognised = "unrecognised",
    }
}

impl Rejection {
    /// What it says about the bytes. Only where a node has certainly not taken them, and would say
    /// so again, is it a refusal.
    #[must_use]
    pub const fn outcome(self) -> Outcome {
        match self {
            Self::AlreadyKnown => Outcome::Accepted,
            // Mined already, or someone else used the key: only the chain knows which. And a node may
            // hold, drop or queue what it complains about; the same bytes are sent again.
            Self::NonceTooLow
            | Self::NonceTooHigh
            | Self::ReplacementUnderpriced
            | Self::Reserved
            | Self::NotReady
            | Self::RateLimited
            | Self::Unrecognised => Outcome::Ambiguous,
            Self::Underpriced | Self::PoolFull | Self::NoFunds | Self::Invalid => Outcome::Refused,
        }
    }
}

/// What one endpoint said, or all of them together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// What it means for the bytes.
    pub outcome: Outcome,
    /// Why they were not simply taken.
    pub why: Option<Rejection>,
    /// The words that were used, for a person.
    pub text: Option<String>,
}

impl Reply {
    /// The endpoint took them.
    #[must_use]
    pub const fn accepted() -> Self {
        Self {
            outcome: Outcome::Accepted,
            why: None,
            text: None,
        }
    }

    /// The endpoint said this.
    #[must_use]
    pub fn rejected(why: Rejection, text: impl Into<String>) -> Self {
        Self {
            outcome: why.outcome(),
            why: Some(why),
            text: Some(text.into()),
        }
    }

    /// What several endpoints' answers come to: one acceptance is enough, and only a refusal by every
    /// one of them is a refusal. Without any answer nobody can say.
    #[must_use]
    pub fn together(replies: impl IntoIterator<Item = Self>) -> Self {
        replies
            .into_iter()
            .reduce(|a, b| if b.weight() > a.weight() { b } else { a })
            .unwrap_or_else(|| Self::rejected(Rejection::Unrecognised, "no endpoint was reached"))
    }

    const fn weight(&self) -> u8 {
        match (self.outcome, self.why) {
            (Outcome::Accepted, _) => 4,
            // The one ambiguous answer that says where to look.
            (Outcome::Ambiguous, Some(Rejection::NonceTooLow)) => 3,
            (Outcome::Ambiguous, Some(Rejection::NonceTooHigh)) => 2,
            (Outcome::Ambiguous, _) => 1,
            (Outcome::Refused, _) => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_acceptance_is_enough_and_only_all_refusals_are_one() {
        let check = |replies: &[Option<Rejection>], outcome, why| {
            let replies = replies.iter().map(|why| match why {
                None => Reply::accepted(),
                Some(why) => Reply::rejected(*why, "text"),
            });
            let together = Reply::together(replies);
            assert_eq!((together.outcome, together.why), (outcome, why));
        };
        use Rejection::{Invalid, NoFunds, NonceTooHigh, NonceTooLow, Unrecognised};
        check(&[], Outcome::Ambiguous, Some(Unrecognised));
        check(&[Some(Invalid), None], Outcome::Accepted, None);
        check(
            &[Some(Invalid), Some(NoFunds)],
            Outcome::Refused,
            Some(Invalid),
        );
        check(
            &[Some(Invalid), Some(Unrecognised)],
            Outcome::Ambiguous,
            Some(Unrecognised),
        );
        check(
            &[Some(Unrecognised), Some(NonceTooHigh), Some(NonceTooLow)],
            Outcome::Ambiguous,
            Some(NonceTooLow),
        );
        check(
            &[Some(Rejection::AlreadyKnown), Some(NonceTooLow)],
            Outcome::Accepted,
            Some(Rejection::AlreadyKnown),
        );
    }

    #[test]
    fn nothing_that_may_have_been_taken_is_a_refusal() {
        let refused: Vec<_> = Rejection::ALL
            .iter()
            .filter(|why| why.outcome() == Outcome::Refused)
            .map(|why| why.word())
            .collect();
        assert_eq!(refused, ["underpriced", "pool_full", "no_funds", "invalid"]);
    }
}
