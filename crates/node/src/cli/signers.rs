//! `fencepost signers …`

use std::path::PathBuf;

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
    /// ends a hold after a database failover. Prints each figure before and after. With --all --after-failover
    /// every signer that is held after a failover, one after the other; look at --dry-run first.
    Reconcile(Reconcile),
    /// Fill a nonce that nobody holds with a transfer of nothing to the signer itself.
    ///
    /// One nonce, as `tx remedy --action FILL` does for all below a transaction that is STUCK/GAP.
    Placeholder(Placeholder),
    /// Set the next nonce of a paused signer, up or down.
    ///
    /// Refused while the signer is not paused, and at or below a nonce that is held or was used here.
    Cursor(Cursor),
    /// Take over a signer that was used elsewhere: its next nonce and its open nonces, from a file.
    ///
    /// The signer must be paused. All or nothing; --dry-run checks everything and changes nothing. docs/migrating.md
    /// has the format and the whole way.
    Import(Import),
    /// Write a signer's next nonce and open nonces as `import` reads them.
    ///
    /// Pause the signer first: of one that goes on, the file is old as soon as it is written. Warns of what is
    /// not in the file.
    Export(Export),
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
    /// Every signer that is held after a failover, instead of one.
    #[arg(long, requires = "after_failover", conflicts_with = "signer")]
    pub(crate) all: bool,
    /// The signer's address.
    #[arg(required_unless_present = "all")]
    pub(crate) signer: Option<String>,
    /// The chain's configured name. Left out: with --all every chain, otherwise the only one that is configured.
    #[arg(long)]
    pub(crate) chain: Option<String>,
    #[command(flatten)]
    pub(crate) why: Why,
    #[command(flatten)]
    pub(crate) remote: Remote,
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

/// Where the next nonce is to be.
#[derive(Args)]
pub(crate) struct Cursor {
    /// The next nonce to be given.
    #[arg(long)]
    pub(crate) next: u64,
    #[command(flatten)]
    pub(crate) change: Change,
}

/// What is taken over.
#[derive(Args)]
pub(crate) struct Import {
    /// The file: nextNonce and open, and the signer and chain where they are not given here.
    pub(crate) file: PathBuf,
    /// The signer, where the file does not say; where it does, it must be the same.
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) signer: Option<String>,
    /// The chain's configured name, instead of the file's.
    #[arg(long)]
    pub(crate) chain: Option<String>,
    /// Only check, and tell what it would come to.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Why, for the audit, instead of the file's reason.
    #[arg(long)]
    pub(crate) reason: Option<String>,
    #[command(flatten)]
    pub(crate) remote: Remote,
}

/// What is given away.
#[derive(Args)]
pub(crate) struct Export {
    /// Where it is written; left out, it is printed.
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) which: Which,
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
