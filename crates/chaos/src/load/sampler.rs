//! Looks at lanes and feed straight in the database, ten times a second while there is one.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use fencepost_testkit::postgres::connect;
use tokio::time::sleep;
use tokio_postgres::Client;

use crate::note::{LaneSample, Note, now};
use crate::world::World;

const BETWEEN: Duration = Duration::from_millis(100);

/// One statement, so that all of it is of one moment.
const SQL: &str = "SELECT l.chain_id, encode(l.signer, 'hex'), l.fencing_token, l.next_nonce, \
    l.owner_node, l.paused, f.last_seq, f.epoch FROM feed_head f LEFT JOIN signer_lease l ON true";

/// Lanes by what the database calls them.
pub(crate) fn by_name(world: &World) -> HashMap<(i64, String), usize> {
    let named = world.lanes.iter().enumerate().map(|(n, lane)| {
        let chain = i64::try_from(lane.chain.id()).expect("a small number");
        let signer = lane.signer.to_string().to_lowercase();
        ((chain, signer.trim_start_matches("0x").to_owned()), n)
    });
    named.collect()
}

/// Samples for ever, and notes what has changed.
pub(crate) async fn run(world: Arc<World>) {
    let names = by_name(&world);
    let mut client = None;
    let mut before = None;
    loop {
        sleep(BETWEEN).await;
        if client.is_none() {
            client = connect(&world.database.url()).await.ok();
        }
        let Some(session) = &client else { continue };
        match sample(session, &names).await {
            Ok(sampled) if before.as_ref() != Some(&sampled) => {
                world.journal.note(&Note::Sampled {
                    at: now(),
                    lanes: sampled.0.clone(),
                    feed: sampled.1,
                    epoch: sampled.2,
                });
                before = Some(sampled);
            }
            Ok(_) => {}
            Err(_) => client = None,
        }
    }
}

async fn sample(
    session: &Client,
    names: &HashMap<(i64, String), usize>,
) -> Result<(Vec<LaneSample>, u64, u64)> {
    let rows = session.query(SQL, &[]).await?;
    let (mut lanes, mut feed, mut epoch) = (Vec::new(), 0, 0);
    for row in &rows {
        feed = u64::try_from(row.get::<_, i64>(6))?;
        epoch = u64::try_from(row.get::<_, i64>(7))?;
        let (Some(chain), Some(signer)) = (row.get(0), row.get(1)) else {
            continue;
        };
        if let Some(lane) = names.get(&(chain, signer)) {
            lanes.push(LaneSample {
                lane: *lane,
                token: u64::try_from(row.get::<_, i64>(2))?,
                cursor: u64::try_from(row.get::<_, i64>(3))?,
                owner: row.get(4),
                paused: row.get(5),
            });
        }
    }
    lanes.sort_by_key(|sample| sample.lane);
    Ok((lanes, feed, epoch))
}
