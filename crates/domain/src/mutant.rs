//! Rules that a test build can break, one at a time, to show that some test notices. In every other build
//! none of them is broken and nothing of this is left: the feature `mutants` is for `./test mutants` alone.

/// One broken rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mutant {
    /// A write is let in by what a snapshot says of the lane, without taking its row.
    FenceByExists,
    /// The lane's row is taken in a way that lets a takeover pass.
    KeyShare,
    /// Completions are numbered by a sequence, not in the order in which they commit.
    FeedBySequence,
    /// Bytes go out before they are stored.
    SendBeforeStore,
    /// Writes carry no token.
    NoToken,
    /// Whether a lease is over is decided by the clock of the node that wants it.
    LocalClock,
    /// Clients are told before the commit.
    AckBeforeCommit,
    /// A write without a reply is done again under a new id, with a new nonce.
    NewNonceAfterTimeout,
    /// The cursor moves by what was asked for, not by what was stored.
    CursorByInput,
    /// That fewer rows moved than were sent is not looked at before the commit.
    CountsAfterCommit,
    /// The leader gives a forwarded request an id of its own.
    ForwardWithoutId,
    /// A nonce is given back although bytes were signed for it.
    GiveBackAfterSigning,
    /// After a cancel the older bytes go out again.
    OlderAfterCancel,
    /// A block is final when one endpoint says so.
    OneWordIsFinal,
    /// A transaction without a receipt, below the chain's count, has failed.
    MissingReceiptIsFailed,
    /// What a reorg undoes stays as it was.
    ReorgIgnored,
    /// A block is final one block too early.
    FinalTooEarly,
    /// "Not there" is believed behind the old token.
    DoubtUnderOldToken,
    /// A remedy that is being carried out is given out again.
    RemedyTwice,
    /// The same request id with another payload is the same request.
    PayloadNotCompared,
    /// Whatever attempt is mined counts as the original.
    AnyAttemptIsOriginal,
    /// A lent nonce whose time is over is given back without asking the chain.
    ExpiryUnasked,
    /// A lost send is not tried again.
    SentOnce,
    /// Free nonces are given without being taken from the list.
    FreeNonceKept,
    /// A signer that waits for the last one to be final gives the next nonce when that is mined.
    RoomWhenMined,
    /// The blocks of a fork are appended to the confirmations that they replace.
    ForkAppended,
    /// A new leader publishes confirmations from what it sees first.
    ConfirmationsFromNow,
    /// Blocks that were replaced stay in a published list until the transaction ends.
    ForkToldLate,
}

impl Mutant {
    /// All of them.
    pub const ALL: [Self; 28] = [
        Self::FenceByExists,
        Self::KeyShare,
        Self::FeedBySequence,
        Self::SendBeforeStore,
        Self::NoToken,
        Self::LocalClock,
        Self::AckBeforeCommit,
        Self::NewNonceAfterTimeout,
        Self::CursorByInput,
        Self::CountsAfterCommit,
        Self::ForwardWithoutId,
        Self::GiveBackAfterSigning,
        Self::OlderAfterCancel,
        Self::OneWordIsFinal,
        Self::MissingReceiptIsFailed,
        Self::ReorgIgnored,
        Self::FinalTooEarly,
        Self::DoubtUnderOldToken,
        Self::RemedyTwice,
        Self::PayloadNotCompared,
        Self::AnyAttemptIsOriginal,
        Self::ExpiryUnasked,
        Self::SentOnce,
        Self::FreeNonceKept,
        Self::RoomWhenMined,
        Self::ForkAppended,
        Self::ConfirmationsFromNow,
        Self::ForkToldLate,
    ];

    /// Its name, as `FENCEPOST_MUTANT` names it.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::FenceByExists => "fence-by-exists",
            Self::KeyShare => "key-share",
            Self::FeedBySequence => "feed-by-sequence",
            Self::SendBeforeStore => "send-before-store",
            Self::NoToken => "no-token",
            Self::LocalClock => "local-clock",
            Self::AckBeforeCommit => "ack-before-commit",
            Self::NewNonceAfterTimeout => "new-nonce-after-timeout",
            Self::CursorByInput => "cursor-by-input",
            Self::CountsAfterCommit => "counts-after-commit",
            Self::ForwardWithoutId => "forward-without-id",
            Self::GiveBackAfterSigning => "give-back-after-signing",
            Self::OlderAfterCancel => "older-after-cancel",
            Self::OneWordIsFinal => "one-word-is-final",
            Self::MissingReceiptIsFailed => "missing-receipt-is-failed",
            Self::ReorgIgnored => "reorg-ignored",
            Self::FinalTooEarly => "final-too-early",
            Self::DoubtUnderOldToken => "doubt-under-old-token",
            Self::RemedyTwice => "remedy-twice",
            Self::PayloadNotCompared => "payload-not-compared",
            Self::AnyAttemptIsOriginal => "any-attempt-is-original",
            Self::ExpiryUnasked => "expiry-unasked",
            Self::SentOnce => "sent-once",
            Self::FreeNonceKept => "free-nonce-kept",
            Self::RoomWhenMined => "room-when-mined",
            Self::ForkAppended => "fork-appended",
            Self::ConfirmationsFromNow => "confirmations-from-now",
            Self::ForkToldLate => "fork-told-late",
        }
    }

    /// Whether this rule is broken in this process.
    #[cfg(not(feature = "mutants"))]
    #[must_use]
    pub const fn is_on(self) -> bool {
        false
    }

    /// Whether this rule is broken in this process.
    #[cfg(feature = "mutants")]
    #[must_use]
    pub fn is_on(self) -> bool {
        Self::chosen() == Some(self)
    }

    /// What `FENCEPOST_MUTANT` names. A word that is none would prove nothing, so it ends the process.
    #[cfg(feature = "mutants")]
    fn chosen() -> Option<Self> {
        static CHOSEN: std::sync::OnceLock<Option<Mutant>> = std::sync::OnceLock::new();
        *CHOSEN.get_or_init(|| {
            let word = std::env::var("FENCEPOST_MUTANT").ok()?;
            if word.is_empty() {
                return None;
            }
            let found = Self::ALL.into_iter().find(|mutant| mutant.word() == word);
            Some(found.unwrap_or_else(|| panic!("there is no mutant {word}")))
        })
    }
}
