//! `fencepost nonces …`

use std::time::Duration;

use clap::{Args, Subcommand};

use super::Remote;

/// What can be done with lent nonces.
#[derive(Subcommand)]
pub(crate) enum NoncesCommand {
    /// Borrow a nonce, to sign and send a transaction yourself.
    ///
    /// Prints the reservation with its lockToken, which every later call must show. Asking again with the
    /// same --request-id gives the same reservation; without one, every call is a new one.
    Reserve(Reserve),
    /// Say which transaction you have sent with a borrowed nonce.
    ///
    /// From then on it is followed until it is final. Say it before the reservation is over: after that the
    /// nonce may be another's, and whichever transaction is mined first has it.
    Submitted(Submitted),
    /// Give a borrowed nonce back. Only if nothing was sent with it.
    Recycle(Held),
    /// Keep a borrowed nonce for longer, from now on.
    Extend(Extend),
    /// Show a reservation, without its lockToken.
    Get(Lent),
}

/// Whose nonce is borrowed, and for how long.
#[derive(Args)]
pub(crate) struct Reserve {
    /// The address that you will sign for.
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) signer: String,
    /// The chain's configured name; may be left out where only one is configured.
    #[arg(long)]
    pub(crate) chain: Option<String>,
    /// Your own name for the request: the same name is the same reservation.
    #[arg(long, value_name = "NAME")]
    pub(crate) request_id: Option<String>,
    /// For how long, in whole seconds such as 90s or 5m; left out for reservation.ttl.
    #[arg(long, value_parser = whole)]
    pub(crate) ttl: Option<Duration>,
    /// How many nonces.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) count: Option<u32>,
    #[command(flatten)]
    pub(crate) remote: Remote,
}

/// Which reservation.
#[derive(Args)]
pub(crate) struct Lent {
    /// Its id.
    pub(crate) reservation_id: String,
    #[command(flatten)]
    pub(crate) remote: Remote,
}

/// Which reservation, and what shows that it is yours.
#[derive(Args)]
pub(crate) struct Held {
    /// The lockToken that came with it.
    #[arg(long, value_name = "TOKEN")]
    pub(crate) lock_token: String,
    #[command(flatten)]
    pub(crate) lent: Lent,
}

/// What was sent.
#[derive(Args)]
pub(crate) struct Submitted {
    /// The transaction's hash.
    #[arg(long, value_name = "HASH")]
    pub(crate) tx_hash: String,
    #[command(flatten)]
    pub(crate) held: Held,
}

/// For how long it is kept.
#[derive(Args)]
pub(crate) struct Extend {
    /// For how long from now on, in whole seconds such as 90s or 5m.
    #[arg(long, value_parser = whole)]
    pub(crate) ttl: Duration,
    #[command(flatten)]
    pub(crate) held: Held,
}

fn whole(text: &str) -> Result<Duration, String> {
    let given = humantime::parse_duration(text).map_err(|error| error.to_string())?;
    if given.is_zero() || given.subsec_nanos() > 0 {
        return Err("must be whole seconds, 1s at least".to_owned());
    }
    Ok(given)
}
