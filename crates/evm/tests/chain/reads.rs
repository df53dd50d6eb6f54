use std::slice::from_ref;
use std::time::Duration;

use fencepost_app::ports::{Chain, CountMode, Source};
use fencepost_domain::ids::{Lane, Nonce};
use fencepost_domain::nonce::ChainCount;
use fencepost_domain::{Address, B256, U256};
use serde_json::{Value, json};
use tokio::time::{Instant, advance};

use super::script::{Node, Wire, block, block_hash, chain, chains, height, settle, states};

const TIP: &str = "eth_getBlockByNumber+eth_getBlockByNumber+eth_getBlockByNumber";

fn lane() -> Lane {
    Lane {
        chain: chain(),
        signer: Address::repeat_byte(9),
    }
}

#[tokio::test(start_paused = true)]
async fn the_tip_is_one_request_for_head_safe_and_finalized() {
    let node = Node::new();
    let chains = chains(from_ref(&node));
    let tip = chains.tip(chain()).await.unwrap();
    assert_eq!(tip.source, Source(0));
    assert_eq!(tip.head.block.hash, block_hash(100));
    assert_eq!(tip.head.parent, block_hash(99));
    assert_eq!(tip.head.txs, [B256::repeat_byte(1)]);
    assert_eq!(
        (tip.safe, tip.finalized),
        (Some(height(98)), Some(height(90)))
    );
    assert_eq!(node.requests()[1..], [TIP]);
}

/// With another answer to one tag.
fn with_tag(node: &Node, tag: &'static str, said: super::script::Said) {
    node.on("eth_getBlockByNumber", move |params| {
        match params[0].as_str().unwrap() {
            asked if asked == tag => said.clone(),
            _ => Ok(block(100)),
        }
    });
}

#[tokio::test(start_paused = true)]
async fn a_tag_that_is_refused_is_not_asked_for_again_for_some_time() {
    let node = Node::new();
    let chains = chains(from_ref(&node));
    with_tag(&node, "finalized", Err((-32602, "invalid block tag")));
    let tip = chains.tip(chain()).await.unwrap();
    assert_eq!((tip.safe, tip.finalized), (Some(height(100)), None));
    node.requests();
    chains.tip(chain()).await.unwrap();
    assert_eq!(
        node.requests(),
        ["eth_getBlockByNumber+eth_getBlockByNumber"]
    );
    advance(Duration::from_secs(601)).await;
    chains.tip(chain()).await.unwrap();
    assert_eq!(node.requests(), [TIP]);
}

#[tokio::test(start_paused = true)]
async fn a_tag_that_has_no_block_yet_is_asked_for_again() {
    let node = Node::new();
    let chains = chains(from_ref(&node));
    let yet: [super::script::Said; 4] = [
        Ok(Value::Null),
        Err((-39001, "Unknown block")),
        Err((-32000, "safe block not found")),
        // A node that fails once knows the tag all the same.
        Err((-32603, "internal error")),
    ];
    for said in yet {
        with_tag(&node, "safe", said);
        assert_eq!(chains.tip(chain()).await.unwrap().safe, None);
        node.requests();
        chains.tip(chain()).await.unwrap();
        assert_eq!(node.requests(), [TIP]);
    }
    // Above the head it was told by a replica that is further on.
    with_tag(&node, "safe", Ok(block(101)));
    assert_eq!(chains.tip(chain()).await.unwrap().safe, None);
}

#[tokio::test(start_paused = true)]
async fn a_head_that_is_no_block_is_a_failure_of_the_endpoint() {
    for strange in [
        json!(null),
        json!({}),
        json!({"number": "0x1"}),
        json!("0x1"),
    ] {
        let (a, b) = (Node::new(), Node::new());
        let chains = chains(&[a.clone(), b]);
        a.says("eth_getBlockByNumber", Ok(strange));
        assert_eq!(chains.tip(chain()).await.unwrap().source, Source(1));
        assert_eq!(states(&chains)[0], "unreachable");
    }
}

