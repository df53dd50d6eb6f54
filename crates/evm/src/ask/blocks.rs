//! Blocks by height: of one endpoint with what is in them, and of all endpoints by their hashes.

use std::sync::Arc;

use fencepost_app::ports::{BlockBody, Source};
use fencepost_domain::ids::Height;
use fencepost_domain::state::Block;
use fencepost_domain::{B256, amount};
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::time::Instant;

use crate::endpoint::{Endpoint, Order};
use crate::endpoints::{Endpoints, Unasked};
use crate::meters::Purpose;
use crate::rpc::{Answer, Call, Fault, quoted, value};

pub(super) const STRANGE: Fault = Fault::Garbled("no block, or another than was asked for");

impl Endpoints {
    pub(crate) async fn blocks(
        &self,
        source: Source,
        heights: &[Height],
    ) -> Result<Vec<Option<BlockBody>>, Unasked> {
        let until = self.until();
        let endpoint = self.at(source, until).await?;
        let bodies = ask(endpoint, Purpose::Blocks, heights, body, until).await;
        bodies.map_err(|fault| {
            // Whatever it is, the next pass should be read elsewhere.
            endpoint.fails(&fault);
            self.fault(endpoint, fault)
        })
    }

    pub(crate) async fn witnesses(
        &self,
        heights: &[Height],
    ) -> Result<Vec<Vec<Option<B256>>>, Unasked> {
        let until = self.until();
        let heights: Arc<[Height]> = heights.into();
        let one = |endpoint: Arc<Endpoint>| {
            let heights = heights.clone();
            async move {
                let hashes = ask(&endpoint, Purpose::Witnesses, &heights, header, until).await;
                if hashes == Err(STRANGE) {
                    endpoint.fails(&STRANGE);
                }
                hashes.ok()
            }
        };
        let witnesses: Vec<Vec<_>> = self.everyone(until, one).await;
        if witnesses.is_empty() {
            return Err(Unasked::NobodyAnswered(self.name.to_string()));
        }
        let at = |place: usize| {
            witnesses
                .iter()
                .map(move |hashes| hashes[place].map(|block| block.hash))
        };
        Ok((0..heights.len())
            .map(|place| at(place).collect())
            .collect())
    }
}

/// What an endpoint has at these heights, read in one way or the other. One fault spoils all: a part
/// of an answer would look like blocks that are not there.
async fn ask<T: At>(
    endpoint: &Endpoint,
    purpose: Purpose,
    heights: &[Height],
    read: fn(&RawValue) -> Option<T>,
    until: Instant,
) -> Result<Vec<Option<T>>, Fault> {
    let calls: Vec<_> = heights
        .iter()
        .map(|height| by_number(&format!("{:#x}", height.get())))
        .collect();
    let answers = endpoint.ask(purpose, &calls, Order::Free, until).await;
    let one = |(answer, height): (Answer, &Height)| match answer {
        Ok(raw) if value::is_null(&raw) => Ok(None),
        Ok(raw) => match read(&raw) {
            Some(read) if read.at() == *height => Ok(Some(read)),
            Some(_) | None => Err(STRANGE),
        },
        Err(fault) if is_absent(&fault) => Ok(None),
        Err(fault) => Err(fault),
    };
    answers.into_iter().zip(heights).map(one).collect()
}

/// The call for a block with the hashes of its transactions.
pub(super) fn by_number(tag: &str) -> Call {
    Call::new("eth_getBlockByNumber", &[&quoted(tag), "false"])
}

/// Whether the node says with an error that it has no such block.
pub(super) fn is_absent(fault: &Fault) -> bool {
    let Fault::Node { code, message, .. } = fault else {
        return false;
    };
    let message = message.to_ascii_lowercase();
    // "header not found" is what nodes say of a state that they have pruned.
    *code == -39_001
        || message.contains("block not found")
        || message.contains("unknown block")
        || message.contains("block is not available")
}

trait At {
    fn at(&self) -> Height;
}

impl At for Block {
    fn at(&self) -> Height {
        self.number
    }
}

impl At for BlockBody {
    fn at(&self) -> Height {
        self.block.number
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Wire<'a> {
    number: &'a str,
    hash: &'a str,
    parent_hash: &'a str,
    #[serde(borrow)]
    transactions: Vec<&'a RawValue>,
}

/// The block without what is in it.
pub(super) fn header(raw: &RawValue) -> Option<Block> {
    #[derive(Deserialize)]
    struct Header<'a> {
        number: &'a str,
        hash: &'a str,
    }
    let header: Header<'_> = value::thing(raw)?;
    block(header.number, header.hash)
}

/// The block with what is in it.
pub(super) fn body(raw: &RawValue) -> Option<BlockBody> {
    let wire: Wire<'_> = value::thing(raw)?;
    let txs = wire.transactions.into_iter().map(tx_hash);
    Some(BlockBody {
        block: block(wire.number, wire.hash)?,
        parent: amount::word(wire.parent_hash).ok()?,
        txs: txs.collect::<Option<_>>()?,
    })
}

fn block(number: &str, hash: &str) -> Option<Block> {
    Some(Block {
        number: Height::new(value::narrow(number)?).ok()?,
        hash: amount::word(hash).ok()?,
    })
}

/// Some nodes give whole transactions whatever they are asked for.
fn tx_hash(raw: &RawValue) -> Option<B256> {
    #[derive(Deserialize)]
    struct Whole<'a> {
        hash: &'a str,
    }
    let whole = || amount::word(value::thing::<Whole<'_>>(raw)?.hash).ok();
    value::hash(raw).or_else(whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_read_with_hashes_or_whole_transactions_and_only_when_it_is_complete() {
        let word = |byte: u8| B256::repeat_byte(byte).to_string();
        let json = |number: &str, hash: &str, txs: &str| {
            let parent = word(2);
            let text = format!(
                r#"{{"number":{number},"hash":{hash},"parentHash":"{parent}","transactions":{txs}}}"#
            );
            RawValue::from_string(text).unwrap()
        };
        let hash = format!("\"{}\"", word(1));
        let txs = format!(r#"["{}",{{"hash":"{}","nonce":"0x1"}}]"#, word(3), word(4));
        let read = body(&json("\"0x7\"", &hash, &txs)).unwrap();
        assert_eq!(read.block.number.get(), 7);
        assert_eq!(read.block.hash, B256::repeat_byte(1));
        assert_eq!(read.parent, B256::repeat_byte(2));
        assert_eq!(read.txs, [B256::repeat_byte(3), B256::repeat_byte(4)]);
        for (number, hash, txs) in [
            ("null", hash.as_str(), "[]"),
            ("7", &hash, "[]"),
            ("\"0x7\"", "null", "[]"),
            ("\"0x7\"", "\"0x01\"", "[]"),
            ("\"0x7\"", &hash, "null"),
            ("\"0x7\"", &hash, "[1]"),
            ("\"0xffffffffffffffff\"", &hash, "[]"),
        ] {
            assert_eq!(
                body(&json(number, hash, txs)),
                None,
                "{number} {hash} {txs}"
            );
        }
    }
}
