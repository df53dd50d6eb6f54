//! Remedies: asked for by a policy or an operator, claimed and carried out by the lane's leader.

use std::time::Duration;

use fencepost_domain::Bytes;
use fencepost_domain::attempt::SignedFees;
use fencepost_domain::decision::{After, Severity};
use fencepost_domain::ids::{Lane, LaneId, NodeId, Token, TxId};
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
    /// Bytes that a policy has brought, or had signed, for it.
    pub raw: Option<Bytes>,
    /// How urgent a policy has called it.
    pub severity: Option<Severity>,
    /// Where the transaction stands afterwards, where a policy has said so.
    pub after: Option<After>,
    /// No leader has claimed it before: if it is a question, nobody was asked yet.
    pub is_first_claim: bool,
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
    /// Signed bytes that carry it out: the policy's own, or signed for the payload that it has brought. They are stored
    /// with the decision, so that the next leader stores and sends the same.
    pub raw: Option<Bytes>,
    /// How urgent it is.
    pub severity: Option<Severity>,
    /// Where the transaction stands afterwards; none leaves that to the action.
    pub after: Option<After>,
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
    /// Everything above this id, oldest first: remedies, acts on lanes and refused calls. No act with a lower id than one
    /// that was returned appears later.
    After(RemedyId),
}

/// The beginning of a list of acts, oldest first, below which no act can still appear. Ids are given before statements
/// commit, and some never do: an id that is still missing when the act above it is older than `wait` stays missing.
/// `wait` must be longer than any statement can run.
#[must_use]
pub fn settled(acts: Vec<Act>, after: RemedyId, now: Timestamp, wait: Duration) -> Vec<Act> {
    let mut last = after.0;
    let is_settled = |act: &Act| {
        let follows = act.id.0 == last.saturating_add(1);
        last = act.id.0;
        follows || now.duration_since(act.asked_at).unsigned_abs() >= wait
    };
    acts.into_iter().take_while(is_settled).collect()
}

/// The action of a call that was refused.
pub const REFUSED_CALL: &str = "CALL";

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
    /// In which lane; none for a call that was refused.
    pub lane: Option<Lane>,
    /// To which transaction; none for an act on the lane.
    pub tx: Option<TxId>,
    /// Which round of the transaction.
    pub round: Option<u32>,
    /// RESUBMIT and the like, or PAUSE, RESUME, RECONCILE, RAISE_CURSOR, LOWER_CURSOR, IMPORT, or [`REFUSED_CALL`].
    pub action: String,
    /// With which fees.
    pub fees: Option<SignedFees>,
    /// How urgent a policy has called it.
    pub severity: Option<Severity>,
    /// Where the transaction was to stand afterwards.
    pub after: Option<After>,
    /// Who, why, and the caller's own words.
    pub audit: Audit,
    /// How far it is.
    pub progress: Progress,
    /// Which node claimed it, and under which token.
    pub claimed: Option<(NodeId, Token)>,
    /// What came of it, in words.
    pub result: Option<String>,
    /// The lane's token after an act on the lane.
    pub token: Option<Token>,
    /// What an act on a lane has changed.
    pub before_after: Option<String>,
    /// When it was asked for.
    pub asked_at: Timestamp,
    /// When it was over.
    pub closed_at: Option<Timestamp>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_never_passes_an_id_that_may_still_appear() {
        let now: Timestamp = "2026-01-01T12:00:00Z".parse().unwrap();
        let act = |(id, age): (i64, i64)| Act {
            id: RemedyId(id),
            lane: None,
            tx: None,
            round: None,
            action: REFUSED_CALL.to_owned(),
            fees: None,
            severity: None,
            after: None,
            audit: Audit {
                by: "ops".to_owned(),
                reason: "forbidden".to_owned(),
                details: None,
                node: None,
            },
            progress: Progress::Refused,
            claimed: None,
            result: None,
            token: None,
            before_after: None,
            asked_at: Timestamp::from_second(now.as_second() - age).unwrap(),
            closed_at: Some(now),
        };
        let check = |after: i64, found: &[(i64, i64)], expected: &[i64]| {
            let acts = found.iter().copied().map(act).collect();
            let read = settled(acts, RemedyId(after), now, Duration::from_secs(60)).into_iter();
            let read: Vec<i64> = read.map(|act| act.id.0).collect();
            assert_eq!(read, expected, "{found:?}");
        };
        check(0, &[(1, 0), (2, 0), (3, 0)], &[1, 2, 3]);
        check(0, &[(1, 0), (3, 0), (4, 0)], &[1]);
        check(0, &[(2, 0)], &[]);
        check(1, &[(2, 0)], &[2]);
        // What was missing for so long was never stored.
        check(0, &[(1, 90), (3, 60), (4, 59), (6, 59)], &[1, 3, 4]);
    }
}
