//! Real nodes as real processes on a real PostgreSQL: what clients are told and what is stored while
//! nodes are killed, stopped, frozen and doubled, and while the database restarts.

#![allow(clippy::unwrap_used)] // A test may stop at any surprise.

mod cluster {
    pub(crate) mod fleet;
    pub(crate) mod load;
    mod one_as_many;
    mod leader_lost;
    mod frozen;
    mod doubled;
    mod database;
    mod promotion;
    mod old_primary;
    mod encrypted;
    mod crowd;
    mod connections;
    mod flood;
    mod memory;
    mod nonces_only;
}
