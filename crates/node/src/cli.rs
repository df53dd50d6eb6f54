//! The command line. `serve`, `migrate` and `config` read a configuration; the other verbs are
//! clients of a running node.

pub(crate) mod dev;
pub(crate) mod demo;
pub(crate) mod bench;
pub(crate) mod tx;
pub(crate) mod signers;
pub(crate) mod nonces;
pub(crate) mod audit;
pub(crate) mod completions;
#[cfg(test)]
mod tests;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

/// A transaction and nonce manager for EVM chains.
///
/// Exit codes: 0 done; 1 failed, or refused by the node; 2 the command line or the configuration is
/// wrong; 3 (serve) another process runs under this node id; 4 (serve) a defect ended the process.
#[derive(Parser)]
#[command(
    name = "fencepost",
    disable_version_flag = true,
    propagate_version = false
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What can be done.
#[derive(Subcommand)]
pub(crate) enum Command {
    /// Try it: a node with a store, a chain and funded signers of its own, in one process.
    ///
    /// Everything is new at each start and gone at the end. It prints a request to begin with.
    Dev(dev::Dev),
    /// Watch it keep its promises: transactions, a reorg and a crash in about twenty seconds.
    ///
    /// A chain of its own, a node that is killed in the middle, and at the end every promise held against
    /// the chain. Exits with 1 if one was broken, and then keeps the node's directory.
    Demo(demo::Demo),
    /// Run a node.
    ///
    /// Brings the store's schema up to date, listens, and leads lanes until SIGTERM or SIGINT. Then it
    /// accepts nothing more, finishes what is in hand, gives its lanes up and exits; a second signal
    /// ends it at once. SIGHUP reads the API keys again (`auth.keys_file`). The log line "ready" has the fields listening, node_id, store and lanes.
    Serve(Logged),
    /// Bring the store's schema up to date, and exit.
    ///
    /// `serve` does the same by itself; this is for those who want it done before nodes start.
    Migrate(Migrate),
    /// Look at a configuration without running it.
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Send transactions and see what became of them.
    #[command(subcommand)]
    Tx(tx::TxCommand),
    /// See the addresses that are sent from, and set right what is wrong with them.
    #[command(subcommand)]
    Signers(signers::SignersCommand),
    /// Borrow nonces, to sign and send by yourself.
    #[command(subcommand)]
    Nonces(nonces::NoncesCommand),
    /// Read the feed of completed transactions.
    #[command(subcommand)]
    Completions(completions::CompletionsCommand),
    /// Read who did what, and what was refused.
    #[command(subcommand)]
    Audit(audit::AuditCommand),
    /// Measure it: rates as shares of what the same database does without it.
    ///
    /// Starts what it needs (a PostgreSQL server with stated settings, nodes as processes, a chain) or uses
    /// what it is given, and removes all of it at the end, however it ends. It is the release build that
    /// counts: `cargo run --release -- bench --quick`. L, the limit, is a plain UNNEST insert into the same
    /// tables, measured in slices that alternate with what is held against it, so that a drift of the machine
    /// hits both alike. Beside every figure stands how far it may be off.
    Bench(bench::Bench),
    /// The chain of a bench, in a process of its own.
    #[command(hide = true)]
    BenchChain,
    /// Say which version this is.
    Version,
}

/// Where the configuration is.
#[derive(Args)]
pub(crate) struct FromFile {
    /// The configuration. Variables such as FENCEPOST__LEASE__DURATION=5s stand above it.
    #[arg(
        long,
        short,
        value_name = "FILE",
        env = "FENCEPOST_CONFIG",
        default_value = "fencepost.toml"
    )]
    pub(crate) config: PathBuf,
}

/// Where the configuration is, and what is logged.
#[derive(Args)]
pub(crate) struct Logged {
    #[command(flatten)]
    pub(crate) from: FromFile,

    /// What is logged on stderr: error, warn, info, debug, trace, or parts such as
    /// info,fencepost_app=debug. Lines are JSON where stderr is not a terminal.
    #[arg(long, value_name = "FILTER", env = "RUST_LOG", default_value = "info")]
    pub(crate) log: String,
}

/// What is migrated.
#[derive(Args)]
pub(crate) struct Migrate {
    #[command(flatten)]
    pub(crate) logged: Logged,

    /// Declare that this store is meant to be new: for a node that remembers another store, and for an empty store
    /// whose signers have sent transactions before. Requests that were paid in another store would be paid again here.
    #[arg(long)]
    pub(crate) new_store: bool,
}

/// What can be done with a configuration.
#[derive(Subcommand)]
pub(crate) enum ConfigCommand {
    /// Say everything that is wrong with a configuration, or that `serve` would take it.
    ///
    /// Looks at secrets and key files too, but neither at the store nor at other machines.
    Check(FromFile),
    /// Print the effective values, defaults and environment included, as TOML. Secrets are hidden.
    Print(FromFile),
}

/// Where the API key is looked for.
pub(crate) const API_KEY: &str = "FENCEPOST_API_KEY";

/// Which node is asked, and how it is answered.
#[derive(Args)]
pub(crate) struct Remote {
    /// The node's address.
    #[arg(long, env = "FENCEPOST_URL", default_value = "http://127.0.0.1:8700")]
    pub(crate) url: String,

    /// The variable that holds the API key. A key on the command line could be read by others.
    #[arg(long, value_name = "VARIABLE", default_value = API_KEY)]
    pub(crate) key_env: String,

    /// Print what the node answered, as JSON, instead of a table.
    #[arg(long)]
    pub(crate) json: bool,
}
