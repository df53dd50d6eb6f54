//! The methods that read blocks, transactions, accounts and pools.

use std::collections::BTreeMap;

use alloy_primitives::{Address, Bytes};
use serde::Serialize;

use super::answer::json;
use super::call::{Answered, Sight};
use super::error::RpcError;
use super::json::{BlockJson, Quantity, ReceiptJson, TxJson};
use super::params::{Params, Which};
use crate::block::Block;
use crate::chain::{At, Devchain, Seen};
use crate::endpoint::EndpointId;
use crate::state::Account;

/// How many transactions `txpool_content` shows. It is for looking, and pools are large.
const CONTENT_MAX: usize = 1_000;

type Content<'a> = BTreeMap<Address, BTreeMap<String, TxJson<'a>>>;

#[derive(Serialize)]
struct Sorted<T> {
    pending: T,
    queued: T,
}

impl Devchain {
    /// Answers a method that only reads; none if there is no such method.
    pub(super) fn read_chain(
        &self,
        endpoint: EndpointId,
        method: &str,
        params: &Params,
        sight: Sight,
    ) -> Result<Option<String>, RpcError> {
        let seen = self.seen(endpoint, sight.lag)?.pruned(sight.states);
        let answer = match method {
            "eth_blockNumber" => json(&Quantity(seen.head().number())),
            "eth_getBlockByNumber" => self.block_by_number(endpoint, &seen, params)?,
            "eth_getBlockByHash" => block_by_hash(&seen, params)?,
            "eth_getBlockTransactionCountByNumber" | "eth_getBlockTransactionCountByHash" => {
                tx_count_of_block(method, &seen, params)?
            }
            "eth_getBlockReceipts" => block_receipts(&seen, params)?,
            "eth_getTransactionReceipt" => match seen.mined(&params.hash(0)?) {
                Some((block, position)) => json(&ReceiptJson::new(block, position)),
                None => "null".to_owned(),
            },
            "eth_getTransactionByHash" => self.tx_by_hash(endpoint, &seen, params)?,
            "eth_getTransactionCount" => self.tx_count(endpoint, &seen, params)?,
            "eth_getBalance" => json(&account(&seen, params)?.balance),
            "eth_getCode" => json(&code(&account(&seen, params)?)),
            "eth_gasPrice" => self.gas_price(&seen),
            "eth_maxPriorityFeePerGas" => json(&Quantity(self.config().tip_proposed)),
            "eth_feeHistory" => self.fee_history(&seen, params)?,
            "eth_estimateGas" => self.estimate(&seen, params)?,
            "eth_call" => self.eth_call(&seen, params)?,
            "txpool_status" => self.pool_status(endpoint, &seen)?,
            "txpool_content" => self.pool_content(endpoint, &seen)?,
            _there_is_no_such_method => return Ok(None),
        };
        Ok(Some(answer))
    }

    fn block_by_number(&self, endpoint: EndpointId, seen: &Seen<'_>, params: &Params) -> Answered {
        let is_full = params.flag(1)?;
        // Without a block the newest would be meant, which geth does not.
        params.text(0)?;
        match params.height(0)? {
            Which::Pending => {
                let block = self.pending(endpoint)?;
                Ok(json(&BlockJson::new(&block, is_full)))
            }
            Which::Block(at) => Ok(block_or_null(seen.block(at).map(AsRef::as_ref), is_full)),
        }
    }

    fn tx_by_hash(&self, endpoint: EndpointId, seen: &Seen<'_>, params: &Params) -> Answered {
        let hash = params.hash(0)?;
        if let Some((block, position)) = seen.mined(&hash) {
            return Ok(json(&TxJson::mined(block, position)));
        }
        let pooled = self.pool_of(endpoint)?.get(&hash);
        Ok(pooled.map_or("null".to_owned(), |tx| json(&TxJson::pending(tx))))
    }

    fn tx_count(&self, endpoint: EndpointId, seen: &Seen<'_>, params: &Params) -> Answered {
        let address = params.address(0)?;
        let count = match params.block(1)? {
            Which::Block(at) => seen.state_at(at)?.nonce(&address),
            Which::Pending => {
                let mined = seen.state().nonce(&address);
                self.pool_of(endpoint)?.next_nonce(&address, mined)
            }
        };
        Ok(json(&Quantity(count)))
    }

    fn pool_status(&self, endpoint: EndpointId, seen: &Seen<'_>) -> Answered {
        let pool = self.pool_of(endpoint)?;
        let pending: usize = pool
            .iter()
            .map(|(address, queue)| {
                let next = pool.next_nonce(address, seen.state().nonce(address));
                queue.take_while(|pooled| pooled.tx.nonce < next).count()
            })
            .sum();
        Ok(json(&Sorted {
            pending: Quantity(pending),
            queued: Quantity(pool.len() - pending),
        }))
    }

    fn pool_content(&self, endpoint: EndpointId, seen: &Seen<'_>) -> Answered {
        let pool = self.pool_of(endpoint)?;
        let mut content: Sorted<Content<'_>> = Sorted {
            pending: BTreeMap::new(),
            queued: BTreeMap::new(),
        };
        let all = pool.iter().flat_map(|(_, queue)| queue);
        for pooled in all.take(CONTENT_MAX) {
            let tx = &pooled.tx;
            let next = pool.next_nonce(&tx.sender, seen.state().nonce(&tx.sender));
            let part = if tx.nonce < next {
                &mut content.pending
            } else {
                &mut content.queued
            };
            let queue = part.entry(tx.sender).or_default();
            queue.insert(tx.nonce.to_string(), TxJson::pending(tx));
        }
        Ok(json(&content))
    }
}

fn block_or_null(block: Option<&Block>, is_full: bool) -> String {
    block.map_or("null".to_owned(), |block| {
        json(&BlockJson::new(block, is_full))
    })
}

fn block_by_hash(seen: &Seen<'_>, params: &Params) -> Answered {
    let (hash, is_full) = (params.hash(0)?, params.flag(1)?);
    let block = seen.block_anywhere(&hash).map(AsRef::as_ref);
    Ok(block_or_null(block, is_full))
}

fn tx_count_of_block(method: &str, seen: &Seen<'_>, params: &Params) -> Answered {
    let block = if method == "eth_getBlockTransactionCountByHash" {
        seen.block_anywhere(&params.hash(0)?)
    } else {
        seen.block(settled(params.height(0)?))
    };
    let count = block.map(|block| json(&Quantity(block.txs.len())));
    Ok(count.unwrap_or_else(|| "null".to_owned()))
}

fn block_receipts(seen: &Seen<'_>, params: &Params) -> Answered {
    let at = settled(params.block(0)?);
    let block = if let At::Hash(hash) = at {
        seen.block_anywhere(&hash)
    } else {
        seen.block(at)
    };
    let Some(block) = block else {
        return Ok("null".to_owned());
    };
    let receipts = (0..block.txs.len()).map(|position| ReceiptJson::new(block, position));
    Ok(json(&receipts.collect::<Vec<_>>()))
}

fn account(seen: &Seen<'_>, params: &Params) -> Result<Account, RpcError> {
    let address = params.address(0)?;
    let at = settled(params.block(1)?);
    Ok(seen.state_at(at)?.account(&address))
}

/// What waits changes no balance and no code here, so `pending` is the newest block.
fn settled(which: Which) -> At {
    match which {
        Which::Block(at) => at,
        Which::Pending => At::Latest,
    }
}

fn code(account: &Account) -> Bytes {
    account
        .code
        .map_or_else(Bytes::new, |hash| Bytes::copy_from_slice(hash.as_slice()))
}
