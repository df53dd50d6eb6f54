//! Who used a nonce.

use std::collections::BTreeMap;

use alloy_primitives::keccak256;
use fencepost_devchain::{DIALECTS, Fault, FaultKind, GWEI, Plan, View};

use super::bench::{Bench, MAIN, OTHER, signed};

#[tokio::test(start_paused = true)]
async fn a_foreign_transaction_with_our_key_is_found_where_it_was_mined() {
    let bench = Bench::new();
    bench.send(MAIN, signed(0, 1, 10));
    bench.mine(3);
    // Somebody else has the key, and has sent this to another node.
    let foreign = signed(1, 999, 10);
    bench.send(OTHER, foreign.clone());
    assert_eq!(bench.consumer(1).await, None, "pooled is not used");
    let time = bench.chain.lock().head().header.timestamp;
    bench.chain.lock().mine_as(OTHER, time).unwrap();
    let found = bench.mined(&foreign);
    bench.send(MAIN, signed(2, 1, 10));
    for _ in 0..119 {
        bench.mine(1);
        assert_eq!(bench.consumer(1).await, found);
    }
    assert_eq!(bench.consumer(3).await, None);
    // As many blocks later that the states around it may be pruned: elsewhere, not here.
    bench.mine(500);
    assert_eq!(bench.consumer(1).await, found);
    let pruned = Fault::new(FaultKind::Pruned(128));
    bench.chain.lock().add_fault(MAIN, pruned).unwrap();
    assert_eq!(bench.consumer(1).await, None);
}

#[tokio::test(start_paused = true)]
async fn the_attempt_that_is_mined_is_told_and_the_other_one_after_a_reorg() {
    let bench = Bench::new();
    let (old, new) = (signed(0, 1, 10), signed(0, 1, 20));
    let (was, is) = (bench.send(MAIN, old.clone()), bench.send(MAIN, new.clone()));
    let time = bench.chain.lock().head().header.timestamp;
    bench.chain.lock().mine_with(&[was], time).unwrap();
    let found = bench.mined(&old);
    assert_eq!(bench.consumer(0).await, found);
    let swap = Plan {
        depth: 1,
        instead: BTreeMap::from([(was, is)]),
        ..Plan::default()
    };
    bench.chain.lock().reorg(&swap).unwrap();
    let found = bench.mined(&new);
    assert_eq!(bench.consumer(0).await, found);
    // Neither of them can pay any more: nothing is used.
    bench.chain.lock().set_base_fee(Some(100 * GWEI));
    let again = Plan {
        depth: 1,
        ..Plan::default()
    };
    bench.chain.lock().reorg(&again).unwrap();
    assert_eq!(bench.consumer(0).await, None);
}

#[tokio::test(start_paused = true)]
async fn every_client_that_has_pruned_states_is_asked_no_deeper() {
    for dialect in DIALECTS {
        let bench = Bench::new();
        let mine = |nonce| {
            bench.send(MAIN, signed(nonce, 1, 10));
            bench.mine(1);
            bench.mined(&signed(nonce, 1, 10))
        };
        let found: Vec<_> = (0..30).map(mine).collect();
        bench.chain.lock().set_dialect(MAIN, dialect).unwrap();
        let pruned = Fault::new(FaultKind::Pruned(9));
        bench.chain.lock().add_fault(MAIN, pruned).unwrap();
        // Nonce n is used in block n + 1; states are there from block 21 on.
        for (nonce, found) in (0..30).zip(found) {
            let expected = found.filter(|_| nonce >= 21);
            assert_eq!(bench.consumer(nonce).await, expected, "{dialect:?} {nonce}");
        }
        assert_eq!(bench.states(), ["ok", "ok"]);
    }
}

/// A gateway with replicas behind it that are not equally far: each call is answered from another
/// height, or whole blocks are not there. Whatever is told is right.
#[tokio::test(start_paused = true)]
async fn an_endpoint_whose_answers_do_not_fit_together_tells_the_truth_or_nothing() {
    let bench = Bench::new();
    let mine = |nonce| {
        bench.send(MAIN, signed(nonce, 1, 10));
        bench.mine(1);
        bench.mined(&signed(nonce, 1, 10))
    };
    let found: Vec<_> = (0..40).map(mine).collect();
    let mut told = 0;
    for every in 2..9 {
        for lag in [1, 2, 7, 30] {
            let stale = Fault::new(FaultKind::Stale(lag)).every(every);
            let id = bench.chain.lock().add_fault(MAIN, stale).unwrap();
            for (nonce, found) in (0..40).zip(&found) {
                if let Some(consumer) = bench.consumer(nonce).await {
                    assert_eq!(Some(consumer), *found, "{nonce}, every {every}th {lag}");
                    told += 1;
                }
            }
            let cleared = bench.chain.lock().clear_faults(MAIN, Some(id));
            cleared.unwrap();
        }
    }
    assert!(told > 0);
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_that_lies_about_counts_or_blocks_finds_nobody() {
    let bench = Bench::new();
    bench.mine(30);
    bench.send(MAIN, signed(0, 1, 10));
    bench.mine(1);
    let found = bench.mined(&signed(0, 1, 10));
    let lies = [
        // Used since ever, used by a count that nobody reached, no block at all.
        Fault::new(FaultKind::Count(50)),
        Fault::new(FaultKind::Count(1)),
        Fault::new(FaultKind::Null).on("eth_getBlockByNumber"),
    ];
    for fault in lies {
        let id = bench.chain.lock().add_fault(MAIN, fault.clone()).unwrap();
        assert_eq!(bench.consumer(0).await, None, "{fault:?}");
        bench.chain.lock().clear_faults(MAIN, Some(id)).unwrap();
    }
    assert_eq!(bench.consumer(0).await, found);
    // One that is behind has not seen it yet.
    let view = View {
        lag: 3,
        ..View::default()
    };
    bench.chain.lock().set_view(MAIN, view).unwrap();
    assert_eq!(bench.consumer(0).await, None);
    let hash = found.unwrap().hash;
    assert_eq!(hash, Some(keccak256(signed(0, 1, 10))));
}
