//! The embedded store: one process, one SQLite file, one writer.
//!
//! Only this crate knows SQLite. Every operation runs alone, in a transaction that can take it back alone and
//! that the one writer commits for all who wait, so what an operation reads cannot change before it
//! writes: the fence is a plain read of the lane's row. Read [`SqliteStore`] first, then the
//! operations in the order of the port.

mod open;
mod migrate;
mod lock;
mod worker;
mod group;
mod store;

mod db;
mod row;
mod error;

mod identity;
mod nodes;
mod lease;
mod lanes;
mod operate;
mod import;
mod accept;
mod queue;
mod moves;
mod step;
mod due;
mod remedies;
mod acts;
mod reservations;
mod history;
mod feed;
mod retire;
mod reads;

#[cfg(test)]
mod tests;

pub use open::{SqliteStore, SystemClock};
