//! Notes when each block of a chain was there first, whichever branch it is on.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::note::{Note, now};
use crate::world::World;
use crate::world::lane::Chain;
use crate::world::rpc::Rpc;

const BETWEEN: Duration = Duration::from_millis(300);
/// Further down everything was seen before: reorgs are not so deep, and no more blocks come between two looks
/// unless the chain was away.
const WALK_MAX: usize = 64;

/// Looks for ever. A chain that is away is looked at again.
pub(crate) async fn run(world: Arc<World>, chain: Chain) {
    let mut seen = HashSet::new();
    loop {
        sleep(BETWEEN).await;
        let rpc = match chain {
            Chain::Anvil => Ok(world.anvil.rpc().await),
            Chain::Dev => world.dev.rpc(),
        };
        if let Ok(rpc) = rpc {
            let _away = look(&world, &rpc, &mut seen).await;
        }
    }
}

async fn look(world: &World, rpc: &Rpc, seen: &mut HashSet<String>) -> Result<()> {
    let mut block = rpc
        .call("eth_getBlockByNumber", json!(["latest", false]))
        .await?;
    for _ in 0..WALK_MAX {
        let text = |field: &str| block[field].as_str().map(str::to_owned);
        let hash = text("hash").context("a hash")?;
        let parent = text("parentHash").context("a parent")?;
        if !seen.insert(hash.clone()) {
            break;
        }
        world.journal.note(&Note::Block { at: now(), hash });
        block = rpc
            .call("eth_getBlockByHash", json!([parent, false]))
            .await?;
        if block == Value::Null {
            break;
        }
    }
    Ok(())
}
