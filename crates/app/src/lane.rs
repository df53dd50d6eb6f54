//! Lanes: who leads, until when, and the serial work of those we lead.

pub mod lease;
pub mod worker;
pub(crate) mod work;
mod memory;
mod lead;
mod align;
mod promote;
mod create;
mod renew;
mod doubt;
