use fencepost_app::ports::{Chain, Source};
use fencepost_domain::B256;
use fencepost_domain::state::{Block, Execution};
use fencepost_evm::{Chains, Meters};
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use std::slice::from_ref;
use std::time::Duration;

use super::script::{Node, Said, Wire, block_hash, chain, chains, config, height, settle, states};

fn hash(n: u8) -> B256 {
    B256::repeat_byte(n)
}

fn hashes(n: u8) -> Vec<B256> {
    (1..=n).map(hash).collect()
}

fn block(n: u64) -> Block {
    Block {
        number: height(n),
        hash: block_hash(n),
    }
}

fn receipt(hash: B256, block: Block, status: &str) -> Value {
    json!({
        "transactionHash": hash.to_string(), "blockHash": block.hash.to_string(),
        "blockNumber": format!("{:#x}", block.number.get()), "status": status, "logs": [],
    })
}

fn asked(params: &Value) -> B256 {
    params[0].as_str().unwrap().parse().unwrap()
}

/// A node with receipts of all transactions, in block 7.
fn node() -> std::sync::Arc<Node> {
    let node = Node::new();
    node.on("eth_getTransactionReceipt", |params| {
        Ok(receipt(asked(params), block(7), "0x1"))
    });
    node.on("eth_getBlockReceipts", |params| {
        assert_eq!(asked(params), block_hash(7));
        let all = hashes(200)
            .into_iter()
            .map(|hash| receipt(hash, block(7), "0x1"));
        Ok(all.collect())
    });
    node
}

