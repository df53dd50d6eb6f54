//! Who used a nonce, asked of endpoints that prune, move, lie and fail while they are asked.

use std::slice::from_ref;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use fencepost_app::ports::{Chain, Consumer};
use fencepost_domain::ids::{Lane, Nonce};
use fencepost_domain::state::Block;
use fencepost_domain::{Address, B256};
use fencepost_evm::Chains;
use serde_json::{Value, json};

use super::script::{Node, Said, Wire, block, block_hash, chain, chains, height, states};

const HEAD: u64 = 1_000;
/// The lowest block that every endpoint is thought to have the state of.
const LOWEST: u64 = 880;
const NONCE: u64 = 5;
const SIGNER: Address = Address::repeat_byte(9);
const COUNT: &str = "eth_getTransactionCount";
const BLOCK: &str = "eth_getBlockByNumber";
/// However it goes, an endpoint is not asked more often.
const REQUESTS_MAX: usize = 13;
/// Nor for one that was used long ago.
const DEEP_MAX: usize = 24;

fn number(params: &Value, place: usize) -> u64 {
    let hex = params[place].as_str().unwrap().strip_prefix("0x").unwrap();
    u64::from_str_radix(hex, 16).unwrap()
}

fn used_hash() -> B256 {
    B256::repeat_byte(0xaa)
}

/// A transaction as it stands in a block.
fn sent(from: Address, nonce: u64, hash: B256) -> Value {
    let from = from.to_string().to_lowercase();
    json!({"from": from, "nonce": format!("{nonce:#x}"), "hash": hash.to_string(), "to": null})
}

fn full(at: u64, txs: Vec<Value>) -> Value {
    let mut block = block(at);
    block["transactions"] = Value::Array(txs);
    block
}

/// What stands in the block that used the nonce, among that of others.
fn used() -> Vec<Value> {
    let other = Address::repeat_byte(8);
    vec![
        sent(other, NONCE, B256::repeat_byte(1)),
        sent(SIGNER, NONCE - 1, B256::repeat_byte(2)),
        sent(SIGNER, NONCE, used_hash()),
        sent(SIGNER, NONCE + 1, B256::repeat_byte(3)),
    ]
}

/// The count passes the nonce in this block, which holds these transactions.
fn using(node: &Node, head: u64, at: u64, txs: Vec<Value>) {
    node.says("eth_blockNumber", Ok(json!(format!("{head:#x}"))));
    node.on(COUNT, move |params| {
        assert_eq!(params[0], SIGNER.to_string());
        let count = if number(params, 1) >= at { 7 } else { 4 };
        Ok(json!(format!("{count:#x}")))
    });
    node.on(BLOCK, move |params| {
        let asked = number(params, 0);
        Ok(match params[1].as_bool().unwrap() {
            true if asked == at => full(asked, txs.clone()),
            true | false => block(asked),
        })
    });
}

fn node(at: u64) -> Arc<Node> {
    let node = Node::new();
    using(&node, HEAD, at, used());
    node
}

async fn ask(chains: &Chains) -> Option<Consumer> {
    let (chain, signer) = (chain(), SIGNER);
    let nonce = Nonce::new(NONCE).unwrap();
    let asked = chains.consumer(Lane { chain, signer }, nonce).await;
    asked.unwrap()
}

async fn ask_only(node: &Arc<Node>) -> Option<Consumer> {
    ask(&chains(from_ref(node))).await
}

fn found(at: u64, hash: Option<B256>) -> Option<Consumer> {
    let block = Block {
        number: height(at),
        hash: block_hash(at),
    };
    Some(Consumer { block, hash })
}

