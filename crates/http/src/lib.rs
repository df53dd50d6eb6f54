//! The HTTP API: the only code that knows JSON bodies and status codes.
//!
//! Read in this order: [`Api`] is what the routes need, `routes` is one file for each group of them,
//! `json` is how things are spelled, `problem` is how errors are told. A request's way in is
//! `envelope` (its id, its span), `access` (who asks), `body` and `given` (its bytes, as fields),
//! `intake` (as a transaction). [`Forwarder`] is the way to other nodes, [`HttpPolicy`] the way to
//! whoever decides about stuck transactions.

mod api;
mod limits;
mod meters;
mod secret;
mod chains;
mod access;
mod key_rate;
mod keyless;
mod memory;
mod rendered;
mod pulse;
mod problem;
mod faults;
mod body;
mod given;
mod query;
mod json;
mod intake;
mod lending;
mod audit;
mod refusal;
mod replacement;
mod verdict;
mod waiting;
mod routes;
mod envelope;
mod openapi;
mod server;
mod patience;
mod outbound;
mod forward;
mod policy;

pub use access::{Access, BadKey};
pub use api::Api;
pub use chains::ChainInfo;
pub use envelope::is_answering;
pub use forward::Forwarder;
pub use limits::Limits;
pub use meters::Meters;
pub use openapi::openapi_json;
pub use policy::{HttpPolicy, PolicyMeters, PolicySecret};
pub use routes::router;
pub use secret::{ClusterSecret, Secret};
pub use server::{SPARE_CONNECTIONS, serve};
