//! anvil: geth's words, and its own for bytes that it has.

use fencepost_domain::rejection::Rejection::{AlreadyKnown, Invalid};

use super::{Entry, word};

pub(super) const TABLE: &[Entry] = &[
    word("transaction already imported", AlreadyKnown),
    word("intrinsic gas too high", Invalid),
];
