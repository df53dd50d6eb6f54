//! `fencepost signers …`

use clap::{Args, Subcommand};

use super::Remote;

/// What can be done with signers.
#[derive(Subcommand)]
pub(crate) enum SignersCommand {
    /// List all signers: who leads them, their next nonce, what is in flight.
    List(Remote),
    /// Show one signer with its gaps, free nonces and the transaction at its head.
    Show(Which),
    /// Give no more nonces to a signer's transactions.
    ///
    /// When it answers, no nonce will be given any more. What has one already is followed as before;
    /// new requests are answered with signer_paused.
    Pause(Change),
    /// Go on giving nonces to a signer's transactions.
    Resume(Change),
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
    /// Why, for the audit.
    #[arg(long)]
    pub(crate) reason: String,
    #[command(flatten)]
    pub(crate) which: Which,
}
