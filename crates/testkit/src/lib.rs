//! What tests need from the outside world: a real PostgreSQL ([`postgres`]), a network that fails on
//! demand ([`proxy`]), a way to stop a session in the middle of its statement ([`gate`]) and a chain with
//! a real EVM ([`anvil`]).
//! Dev-only: nothing of a node may depend on it. `fencepost bench` does, which starts a PostgreSQL as tests do.

pub mod postgres;
pub mod proxy;
pub mod gate;
pub mod anvil;
pub mod wait;
