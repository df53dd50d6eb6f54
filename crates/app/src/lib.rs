//! Verbs. What the product does, told in terms of ports that adapters fill.
//!
//! Only [`ports`] says what the outside must be able to do; nothing here knows SQL, JSON or keys.
//! [`lifecycle`] is the way of a transaction, [`lane`] is who may write for it and in which order,
//! [`recovery`] is what others left undone. Steps are bounded passes; [`drive`] alone repeats them.

pub mod ports;
pub mod causes;
pub mod settings;
pub mod meters;
pub(crate) mod writes;
pub mod directory;
pub mod node;
pub mod lifecycle;
pub mod lane;
pub mod recovery;
pub mod reservation;
pub mod query;
pub mod operate;
pub mod import;
mod gauge;
mod skew;
mod failover;
pub mod store_memory;
pub mod drive;
