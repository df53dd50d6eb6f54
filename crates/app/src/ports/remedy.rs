//! Remedies: asked for by a policy or an operator, claimed and carried out by the lane's leader.

use fencepost_domain::attempt::SignedFees;
use fencepost_domain::ids::{LaneId, TxId};

use super::{Audit, Record};

/// The store's name of a remedy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RemedyId(pub i64);

/// What is to be done. NOOP is a decision, but nothing to carry out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    /// Send the newest bytes again.
    Resubmit,
    /// Sign the payload again with higher fees.
    Replace,
    /// Use the nonce up instead.
    Cancel,
    /// Use the nonce up because later ones wait.
    Placeholder,
}

impl Action {
    /// Every action.
    pub const ALL: [Self; 4] = [
        Self::Resubmit,
        Self::Replace,
        Self::Cancel,
        Self::Placeholder,
    ];

    /// The word that SQL and the API show.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Resubmit => "RESUBMIT",
            Self::Replace => "REPLACE",
            Self::Cancel => "CANCEL",
            Self::Placeholder => "PLACEHOLDER",
        }
    }

    /// Reads the word back.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|action| action.word() == word)
    }
}

/// What someone wants done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewRemedy {
    /// To which transaction.
    pub tx: TxId,
    /// Which round this is: one more than the last, so that a policy is asked once for each.
    pub round: u32,
    /// What.
    pub action: Action,
    /// With which fees; none leaves the choice to the replacement rules.
    pub fees: Option<SignedFees>,
    /// Who and why.
    pub audit: Audit,
}

/// The answer to asking.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AskedRemedy {
    /// Stored.
    Asked(RemedyId),
    /// Another one is not done yet.
    Running(RemedyId),
    /// That round was asked before; this is the next free one.
    RoundTaken {
        /// The next free round.
        next: u32,
    },
    /// The transaction has ended.
    AlreadyFinal,
    /// There is no such transaction.
    NotFound,
}

/// A remedy to carry out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimedRemedy {
    /// Its name, for the move that closes it.
    pub id: RemedyId,
    /// Which round.
    pub round: u32,
    /// What.
    pub action: Action,
    /// With which fees.
    pub fees: Option<SignedFees>,
    /// Who and why.
    pub audit: Audit,
    /// To which transaction, as it stands.
    pub record: Record,
}

/// Remedies that were claimed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ClaimedRemedies {
    /// Oldest first.
    pub remedies: Vec<ClaimedRemedy>,
    /// Lanes that are no longer ours.
    pub fenced: Vec<LaneId>,
}
