//! What others left undone.

pub mod adopt;
