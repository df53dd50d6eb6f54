//! What a transaction can be. Each variant owns the facts that are true of it, so a mined state
//! without a block or an allocated one without a nonce cannot be written down.

use alloy_primitives::B256;

use crate::attempt;
use crate::ids::{Height, Nonce};

words! {
    /// What a row of `managed_tx` is for.
    Kind("kind") {
        /// We sign and send it.
        Managed = "managed",
        /// A business signs and sends it; we lend the nonce.
        Reserved = "reserved",
        /// It only uses up a nonce that nobody holds.
        Placeholder = "placeholder",
    }
}

/// A block, by height and hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Block {
    /// Its height.
    pub number: Height,
    /// Its hash; two blocks of one height are two blocks.
    pub hash: B256,
}

words! {
    /// What the receipt says of the execution.
    Execution("mined_status") {
        /// Status 1.
        Success = "SUCCESS",
        /// Status 0.
        Reverted = "REVERTED",
    }
}

/// An attempt in a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Inclusion {
    /// Where.
    pub block: Block,
    /// Which attempt.
    pub hash: B256,
    /// What kind of attempt that was: whichever is mined decides how the transaction ends.
    pub by: attempt::Kind,
    /// How its execution went.
    pub execution: Execution,
}

/// What a final inclusion decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The payload was executed.
    Executed,
    /// The payload was tried, with status 0.
    Reverted,
    /// A cancel has used the nonce up.
    Cancelled,
    /// A placeholder has used the nonce up.
    Placeholder,
    /// Something else than the payload was executed, by a policy's decision.
    Substituted,
    /// The holder of a reservation has used its nonce.
    Theirs,
}

impl Inclusion {
    /// A cancel, a placeholder and a substitute use the nonce up however their execution went.
    pub(crate) const fn verdict(self) -> Verdict {
        match (self.by, self.execution) {
            (attempt::Kind::Original | attempt::Kind::Replacement, Execution::Success) => {
                Verdict::Executed
            }
            (attempt::Kind::Original | attempt::Kind::Replacement, Execution::Reverted) => {
                Verdict::Reverted
            }
            (attempt::Kind::Cancel, _) => Verdict::Cancelled,
            (attempt::Kind::Placeholder, _) => Verdict::Placeholder,
            (attempt::Kind::Substitute, _) => Verdict::Substituted,
            (attempt::Kind::External, _) => Verdict::Theirs,
        }
    }
}

/// Where a transaction stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// Stored, without a nonce.
    Queued(Queued),
    /// It has its nonce; no node has taken bytes for it.
    Allocated(Allocated),
    /// Bytes are, or may be, on their way.
    Tracking(Tracking),
    /// Final: executed.
    Confirmed(Confirmed),
    /// Final: not executed as asked.
    Failed(Failed),
    /// It cannot move by itself; it still ends if the chain lets it.
    Stuck(Stuck),
    /// A nonce lent out, nothing said to be sent.
    Reserved(Reserved),
    /// The holder says it has sent this hash.
    Submitted(Submitted),
    /// Final: the lent nonce is used on chain.
    Used(Used),
    /// Final: the lent nonce was given back.
    Recyclable(Recyclable),
}

words! {
    /// Why a queued transaction has no nonce yet.
    Wait("sub_state") {
        /// Nobody leads the lane.
        Leader = "WAITING_LEADER",
        /// `max_in_flight` are in flight already.
        Window = "WAITING_WINDOW",
    }
}

/// Stored, without a nonce.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Queued {
    /// Why.
    pub wait: Wait,
}

/// It has its nonce; no node has taken bytes for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Allocated {
    /// Its nonce.
    pub nonce: Nonce,
    /// How far its bytes are.
    pub bytes: Signing,
}

/// How far the bytes of an allocated transaction are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signing {
    /// None exist: the nonce can still be given back.
    Unsigned,
    /// Stored, perhaps sent.
    Signed(B256),
    /// Every endpoint refused them for a cause that can pass.
    Refused(B256),
}

/// Bytes are, or may be, on their way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tracking {
    /// Its nonce.
    pub nonce: Nonce,
    /// The newest attempt.
    pub hash: B256,
    /// What was last seen of it.
    pub seen: Seen,
}

/// What was last seen of a transaction that is on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seen {
    /// A node took it.
    Broadcast,
    /// Nobody can say.
    Ambiguous,
    /// In a block that is not deep enough.
    Mined(Inclusion),
    /// Its block was replaced.
    Reorged,
}

/// Final: executed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Confirmed {
    /// Its nonce.
    pub nonce: Nonce,
    /// Where it was executed.
    pub at: Inclusion,
}

/// Final: not executed as asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failed {
    /// Executed with status 0.
    Reverted(Nonce, Inclusion),
    /// A cancel won, or it was cancelled before it had a nonce.
    Cancelled(Option<(Nonce, Inclusion)>),
    /// A placeholder won.
    Placeholder(Nonce, Inclusion),
    /// Another payload won, which a policy had decided on.
    Substituted(Nonce, Inclusion),
    /// A foreign transaction with this nonce is final.
    NonceTaken {
        /// The nonce.
        nonce: Nonce,
        /// Our newest attempt, which will never be mined.
        hash: Option<B256>,
        /// The foreign transaction, where a node could tell.
        foreign: Option<B256>,
    },
    /// `notAfter` passed before a nonce was given.
    Expired,
    /// Refused before any attempt was stored.
    Rejected {
        /// The nonce it had, given back.
        gave_back: Option<Nonce>,
    },
}