#[tokio::test(start_paused = true)]
async fn a_few_receipts_are_a_batch_and_many_are_the_blocks() {
    let node = node();
    let chains = chains(from_ref(&node));
    for (count, request) in [
        (2, "eth_getTransactionReceipt+eth_getTransactionReceipt"),
        (9, "eth_getBlockReceipts"),
    ] {
        let hashes = hashes(count);
        let got = chains
            .receipts_in(chain(), Source(0), block(7), &hashes)
            .await
            .unwrap();
        let got: Vec<_> = got
            .into_iter()
            .map(|receipt| receipt.unwrap().hash)
            .collect();
        assert_eq!(got, hashes);
        assert_eq!(node.requests().last().unwrap(), request);
    }
    let none = chains.receipts_in(chain(), Source(0), block(7), &[]).await;
    assert!(none.unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_receipt_of_another_block_is_none() {
    let node = node();
    let chains = chains(from_ref(&node));
    let other = Block {
        number: height(7),
        hash: hash(0xee),
    };
    let check = async |block| {
        chains
            .receipts_in(chain(), Source(0), block, &hashes(2))
            .await
            .unwrap()
    };
    assert_eq!(check(other).await, [None, None]);
    assert_eq!(
        check(Block {
            number: height(8),
            ..block(7)
        })
        .await,
        [None, None]
    );
    assert!(check(block(7)).await[1].is_some());
    node.says("eth_getTransactionReceipt", Ok(Value::Null));
    assert_eq!(check(block(7)).await, [None, None]);
}

#[tokio::test(start_paused = true)]
async fn a_block_that_an_endpoint_does_not_know_by_its_hash_is_read_one_by_one() {
    let node = node();
    let chains = chains(from_ref(&node));
    node.says("eth_getBlockReceipts", Ok(Value::Null));
    let got = chains
        .receipts_in(chain(), Source(0), block(7), &hashes(9))
        .await
        .unwrap();
    let got: Vec<_> = got.into_iter().map(|got| got.unwrap().hash).collect();
    assert_eq!(got, hashes(9));
}

#[tokio::test(start_paused = true)]
async fn of_a_list_only_what_is_ours_and_of_the_block_is_taken() {
    let node = node();
    let chains = chains(from_ref(&node));
    let list = [
        receipt(hash(99), block(7), "0x1"),
        receipt(hashes(9)[3], block(7), "0x1"),
        receipt(hashes(9)[4], block(8), "0x1"),
    ];
    node.says("eth_getBlockReceipts", Ok(list.into_iter().collect()));
    let got = chains
        .receipts_in(chain(), Source(0), block(7), &hashes(9))
        .await
        .unwrap();
    let found: Vec<bool> = got.iter().map(Option::is_some).collect();
    let mut expected = [false; 9];
    expected[3] = true;
    assert_eq!(found, expected);
}

#[tokio::test(start_paused = true)]
async fn a_receipt_is_kept_as_the_node_gave_it() {
    let node = node();
    let chains = chains(from_ref(&node));
    let text = r#"{"logs" : [ ],"transactionHash":"HASH","blockHash":"BLOCK","blockNumber":"0x7","x":1.0e2}"#;
    let text = text.replace("HASH", &hash(1).to_string());
    let text = text.replace("BLOCK", &block_hash(7).to_string());
    chains.tip(chain()).await.unwrap();
    // Ids count up: two for the greeting, three for the tip.
    let body = format!(r#"{{"jsonrpc":"2.0", "id":6, "result": {text} }}"#);
    node.wire(Wire::Says(200, body));
    let got = chains
        .receipts_in(chain(), Source(0), block(7), &[hash(1)])
        .await
        .unwrap();
    assert_eq!(got[0].as_ref().unwrap().json, text);
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_without_block_receipts_is_remembered() {
    let node = node();
    let chains = chains(from_ref(&node));
    node.says(
        "eth_getBlockReceipts",
        Err((-32601, "the method eth_getBlockReceipts does not exist")),
    );
    for expected in [1, 0] {
        let got = chains
            .receipts_in(chain(), Source(0), block(7), &hashes(20))
            .await;
        assert!(got.unwrap().iter().all(Option::is_some));
        assert_eq!(node.asked("eth_getBlockReceipts"), expected);
    }
    assert_eq!(states(&chains), ["ok"]);
}

#[tokio::test(start_paused = true)]
async fn a_block_whose_receipts_take_too_long_is_read_one_by_one() {
    let node = node();
    let chains = chains(from_ref(&node));
    chains.tip(chain()).await.unwrap();
    node.wire(Wire::Hangs);
    node.then(Wire::Up);
    // At first, while it is remembered, and when it is tried again.
    for (wait, expected) in [(0, 1), (0, 0), (61, 1)] {
        tokio::time::advance(Duration::from_secs(wait)).await;
        node.requests();
        let got = chains
            .receipts_in(chain(), Source(0), block(7), &hashes(20))
            .await;
        assert!(got.unwrap().iter().all(Option::is_some));
        assert_eq!(node.asked("eth_getBlockReceipts"), expected);
        assert_eq!(states(&chains), ["ok"], "it is slow, not gone");
    }
}

#[tokio::test(start_paused = true)]
async fn receipts_for_which_there_is_no_time_are_left_and_the_others_kept() {
    let node = node();
    let chains = chains(from_ref(&node));
    chains.tip(chain()).await.unwrap();
    node.says("eth_getBlockReceipts", Err((-32601, "no such method")));
    node.wire(Wire::Slow(Duration::from_secs(1)));
    let many: Vec<B256> = hashes(200).into_iter().cycle().take(2_000).collect();
    let start = tokio::time::Instant::now();
    let got = chains
        .receipts_in(chain(), Source(0), block(7), &many)
        .await
        .unwrap();
    // One second for the block's, and then as many as go out together in each of two.
    assert_eq!(start.elapsed(), Duration::from_secs(3));
    let given: Vec<bool> = got.iter().map(Option::is_some).collect();
    assert_eq!(given, [[true; 800].as_slice(), &[false; 1_200]].concat());
    assert_eq!(states(&chains), ["ok"]);
}

#[tokio::test(start_paused = true)]
async fn what_was_given_before_the_endpoint_fell_silent_is_kept() {
    let node = node();
    let chains = chains(from_ref(&node));
    node.says("eth_getBlockReceipts", Err((-32601, "no such method")));
    let ask = async |hashes: &[B256]| {
        chains
            .receipts_in(chain(), Source(0), block(7), hashes)
            .await
    };
    ask(&hashes(20)).await.unwrap();
    let many: Vec<B256> = hashes(200).into_iter().cycle().take(2_000).collect();
    // Of four requests that go out together the first is answered.
    node.then(Wire::Hangs);
    let got = ask(&many).await.unwrap();
    let given: Vec<bool> = got.iter().map(Option::is_some).collect();
    assert_eq!(given, [[true; 100].as_slice(), &[false; 1_900]].concat());
    assert_eq!(states(&chains), ["ok"], "it may be slow, and not gone");
    // Where there is nothing at all, it is gone.
    assert!(ask(&many).await.is_err());
    assert_ne!(states(&chains), ["ok"]);
}

#[tokio::test(start_paused = true)]
async fn a_slow_endpoint_is_left_where_there_is_another() {
    let (a, b) = (node(), node());
    let chains = chains(&[a.clone(), b]);
    let source = chains.tip(chain()).await.unwrap().source;
    settle().await;
    a.wire(Wire::Hangs);
    a.then(Wire::Up);
    let got = chains
        .receipts_in(chain(), source, block(7), &hashes(20))
        .await;
    assert!(got.is_err());
    assert_eq!(states(&chains), ["ok", "ok"], "it is slow, not gone");
    assert_ne!(chains.tip(chain()).await.unwrap().source, source);
}

#[tokio::test(start_paused = true)]
async fn a_pass_that_meets_an_error_is_not_half_an_answer() {
    for said in [
        Err((-32000, "transaction indexing is in progress")),
        Ok(json!({})),
    ] {
        let (a, b) = (node(), node());
        let chains = chains(&[a.clone(), b]);
        a.on("eth_getTransactionReceipt", move |params| {
            if asked(params) == hash(2) {
                return said.clone();
            }
            Ok(receipt(asked(params), block(7), "0x1"))
        });
        let got = chains
            .receipts_in(chain(), Source(0), block(7), &hashes(3))
            .await;
        got.unwrap_err();
        assert_eq!(chains.tip(chain()).await.unwrap().source, Source(1));
    }
}

#[tokio::test(start_paused = true)]
async fn what_one_replica_has_not_another_may() {
    let (a, b) = (node(), node());
    let chains = chains(&[a.clone(), b.clone()]);
    chains.tip(chain()).await.unwrap();
    settle().await;
    a.on("eth_getTransactionReceipt", |params| {
        let hash = asked(params);
        Ok(if hash == self::hash(2) {
            Value::Null
        } else {
            receipt(hash, block(7), "0x1")
        })
    });
    b.requests();
    let got = chains.receipts(chain(), &hashes(3)).await.unwrap();
    assert!(got.iter().all(Option::is_some));
    assert_eq!(b.requests(), ["eth_getTransactionReceipt"]);
    b.says("eth_getTransactionReceipt", Ok(Value::Null));
    let got = chains.receipts(chain(), &hashes(3)).await.unwrap();
    assert_eq!(
        got.iter().map(Option::is_some).collect::<Vec<_>>(),
        [true, false, true]
    );
    // The second one's trouble takes nothing away.
    b.wire(Wire::Down);
    assert_eq!(chains.receipts(chain(), &hashes(3)).await.unwrap().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn an_error_about_a_receipt_is_unknown_and_counted() {
    let mut registry = Registry::default();
    let meters = Meters::register(&mut registry);
    let node = node();
    let chains = Chains::new(vec![config(from_ref(&node))], &meters);
    node.on("eth_getTransactionReceipt", |params| {
        if asked(params) == hash(2) {
            return Err((-32000, "transaction indexing is in progress"));
        }
        Ok(receipt(asked(params), block(7), "0x1"))
    });
    let got = chains.receipts(chain(), &hashes(3)).await.unwrap();
    assert_eq!(
        got.iter().map(Option::is_some).collect::<Vec<_>>(),
        [true, false, true]
    );
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
    assert!(text.contains("fencepost_rpc_receipts_unknown_total{chain=\"main\"} 1\n"));
    node.wire(Wire::Down);
    chains.receipts(chain(), &hashes(3)).await.unwrap_err();
}

/// A node on which everything was reverted, and that tells why when asked again.
fn reverting(why: Said) -> std::sync::Arc<Node> {
    let node = node();
    node.on("eth_getTransactionReceipt", |params| {
        Ok(receipt(asked(params), block(7), "0x0"))
    });
    node.on("eth_getTransactionByHash", |_| {
        Ok(json!({"from": hash(1).to_string(), "to": null, "gas": "0x1", "value": "0x0", "input": "0x01"}))
    });
    node.on("eth_call", move |params| {
        assert_eq!(params[1], "0x6");
        why.clone()
    });
    node
}

#[tokio::test(start_paused = true)]
async fn as_many_reverted_ones_as_a_batch_holds_get_a_reason() {
    let node = reverting(Err((3, "execution reverted: paused")));
    let chains = chains(from_ref(&node));
    let got = chains.receipts(chain(), &hashes(103)).await.unwrap();
    let got: Vec<_> = got.into_iter().flatten().collect();
    assert!(
        got.iter()
            .all(|receipt| receipt.execution == Execution::Reverted)
    );
    let (told, rest) = got.split_at(100);
    assert!(
        told.iter()
            .all(|each| each.reason.as_deref() == Some("paused"))
    );
    assert!(rest.len() == 3 && rest.iter().all(|each| each.reason.is_none()));
    assert_eq!(node.asked("eth_call"), 100);
}

#[tokio::test(start_paused = true)]
async fn a_reason_that_cannot_be_had_spoils_nothing() {
    let says: [Said; 3] = [
        Ok(json!("0x")),
        Err((-32000, "missing trie node")),
        Ok(json!(7)),
    ];
    for said in says {
        let node = reverting(said);
        let chains = chains(&[node]);
        let got = chains.receipts(chain(), &hashes(1)).await.unwrap();
        assert_eq!(got[0].as_ref().unwrap().reason, None);
        assert_eq!(states(&chains), ["ok"]);
    }
    // A node that takes too long over it is not worth waiting for, and not to blame.
    let node = reverting(Ok(json!("0x")));
    let chains = chains(from_ref(&node));
    chains.tip(chain()).await.unwrap();
    node.then(Wire::Hangs);
    let start = tokio::time::Instant::now();
    let got = chains.receipts(chain(), &hashes(1)).await.unwrap();
    assert_eq!(got[0].as_ref().unwrap().reason, None);
    assert_eq!(start.elapsed(), Duration::from_secs(1));
    assert_eq!(states(&chains), ["ok"]);
}
