//! Everybody who talks to the nodes: businesses that send, holders who borrow nonces, operators, and readers.

pub(crate) mod call;
pub(crate) mod request;
pub(crate) mod business;
pub(crate) mod holder;
pub(crate) mod operator;
pub(crate) mod feed;
pub(crate) mod looker;
pub(crate) mod sampler;
pub(crate) mod blocks;
