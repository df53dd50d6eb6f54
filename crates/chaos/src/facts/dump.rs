//! Keeps the tables of a run as CSV beside its logs, for whoever wants to know why something was found.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result};
use futures::StreamExt;

use crate::world::World;

const TABLES: [&str; 9] = [
    "signer_lease",
    "managed_tx",
    "lane_queue",
    "tx_attempt",
    "tx_event",
    "free_nonce",
    "due_work",
    "tx_completion",
    "remedy",
];

pub(crate) async fn keep(world: &World, home: &Path) -> Result<()> {
    let client = world.database.connect().await?;
    for table in TABLES {
        let copy = format!("COPY {table} TO STDOUT WITH (FORMAT csv, HEADER)");
        let mut rows = Box::pin(client.copy_out(&copy).await.context(table)?);
        let mut file = File::create(home.join(format!("{table}.csv")))?;
        while let Some(part) = rows.next().await {
            file.write_all(&part?)?;
        }
    }
    Ok(())
}
