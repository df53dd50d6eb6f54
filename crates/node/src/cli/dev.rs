//! `fencepost dev` on the command line.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

/// How a node to try things with is started.
#[derive(Args)]
pub(crate) struct Dev {
    /// Where the API listens.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8700")]
    pub(crate) listen: SocketAddr,

    /// Use this node's chain instead of the built-in one. Its accounts must be those of the usual test
    /// phrase ("test test … junk"), as anvil's and hardhat's are.
    #[arg(long, value_name = "URL")]
    pub(crate) rpc: Option<String>,

    /// Where the built-in chain listens. Another port is taken if that one is in use.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8545")]
    pub(crate) chain_listen: SocketAddr,

    /// The time between two blocks of the built-in chain.
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = humantime::parse_duration)]
    pub(crate) block_time: Duration,

    /// How many signers there are.
    #[arg(long, value_name = "COUNT", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub(crate) signers: u32,

    /// How many blocks on top make a transaction final.
    #[arg(long, value_name = "COUNT", default_value_t = 2, value_parser = clap::value_parser!(u64).range(0..=1_000))]
    pub(crate) confirmations: u64,

    /// Keep the store in this SQLite file. Without --rpc it must not exist: the chain begins anew each time.
    #[arg(long, value_name = "FILE")]
    pub(crate) store: Option<PathBuf>,

    /// What is logged on stderr, as for serve.
    #[arg(long, value_name = "FILTER", env = "RUST_LOG", default_value = "warn")]
    pub(crate) log: String,
}
