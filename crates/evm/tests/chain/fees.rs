use std::slice::from_ref;
use std::time::Duration;

use fencepost_app::ports::{Chain, Estimate};
use fencepost_domain::Address;
use fencepost_domain::fee::Quote;
use fencepost_domain::ids::Lane;
use fencepost_domain::request::{Ceilings, Draft, Payload};
use futures::future::join_all;
use serde_json::json;
use tokio::time::{Instant, advance};

use super::script::{Node, Wire, chain, chains};

const GWEI: u128 = 1_000_000_000;

fn payload() -> Payload {
    let draft = Draft {
        to: Some("0x00000000000000000000000000000000000000aa".to_owned()),
        data: Some("0x01".to_owned()),
        ..Draft::default()
    };
    let ceilings = Ceilings {
        max_fee: u128::MAX,
        max_priority_fee: u128::MAX,
    };
    Payload::parse(&draft, ceilings).unwrap()
}

async fn estimate(node: &std::sync::Arc<Node>) -> Option<Estimate> {
    let lane = Lane {
        chain: chain(),
        signer: Address::repeat_byte(9),
    };
    let chains = chains(from_ref(node));
    chains.estimate(lane, &payload()).await.ok()
}

fn with_history() -> std::sync::Arc<Node> {
    let node = Node::new();
    node.says(
        "eth_feeHistory",
        Ok(json!({
            "oldestBlock": "0x1", "baseFeePerGas": ["0x1", "0x3b9aca00"],
            "gasUsedRatio": [0.5], "reward": [["0x77359400"]],
        })),
    );
    node
}

#[tokio::test(start_paused = true)]
async fn a_thousand_callers_make_one_request() {
    let node = with_history();
    let chains = chains(from_ref(&node));
    node.wire(Wire::Slow(Duration::from_millis(50)));
    let quotes = join_all((0..1_000).map(|_| chains.quote(chain()))).await;
    let expected = Quote {
        base_fee: Some(GWEI),
        tip: 2 * GWEI,
    };
    assert!(
        quotes
            .iter()
            .all(|quote| *quote.as_ref().unwrap() == expected)
    );
    assert_eq!(node.asked("eth_feeHistory"), 1);
    advance(Duration::from_millis(900)).await;
    chains.quote(chain()).await.unwrap();
    assert_eq!(node.asked("eth_feeHistory"), 0);
    advance(Duration::from_millis(200)).await;
    chains.quote(chain()).await.unwrap();
    assert_eq!(node.asked("eth_feeHistory"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_thousand_callers_fail_together_and_not_one_after_the_other() {
    let node = with_history();
    let chains = chains(from_ref(&node));
    chains.tip(chain()).await.unwrap();
    node.wire(Wire::Hangs);
    let start = Instant::now();
    let quotes = join_all((0..1_000).map(|_| chains.quote(chain()))).await;
    assert!(quotes.iter().all(Result::is_err));
    assert_eq!(start.elapsed(), Duration::from_secs(5));
    assert_eq!(node.asked("eth_feeHistory"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_chain_without_base_fees_has_a_price() {
    let check = async |node: &std::sync::Arc<Node>, base_fee, tip| {
        let chains = chains(from_ref(node));
        let quote = chains.quote(chain()).await.unwrap();
        assert_eq!(quote, Quote { base_fee, tip });
    };
    // No history at all.
    let node = Node::new();
    node.says("eth_gasPrice", Ok(json!("0x9")));
    check(&node, None, 9).await;
    // A history of zeros, of blocks without a base fee.
    node.says(
        "eth_feeHistory",
        Ok(json!({"baseFeePerGas": ["0x0", "0x0"], "gasUsedRatio": [0.5], "reward": [["0x5"]]})),
    );
    node.says("eth_getBlockByNumber", Ok(json!({"number": "0x1"})));
    check(&node, None, 9).await;
    // The same zeros, of blocks that have one.
    node.says("eth_getBlockByNumber", Ok(json!({"baseFeePerGas": "0x0"})));
    check(&node, Some(0), 5).await;
}

#[tokio::test(start_paused = true)]
async fn a_quote_comes_from_the_next_endpoint_when_the_first_has_none() {
    let (a, b) = (Node::new(), with_history());
    let chains = chains(&[a, b]);
    assert_eq!(chains.quote(chain()).await.unwrap().base_fee, Some(GWEI));
}

#[tokio::test(start_paused = true)]
async fn an_estimate_is_gas_a_revert_a_lack_of_funds_a_refusal_or_nothing() {
    let node = Node::new();
    node.on("eth_estimateGas", |params| {
        assert_eq!(params[1], "pending");
        assert_eq!(params[0]["data"], "0x01");
        Ok(json!("0x186a0"))
    });
    assert_eq!(estimate(&node).await, Some(Estimate::Gas(120_000)));
    let reverted = |why: Option<&str>| Some(Estimate::Reverted(why.map(ToOwned::to_owned)));
    let refused = |why: &str| Some(Estimate::Refused(why.to_owned()));
    let unpaid = |why: &str| Some(Estimate::NoFunds(why.to_owned()));
    let funds = "insufficient funds for transfer";
    let (none, block) = (
        "gas required exceeds allowance (0)",
        "gas required exceeds allowance (30000000)",
    );
    let table = [
        ((3, "execution reverted"), reverted(None)),
        ((3, "execution reverted: paused"), reverted(Some("paused"))),
        ((-32000, funds), unpaid(funds)),
        ((-32000, none), unpaid(none)),
        ((-32000, block), refused(block)),
        ((-32603, "internal error"), None),
        ((-32005, "slow down"), None),
    ];
    for (error, expected) in table {
        node.says("eth_estimateGas", Err(error));
        assert_eq!(estimate(&node).await, expected, "{error:?}");
    }
    for strange in [json!(null), json!("100000"), json!({})] {
        node.says("eth_estimateGas", Ok(strange));
        assert_eq!(estimate(&node).await, None);
    }
    node.wire(Wire::Down);
    assert_eq!(estimate(&node).await, None);
}

#[tokio::test(start_paused = true)]
async fn a_node_without_a_pending_block_estimates_on_the_latest() {
    let node = Node::new();
    node.on("eth_estimateGas", |params| match params[1].as_str() {
        Some("pending") => Err((-32602, "pending is not available")),
        Some(_) | None => Ok(json!("0x186a0")),
    });
    assert_eq!(estimate(&node).await, Some(Estimate::Gas(120_000)));
}

#[tokio::test(start_paused = true)]
async fn an_estimate_is_understood_in_the_words_of_the_endpoints_client() {
    let node = Node::new();
    let words = "transaction up-front cost 0x2 exceeds transaction sender account balance 0x1";
    node.says("eth_estimateGas", Err((-32000, words)));
    let refused = Estimate::Refused(words.to_owned());
    assert_eq!(estimate(&node).await, Some(refused));
    node.says("web3_clientVersion", Ok(json!("besu/v25.7.0/linux")));
    let unpaid = Estimate::NoFunds(words.to_owned());
    assert_eq!(estimate(&node).await, Some(unpaid));
}
