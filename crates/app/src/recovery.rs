//! What others left undone, and what the chain undoes.

pub(crate) mod first_meeting;
pub mod adopt;
pub mod rules;
pub(crate) mod examine;
mod taken;
mod gap;
mod stuck;
pub(crate) mod consult;
pub(crate) mod decided;
pub(crate) mod remedy;
pub(crate) mod errand;
mod reorg;
mod resubmit;
