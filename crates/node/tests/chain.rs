//! Real nodes as real processes, on a real PostgreSQL, that sign and send to a chain: a devchain in this
//! process, or anvil. What the chain holds afterwards is compared with what the API tells.

#![allow(clippy::unwrap_used)] // A test may stop at any surprise.

mod chain {
    pub(crate) mod fleet;
    pub(crate) mod member;
    pub(crate) mod ledger;
    #[cfg(debug_assertions)] // The traps are absent from release builds.
    mod crashes;
    mod order;
    mod waits;
    mod cost;
    mod hanging;
    pub(crate) mod rpc;
    mod anvil;
    mod heads;
    mod reorgs;
    mod forks;
    pub(crate) mod market;
    pub(crate) mod care;
    mod stuck;
    #[cfg(debug_assertions)]
    mod heirs;
    mod foreign;
    pub(crate) mod holder;
    mod mixed;
    pub(crate) mod calls;
    mod loans;
    mod older;
    mod gaps;
    mod policy;
    mod decisions;
    pub(crate) mod typed;
    mod operator;
    mod migrating;
    mod starting;
    mod first_meeting;
    mod examples;
    mod strict;
    mod tampered;
    #[cfg(debug_assertions)] // A clock can be set wrong in debug builds only.
    mod clocks;
}
