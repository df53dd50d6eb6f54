//! Erigon: `<IMPORT RESULT>: <reason>`, always −32000. Reasons are words as short as "underpriced" and
//! "spammer", so they count only behind its own prefixes or in its own mouth.

use fencepost_domain::rejection::Rejection::{
    AlreadyKnown, Invalid, NonceTooHigh, NotReady, PoolFull, ReplacementUnderpriced, Reserved,
    Underpriced,
};

use super::{Entry, start, word};

pub(super) const TABLE: &[Entry] = &[
    start("already_exists", AlreadyKnown),
    word("existing txn with same hash", AlreadyKnown),
    word("nonce gap too large", NonceTooHigh),
    word(
        "replacement transaction underpriced",
        ReplacementUnderpriced,
    ),
    word("could not replace existing tx", ReplacementUnderpriced),
    word("can't replace blob-txn", Reserved),
    word("authority already reserved", Reserved),
    // Behind the replacements, which have the same prefix.
    start("fee_too_low", Underpriced),
    word("fee too low", Underpriced),
    word("underpriced", Underpriced),
    word("sub-pool is full", PoolFull),
    word("blobs limit in txpool is full", PoolFull),
    word("spammer", PoolFull),
    word("gas limit is too high", Invalid),
    word("intrinsicgas", Invalid),
    word("rlptoolong", Invalid),
    word("error getting sender state during tx validation", NotReady),
];
