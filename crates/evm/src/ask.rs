//! The questions, one a file.

pub(crate) mod quote;
mod count;
mod consumer;
mod balance;
mod estimate;
mod funds;
mod send;
mod blocks;
mod tip;
mod receipt;
mod receipts;
mod sender;
mod reason;