#[tokio::test(start_paused = true)]
async fn blocks_come_from_the_named_endpoint_or_not_at_all() {
    let (a, b) = (Node::new(), Node::new());
    let chains = chains(&[a.clone(), b.clone()]);
    b.head(50);
    let heights = [height(49), height(51)];
    let blocks = chains.blocks(chain(), Source(1), &heights).await.unwrap();
    assert_eq!(blocks[0].as_ref().unwrap().block.hash, block_hash(49));
    assert_eq!(blocks[1], None);
    assert_eq!(a.asked("eth_getBlockByNumber"), 0);
    let unknown: super::script::Said = Err((-39001, "Unknown block"));
    b.says("eth_getBlockByNumber", unknown);
    let blocks = chains.blocks(chain(), Source(1), &heights).await.unwrap();
    assert_eq!(blocks, [None, None]);
    // An error is no word about blocks, and another height's block is none of them.
    for said in [Err((-32000, "missing trie node")), Ok(block(7))] {
        b.says("eth_getBlockByNumber", said);
        chains
            .blocks(chain(), Source(1), &heights)
            .await
            .unwrap_err();
        assert_eq!(states(&chains)[1], "unreachable");
        // Not even asked while it is left alone.
        b.requests();
        chains
            .blocks(chain(), Source(1), &heights)
            .await
            .unwrap_err();
        assert!(b.requests().is_empty());
        advance(Duration::from_secs(40)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn witnesses_are_all_that_answer_each_with_what_it_has() {
    let nodes = [Node::new(), Node::new(), Node::new(), Node::new()];
    let chains = chains(&nodes);
    nodes[1].head(50);
    nodes[2].says("eth_getBlockByNumber", Err((-32000, "no state")));
    nodes[3].says("eth_chainId", Ok(json!("0x1")));
    let heights = [height(40), height(60)];
    let seen = chains.witnesses(chain(), &heights).await.unwrap();
    assert_eq!(
        seen,
        [
            vec![Some(block_hash(40)), Some(block_hash(40))],
            vec![Some(block_hash(60)), None]
        ]
    );
    // One request each, however many heights.
    assert_eq!(nodes[0].requests().len(), 2);
    // Who hangs is left out at the deadline, and then not waited for.
    nodes[0].wire(Wire::Hangs);
    let start = Instant::now();
    let seen = chains.witnesses(chain(), &heights).await.unwrap();
    assert_eq!(seen, [vec![Some(block_hash(40))], vec![None]]);
    assert_eq!(start.elapsed(), Duration::from_secs(5));
    chains.witnesses(chain(), &heights).await.unwrap();
    assert_eq!(start.elapsed(), Duration::from_secs(5));
    nodes[1].wire(Wire::Down);
    chains.witnesses(chain(), &heights).await.unwrap_err();
}

#[tokio::test(start_paused = true)]
async fn the_count_is_the_lowest_and_the_highest_that_are_given() {
    let nodes = [Node::new(), Node::new(), Node::new()];
    let chains = chains(&nodes);
    let count = async || chains.count(lane(), CountMode::Pending).await;
    let expect = |lowest, highest| ChainCount {
        lowest: Nonce::new(lowest).unwrap(),
        highest: Nonce::new(highest).unwrap(),
    };
    assert_eq!(count().await.unwrap(), expect(5, 5));
    nodes[1].says("eth_getTransactionCount", Ok(json!("0x9")));
    assert_eq!(count().await.unwrap(), expect(5, 9));
    // Absurd counts are no counts.
    for absurd in [
        json!("0xffffffffffffffff"),
        json!(null),
        json!("9"),
        json!([]),
    ] {
        nodes[1].says("eth_getTransactionCount", Ok(absurd));
        assert_eq!(count().await.unwrap(), expect(5, 5));
        assert_eq!(states(&chains)[1], "unreachable");
        advance(Duration::from_secs(40)).await;
        chains.tip(chain()).await.unwrap();
        settle().await;
    }
    nodes.iter().for_each(|node| node.wire(Wire::Down));
    count().await.unwrap_err();
}

#[tokio::test(start_paused = true)]
async fn the_count_is_asked_with_the_mode() {
    let node = Node::new();
    node.on("eth_getTransactionCount", |params| {
        assert_eq!(params[0], Address::repeat_byte(9).to_string());
        Ok(json!(if params[1] == "pending" { "0x9" } else { "0x3" }))
    });
    let chains = chains(&[node]);
    let count = async |mode| chains.count(lane(), mode).await.unwrap().highest.get();
    assert_eq!(count(CountMode::Pending).await, 9);
    assert_eq!(count(CountMode::Latest).await, 3);
}

/// Whoever counts a nonce as free relies on this: the one endpoint that knows better must be heard.
#[tokio::test(start_paused = true)]
async fn both_counts_are_asked_of_every_endpoint_and_who_fails_is_left_out() {
    for (mode, tag) in [
        (CountMode::Latest, "latest"),
        (CountMode::Pending, "pending"),
    ] {
        let nodes: Vec<_> = (0..7).map(|_| Node::new()).collect();
        nodes.iter().for_each(|node| {
            node.on("eth_getTransactionCount", move |params| {
                Ok(json!(if params[1] == tag { "0x5" } else { "0x0" }))
            });
        });
        nodes[1].wire(Wire::Down);
        nodes[2].wire(Wire::Says(502, "bad gateway".to_owned()));
        nodes[3].says("eth_getTransactionCount", Err((-32000, "header not found")));
        nodes[4].says("eth_chainId", Ok(json!("0x1")));
        let chains = chains(&nodes);
        let count = async || {
            let count = chains.count(lane(), mode).await.unwrap();
            (count.highest.get(), count.is_unanimous())
        };
        assert_eq!(count().await, (5, true), "{tag}");
        let asked = |node: &std::sync::Arc<Node>| node.asked("eth_getTransactionCount");
        let times: Vec<_> = nodes.iter().map(asked).collect();
        assert_eq!(times, [1, 0, 0, 1, 0, 1, 1], "{tag}");
        // The last of them knows more than all the others.
        nodes[6].on("eth_getTransactionCount", move |params| {
            Ok(json!(if params[1] == tag { "0x6" } else { "0x0" }))
        });
        assert_eq!(count().await, (6, false), "{tag}");
        // It hangs: the others are heard, and from then on nobody waits for it.
        nodes[6].wire(Wire::Hangs);
        let start = Instant::now();
        assert_eq!(count().await, (5, true), "{tag}");
        assert_eq!(count().await, (5, true), "{tag}");
        assert_eq!(start.elapsed(), Duration::from_secs(5));
        // Back again, it is heard as soon as someone has looked at it.
        nodes[6].wire(Wire::Up);
        advance(Duration::from_secs(40)).await;
        chains.tip(chain()).await.unwrap();
        settle().await;
        assert_eq!(count().await, (6, false), "{tag}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_balance_is_what_the_first_endpoint_that_can_be_read_says() {
    let (a, b) = (Node::new(), Node::new());
    let chains = chains(&[a.clone(), b.clone()]);
    let balance = async || {
        chains
            .balance(lane())
            .await
            .map_err(|error| error.0.to_string())
    };
    a.on("eth_getBalance", |params| {
        assert_eq!(params[0], Address::repeat_byte(9).to_string());
        assert_eq!(params[1], "latest");
        Ok(json!(format!("0x{}", "f".repeat(64))))
    });
    b.says("eth_getBalance", Ok(json!("0x7")));
    assert_eq!(balance().await, Ok(U256::MAX));
    assert_eq!(b.asked("eth_getBalance"), 0);
    a.says("eth_getBalance", Err((-32000, "missing trie node")));
    assert_eq!(balance().await, Ok(U256::from(7)));
    assert_eq!(states(&chains), ["ok", "ok"]);
    for strange in [
        json!(null),
        json!("7"),
        json!(7),
        json!(format!("0x1{}", "0".repeat(64))),
    ] {
        a.says("eth_getBalance", Ok(strange));
        b.wire(Wire::Down);
        assert!(balance().await.is_err());
        assert_eq!(states(&chains), ["unreachable", "unreachable"]);
        b.wire(Wire::Up);
        advance(Duration::from_secs(40)).await;
        assert_eq!(balance().await, Ok(U256::from(7)));
        advance(Duration::from_secs(40)).await;
    }
}
