//! Remedies: asked for by a policy or an operator, claimed and carried out by the lane's leader.

use fencepost_domain::attempt::SignedFees;
use fencepost_domain::ids::{LaneId, TxId};

use fencepost_domain::ids::{NodeId, Token};
use jiff::Timestamp;

use super::{Audit, Record};

/// The store's name of a remedy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RemedyId(pub i64);

/// What is to be done. NOOP is a decision, but nothing to carry out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    /// Ask the stuck policy; what it says takes this one's place ([`super::Store::decide_remedy`]).
    Decide,
    /// Send the newest bytes again.
    Resubmit,
    /// Sign the payload again with higher fees.
    Replace,
    /// Use the nonce up instead.
    Cancel,
    /// Use the nonce up because later ones wait.
    Placeholder,
    /// Use up the nonces below it that nobody holds: what PLACEHOLDER means for one that is stuck behind
    /// a gap. Its own bytes are never touched.
    Fill,
}

impl Action {
    /// Every action.
    pub const ALL: [Self; 6] = [
        Self::Decide,
        Self::Resubmit,
        Self::Replace,
        Self::Cancel,
        Self::Placeholder,
        Self::Fill,
    ];

    /// The word that SQL and the API show.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Decide => "DECIDE",
            Self::Resubmit => "RESUBMIT",
            Self::Replace => "REPLACE",
            Self::Cancel => "CANCEL",
            Self::Placeholder => "PLACEHOLDER",
            Self::Fill => "FILL",
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

/// What a policy has decided in a round that was claimed for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decided {
    /// The remedy that was claimed as [`Action::Decide`].
    pub remedy: RemedyId,
    /// What is to be done; none is NOOP, which closes the round. Never [`Action::Decide`].
    pub action: Option<Action>,
    /// With which fees.
    pub fees: Option<SignedFees>,
    /// Who decided and why.
    pub audit: Audit,
}

/// The answer to a decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// Written. What is to be done stays claimed under our token.
    Written,
    /// Not our lane any more. Nothing was written.
    Fenced,
    /// It is not waiting for a decision under our token. Nothing was written.
    Gone,
}

/// Whose acts are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Acts {
    /// The remedies of one transaction.
    Tx(TxId),
    /// What was done to a lane itself: pauses, cursors.
    Lane(LaneId),
}

/// How far a remedy or an act is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Progress {
    /// Nobody has begun.
    Asked,
    /// The leader is at it.
    Claimed,
    /// Done.
    Done,
    /// Not done, for the reason in `result`.
    Refused,
}

impl Progress {
    /// Every one.
    pub const ALL: [Self; 4] = [Self::Asked, Self::Claimed, Self::Done, Self::Refused];

    /// The word that SQL and the API show.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Asked => "ASKED",
            Self::Claimed => "CLAIMED",
            Self::Done => "DONE",
            Self::Refused => "REFUSED",
        }
    }

    /// Reads the word back.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|each| each.word() == word)
    }
}

/// One remedy or act, as the audit tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Act {
    /// Its name; later ones have greater ones.
    pub id: RemedyId,
    /// To which transaction; none for an act on the lane.
    pub tx: Option<TxId>,
    /// Which round of the transaction.
    pub round: Option<u32>,
    /// RESUBMIT and the like, or PAUSE, RESUME, RECONCILE, RAISE_CURSOR, LOWER_CURSOR.
    pub action: String,
    /// With which fees.
    pub fees: Option<SignedFees>,
    /// Who, why, and the caller's own words.
    pub audit: Audit,
    /// How far it is.
    pub progress: Progress,
    /// Which node claimed it, and under which token.
    pub claimed: Option<(NodeId, Token)>,
    /// What came of it, in words.
    pub result: Option<String>,
    /// What an act on a lane has changed.
    pub before_after: Option<String>,
    /// When it was asked for.
    pub asked_at: Timestamp,
    /// When it was over.
    pub closed_at: Option<Timestamp>,
}