#[tokio::test(start_paused = true)]
async fn a_nonce_is_found_in_each_of_the_newest_blocks_with_few_requests() {
    for at in LOWEST + 1..=HEAD {
        let node = node(at);
        assert_eq!(ask_only(&node).await, found(at, Some(used_hash())), "{at}");
        let requests = node.requests();
        // The greeting is one more.
        assert!(requests.len() <= 1 + REQUESTS_MAX, "{at}: {requests:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_nonce_that_is_not_used_or_was_long_ago_has_no_consumer() {
    let unused = node(HEAD + 1);
    assert_eq!(ask_only(&unused).await, None);
    assert_eq!(unused.requests()[1..], ["eth_blockNumber", COUNT]);
    assert_eq!(ask_only(&node(0)).await, None);
    let (head, most) = (100_000, 61_440);
    for at in [head - most, head - most - 1, 1, 0] {
        let node = Node::new();
        using(&node, head, at, used());
        assert_eq!(ask_only(&node).await, None, "{at}");
    }
}

/// An endpoint that has old states is asked for them.
#[tokio::test(start_paused = true)]
async fn a_nonce_that_was_used_before_others_prune_is_found_too() {
    for (head, ages) in [
        (1_000, vec![119, 120, 121, 998, 999]),
        (
            100_000,
            vec![959, 960, 961, 7_679, 7_680, 7_681, 61_438, 61_439],
        ),
    ] {
        for at in ages.into_iter().map(|age| head - age) {
            let node = Node::new();
            using(&node, head, at, used());
            assert_eq!(ask_only(&node).await, found(at, Some(used_hash())), "{at}");
            let requests = node.requests();
            assert!(requests.len() <= 1 + DEEP_MAX, "{at}: {requests:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_chain_that_has_few_blocks_is_searched_from_its_first() {
    for head in [0, 1, 2, 50] {
        for at in 1..=head {
            let node = Node::new();
            using(&node, head, at, used());
            assert_eq!(ask_only(&node).await, found(at, Some(used_hash())));
        }
        // Nobody sent anything before the first block.
        let node = Node::new();
        using(&node, head, 0, used());
        assert_eq!(ask_only(&node).await, None);
    }
}

#[tokio::test(start_paused = true)]
async fn below_what_an_endpoint_has_pruned_nothing_is_told() {
    let words: [Said; 8] = [
        Err((
            -32000,
            "missing trie node 0x01 (path ) state 0x02 is not available",
        )),
        Err((-32000, "historical state 0x01 is not available")),
        Err((-32000, "header not found")),
        Err((-32603, "state at block #880 is pruned")),
        Err((-32000, "old data not available due to pruning")),
        Err((-32002, "No state available for block 880")),
        Err((-32000, "World state unavailable")),
        Ok(Value::Null),
    ];
    for said in words {
        for kept in [LOWEST + 1, 900, 940, 999, HEAD] {
            for at in [LOWEST + 1, 899, 900, 901, 940, 941, 999, HEAD] {
                let node = node(at);
                let said = said.clone();
                node.on(COUNT, move |params| match number(params, 1) {
                    low if low < kept => said.clone(),
                    high if high < at => Ok(json!("0x4")),
                    _ => Ok(json!("0x7")),
                });
                // The block below must be known not to have used it.
                let expected = (at > kept).then(|| found(at, Some(used_hash())).unwrap());
                let chains = chains(from_ref(&node));
                assert_eq!(ask(&chains).await, expected, "{at} of {kept}");
                assert_eq!(states(&chains), ["ok"], "to prune is no failure");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_nonce_that_no_transaction_of_the_signer_used_has_a_block_and_no_hash() {
    let other = Address::repeat_byte(8);
    let blocks = [
        vec![],
        // An authorization in somebody else's transaction.
        vec![sent(other, NONCE, B256::repeat_byte(1))],
        // An endpoint that gives hashes whatever it is asked for.
        vec![json!(used_hash().to_string())],
        // No nonce, or one that is none.
        vec![json!({"from": SIGNER.to_string(), "hash": used_hash().to_string()})],
        vec![json!({"from": SIGNER.to_string(), "nonce": "5", "hash": used_hash().to_string()})],
    ];
    for txs in blocks {
        let node = Node::new();
        using(&node, HEAD, 930, txs.clone());
        assert_eq!(ask_only(&node).await, found(930, None), "{txs:?}");
        assert!(node.requests().len() <= 1 + REQUESTS_MAX);
    }
}

/// A reorg between the counts and the block: the block that was found is another now, or the count
/// passes elsewhere. What was read of both does not fit together.
#[tokio::test(start_paused = true)]
async fn a_block_that_moves_while_it_is_asked_for_is_not_told() {
    type Says = fn(usize, &Value) -> Option<Value>;
    let moved = |says: Says, method| {
        let node = Node::new();
        using(&node, HEAD, 930, vec![]);
        let blocks_read = Arc::new(AtomicUsize::new(0));
        let read = blocks_read.clone();
        node.on(BLOCK, move |params| {
            let nth = read.fetch_add(1, Ordering::SeqCst) + 1;
            let own = block(number(params, 0));
            let told = (method == BLOCK).then(|| says(nth, params));
            Ok(told.flatten().unwrap_or(own))
        });
        node.on(COUNT, move |params| {
            let own = if number(params, 1) >= 930 {
                "0x7"
            } else {
                "0x4"
            };
            let nth = blocks_read.load(Ordering::SeqCst);
            let told = (method == COUNT).then(|| says(nth, params));
            Ok(told.flatten().unwrap_or(json!(own)))
        });
        node
    };
    // The second read gives another block, or none.
    let other = |nth, params: &Value| {
        let mut other = block(number(params, 0));
        other["hash"] = json!(B256::repeat_byte(7).to_string());
        (nth == 2).then_some(other)
    };
    assert_eq!(ask_only(&moved(other, BLOCK)).await, None);
    let gone = |nth, _: &Value| (nth == 2).then_some(Value::Null);
    assert_eq!(ask_only(&moved(gone, BLOCK)).await, None);
    // Already the first read gives none.
    let gone = |_, _: &Value| Some(Value::Null);
    assert_eq!(ask_only(&moved(gone, BLOCK)).await, None);
    // The counts around it are others once the block was read.
    let unused = |nth, _: &Value| (nth == 1).then_some(json!("0x4"));
    assert_eq!(ask_only(&moved(unused, COUNT)).await, None);
    let earlier = |nth, _: &Value| (nth == 1).then_some(json!("0x7"));
    assert_eq!(ask_only(&moved(earlier, COUNT)).await, None);
    let nothing = |_, _: &Value| None;
    assert_eq!(ask_only(&moved(nothing, COUNT)).await, found(930, None));
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_that_fails_or_garbles_is_left_for_one_that_is_asked_everything_anew() {
    let garbled = |method: &'static str, strange: Value| {
        move |node: &Node| node.says(method, Ok(strange.clone()))
    };
    type Failure = Box<dyn Fn(&Node)>;
    let failures: Vec<Failure> = vec![
        Box::new(garbled("eth_blockNumber", json!(null))),
        Box::new(garbled("eth_blockNumber", json!("1000"))),
        Box::new(garbled(COUNT, json!(null))),
        Box::new(garbled(COUNT, json!("7"))),
        Box::new(garbled(COUNT, json!("0xffffffffffffffff"))),
        Box::new(garbled(BLOCK, json!({}))),
        Box::new(garbled(BLOCK, block(7))),
        Box::new(garbled(BLOCK, full(930, vec![json!(1)]))),
        Box::new(|node| {
            node.on(COUNT, |params| {
                let garbled = number(params, 1) != HEAD;
                Ok(json!(if garbled { "seven" } else { "0x7" }))
            });
        }),
        Box::new(|node| {
            node.on(COUNT, |params| match number(params, 1) {
                HEAD => Ok(json!("0x7")),
                _ => Err((-32005, "slow down")),
            });
        }),
    ];
    for fail in failures {
        let (a, b) = (node(930), node(930));
        fail(&a);
        let chains = chains(&[a.clone(), b.clone()]);
        assert_eq!(ask(&chains).await, found(930, Some(used_hash())));
        assert_eq!(states(&chains)[0], "unreachable");
        let asked: Vec<_> = b.requests().into_iter().skip(1).collect();
        assert_eq!(asked[..2], ["eth_blockNumber", COUNT], "from the beginning");
        assert_eq!(asked.last().unwrap(), BLOCK);
    }
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_that_cannot_tell_of_its_own_newest_block_is_left_for_the_next() {
    let (a, b) = (node(930), node(930));
    a.says(COUNT, Err((-32000, "header not found")));
    let chains = chains(&[a.clone(), b.clone()]);
    assert_eq!(ask(&chains).await, found(930, Some(used_hash())));
    assert_eq!(states(&chains), ["ok", "ok"]);
    let nonce = Nonce::new(NONCE).unwrap();
    let lane = Lane {
        chain: chain(),
        signer: SIGNER,
    };
    b.says(COUNT, Err((-32000, "header not found")));
    chains.consumer(lane, nonce).await.unwrap_err();
}

#[tokio::test(start_paused = true)]
async fn answers_are_of_one_endpoint_even_when_another_sees_more() {
    // The reader has not seen the block yet; the other one has.
    let (a, b) = (node(HEAD + 1), node(930));
    let chains = chains(&[a.clone(), b.clone()]);
    assert_eq!(ask(&chains).await, None);
    assert_eq!(b.asked(COUNT), 0);
    // The wire breaks in the middle: none of the first one's answers is used.
    let (a, b) = (node(900), node(930));
    let chains = super::script::chains(&[a.clone(), b.clone()]);
    assert_eq!(ask(&chains).await, found(900, Some(used_hash())));
    a.then(Wire::Down);
    assert_eq!(ask(&chains).await, found(930, Some(used_hash())));
}
