//! An endpoint that answers whatever an input says (`src/said.rs`), asked everything that is ever asked
//! of a chain, first alone and then beside an honest one. No panic and no wait beyond the deadline; and
//! nothing becomes true that was not said: bytes are taken only when their hash was told, a receipt is
//! of what was asked for, and no lie outvotes the honest endpoint.

#![no_main]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use fencepost_app::ports::{Chain, CountMode, Estimate, Receipt, Source};
use fencepost_domain::attempt::Outcome;
use fencepost_domain::ids::{ChainId, Height, Lane, Nonce};
use fencepost_domain::rejection::{Rejection, Reply};
use fencepost_domain::request::{Ceilings, Draft, Payload};
use fencepost_domain::state::{Block, Execution};
use fencepost_domain::{Address, B256, Bytes, keccak256};
use fencepost_evm::{ChainConfig, Chains, Meters, Transport};
use fencepost_fuzz::mutate::mutate;
use fencepost_fuzz::said::{CHAIN, COUNT, Honest, Said, block_hash};
use libfuzzer_sys::{fuzz_mutator, fuzz_target};
use serde_json::value::RawValue;
use tokio::runtime::Builder;
use tokio::time::Instant;

/// Every question has five seconds; a little more is for what is cut off then.
const WAIT_MAX: Duration = Duration::from_millis(5_500);
/// The longest text that is kept of what a node says.
const TEXT_CHARS_MAX: usize = 300;

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    mutate(data, size, max_size, seed)
});

fuzz_target!(|input: &[u8]| {
    let mut builder = Builder::new_current_thread();
    let runtime = builder.enable_time().start_paused(true).build();
    let runtime = runtime.expect("a runtime of one thread needs nothing");
    runtime.block_on(alone(input));
    runtime.block_on(beside_an_honest_one(input));
});

/// Each question is asked of endpoints that have not been asked before.
fn fresh(input: &[u8], others: &[Arc<dyn Transport>]) -> Chains {
    let said: Arc<dyn Transport> = Arc::new(Said::new(input));
    let endpoints = [said].into_iter().chain(others.iter().cloned());
    let config = ChainConfig::new(chain(), "main", endpoints.collect());
    Chains::new(vec![config], &Meters::default())
}

async fn within<T>(asking: impl Future<Output = T>) -> T {
    let began = Instant::now();
    let answer = asking.await;
    let took = began.elapsed();
    assert!(took <= WAIT_MAX, "it waited for {took:?}");
    answer
}

async fn alone(input: &[u8]) {
    let ask = || fresh(input, &[]);
    let texts = Said::new(input).texts();
    let is_said = |text: String| {
        let text = text.to_ascii_lowercase();
        texts.as_ref().is_none_or(|texts| texts.contains(&text))
    };
    let raws: Vec<Bytes> = (1..4_u8).map(|n| Bytes::from(vec![n])).collect();
    let replies = within(ask().send(chain(), &raws)).await;
    assert_eq!(replies.len(), raws.len());
    for (reply, raw) in replies.iter().zip(&raws) {
        check_reply(reply);
        let plainly = reply.outcome == Outcome::Accepted && reply.why.is_none();
        assert!(!plainly || is_said(keccak256(raw).to_string()), "{reply:?}");
    }
    let hash = B256::repeat_byte(1);
    let mine = within(ask().is_of(lane(), nonce(3), hash)).await;
    assert!(!matches!(mine, Ok(Some(_))) || is_said(hash.to_string()));
    if let Ok(tip) = within(ask().tip(chain())).await {
        let head = tip.head.block;
        assert!(is_said(head.hash.to_string()), "{tip:?}");
        for tag in [tip.safe, tip.finalized].into_iter().flatten() {
            assert!(tag <= head.number, "a tag above the newest block: {tip:?}");
        }
    }
    let told = within(ask().consumer(lane(), nonce(3))).await;
    if let Ok(Some(consumer)) = told {
        let hashes = [Some(consumer.block.hash), consumer.hash]
            .into_iter()
            .flatten();
        let mut hashes = hashes.map(|hash| hash.to_string());
        assert!(hashes.all(is_said), "{consumer:?}");
    }
    match within(ask().estimate(lane(), &payload())).await {
        Ok(Estimate::Reverted(Some(text)) | Estimate::NoFunds(text) | Estimate::Refused(text)) => {
            check_text(&text);
        }
        Ok(Estimate::Reverted(None) | Estimate::Gas(_)) | Err(_) => {}
    }
    let _ = within(ask().quote(chain())).await;
    let _ = within(ask().balance(lane())).await;
    blocks_and_receipts(ask).await;
    let asked = ask();
    let _ = within(asked.count(lane(), CountMode::Pending)).await;
    for endpoint in asked.health().into_iter().flat_map(|chain| chain.endpoints) {
        check_text(endpoint.client.as_deref().unwrap_or_default());
    }
}

