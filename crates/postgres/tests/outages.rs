//! What the store does when the network, a session, the server or the whole primary fails: on a real
//! PostgreSQL, behind a proxy that loses and delays on demand. Where a rule could be left out, its
//! broken twin stands beside it and shows the damage.

// A panic is how a proof says no.
#![allow(clippy::unwrap_used, clippy::missing_panics_doc)]

mod outages {
    pub(crate) mod post;
    pub(crate) mod traces;
    pub(crate) mod deed;
    mod unheard_commit;
    mod unsent_statement;
    mod running_statement;
    mod late_statement;
    mod later_question;
    mod half_sent_statement;
    mod frozen_backend;
    mod failover;
    pub(crate) mod town;
    mod witness;
    mod first_statement;
    mod second_failover;
    mod unheard_nodes;
    mod operators_acts;
    mod lost_join;
    mod unfit_server;
    pub(crate) mod load;
    mod restart;
    pub(crate) mod every_call;
    mod silence;
    mod crowding;
    mod operators_word;
    mod bad_input;
    mod clocks;
    mod opening;
    mod soundness;
}
