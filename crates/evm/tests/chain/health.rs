use std::slice::from_ref;
use std::sync::Arc;
use std::time::Duration;

use fencepost_app::ports::{Chain, CountMode, Source};
use fencepost_domain::Address;
use fencepost_domain::ids::{ChainId, Lane, Nonce};
use fencepost_evm::{Chains, Meters};
use futures::future::join_all;
use prometheus_client::registry::Registry;
use serde_json::json;
use tokio::time::{Instant, advance};

use super::script::{Node, Wire, chain, chains, config, height, settle, states};

const GREETING: &str = "eth_chainId+web3_clientVersion";

fn lane() -> Lane {
    Lane {
        chain: chain(),
        signer: Address::repeat_byte(9),
    }
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_tells_its_chain_before_anything_is_asked_and_only_once() {
    let node = Node::new();
    let chains = chains(from_ref(&node));
    assert_eq!(states(&chains), ["untried"]);
    assert!(chains.is_usable(chain()));
    join_all((0..100).map(|_| chains.count(lane(), CountMode::Latest))).await;
    let requests = node.requests();
    assert_eq!(requests[0], GREETING);
    assert_eq!(
        requests
            .iter()
            .filter(|request| *request == GREETING)
            .count(),
        1
    );
    let health = chains.health();
    assert_eq!(health[0].name, "main");
    let endpoint = &health[0].endpoints[0];
    assert_eq!(
        (endpoint.state, endpoint.client.as_deref()),
        ("ok", Some("Geth/v1.16.0/linux"))
    );
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_of_another_chain_is_never_used() {
    let (wrong, right) = (Node::new(), Node::new());
    wrong.says("eth_chainId", Ok(json!("0x1")));
    let chains = chains(&[wrong.clone(), right.clone()]);
    chains.tip(chain()).await.unwrap();
    chains.send(chain(), &[vec![1].into()]).await;
    chains.count(lane(), CountMode::Pending).await.unwrap();
    chains.witnesses(chain(), &[height(1)]).await.unwrap();
    settle().await;
    assert_eq!(wrong.requests(), [GREETING]);
    assert_eq!(states(&chains), ["wrong_chain", "ok"]);
    // Alone it leaves the chain without any.
    let alone = super::script::chains(from_ref(&wrong));
    alone.tip(chain()).await.unwrap_err();
    assert!(!alone.is_usable(chain()));
    alone.send(chain(), &[vec![1].into()]).await;
    assert!(wrong.raws().is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_chain_is_told_again_after_an_endpoint_was_away() {
    let node = Node::new();
    let chains = chains(from_ref(&node));
    chains.tip(chain()).await.unwrap();
    node.wire(Wire::Down);
    chains.tip(chain()).await.unwrap_err();
    assert_eq!(states(&chains), ["unreachable"]);
    assert!(!chains.is_usable(chain()));
    // Behind the same name there is another chain now.
    node.wire(Wire::Up);
    node.says("eth_chainId", Ok(json!("0x1")));
    advance(Duration::from_secs(1)).await;
    node.requests();
    chains.send(chain(), &[vec![1].into()]).await;
    assert_eq!(node.requests(), [GREETING]);
    assert_eq!(states(&chains), ["wrong_chain"]);
    // And when that is mended, it is used again.
    node.says("eth_chainId", Ok(json!("0x7")));
    advance(Duration::from_secs(61)).await;
    chains.tip(chain()).await.unwrap();
    assert_eq!(states(&chains), ["ok"]);
}

#[tokio::test(start_paused = true)]
async fn a_failing_endpoint_is_left_alone_for_longer_and_longer() {
    let node = Node::new();
    let chains = chains(from_ref(&node));
    chains.tip(chain()).await.unwrap();
    node.wire(Wire::Says(502, "bad gateway".to_owned()));
    node.requests();
    let start = Instant::now();
    let mut tries = Vec::new();
    while start.elapsed() < Duration::from_secs(120) {
        chains.tip(chain()).await.unwrap_err();
        if !node.requests().is_empty() {
            tries.push(start.elapsed());
        }
        advance(Duration::from_millis(50)).await;
    }
    let gaps: Vec<_> = tries
        .windows(2)
        .map(|pair| (pair[1] - pair[0]).as_millis())
        .collect();
    assert!(gaps.windows(2).all(|pair| pair[1] >= pair[0]), "{gaps:?}");
    assert!(gaps.last().unwrap() >= &30_000 && gaps.last().unwrap() < &31_000);
    assert!(tries.len() < 15, "{}", tries.len());
}

#[tokio::test(start_paused = true)]
async fn reads_stick_to_one_endpoint_until_it_fails() {
    let (a, b) = (Node::new(), Node::new());
    let chains = chains(&[a.clone(), b.clone()]);
    let source = |tip: fencepost_app::ports::Tip| tip.source;
    for _ in 0..5 {
        assert_eq!(source(chains.tip(chain()).await.unwrap()), Source(0));
    }
    // A fast failure costs nothing: the next one answers the same question.
    a.wire(Wire::Down);
    assert_eq!(source(chains.tip(chain()).await.unwrap()), Source(1));
    // And it stays there when the first is back.
    a.wire(Wire::Up);
    advance(Duration::from_secs(60)).await;
    for _ in 0..5 {
        assert_eq!(source(chains.tip(chain()).await.unwrap()), Source(1));
        settle().await;
    }
    assert_eq!(states(&chains), ["ok", "ok"]);
    // Unless it is the second that fails, with a hang now.
    b.wire(Wire::Hangs);
    let start = Instant::now();
    chains.tip(chain()).await.unwrap_err();
    assert_eq!(start.elapsed(), Duration::from_secs(5));
    assert_eq!(source(chains.tip(chain()).await.unwrap()), Source(0));
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_that_lags_is_not_read_from_while_another_keeps_up() {
    let (a, b) = (Node::new(), Node::new());
    let chains = chains(&[a.clone(), b.clone()]);
    let source = async |chains: &Chains| chains.tip(chain()).await.unwrap().source;
    assert_eq!(source(&chains).await, Source(0));
    settle().await;
    b.head(104);
    advance(Duration::from_secs(11)).await;
    assert_eq!(source(&chains).await, Source(0));
    settle().await;
    assert_eq!(
        source(&chains).await,
        Source(0),
        "four behind is near enough"
    );
    b.head(105);
    advance(Duration::from_secs(11)).await;
    assert_eq!(source(&chains).await, Source(0), "nobody has looked yet");
    settle().await;
    assert_eq!(source(&chains).await, Source(1));
    assert_eq!(states(&chains), ["lagging", "ok"]);
    // When the better one is gone, an old head is better than none.
    b.wire(Wire::Down);
    let tip = chains.tip(chain()).await.unwrap();
    assert_eq!(
        (tip.source, tip.head.block.number),
        (Source(0), height(100))
    );
}

#[tokio::test(start_paused = true)]
async fn the_next_to_be_read_from_is_one_that_keeps_up() {
    let nodes = [Node::new(), Node::new(), Node::new()];
    nodes[1].head(50);
    let chains = chains(&nodes);
    chains.tip(chain()).await.unwrap();
    settle().await;
    assert_eq!(states(&chains), ["ok", "lagging", "ok"]);
    nodes[0].wire(Wire::Down);
    nodes[1].requests();
    chains
        .receipts(chain(), &[fencepost_domain::B256::ZERO])
        .await
        .unwrap();
    assert_eq!(nodes[1].requests(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_chain_that_starts_anew_has_no_endpoint_that_lags() {
    let nodes = [Node::new(), Node::new()];
    let chains = chains(&nodes);
    chains.tip(chain()).await.unwrap();
    settle().await;
    nodes.iter().for_each(|node| node.head(3));
    let tip = chains.tip(chain()).await.unwrap();
    assert_eq!(tip.head.block.number, height(3));
    advance(Duration::from_secs(11)).await;
    chains.tip(chain()).await.unwrap();
    settle().await;
    assert_eq!(states(&chains), ["ok", "ok"]);
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_that_hangs_from_the_start_delays_nobody_for_long() {
    let (a, b) = (Node::new(), Node::new());
    a.wire(Wire::Hangs);
    let chains = chains(&[a.clone(), b.clone()]);
    let start = Instant::now();
    let tip = chains.tip(chain()).await.unwrap();
    assert_eq!((tip.source, start.elapsed()), (Source(1), Duration::ZERO));
    advance(Duration::from_secs(6)).await;
    settle().await;
    assert_eq!(states(&chains), ["unreachable", "ok"]);
    // While it hangs, nobody waits for it.
    for _ in 0..20 {
        let start = Instant::now();
        chains.count(lane(), CountMode::Latest).await.unwrap();
        chains.witnesses(chain(), &[height(1)]).await.unwrap();
        assert_eq!(start.elapsed(), Duration::ZERO);
        advance(Duration::from_secs(3)).await;
    }
    // A look around brings it back.
    a.wire(Wire::Up);
    advance(Duration::from_secs(31)).await;
    chains.tip(chain()).await.unwrap();
    settle().await;
    assert_eq!(states(&chains), ["ok", "ok"]);
}

#[tokio::test(start_paused = true)]
async fn a_rate_limit_makes_reads_go_elsewhere_and_needs_no_new_greeting() {
    let (a, b) = (Node::new(), Node::new());
    let chains = chains(&[a.clone(), b.clone()]);
    chains.tip(chain()).await.unwrap();
    a.wire(Wire::Says(429, "slow down".to_owned()));
    assert_eq!(chains.tip(chain()).await.unwrap().source, Source(1));
    a.wire(Wire::Up);
    advance(Duration::from_secs(15)).await;
    a.requests();
    chains.tip(chain()).await.unwrap();
    settle().await;
    assert_eq!(a.requests(), ["eth_blockNumber"]);
    assert_eq!(states(&chains), ["ok", "ok"]);
}

#[tokio::test(start_paused = true)]
async fn every_question_to_a_chain_that_hangs_ends_within_its_deadline() {
    let nodes = [Node::new(), Node::new()];
    nodes.iter().for_each(|node| node.wire(Wire::Hangs));
    let mut config = config(&nodes);
    config.deadline = Duration::from_millis(300);
    let chains = Chains::new(vec![config], &Meters::default());
    let (chains, block) = (
        Arc::new(chains),
        fencepost_domain::state::Block {
            number: height(1),
            hash: fencepost_domain::B256::ZERO,
        },
    );
    let asked = async |n: usize| match n {
        0 => chains.tip(chain()).await.is_err(),
        1 => chains.quote(chain()).await.is_err(),
        2 => chains.count(lane(), CountMode::Pending).await.is_err(),
        3 => chains
            .blocks(chain(), Source(0), &[height(1)])
            .await
            .is_err(),
        4 => chains.receipts(chain(), &[block.hash]).await.is_err(),
        5 => chains
            .receipts_in(chain(), Source(1), block, &[block.hash])
            .await
            .is_err(),
        6 => chains.witnesses(chain(), &[height(1)]).await.is_err(),
        7 => chains.balance(lane()).await.is_err(),
        8 => chains.consumer(lane(), Nonce::ZERO).await.is_err(),
        _ => chains.send(chain(), &[vec![1].into()]).await[0]
            .why
            .is_some(),
    };
    for n in 0..10 {
        let start = Instant::now();
        assert!(asked(n).await);
        assert!(
            start.elapsed() <= Duration::from_millis(301),
            "{n}: {:?}",
            start.elapsed()
        );
        advance(Duration::from_secs(40)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_not_there_is_said_clearly() {
    let chains = chains(&[Node::new()]);
    let text = |error: fencepost_app::ports::ChainUnavailable| error.0.to_string();
    let other = ChainId::new(8).unwrap();
    assert_eq!(
        text(chains.tip(other).await.unwrap_err()),
        "chain 8 is not configured"
    );
    assert!(!chains.is_usable(other));
    let reply = &chains.send(other, &[vec![1].into()]).await[0];
    assert_eq!(reply.text.as_deref(), Some("chain 8 is not configured"));
    let none = chains.blocks(chain(), Source(5), &[]).await.unwrap_err();
    assert_eq!(text(none), "chain main has no endpoint 5");
}

#[tokio::test(start_paused = true)]
async fn requests_and_lags_are_counted_with_bounded_labels() {
    let mut registry = Registry::default();
    let meters = Meters::register(&mut registry);
    let (a, b) = (Node::new(), Node::new());
    b.head(90);
    let chains = Chains::new(vec![config(&[a.clone(), b.clone()])], &meters);
    chains.tip(chain()).await.unwrap();
    settle().await;
    a.wire(Wire::Hangs);
    chains.send(chain(), &vec![vec![1].into(); 150]).await;
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
    let expect = |line: &str| assert!(text.contains(line), "{line} in {text}");
    expect("fencepost_rpc_requests_total{chain=\"main\",method=\"tip\",result=\"ok\"} 1\n");
    expect("fencepost_rpc_requests_total{chain=\"main\",method=\"send\",result=\"ok\"} 2\n");
    expect("fencepost_rpc_requests_total{chain=\"main\",method=\"estimate\",result=\"ok\"} 0\n");
    expect("fencepost_rpc_head_lag_blocks{chain=\"main\",endpoint=\"0\"} 0\n");
    expect("fencepost_rpc_head_lag_blocks{chain=\"main\",endpoint=\"1\"} 10\n");
}
