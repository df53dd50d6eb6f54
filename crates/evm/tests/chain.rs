//! The whole adapter over scripted endpoints, in virtual time: no sockets, no sleeps, no luck.

#![allow(clippy::unwrap_used)] // A test may stop at any surprise.

mod chain {
    pub(crate) mod script;

    mod health;
    mod sends;
    mod batches;
    mod reads;
    mod receipts;
    mod consumer;
    mod fees;
    mod garbage;
}
