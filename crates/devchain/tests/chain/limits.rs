//! What is forgotten so that memory is bounded.

use fencepost_devchain::{
    BranchId, Config, Devchain, Fate, Fault, FaultKind, HistoryLimits, NotThere, Plan, ReorgError,
};
use serde_json::{Value, json};

use crate::world::*;

fn short(history: HistoryLimits) -> Devchain {
    Devchain::new(Config {
        history,
        ..config()
    })
}

#[test]
fn old_blocks_are_forgotten_with_what_they_held() {
    let mut chain = short(HistoryLimits {
        blocks_max: 300,
        ..HistoryLimits::default()
    });
    let hash = send(&mut chain, &tx(0, 0)).unwrap();
    mine(&mut chain);
    let first = chain.head().hash;
    chain
        .reorg(&Plan {
            depth: 1,
            ..Plan::default()
        })
        .unwrap();
    for _ in 0..299 {
        mine(&mut chain);
    }
    assert_eq!(chain.branches().len(), 2);
    let receipt = ask(&mut chain, MAIN, "eth_getTransactionReceipt", json!([hash]));
    assert_ne!(receipt, Value::Null, "300 blocks are kept");
    mine(&mut chain);
    assert_eq!(
        chain.branches().len(),
        1,
        "the other ends below what is kept"
    );
    let receipt = ask(&mut chain, MAIN, "eth_getTransactionReceipt", json!([hash]));
    assert_eq!(receipt, Value::Null);
    let block = ask(
        &mut chain,
        MAIN,
        "eth_getBlockByHash",
        json!([first, false]),
    );
    assert_eq!(block, Value::Null);
    assert_eq!(chain.state().nonce(&key(0).address()), 1, "the state stays");
    let deep = Plan {
        depth: 300,
        ..Plan::default()
    };
    assert_eq!(chain.reorg(&deep), Err(ReorgError::TooDeep(299)));
    let error = fail(
        &mut chain,
        MAIN,
        "eth_getTransactionCount",
        json!([TO, "0x1"]),
    );
    assert_eq!(error["message"], "header not found");
}

#[test]
fn many_transactions_make_the_past_shorter() {
    let mut chain = short(HistoryLimits {
        txs_max: 10,
        ..HistoryLimits::default()
    });
    for nonce in 0..20 {
        send(&mut chain, &tx(0, nonce)).unwrap();
        mine(&mut chain);
    }
    assert_eq!(
        chain.mined_of(key(0).address()).len(),
        20,
        "the newest blocks stay"
    );
    for _ in 0..256 {
        mine(&mut chain);
    }
    assert_eq!(chain.mined_of(key(0).address()).len(), 10);
}

#[test]
fn abandoned_branches_are_forgotten_oldest_first() {
    let mut chain = short(HistoryLimits {
        branches_max: 3,
        ..HistoryLimits::default()
    });
    let hash = send(&mut chain, &tx(0, 0)).unwrap();
    mine(&mut chain);
    let first = chain.head().hash;
    let again = Plan {
        depth: 1,
        txs: Fate::Keep,
        ..Plan::default()
    };
    for _ in 0..3 {
        chain.reorg(&again).unwrap();
    }
    let kept: Vec<u64> = chain.branches().iter().map(|(id, ..)| id.0).collect();
    assert_eq!(kept, [1, 2, 3]);
    assert!(chain.switch_to(BranchId(0)).is_err());
    let block = ask(
        &mut chain,
        MAIN,
        "eth_getBlockByHash",
        json!([first, false]),
    );
    assert_eq!(block, Value::Null);
    let receipt = ask(&mut chain, MAIN, "eth_getTransactionReceipt", json!([hash]));
    assert_eq!(receipt["blockHash"], json!(chain.head().hash));
}

#[test]
fn faults_are_bounded() {
    let mut chain = chain();
    for _ in 0..1_000 {
        chain.add_fault(MAIN, Fault::new(FaultKind::Null)).unwrap();
    }
    let refused = chain.add_fault(MAIN, Fault::new(FaultKind::Null));
    assert_eq!(refused, Err(NotThere::FaultRoom));
    assert_eq!(chain.clear_faults(MAIN, None), Ok(1_000));
}
