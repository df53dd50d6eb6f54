use std::slice::from_ref;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use fencepost_app::ports::Chain;
use fencepost_domain::Bytes;
use fencepost_domain::attempt::Outcome;
use fencepost_domain::rejection::{Rejection, Reply};
use fencepost_evm::{Chains, Meters};
use futures::future::join_all;
use serde_json::json;
use tokio::time::{Instant, advance};

use super::script::{Node, Wire, chain, chains, config, settle, states};

fn raws(n: usize) -> Vec<Bytes> {
    let raw = |n: usize| Bytes::from(n.to_be_bytes().to_vec());
    (0..n).map(raw).collect()
}

fn texts(raws: &[Bytes]) -> Vec<String> {
    raws.iter().map(ToString::to_string).collect()
}

async fn send_one(chains: &Chains) -> Reply {
    let mut replies = chains.send(chain(), &raws(1)).await;
    assert_eq!(replies.len(), 1);
    replies.remove(0)
}

fn check(reply: &Reply, outcome: Outcome, why: Option<Rejection>) {
    assert_eq!((reply.outcome, reply.why), (outcome, why), "{reply:?}");
}

/// Two endpoints that have told their chain.
async fn pair() -> (Arc<Node>, Arc<Node>, Chains) {
    let (a, b) = (Node::new(), Node::new());
    let chains = chains(&[a.clone(), b.clone()]);
    send_one(&chains).await;
    settle().await;
    (a, b, chains)
}

const NO_FUNDS: (i64, &str) = (-32000, "insufficient funds for gas * price + value");

#[tokio::test(start_paused = true)]
async fn an_endpoint_that_hangs_delays_nothing_that_another_accepts() {
    let (a, b, chains) = pair().await;
    a.wire(Wire::Swallows);
    let start = Instant::now();
    check(&send_one(&chains).await, Outcome::Accepted, None);
    assert_eq!(start.elapsed(), Duration::ZERO);
    settle().await;
    assert_eq!((a.raws().len(), b.raws().len()), (2, 2));
}

#[tokio::test(start_paused = true)]
async fn the_slower_endpoints_get_the_bytes_in_the_background() {
    let (a, _b, chains) = pair().await;
    a.wire(Wire::Slow(Duration::from_secs(3)));
    check(&send_one(&chains).await, Outcome::Accepted, None);
    assert_eq!(a.raws().len(), 1);
    tokio::time::sleep(Duration::from_secs(4)).await;
    assert_eq!(a.raws().len(), 2);
    assert_eq!(states(&chains), ["ok", "ok"]);
}

#[tokio::test(start_paused = true)]
async fn only_every_reachable_endpoints_no_is_a_refusal() {
    let (a, b, chains) = pair().await;
    a.says("eth_sendRawTransaction", Err(NO_FUNDS));
    check(&send_one(&chains).await, Outcome::Accepted, None);
    b.says("eth_sendRawTransaction", Err(NO_FUNDS));
    check(
        &send_one(&chains).await,
        Outcome::Refused,
        Some(Rejection::NoFunds),
    );
    // One that may have taken them makes it ambiguous.
    b.wire(Wire::Swallows);
    let start = Instant::now();
    check(
        &send_one(&chains).await,
        Outcome::Ambiguous,
        Some(Rejection::Unrecognised),
    );
    assert_eq!(start.elapsed(), Duration::from_secs(5));
    // One that certainly has not does not: it is away and was not asked.
    check(
        &send_one(&chains).await,
        Outcome::Refused,
        Some(Rejection::NoFunds),
    );
    advance(Duration::from_secs(60)).await;
    b.wire(Wire::Down);
    check(
        &send_one(&chains).await,
        Outcome::Refused,
        Some(Rejection::NoFunds),
    );
}

#[tokio::test(start_paused = true)]
async fn bytes_that_never_left_for_an_endpoint_leave_nothing_open() {
    let (a, b, chains) = pair().await;
    a.says("eth_sendRawTransaction", Err(NO_FUNDS));
    b.wire(Wire::Down);
    let reply = send_one(&chains).await;
    check(&reply, Outcome::Refused, Some(Rejection::NoFunds));
}

