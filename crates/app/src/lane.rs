//! Lanes: who leads, until when, and the serial work of those we lead.

pub mod lease;
pub mod worker;
pub(crate) mod work;
pub(crate) mod report;
pub(crate) mod entry;
pub(crate) mod track;
pub(crate) mod front;
pub(crate) mod moves;
pub(crate) mod gather;
mod load;
mod memory;
mod lead;
mod align;
mod begin;
mod promote;
mod create;
mod fill;
mod renew;
mod doubt;