async fn blocks_and_receipts(ask: impl Fn() -> Chains) {
    let heights = [height(7), height(8)];
    if let Ok(blocks) = within(ask().blocks(chain(), Source(0), &heights)).await {
        assert_eq!(blocks.len(), heights.len());
        for (body, height) in blocks.iter().zip(heights) {
            let right = body.as_ref().is_none_or(|body| body.block.number == height);
            assert!(right, "asked for {height:?}: {body:?}");
        }
    }
    let hashes: Vec<_> = (1..12).map(B256::repeat_byte).collect();
    let block = Block {
        number: height(7),
        hash: block_hash(7),
    };
    for count in [1, hashes.len()] {
        let hashes = &hashes[..count];
        let found = within(ask().receipts_in(chain(), Source(0), block, hashes)).await;
        let found = found.unwrap_or_else(|_| vec![None; count]);
        check_receipts(&found, hashes);
        let elsewhere = |receipt: &Receipt| receipt.block != block;
        assert!(!found.iter().flatten().any(elsewhere), "{found:?}");
    }
    let found = within(ask().receipts(chain(), &hashes)).await;
    check_receipts(&found.unwrap_or_else(|_| vec![None; hashes.len()]), &hashes);
}

/// What is concluded with a second, honest endpoint is never less than what that one says.
async fn beside_an_honest_one(input: &[u8]) {
    let honest: Arc<dyn Transport> = Arc::new(Honest);
    let ask = || fresh(input, std::slice::from_ref(&honest));
    for mode in [CountMode::Latest, CountMode::Pending] {
        let count = within(ask().count(lane(), mode)).await;
        let count = count.expect("the honest one answers");
        assert!(count.highest >= nonce(COUNT), "{count:?}");
        assert!(
            !count.is_unanimous() || count.highest == nonce(COUNT),
            "{count:?}"
        );
    }
    let heights = [height(7), height(8)];
    let all = within(ask().witnesses(chain(), &heights)).await;
    let all = all.expect("the honest one answers");
    for (witnesses, height) in all.iter().zip(heights) {
        let honest = Some(block_hash(height.get()));
        assert!(witnesses.contains(&honest), "{height:?}: {witnesses:?}");
    }
    let raw = Bytes::from_static(&[1]);
    for reply in within(ask().send(chain(), &[raw])).await {
        assert_eq!(reply.outcome, Outcome::Accepted, "{reply:?}");
    }
}

/// Only a reason that is known is a refusal, and it comes with the node's words.
fn check_reply(reply: &Reply) {
    let expected = reply.why.map_or(Outcome::Accepted, Rejection::outcome);
    assert_eq!(reply.outcome, expected, "{reply:?}");
    assert_eq!(reply.why.is_some(), reply.text.is_some(), "{reply:?}");
    check_text(reply.text.as_deref().unwrap_or_default());
}

fn check_text(text: &str) {
    assert!(text.chars().count() <= TEXT_CHARS_MAX, "{text}");
    assert!(!text.chars().any(char::is_control), "{text:?}");
}

/// A receipt says what the JSON says that is kept of it.
fn check_receipts(found: &[Option<Receipt>], hashes: &[B256]) {
    assert_eq!(found.len(), hashes.len());
    for (receipt, hash) in found.iter().zip(hashes) {
        let Some(receipt) = receipt else { continue };
        assert_eq!(receipt.hash, *hash);
        // Fields that nobody reads may hold numbers that no machine does.
        let kept: BTreeMap<String, &RawValue> =
            serde_json::from_str(&receipt.json).expect("what is kept is JSON");
        let text = |name: &str| serde_json::from_str::<String>(kept.get(name)?.get()).ok();
        let word = |name: &str| text(name)?.parse::<B256>().ok();
        let number = |name: &str| u64::from_str_radix(text(name)?.strip_prefix("0x")?, 16).ok();
        assert_eq!(word("transactionHash"), Some(*hash), "{kept:?}");
        assert_eq!(word("blockHash"), Some(receipt.block.hash), "{kept:?}");
        let height = receipt.block.number.get();
        assert_eq!(number("blockNumber"), Some(height), "{kept:?}");
        let status = kept.get("status").filter(|raw| raw.get() != "null");
        let right = match receipt.execution {
            Execution::Success => status.is_none() || number("status") == Some(1),
            Execution::Reverted => number("status") == Some(0),
        };
        assert!(right, "{:?}: {kept:?}", receipt.execution);
        check_text(receipt.reason.as_deref().unwrap_or_default());
    }
}

fn chain() -> ChainId {
    ChainId::new(CHAIN).expect("seven is a chain")
}

fn height(n: u64) -> Height {
    Height::new(n).expect("a small height")
}

fn nonce(n: u64) -> Nonce {
    Nonce::new(n).expect("a small nonce")
}

fn lane() -> Lane {
    Lane {
        chain: chain(),
        signer: Address::repeat_byte(0xaa),
    }
}

fn payload() -> Payload {
    let draft = Draft {
        to: Some("0x00000000000000000000000000000000000000aa".to_owned()),
        ..Draft::default()
    };
    let ceilings = Ceilings {
        max_fee: u128::MAX,
        max_priority_fee: u128::MAX,
    };
    Payload::parse(&draft, ceilings).expect("a good payload")
}
