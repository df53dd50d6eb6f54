//! `fencepost tx …`

use std::time::Duration;

use clap::{ArgGroup, Args, Subcommand};

use super::Remote;
use super::audit::Why;

/// What can be done with transactions.
#[derive(Subcommand)]
pub(crate) enum TxCommand {
    /// Send a transaction.
    ///
    /// Prints it as it was stored: with a nonce, or QUEUED while its lane has no leader. Asking again
    /// with the same --request-id gives the same transaction; without one, every call is a new one.
    Send(Box<Send>),
    /// Show one transaction: by id, by request id, by hash or by nonce.
    Get(Get),
    /// List transactions, newest first.
    List(List),
    /// Follow a transaction until it has ended.
    ///
    /// Prints each event as it happens. Exits with 0 when it was confirmed (or a reservation was
    /// used), with 1 when it ended otherwise or not within --timeout.
    Watch(Watch),
    /// Do something about a transaction that does not move.
    ///
    /// RESUBMIT sends the newest bytes again. REPLACE signs the same payload with higher fees. CANCEL and
    /// PLACEHOLDER sign a transfer of nothing to the signer itself in its place. FILL does so for the nonces
    /// below one that is STUCK/GAP, and never for its own; PLACEHOLDER of one that is STUCK/GAP is FILL. All that was ever signed for the nonce is followed, and whichever
    /// is mined decides. The lane's leader does it; what came of it is in `tx remedies`.
    Remedy(Box<Remedy>),
    /// List what was done about a transaction: by whom, why, and what came of it.
    Remedies(Remedies),
}

/// What is waited for.
#[derive(Args)]
pub(crate) struct Wait {
    /// Wait until it has come this far, has ended or is STUCK: allocated, signed, submitted, mined or final.
    #[arg(long, value_name = "POINT", value_parser = ["allocated", "signed", "submitted", "mined", "final"])]
    pub(crate) wait: Option<String>,
    /// Wait no longer than this, 0 to 30; 10 where not given. Then it is shown as it stands.
    #[arg(long, value_name = "SECONDS", requires = "wait", value_parser = clap::value_parser!(u8).range(0..=30))]
    pub(crate) wait_seconds: Option<u8>,
}

/// A transaction to be sent.
#[derive(Args)]
pub(crate) struct Send {
    /// The address to send from.
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) signer: String,
    /// The chain's configured name; may be left out where only one is configured.
    #[arg(long)]
    pub(crate) chain: Option<String>,
    /// Your own name for the request: the same name is the same transaction, for ever.
    #[arg(long, value_name = "NAME")]
    pub(crate) request_id: Option<String>,
    /// The receiver; left out to create a contract.
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) to: Option<String>,
    /// Wei to send, decimal or 0x-hex.
    #[arg(long, value_name = "WEI")]
    pub(crate) value: Option<String>,
    /// Call data or init code, 0x-hex.
    #[arg(long, value_name = "HEX")]
    pub(crate) data: Option<String>,
    /// The gas limit; left out to have it estimated.
    #[arg(long)]
    pub(crate) gas: Option<String>,
    /// Wei per gas, for a legacy transaction.
    #[arg(long, value_name = "WEI", conflicts_with_all = ["max_fee_per_gas", "max_priority_fee_per_gas"])]
    pub(crate) gas_price: Option<String>,
    /// The most to pay, in wei per gas.
    #[arg(long, value_name = "WEI")]
    pub(crate) max_fee_per_gas: Option<String>,
    /// The tip, in wei per gas.
    #[arg(long, value_name = "WEI")]
    pub(crate) max_priority_fee_per_gas: Option<String>,
    /// The access list as JSON: [{"address": "0x…", "storageKeys": ["0x…"]}].
    #[arg(long, value_name = "JSON", value_parser = json)]
    pub(crate) access_list: Option<serde_json::Value>,
    /// Give it no nonce after this time, such as 2030-01-31T12:00:00Z.
    #[arg(long, value_name = "TIME")]
    pub(crate) not_after: Option<String>,
    /// Your own JSON, kept with the transaction.
    #[arg(long, value_name = "JSON", value_parser = json)]
    pub(crate) meta: Option<serde_json::Value>,
    #[command(flatten)]
    pub(crate) wait: Wait,
    #[command(flatten)]
    pub(crate) remote: Remote,
}

