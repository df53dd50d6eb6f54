//! Nouns and decisions. Pure: no tokio, no SQL, no JSON, no clock.
//!
//! Read the modules in this order: what comes in ([`ids`], [`request`]), what a transaction can be
//! ([`state`]), what can happen to it ([`transition`]), and the rules that decide ([`nonce`],
//! [`finality`]). [`flat`] is the one place that knows how a state lies in columns.

#[macro_use]
mod word;
pub mod ids;
pub mod amount;
pub mod request;
pub mod canonical;
pub mod gas;
pub mod mutant;
pub mod nonce;
pub mod fee;
pub mod attempt;
pub mod rejection;
pub mod state;
pub mod point;
pub mod transition;
pub mod event;
pub mod confirmation;
pub mod finality;
pub mod failover;
pub mod store_identity;
pub mod flat;
pub mod raw;
pub mod decision;
pub mod seal;

pub use alloy_primitives::{Address, B256, Bytes, U256, hex, keccak256};
