//! reth speaks geth's words with codes of its own (−32000 and −32003), and never by code alone: geth
//! uses −32003 for answers that are too long.

use fencepost_domain::rejection::Rejection::{Invalid, Underpriced};

use super::{Entry, word};

pub(super) const TABLE: &[Entry] = &[
    word(
        "priority fee below minimum required priority fee",
        Underpriced,
    ),
    word("gas limit exceeds max transaction gas limit", Invalid),
];
