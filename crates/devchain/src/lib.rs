//! An in-process chain with a JSON-RPC server and faults on demand, for trying, showing and testing.
//!
//! [`Devchain`] is the chain: no clock, no threads, no sockets, no luck. [`Shared`] lets several hold it and
//! answers requests by tokio's clock; [`Server`] answers them over HTTP and mines by interval.
//!
//! Signatures, nonces, balances, fees, pools and reorgs are real; there is no EVM. Calls succeed, except those
//! of `revert(string)` ([`revert_call`]), which revert at any address for the reason they give.
//!
//! Of two transactions with one nonce the pool keeps the one that pays a tenth more of both fees. That the other
//! one is mined all the same is [`Devchain::mine_with`] (or an endpoint with a pool of its own,
//! [`PoolChoice::Own`], and [`Devchain::mine_as`]); that a reorg changes which of them is in a block is
//! [`Plan::instead`]. What either can pay for is set by [`Devchain::set_base_fee`].

mod config;
mod tx;
mod gas;
mod rejection;
mod dialect;
mod state;
mod execution;
mod block;
mod branch;
mod index;
mod pool;
mod fault;
mod endpoint;
mod chain;
mod rpc;
mod shared;
mod server;

pub use block::{Block, Mined};
pub use branch::BranchId;
pub use chain::{
    Devchain, Fate, NotThere, Order, Plan, PooledTx, Reorg, ReorgError, SendError, Unminable,
};
pub use config::{
    BaseFee, COINBASE, Config, EndpointConfig, GWEI, HistoryLimits, PoolChoice, PoolLimits,
};
pub use dialect::{DIALECTS, Dialect, TX_BYTES_MAX, Verdict};
pub use endpoint::{EndpointId, Stats, View};
pub use execution::{REVERT_SELECTOR, Receipt, Unfit, revert_call};
pub use fault::{Fault, FaultId, FaultKind, When};
pub use pool::Accepted;
pub use rejection::{Facts, REJECTIONS, Rejected, Rejection};
pub use rpc::{Answer, Outcome};
pub use server::{Server, ServerConfig};
pub use shared::{Disconnected, Shared};
pub use state::{Account, State};
pub use tx::{Kind, Tx};
