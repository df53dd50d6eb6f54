//! Several nodes in one process, on one store, in virtual time: what they answer, who leads, and what
//! becomes of transactions on a chain that misbehaves.

#![allow(clippy::unwrap_used)] // A test may stop at any surprise.

mod world {
    pub(crate) mod nodes;
    pub(crate) mod chain;
    mod accepting;
    mod leading;
    mod waiting;
    mod points;
    mod cursor;
    pub(crate) mod faults;
    pub(crate) mod life;
    mod sending;
    mod ambiguous;
    mod reorgs;
    mod forks;
    mod lies;
    mod takeover;
    mod keys;
    pub(crate) mod care;
    mod stuck;
    mod remedies;
    mod policy;
    mod decisions;
    mod taken;
    mod gaps;
    pub(crate) mod loans;
    pub(crate) mod hooks;
    mod lost_races;
    mod rounds;
    mod true_ends;
    mod fair_waits;
    mod sharing;
    mod gauges;
    mod retiring;
    mod strict;
    pub(crate) mod by_clock;
    mod some_without_rpc;
    mod unreadable;
    mod handing_over;
}
