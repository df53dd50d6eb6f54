//! The only JSON-RPC client of Fencepost: endpoints, dialects, fees.
//!
//! From the bottom up: a [`Transport`] carries text, `rpc` gives it meaning, an `endpoint` is asked as
//! long as it stands well (`standing`), the endpoints of a chain are asked together (`endpoints`, and
//! one file under `ask` for each question), and [`Chains`] is what the application knows of it all.
//! What nodes say to sent bytes is understood by `classifier`, whose knowledge is tables. `heads` stands apart: it says
//! over WebSocket when to read, never what is there.

mod chains;
mod endpoints;
mod ask;
mod endpoint;
mod standing;
mod classifier;
mod dialect;
mod revert;
mod rpc;
mod text;
mod meters;
mod transport;
mod http;
mod heads;

pub use chains::{BadEndpoint, ChainConfig, Chains};
pub use heads::{WsEndpoint, WsLimits};
pub use http::{ANSWER_BYTES_MAX, BadUrl, HttpTransport};
pub use meters::Meters;
pub use transport::{Response, Transport, TransportError};
