//! What others left undone, and what the chain undoes.

pub mod adopt;
pub mod rules;
mod reorg;
mod resubmit;