/// Which transaction.
#[derive(Args)]
#[command(group = ArgGroup::new("name").required(true))]
pub(crate) struct Get {
    /// By its id.
    #[arg(group = "name", value_name = "TX_ID")]
    pub(crate) tx_id: Option<String>,
    /// By your own name for it; needs --signer.
    #[arg(long, group = "name", value_name = "NAME", requires = "signer")]
    pub(crate) request_id: Option<String>,
    /// By the hash of any of its attempts.
    #[arg(long, group = "name")]
    pub(crate) hash: Option<String>,
    /// By the nonce it holds now; needs --signer.
    #[arg(long, group = "name", requires = "signer")]
    pub(crate) nonce: Option<u64>,
    /// The address it is sent from.
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) signer: Option<String>,
    /// The chain's configured name; may be left out where only one is configured.
    #[arg(long)]
    pub(crate) chain: Option<String>,
    #[command(flatten)]
    pub(crate) wait: Wait,
    #[command(flatten)]
    pub(crate) remote: Remote,
}

/// Which transactions.
#[derive(Args)]
pub(crate) struct List {
    /// Only those from this address.
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) signer: Option<String>,
    /// Only those on this chain.
    #[arg(long)]
    pub(crate) chain: Option<String>,
    /// Only those in this state, such as QUEUED, ALLOCATED or STUCK.
    #[arg(long)]
    pub(crate) state: Option<String>,
    /// How many, 1 to 1000.
    #[arg(long, default_value_t = 50)]
    pub(crate) limit: u32,
    /// Go on where the page before ended.
    #[arg(long)]
    pub(crate) cursor: Option<String>,
    #[command(flatten)]
    pub(crate) remote: Remote,
}

/// Which transaction is followed, and for how long.
#[derive(Args)]
pub(crate) struct Watch {
    /// Its id.
    pub(crate) tx_id: String,
    /// Give up after this time, such as 5m; left out to follow for ever.
    #[arg(long, value_parser = humantime::parse_duration)]
    pub(crate) timeout: Option<Duration>,
    #[command(flatten)]
    pub(crate) remote: Remote,
}

/// What is done to which transaction.
#[derive(Args)]
pub(crate) struct Remedy {
    /// The transaction's id.
    pub(crate) tx_id: String,
    /// What is done: RESUBMIT, REPLACE, CANCEL, PLACEHOLDER, FILL, or ASK, which has the stuck policy asked now.
    #[arg(long, ignore_case = true, value_parser = ["RESUBMIT", "REPLACE", "CANCEL", "PLACEHOLDER", "FILL", "ASK"])]
    pub(crate) action: String,
    /// Wei per gas, for a legacy transaction; left out for the smallest increase that nodes take.
    #[arg(long, value_name = "WEI", conflicts_with_all = ["max_fee_per_gas", "max_priority_fee_per_gas"])]
    pub(crate) gas_price: Option<String>,
    /// The most to pay, in wei per gas; left out for the smallest increase that nodes take.
    #[arg(long, value_name = "WEI", requires = "max_priority_fee_per_gas")]
    pub(crate) max_fee_per_gas: Option<String>,
    /// The tip, in wei per gas.
    #[arg(long, value_name = "WEI", requires = "max_fee_per_gas")]
    pub(crate) max_priority_fee_per_gas: Option<String>,
    #[command(flatten)]
    pub(crate) why: Why,
    #[command(flatten)]
    pub(crate) remote: Remote,
}

/// Whose remedies.
#[derive(Args)]
pub(crate) struct Remedies {
    /// The transaction's id.
    pub(crate) tx_id: String,
    #[command(flatten)]
    pub(crate) remote: Remote,
}

fn json(text: &str) -> Result<serde_json::Value, serde_json::Error> {
    serde_json::from_str(text)
}
