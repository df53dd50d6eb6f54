//! `fencepost signers …`

use clap::{Args, Subcommand};

use super::Remote;
use super::audit::Why;

/// What can be done with signers.
#[derive(Subcommand)]
pub(crate) enum SignersCommand {
    /// List all signers: who leads them, their next nonce, what is in flight.
    List(Remote),
    /// Show one signer with its gaps, free nonces and the transaction at its head.
    ///
    /// Ends with why its head does not move, and the command to go on with.
    Show(Which),
    /// Give no more nonces to a signer's transactions.
    ///
    /// When it answers, no nonce will be given any more. What has one already is followed as before;
    /// new requests are answered with signer_paused.
    Pause(Change),
    /// Go on giving nonces to a signer's transactions.
    ///
    /// A hold after a database failover stays: `signers reconcile --after-failover` ends it.
    Resume(Change),
    /// Compare a signer with its chain, and set its next nonce right.
    ///
    /// Raises the next nonce to the chain's count, forgets given-back nonces that the chain has used, and
    /// ends a hold after a database failover. Prints each figure before and after.
    Reconcile(Reconcile),
    /// Fill a nonce that nobody holds with a transfer of nothing to the signer itself.
    Placeholder(Placeholder),
    /// List what was done to a signer: pauses, cursors, by whom and why, newest first.
    Audit(Audit),
}

/// Which signer.
#[derive(Args)]
pub(crate) struct Which {
    /// Its address.
    pub(crate) signer: String,
    /// The chain's configured name; may be left out where only one is configured.
    #[arg(long)]
    pub(crate) chain: Option<String>,
    #[command(flatten)]
    pub(crate) remote: Remote,
}

/// Which signer is changed, and why.
#[derive(Args)]
pub(crate) struct Change {
    #[command(flatten)]
    pub(crate) why: Why,
    #[command(flatten)]
    pub(crate) which: Which,
}

/// How a signer is compared with its chain.
#[derive(Args)]
pub(crate) struct Reconcile {
    /// Only tell what would be done.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Say that the database was failed over and that you have looked: without it a hold after a failover
    /// is not ended.
    #[arg(long)]
    pub(crate) after_failover: bool,
    #[command(flatten)]
    pub(crate) change: Change,
}

/// Which nonce is filled.
#[derive(Args)]
pub(crate) struct Placeholder {
    /// The nonce, one of the signer's gaps.
    #[arg(long)]
    pub(crate) nonce: u64,
    #[command(flatten)]
    pub(crate) change: Change,
}

/// Which part of the audit.
#[derive(Args)]
pub(crate) struct Audit {
    /// How many, 1 to 1000.
    #[arg(long, default_value_t = 50)]
    pub(crate) limit: u32,
    /// Go on where the page before ended.
    #[arg(long)]
    pub(crate) cursor: Option<String>,
    #[command(flatten)]
    pub(crate) which: Which,
}