#[tokio::test(start_paused = true)]
async fn besus_code_for_gas_is_no_rate_limit() {
    let node = Node::new();
    node.says("web3_clientVersion", Ok(json!("besu/v25")));
    let gas = "Transaction gas limit exceeds block gas limit";
    node.says("eth_sendRawTransaction", Err((-32005, gas)));
    let chains = chains(from_ref(&node));
    let reply = send_one(&chains).await;
    check(&reply, Outcome::Refused, Some(Rejection::Invalid));
    assert_eq!(states(&chains), ["ok"]);
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_that_asks_to_come_later_leaves_it_open() {
    let (a, b, chains) = pair().await;
    a.says("eth_sendRawTransaction", Err(NO_FUNDS));
    b.wire(Wire::Says(429, String::new()));
    let limited = Some(Rejection::RateLimited);
    check(&send_one(&chains).await, Outcome::Ambiguous, limited);
    b.requests();
    check(&send_one(&chains).await, Outcome::Ambiguous, limited);
    assert_eq!(b.requests().len(), 0, "not while it wants to be left alone");
}

#[tokio::test(start_paused = true)]
async fn without_any_endpoint_nobody_can_say() {
    let unrecognised = Some(Rejection::Unrecognised);
    let none = chains(&[]);
    check(&send_one(&none).await, Outcome::Ambiguous, unrecognised);
    let (a, b, chains) = pair().await;
    for wire in [
        Wire::Down,
        Wire::Says(502, "<html>".to_owned()),
        Wire::Hangs,
    ] {
        a.wire(wire.clone());
        b.wire(wire);
        check(&send_one(&chains).await, Outcome::Ambiguous, unrecognised);
        advance(Duration::from_secs(60)).await;
    }
    assert!(chains.send(chain(), &[]).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn only_the_bytes_own_hash_is_an_acceptance() {
    let node = Node::new();
    let chains = chains(from_ref(&node));
    let other = json!(fencepost_domain::B256::repeat_byte(3).to_string());
    for strange in [other, json!(null), json!(true), json!("0x"), json!({})] {
        node.says("eth_sendRawTransaction", Ok(strange));
        check(
            &send_one(&chains).await,
            Outcome::Ambiguous,
            Some(Rejection::Unrecognised),
        );
    }
    node.says("eth_sendRawTransaction", Err((-32000, "already known")));
    check(
        &send_one(&chains).await,
        Outcome::Accepted,
        Some(Rejection::AlreadyKnown),
    );
}

#[tokio::test(start_paused = true)]
async fn texts_are_read_in_the_endpoints_own_dialect() {
    let node = Node::new();
    let says = |version: &'static str| node.says("web3_clientVersion", Ok(json!(version)));
    node.says(
        "eth_sendRawTransaction",
        Err((-32000, "INTERNAL_ERROR: spammer")),
    );
    says("erigon/3.0.0");
    let erigon = chains(from_ref(&node));
    check(
        &send_one(&erigon).await,
        Outcome::Refused,
        Some(Rejection::PoolFull),
    );
    says("Geth/v1");
    let geth = chains(from_ref(&node));
    check(
        &send_one(&geth).await,
        Outcome::Ambiguous,
        Some(Rejection::Unrecognised),
    );
    node.says("web3_clientVersion", Err((-32601, "no such method")));
    let unknown = chains(from_ref(&node));
    check(
        &send_one(&unknown).await,
        Outcome::Ambiguous,
        Some(Rejection::Unrecognised),
    );
}

#[tokio::test(start_paused = true)]
async fn bytes_go_out_in_order_in_bounded_batches_with_one_answer_each() {
    let node = Node::new();
    let chains = chains(from_ref(&node));
    node.on("eth_sendRawTransaction", |params| {
        let raw: Bytes = params[0].as_str().unwrap().parse().unwrap();
        if raw.last() == Some(&7) {
            return Err((-32000, "nonce too low"));
        }
        Ok(json!(fencepost_domain::keccak256(raw).to_string()))
    });
    let raws = raws(250);
    let replies = chains.send(chain(), &raws).await;
    assert_eq!(node.raws(), texts(&raws));
    let sizes: Vec<_> = node
        .requests()
        .iter()
        .map(|r| r.split('+').count())
        .collect();
    assert_eq!(sizes, [2, 100, 100, 50]);
    for (n, reply) in replies.iter().enumerate() {
        let is_low = n % 256 == 7;
        assert_eq!(reply.why, is_low.then_some(Rejection::NonceTooLow), "{n}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_body_stays_below_what_nodes_take() {
    let node = Node::new();
    let chains = chains(from_ref(&node));
    let large: Vec<Bytes> = (0..20_u8).map(|n| Bytes::from(vec![n; 120_000])).collect();
    let replies = chains.send(chain(), &large).await;
    assert!(
        replies
            .iter()
            .all(|reply| reply.outcome == Outcome::Accepted)
    );
    assert_eq!(node.raws(), texts(&large));
    let sizes: Vec<_> = node
        .requests()
        .iter()
        .map(|r| r.split('+').count())
        .collect();
    assert_eq!(sizes, [2, 4, 4, 4, 4, 4]);
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_that_hangs_holds_only_so_many_sends() {
    let (a, b, chains) = pair().await;
    a.wire(Wire::Swallows);
    for _ in 0..64 {
        check(&send_one(&chains).await, Outcome::Accepted, None);
    }
    settle().await;
    assert_eq!(a.under_way_max.load(Ordering::SeqCst), 8);
    assert_eq!(a.raws().len(), 1 + 8);
    // Not asked is not a no.
    b.says("eth_sendRawTransaction", Err(NO_FUNDS));
    let start = Instant::now();
    let reply = send_one(&chains).await;
    check(&reply, Outcome::Ambiguous, Some(Rejection::Unrecognised));
    let text = Some("endpoint 0 hangs with earlier sends");
    assert_eq!(reply.text.as_deref(), text);
    assert_eq!(start.elapsed(), Duration::ZERO);
    // When the hang is over the others find that nobody is there, and all places are free again.
    tokio::time::sleep(Duration::from_secs(40)).await;
    a.wire(Wire::Up);
    b.wire(Wire::Down);
    check(&send_one(&chains).await, Outcome::Accepted, None);
}

#[tokio::test(start_paused = true)]
async fn a_burst_waits_for_its_turn_at_a_healthy_endpoint() {
    let node = Node::new();
    let chains = chains(from_ref(&node));
    node.wire(Wire::Slow(Duration::from_millis(100)));
    let sent = join_all((0..40).map(|_| send_one(&chains))).await;
    assert!(sent.iter().all(|reply| reply.outcome == Outcome::Accepted));
    assert_eq!(node.under_way_max.load(Ordering::SeqCst), 8);
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_goes_away_takes_nothing_with_it() {
    let node = Node::new();
    node.wire(Wire::Slow(Duration::from_secs(1)));
    let mut config = config(from_ref(&node));
    config.deadline = Duration::from_secs(10);
    let chains = Arc::new(Chains::new(vec![config], &Meters::default()));
    let caller = tokio::spawn({
        let chains = chains.clone();
        async move { chains.send(chain(), &raws(1)).await }
    });
    settle().await;
    caller.abort();
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(node.raws().len(), 1);
}
