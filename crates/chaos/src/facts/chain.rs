//! Reads what our signers have in blocks, from the first block of each chain to the last.

use std::collections::HashMap;

use anyhow::{Context, Result};
use serde_json::Value;

use super::Mined;
use crate::world::World;
use crate::world::lane::{CHAINS, Chain};
use crate::world::rpc::{Rpc, number};

pub(crate) async fn read(world: &World) -> Result<Vec<Mined>> {
    let mut mined = Vec::new();
    for chain in CHAINS {
        let rpc = match chain {
            Chain::Anvil => world.anvil.rpc().await,
            Chain::Dev => world.dev.rpc()?,
        };
        let lanes = world.lanes.iter().enumerate();
        let lanes: HashMap<String, usize> = lanes
            .filter(|(_, lane)| lane.chain == chain)
            .map(|(n, lane)| (lane.signer.to_string().to_lowercase(), n))
            .collect();
        walk(&rpc, &lanes, &mut mined)
            .await
            .with_context(|| chain.name())?;
    }
    Ok(mined)
}

async fn walk(rpc: &Rpc, lanes: &HashMap<String, usize>, mined: &mut Vec<Mined>) -> Result<()> {
    // Those of the block before.
    let mut newest = mined.len();
    for height in 0..=rpc.head().await? {
        let (block, receipts) = rpc.block(height).await?;
        let at = block["hash"].as_str().context("a hash")?.to_owned();
        let txs = block["transactions"].as_array().context("transactions")?;
        let ok: HashMap<&str, bool> = receipts
            .iter()
            .filter_map(|receipt| {
                let hash = receipt["transactionHash"].as_str()?;
                Some((hash, receipt["status"] == "0x1"))
            })
            .collect();
        for below in mined[newest..].iter_mut() {
            below.next = Some(at.clone());
        }
        newest = mined.len();
        for tx in txs {
            let text = |field: &str| tx[field].as_str().unwrap_or_default().to_lowercase();
            let Some(lane) = lanes.get(&text("from")) else {
                continue;
            };
            let hash = text("hash");
            mined.push(Mined {
                lane: *lane,
                nonce: number(&tx["nonce"])?,
                value: value(&tx["value"])?,
                ok: *ok.get(hash.as_str()).context("a receipt")?,
                hash,
                block: at.clone(),
                next: None,
            });
        }
    }
    Ok(())
}

/// Values are small here: a larger one is nobody's payload.
fn value(quantity: &Value) -> Result<u64> {
    number(quantity).context("a value that nobody asked for")
}
