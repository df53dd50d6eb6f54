//! What others left undone, and what the chain undoes.

pub mod adopt;
mod reorg;
mod resubmit;
