//! The API against a real node on an embedded store: what it answers, and what is stored.

#![allow(clippy::unwrap_used)] // A test may stop at any surprise.

mod api {
    pub(crate) mod world;
    pub(crate) mod alone;
    pub(crate) mod sabotage;
    pub(crate) mod chain_steps;
    pub(crate) mod counting;
    mod creating;
    mod wrong_fields;
    mod batches;
    mod reserving;
    mod several;
    mod holders;
    mod used;
    mod remedies;
    mod acts;
    mod reconciling;
    mod importing;
    mod placeholders;
    mod reading;
    mod pages;
    mod cursors;
    mod feed;
    mod waits;
    mod retired;
    mod signers;
    mod gaps;
    mod access;
    mod rotation;
    mod audit;
    mod key_names;
    mod outages;
    mod hidden_nonces;
    mod numbers;
    mod envelope;
    mod description;
    mod fuzz;
    mod forwarding;
    mod elsewhere;
    mod nudging;
    mod serving;
    mod warnings;
    mod policy;
    mod signed_answers;
}
