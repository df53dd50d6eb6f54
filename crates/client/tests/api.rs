//! The client against a real node with its API on a real connection: that both mean the same by every field.

#![allow(clippy::unwrap_used)] // A test may stop at any surprise.

mod api {
    pub(crate) mod world;
    #[path = "../../../http/tests/api/alone.rs"]
    pub(crate) mod alone;
    pub(crate) mod chain_steps;
    mod sending;
    mod lost_answers;
    mod reading;
    mod feed;
    mod signers;
    mod lending;
    mod operating;
    mod access;
    mod health;
    mod words;
}