words! {
    /// Why a transaction cannot move.
    Why("sub_state") {
        /// Sent, and for too long in no block.
        NoReceipt = "NO_RECEIPT",
        /// Nodes refuse the signed bytes.
        Refused = "REFUSED",
        /// The nonce was used by a transaction that is not ours, and that is not final yet.
        NonceTaken = "NONCE_TAKEN",
        /// A lower nonce is held by nobody.
        Gap = "GAP",
        /// The signer cannot pay.
        NoFunds = "NO_FUNDS",
        /// The key cannot be used.
        SignerError = "SIGNER_ERROR",
        /// A block that was final has been replaced.
        ReorgAfterFinal = "REORG_AFTER_FINAL",
        /// The stored row is not the one that was accepted, so it is not signed.
        Tampered = "TAMPERED",
    }
}

/// It cannot move by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stuck {
    /// Its nonce.
    pub nonce: Nonce,
    /// Its newest attempt, if it was ever signed; after [`Why::ReorgAfterFinal`] the one that had
    /// been final.
    pub hash: Option<B256>,
    /// Why.
    pub why: Why,
    /// For [`Why::NonceTaken`]: the foreign transaction, where a node could tell.
    pub foreign: Option<B256>,
}

/// A nonce lent out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reserved {
    /// The nonce.
    pub nonce: Nonce,
}

/// The holder says it has sent this hash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Submitted {
    /// The nonce.
    pub nonce: Nonce,
    /// The hash it named.
    pub hash: B256,
    /// What was seen of it on chain.
    pub seen: Lent,
}

/// What was seen of a lent nonce on chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lent {
    /// Nothing yet.
    Awaited,
    /// In a block that is not deep enough.
    Mined(Inclusion),
    /// Its block was replaced.
    Reorged,
}

/// Final: the lent nonce is used on chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Used {
    /// The nonce.
    pub nonce: Nonce,
    /// The hash that its holder named, if it did.
    pub hash: Option<B256>,
    /// Where, when its use by a hash that its holder had named was seen.
    pub at: Option<Inclusion>,
    /// The transaction that used it, when it was another one and a node could tell.
    pub foreign: Option<B256>,
}

/// Final: the lent nonce was given back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recyclable {
    /// The nonce it was.
    pub gave_back: Nonce,
}

impl State {
    /// The nonce it holds now, if any.
    #[must_use]
    pub const fn nonce(&self) -> Option<Nonce> {
        match self {
            Self::Queued(_) | Self::Recyclable(_) => None,
            Self::Allocated(Allocated { nonce, .. })
            | Self::Tracking(Tracking { nonce, .. })
            | Self::Confirmed(Confirmed { nonce, .. })
            | Self::Stuck(Stuck { nonce, .. })
            | Self::Reserved(Reserved { nonce })
            | Self::Submitted(Submitted { nonce, .. })
            | Self::Used(Used { nonce, .. }) => Some(*nonce),
            Self::Failed(failed) => failed.nonce(),
        }
    }

    /// The nonce it gave back, if it did.
    #[must_use]
    pub const fn gave_back(&self) -> Option<Nonce> {
        match self {
            Self::Recyclable(Recyclable { gave_back }) => Some(*gave_back),
            Self::Failed(Failed::Rejected { gave_back }) => *gave_back,
            Self::Queued(_)
            | Self::Allocated(_)
            | Self::Tracking(_)
            | Self::Confirmed(_)
            | Self::Failed(_)
            | Self::Stuck(_)
            | Self::Reserved(_)
            | Self::Submitted(_)
            | Self::Used(_) => None,
        }
    }

    /// Nothing but a reorg of a final block moves it any more.
    #[must_use]
    pub const fn is_final(&self) -> bool {
        match self {
            Self::Confirmed(_) | Self::Failed(_) | Self::Used(_) | Self::Recyclable(_) => true,
            Self::Queued(_)
            | Self::Allocated(_)
            | Self::Tracking(_)
            | Self::Stuck(_)
            | Self::Reserved(_)
            | Self::Submitted(_) => false,
        }
    }

    /// Readers of the feed are told when a transaction gets here. A move can also leave it here
    /// (a send of stuck bytes); whether a move is told is [`crate::event::Kind::is_told`].
    #[must_use]
    pub const fn is_told(&self) -> bool {
        match self {
            Self::Confirmed(_) | Self::Failed(_) | Self::Stuck(_) | Self::Used(_) => true,
            Self::Queued(_)
            | Self::Allocated(_)
            | Self::Tracking(_)
            | Self::Reserved(_)
            | Self::Submitted(_)
            | Self::Recyclable(_) => false,
        }
    }

    /// Whether a row of this kind can be in this state.
    #[must_use]
    pub const fn fits(&self, kind: Kind) -> bool {
        let lent = match self {
            Self::Reserved(_) | Self::Submitted(_) | Self::Used(_) | Self::Recyclable(_) => true,
            Self::Queued(_)
            | Self::Allocated(_)
            | Self::Tracking(_)
            | Self::Confirmed(_)
            | Self::Failed(_)
            | Self::Stuck(_) => false,
        };
        match kind {
            Kind::Managed | Kind::Placeholder => !lent,
            Kind::Reserved => lent,
        }
    }
}

impl Failed {
    /// The nonce that stays this transaction's, if any.
    #[must_use]
    pub const fn nonce(&self) -> Option<Nonce> {
        match self {
            Self::Reverted(nonce, _)
            | Self::Placeholder(nonce, _)
            | Self::Substituted(nonce, _)
            | Self::Cancelled(Some((nonce, _)))
            | Self::NonceTaken { nonce, .. } => Some(*nonce),
            Self::Cancelled(None) | Self::Expired | Self::Rejected { .. } => None,
        }
    }
}
