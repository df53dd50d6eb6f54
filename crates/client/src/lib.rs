//! The client of Fencepost, the transaction and nonce manager for EVM chains.
//!
//! # Sending
//!
//! A [`NewTransaction`] has its request id before anything is sent, so every retry, of the client or of your own
//! code, is the same request and can never become a second transaction.
//!
//! ```no_run
//! # async fn flow() -> Result<(), Box<dyn std::error::Error>> {
//! use std::time::Duration;
//!
//! use alloy_primitives::{U256, address};
//! use fencepost_client::{Client, NewTransaction, Payload, Until};
//!
//! let client = Client::new("http://127.0.0.1:8700")?;
//! let signer = address!("f39Fd6e51aad88F6F4ce6aB8827279cffFb92266");
//! let to = address!("70997970C51812dc3A010C7d01b50e0d17dc79C8");
//! let payment = NewTransaction::new(signer, Payload::transfer(to, U256::from(1_000)))
//!     .named("invoice-4711");
//! let accepted = client.send(&payment).await?;
//! let ended = client
//!     .wait(accepted.transaction.tx_id, Until::Final, Duration::from_secs(600))
//!     .await?;
//! assert!(ended.has_succeeded(), "{} {:?}", ended.state, ended.sub_state);
//! # Ok(())
//! # }
//! ```
//!
//! Many at once, each with a result of its own:
//!
//! ```no_run
//! # use fencepost_client::{Client, Error, NewTransaction};
//! # async fn flow(client: Client, payments: Vec<NewTransaction>) -> Result<(), Error> {
//! for (payment, result) in payments.iter().zip(client.send_batch(&payments).await?) {
//!     match result {
//!         Ok(accepted) => println!("{:?}", accepted.transaction.nonce),
//!         // Send the same value again: that is always safe.
//!         Err(error) if error.outcome_unknown() => println!("{} is open", payment.request_id()),
//!         Err(error) => println!("{} was refused: {error}", payment.request_id()),
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # Learning how they ended
//!
//! [`Client::wait`] follows one transaction. A service with many reads the feed ([`Client::completions`]), which
//! numbers every end without a gap and can be read on after a restart.
//!
//! # Signing by yourself
//!
//! [`Client::with_nonce`] borrows a nonce for a closure that signs and sends.
//!
//! # Operating
//!
//! Stuck transactions are listed by [`Client::transactions`] and helped by [`Client::remedy`]; signers are paused,
//! resumed and reconciled with their chain:
//!
//! ```no_run
//! # use alloy_primitives::Address;
//! # use fencepost_client::{Client, Error};
//! # async fn flow(client: Client, signer: Address) -> Result<(), Error> {
//! use fencepost_client::Act;
//!
//! let why = Act::because("the key is being moved").audit(serde_json::json!({ "ticket": "OPS-7" }));
//! client.pause(signer, &why).await?;
//! println!("{:?}", client.reconcile_dry(signer, &why).await?.next_nonce);
//! client.resume(signer, &why).await?;
//! # Ok(())
//! # }
//! ```
//!
//! # When it fails
//!
//! Every call is bounded in tries and in time ([`Retry`]). Connections that cannot be made, answers that do not
//! come, 429, 502, 503, 504, 409 `not_leader` and 409 `in_flight_limit` are tried again, at the next node where that may help; other
//! refusals are not. [`Error::outcome_unknown`] tells whether something may have been done all the same.

#[macro_use]
mod word;
mod amount;
mod problem;
mod error;
mod retry;
mod nodes;
mod builder;
mod client;
mod call;
mod payload;
mod transaction;
mod send;
mod batch;
mod read;
mod history;
mod wait;
mod point;
mod feed;
mod signer;
mod operate;
mod migrate;
mod remedy;
mod audit;
mod reservation;
mod loan;
mod failure;
mod with_nonce;
mod health;

pub use audit::{AuditEntries, AuditEntry};
pub use batch::BATCH_MAX;
pub use builder::{BuildError, Builder};
pub use client::Client;
pub use error::{Cause, Error, Tries};
pub use failure::{NonceError, WithNonceError};
pub use feed::{Batch, Completion, Feed, FeedError, Position};
pub use health::{ChainHealth, EndpointHealth, NodeAnswer, Readiness};
pub use history::{
    Attempt, AttemptKind, BlockOnTop, Confirmation, Event, EventKind, SendOutcome, Standing, replay,
};
pub use loan::{Lent, Loan};
pub use migrate::{Handover, Imported, OpenNonce, OpenState, TakenOver};
pub use operate::{Act, AuditPage, AuditedAct, Change, NewPlaceholder, Reconciled};
pub use payload::{Access, Fees, Payload};
pub use point::{Point, Wait};
pub use problem::{Code, FieldError, Problem};
pub use read::{Filter, Page};
pub use remedy::{Action, NewRemedy, Remedy, RemedyState, Severity, Then};
pub use reservation::{LockToken, NewReservation, Reservation};
pub use retry::Retry;
pub use send::{Accepted, NewTransaction};
pub use signer::{
    Head, Leader, PauseReason, Signer, SignerFilter, SignerPage, Waiting, WaitingReason,
};
pub use transaction::{Kind, State, SubState, Transaction};
pub use wait::{Until, WaitError};
pub use with_nonce::Spent;
