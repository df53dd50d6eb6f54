//! Verbs. What the product does, told in terms of ports that adapters fill.
//!
//! Only [`ports`] says what the outside must be able to do; nothing here knows SQL, JSON or keys.

pub mod ports;
