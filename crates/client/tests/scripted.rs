//! The client against a server that does what a test says: what is tried again, what is not, and what is told.

#![allow(clippy::unwrap_used)] // A test may stop at any surprise.

mod scripted {
    pub(crate) mod server;
    mod retries;
    mod doubts;
    mod nodes;
    mod remedies;
    mod operating;
    mod batches;
    mod strange;
    mod feed;
    mod waits;
    mod routes;
    mod nonces;
    mod late;
}
