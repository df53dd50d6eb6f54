//! The only code of Fencepost that sees keys.
//!
//! A [`Keyring`] is opened once at start from a list of [`KeySpec`]s and then answers
//! [`Signer`](fencepost_app::ports::Signer). The caller reads environment and files; what it hands
//! over is wrapped so that it can be neither printed nor left behind in memory.
//!
//! | a key is | given as | signs |
//! |---|---|---|
//! | a number | [`KeySource::Private`]: 64 hex digits | here |
//! | a keystore v3 file | [`KeySource::Keystore`]: its bytes and the password | here |
//! | a range of a mnemonic | [`KeySource::Mnemonic`]: m/44'/60'/0'/0/i | here |
//! | somewhere else | [`KeySource::Remote`]: a service that speaks Web3Signer's `eth1` API | there |
//! | not ours | [`KeySource::Watch`]: an address only | never |
//!
//! ```
//! # async fn example() -> Result<(), Vec<fencepost_signer::OpenError>> {
//! use fencepost_signer::{KeySource, KeySpec, Keyring};
//!
//! let phrase = "test test test test test test test test test test test junk";
//! let range = KeySource::Mnemonic { phrase: phrase.into(), count: 3 };
//! let keyring = Keyring::open(vec![KeySpec { source: range, address: None }]).await?;
//! assert_eq!(keyring.addresses()[0].len(), 3);
//! # Ok(())
//! # }
//! # tokio::runtime::Runtime::new().unwrap().block_on(example()).unwrap();
//! ```
//!
//! # What holds
//!
//! - **Nothing is opened by halves.** Every mistake in every spec is told at once, each with its place
//!   in the list and no word of the secret; then there is no keyring.
//! - **What is signed is this account's.** A remote signature is recovered before anyone sees it, and
//!   brought to the form that chains accept (low `s`).
//! - **A slow key delays only itself.** A key here takes tens of microseconds and signs on the
//!   caller's thread. A key elsewhere has a deadline and a number of calls of its own ([`Limits`]).
//! - **Opening is bounded.** Keystores are opened off the async threads, few at a time, and one whose
//!   parameters ask for gigabytes or minutes is refused before any work is done.
//! - **Keys are wiped** when the keyring is dropped, and on the way to it.
//!
//! Signing is done by libsecp256k1: on the machine where the two were measured it signs in 34 µs and
//! recovers in 44 µs, where the pure Rust implementation takes 55 µs and 235 µs.

mod spec;
mod open;
mod keyring;
mod transaction;
mod local;
mod private;
mod keystore;
mod mnemonic;
mod remote;

pub use keyring::Keyring;
pub use keystore::BadKeystore;
pub use mnemonic::BadMnemonic;
pub use open::{Flaw, OpenError};
pub use private::BadPrivate;
pub use remote::BadUrl;
pub use spec::{KeySource, KeySpec, Limits};
