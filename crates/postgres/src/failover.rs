//! Noting a failover. The first node that reaches a server of another timeline holds all lanes there, gives the server a
//! name of its own, and writes down what each lane's row was. What becomes of the lanes then is in `judge`.

use std::time::Duration;

use fencepost_domain::store_identity::Server;
use tokio_postgres::{Client, Error, Row};

use crate::micros;
use crate::witness::Memory;

/// What happens to the lanes after the database was failed over to another server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Failover {
    /// All are held until each is reconciled.
    Hold,
    /// Those go on of which their last leader lives and misses nothing.
    #[default]
    Witness,
    /// All go on: the operator vouches that no server takes over that lacks an acknowledged commit.
    Lossless,
}

impl Failover {
    /// Every choice.
    pub const ALL: [Self; 3] = [Self::Hold, Self::Witness, Self::Lossless];

    /// The word of the configuration.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Hold => "hold",
            Self::Witness => "witness",
            Self::Lossless => "lossless",
        }
    }
}

/// A node counts as living for this many leases after its last beat.
pub(crate) const LIVING: u32 = 3;
/// Holding all lanes rewrites the row of each. Too short: where there are very many it never ends. Too long: a server that
/// hangs in the middle of it is waited for.
const HOLD_TIMEOUT: Duration = Duration::from_mins(2);

const HOLD: &str = include_str!("../sql/hold.sql");

const KNOWN: &str = "
SELECT era, feed_waits FROM store_identity WHERE (system_identifier, timeline) = ($1::bigint::text, $2)";

/// The first server of all gets its row here.
const FIRST: &str = "
WITH first AS (
    INSERT INTO store_identity (system_identifier, timeline) VALUES ($1::bigint::text, $2) ON CONFLICT DO NOTHING
    RETURNING era, timeline
)
INSERT INTO store_era (era, timeline) SELECT era, timeline FROM first ON CONFLICT DO NOTHING";

/// What a server says of itself.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Known {
    pub(crate) server: Server,
    /// Readers of the feed wait until nodes have compared what they were told.
    pub(crate) feed_waits: bool,
}

/// The server's name; none where it is not the one that wrote last. Reading first keeps the common case free of locks.
pub(crate) async fn identify(
    client: &Client,
    system: i64,
    timeline: i64,
) -> Result<Option<Known>, Error> {
    let found = client.query_opt(KNOWN, &[&system, &timeline]).await?;
    Ok(found.map(|row| known(&row, system, timeline)))
}

/// Writes down that there was a failover, unless another session has done so by now.
pub(crate) async fn note(
    client: &Client,
    memory: &Memory,
    system: i64,
    timeline: i64,
) -> Result<Known, Error> {
    if let Some(known) = identify(client, system, timeline).await? {
        return Ok(known);
    }
    client.execute(FIRST, &[&system, &timeline]).await?;
    let living = micros(memory.terms.duration * LIVING);
    let mode = memory.mode.word();
    let ms = HOLD_TIMEOUT.as_millis();
    let begin = format!(
        "BEGIN; SET LOCAL statement_timeout = {ms}; SET LOCAL lock_timeout = {ms};
         SET LOCAL synchronous_commit = on"
    );
    client.batch_execute(&begin).await?;
    let held = client
        .query_opt(HOLD, &[&system, &timeline, &mode, &living])
        .await?;
    client.batch_execute("COMMIT").await?;
    if let Some(row) = held {
        log(&row, timeline);
    }
    let row = client.query_one(KNOWN, &[&system, &timeline]).await?;
    Ok(known(&row, system, timeline))
}

fn known(row: &Row, system: i64, timeline: i64) -> Known {
    let era = row.get(0);
    Known {
        server: Server {
            system,
            timeline,
            era,
        },
        feed_waits: row.get(1),
    }
}

fn log(held: &Row, timeline: i64) {
    let (lanes, how): (i64, String) = (held.get(0), held.get(1));
    match how.as_str() {
        "lossless" => tracing::warn!(
            lanes,
            timeline,
            "the database was failed over: all lanes go on under new tokens, because store.failover says that nothing is lost"
        ),
        "witness" => tracing::warn!(
            lanes,
            timeline,
            "the database was failed over: each lane is held until its last leader has found nothing missing, or `signers reconcile --after-failover`"
        ),
        _ => tracing::error!(
            lanes,
            timeline,
            "the database was failed over: all lanes are held until `signers reconcile --after-failover`"
        ),
    }
}
