//! What tests need from the outside world: a real PostgreSQL ([`postgres`]), a network that fails on
//! demand ([`proxy`]) and a way to stop a session in the middle of its statement ([`gate`]).
//! Dev-only: nothing here may be a dependency of the product.

pub mod postgres;
pub mod proxy;
pub mod gate;
pub mod wait;
