use std::slice::from_ref;
use std::sync::atomic::Ordering;
use std::time::Duration;

use fencepost_app::ports::{Chain, Source};
use fencepost_domain::Bytes;
use fencepost_domain::attempt::Outcome;
use fencepost_domain::ids::Height;
use fencepost_domain::rejection::Rejection;
use tokio::time::advance;

use super::script::{Batches, Node, Wire, block_hash, chain, chains, height, states};

fn heights(n: u64) -> Vec<Height> {
    (1..=n).map(height).collect()
}

/// Reads forty blocks and checks that each is the right one.
async fn read_forty(chains: &fencepost_evm::Chains) {
    let blocks = chains
        .blocks(chain(), Source(0), &heights(40))
        .await
        .unwrap();
    let hashes: Vec<_> = blocks
        .into_iter()
        .map(|block| block.unwrap().block.hash)
        .collect();
    let expected: Vec<_> = (1..=40).map(block_hash).collect();
    assert_eq!(hashes, expected);
}

fn largest(requests: &[String]) -> usize {
    requests
        .iter()
        .map(|request| request.split('+').count())
        .max()
        .unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_refused_batch_is_made_smaller_until_it_is_taken_and_that_is_remembered() {
    let modes = [
        (Batches::Status(400, 10), 10),
        (Batches::Status(413, 1), 1),
        (Batches::Status(500, 1), 1),
        (Batches::Status(502, 3), 2),
        (Batches::OneError(10), 10),
        (Batches::OneError(0), 1),
        (Batches::EachError(5), 5),
    ];
    for (mode, largest_taken) in modes {
        let node = Node::new();
        node.batches(mode);
        let chains = chains(from_ref(&node));
        read_forty(&chains).await;
        let requests = node.requests();
        assert!(requests.len() < 60, "{}", requests.len());
        read_forty(&chains).await;
        let largest_now = largest(&node.requests());
        assert!(largest_now <= largest_taken && largest_now >= largest_taken.div_ceil(2));
        assert_eq!(
            states(&chains),
            ["ok"],
            "that is no failure of the endpoint"
        );
        // Later it is tried again with more.
        node.batches(Batches::Good);
        for _ in 0..7 {
            advance(Duration::from_secs(61)).await;
            read_forty(&chains).await;
        }
        assert_eq!(largest(&node.requests()), 40);
    }
}

#[tokio::test(start_paused = true)]
async fn a_batch_that_fails_while_single_calls_fail_too_is_the_endpoints_trouble() {
    let node = Node::new();
    let chains = chains(from_ref(&node));
    read_forty(&chains).await;
    node.requests();
    node.wire(Wire::Says(503, "away".to_owned()));
    chains
        .blocks(chain(), Source(0), &heights(40))
        .await
        .unwrap_err();
    // One batch, one single call to make sure, and no more.
    assert_eq!(node.requests().len(), 2);
    assert_eq!(states(&chains), ["unreachable"]);
}

#[tokio::test(start_paused = true)]
async fn single_calls_are_bounded_in_number_at_once() {
    let node = Node::new();
    node.batches(Batches::OneError(0));
    let chains = chains(from_ref(&node));
    node.wire(Wire::Slow(Duration::from_millis(10)));
    read_forty(&chains).await;
    read_forty(&chains).await;
    assert_eq!(node.under_way_max.load(Ordering::SeqCst), 8);
}

#[tokio::test(start_paused = true)]
async fn answers_in_any_order_and_in_part_are_still_the_right_ones() {
    for mode in [Batches::Backwards, Batches::DropsLast, Batches::Doubles] {
        let node = Node::new();
        let chains = chains(from_ref(&node));
        node.batches(mode);
        read_forty(&chains).await;
        assert_eq!(states(&chains), ["ok"]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_send_without_its_own_answer_is_ambiguous_and_never_assumed() {
    let raws: Vec<Bytes> = (0..10_u8).map(|n| Bytes::from(vec![n])).collect();
    for (mode, lost) in [(Batches::DropsLast, 9), (Batches::Doubles, 0)] {
        let node = Node::new();
        let chains = chains(from_ref(&node));
        chains.tip(chain()).await.unwrap();
        node.batches(mode);
        let replies = chains.send(chain(), &raws).await;
        for (n, reply) in replies.iter().enumerate() {
            let expected = if n == lost {
                (Outcome::Ambiguous, Some(Rejection::Unrecognised))
            } else {
                (Outcome::Accepted, None)
            };
            assert_eq!((reply.outcome, reply.why), expected, "{n}");
        }
        assert_eq!(node.raws().len(), 10, "nothing is sent twice for it");
        node.requests();
        chains.send(chain(), &raws).await;
        assert_eq!(
            largest(&node.requests()),
            5,
            "but the next batches are smaller"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn sends_to_an_endpoint_without_batches_go_one_after_the_other() {
    let raws: Vec<Bytes> = (0..30_u8).map(|n| Bytes::from(vec![n])).collect();
    let node = Node::new();
    node.batches(Batches::OneError(0));
    let chains = chains(from_ref(&node));
    chains.tip(chain()).await.unwrap();
    node.under_way_max.store(0, Ordering::SeqCst);
    let replies = chains.send(chain(), &raws).await;
    assert!(
        replies
            .iter()
            .all(|reply| reply.outcome == Outcome::Accepted)
    );
    let expected: Vec<_> = raws.iter().map(ToString::to_string).collect();
    assert_eq!(node.raws(), expected);
    assert_eq!(node.under_way_max.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn a_batch_that_was_refused_and_then_nobody_there_may_have_been_taken() {
    // The batch goes out, a gateway answers 502, and the next connection cannot be made: the bytes
    // may be in a pool, so a refusal elsewhere is none.
    let (a, b) = (Node::new(), Node::new());
    let chains = chains(&[a.clone(), b.clone()]);
    chains.send(chain(), &[vec![1].into()]).await;
    super::script::settle().await;
    a.says(
        "eth_sendRawTransaction",
        Err((-32000, "insufficient funds")),
    );
    b.batches(Batches::Status(502, 0));
    let raws: Vec<Bytes> = (0..3_u8).map(|n| Bytes::from(vec![n])).collect();
    b.then(Wire::Down);
    let replies = chains.send(chain(), &raws).await;
    for reply in replies {
        assert_eq!(reply.outcome, Outcome::Ambiguous);
    }
}
