//! geth says everything with −32000, in words that others have taken over: see the generic table.
//! Here stand only words that mean something else in other mouths.

use fencepost_domain::rejection::Rejection::PoolFull;

use super::{Entry, word};

pub(super) const TABLE: &[Entry] = &[
    // A provider's account has limits, too.
    word("account limit exceeded", PoolFull),
];
