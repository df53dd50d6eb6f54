//! Several nodes in one process, on one store, in virtual time: what they answer, and who leads.

#![allow(clippy::unwrap_used)] // A test may stop at any surprise.

mod world {
    pub(crate) mod nodes;
    pub(crate) mod chain;
    mod accepting;
    mod leading;
    mod waiting;
    mod cursor;
    mod faults;
}
