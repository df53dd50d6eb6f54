//! Replaced blocks: what happens to their transactions, to the state and to the pool.

use std::collections::BTreeMap;

use alloy_primitives::B256;
use fencepost_devchain::{BranchId, Devchain, Fate, Order, Plan, ReorgError};
use serde_json::{Value, json};

use crate::world::*;

/// Three blocks, each with one transaction of each of two keys.
fn three_blocks() -> Devchain {
    let mut chain = chain();
    for nonce in 0..3 {
        for by in 0..2 {
            send(&mut chain, &tx(by, nonce)).unwrap();
        }
        mine(&mut chain);
    }
    chain
}

fn sizes(chain: &mut Devchain) -> Vec<usize> {
    let head = chain.head().number();
    let count = |number| {
        let params = json!([format!("{number:#x}"), false]);
        let block = ask(chain, MAIN, "eth_getBlockByNumber", params);
        block["transactions"].as_array().unwrap().len()
    };
    (1..=head).map(count).collect()
}

fn receipt(chain: &mut Devchain, hash: B256) -> Value {
    ask(chain, MAIN, "eth_getTransactionReceipt", json!([hash]))
}

fn plan(depth: u64, txs: Fate) -> Plan {
    Plan {
        depth,
        txs,
        ..Plan::default()
    }
}

#[test]
fn kept_transactions_stand_in_other_blocks_with_the_same_outcome() {
    let mut chain = three_blocks();
    let before = accounts(chain.state());
    let old = receipt(&mut chain, tx(0, 2).hash());
    let (fork, head) = (chain.head().header.parent_hash, chain.head().hash);
    let reorg = chain.reorg(&plan(1, Fate::Keep)).unwrap();
    assert_ne!(reorg.head.hash, head);
    assert_eq!(reorg.head.header.parent_hash, fork);
    assert_eq!(reorg.head.number(), 3);
    assert_eq!(accounts(chain.state()), before);
    let new = receipt(&mut chain, tx(0, 2).hash());
    assert_ne!(new["blockHash"], old["blockHash"]);
    assert_eq!(new["blockNumber"], old["blockNumber"]);
    let gone = ask(&mut chain, MAIN, "eth_getBlockByHash", json!([head, false]));
    assert_eq!(
        gone["hash"],
        json!(head),
        "nodes keep replaced blocks for a while"
    );
}

#[test]
fn transactions_can_move_to_another_block_and_order() {
    let mut chain = three_blocks();
    let before = accounts(chain.state());
    let reorg = Plan {
        extra: 2,
        order: Order::Reversed,
        ..plan(3, Fate::Later(1))
    };
    let reorg = chain.reorg(&reorg).unwrap();
    assert_eq!(reorg.head.number(), 5);
    assert_eq!(sizes(&mut chain), [0, 2, 2, 2, 0]);
    let moved = receipt(&mut chain, tx(0, 0).hash());
    assert_eq!(moved["blockNumber"], "0x2");
    assert_eq!(
        moved["transactionIndex"], "0x1",
        "it was the first of its block"
    );
    assert_eq!(accounts(chain.state()), before);
}

#[test]
fn transactions_can_go_back_to_the_pool_and_be_mined_again() {
    let mut chain = three_blocks();
    let before = accounts(chain.state());
    let reorg = Plan {
        extra: 1,
        ..plan(2, Fate::Pool)
    };
    chain.reorg(&reorg).unwrap();
    assert_eq!(sizes(&mut chain), [2, 0, 0, 0]);
    assert_eq!(chain.state().nonce(&key(0).address()), 1);
    assert_eq!(chain.pooled(MAIN).unwrap().len(), 4);
    assert_eq!(receipt(&mut chain, tx(0, 1).hash()), Value::Null);
    let waiting = ask(
        &mut chain,
        MAIN,
        "eth_getTransactionByHash",
        json!([tx(0, 1).hash()]),
    );
    assert_eq!(waiting["blockHash"], Value::Null);
    mine(&mut chain);
    assert_eq!(accounts(chain.state()), before);
}

#[test]
fn a_dropped_transaction_is_gone_and_what_follows_it_waits() {
    let mut chain = three_blocks();
    let reorg = Plan {
        only: BTreeMap::from([(tx(0, 1).hash(), Fate::Drop)]),
        ..plan(2, Fate::Keep)
    };
    chain.reorg(&reorg).unwrap();
    let gone = tx(0, 1).hash();
    assert_eq!(receipt(&mut chain, gone), Value::Null);
    let by_hash = ask(&mut chain, MAIN, "eth_getTransactionByHash", json!([gone]));
    assert_eq!(by_hash, Value::Null);
    assert_eq!(chain.state().nonce(&key(0).address()), 1);
    assert_eq!(chain.state().nonce(&key(1).address()), 3);
    let waits: Vec<B256> = chain
        .pooled(MAIN)
        .unwrap()
        .iter()
        .map(|one| one.hash)
        .collect();
    assert_eq!(waits, [tx(0, 2).hash()]);
    send(&mut chain, &tx(0, 1)).unwrap();
    mine(&mut chain);
    assert_eq!(chain.state().nonce(&key(0).address()), 3);
}

#[test]
fn another_transaction_can_take_the_nonce_of_a_dropped_one() {
    let mut chain = three_blocks();
    chain.reorg(&plan(1, Fate::Drop)).unwrap();
    let foreign = tx(0, 2).value(ether(7));
    send(&mut chain, &foreign).unwrap();
    mine(&mut chain);
    let mined: Vec<B256> = chain
        .mined_of(key(0).address())
        .iter()
        .map(|one| one.hash)
        .collect();
    assert_eq!(mined, [tx(0, 0).hash(), tx(0, 1).hash(), foreign.hash()]);
    assert_eq!(
        send(&mut chain, &tx(0, 2)),
        Err(fencepost_devchain::Rejection::NonceTooLow)
    );
}

#[test]
fn a_branch_that_was_left_can_be_entered_again_and_again() {
    let mut chain = three_blocks();
    let (old_head, old_state) = (chain.head().hash, accounts(chain.state()));
    let reorg = Plan {
        extra: 1,
        ..plan(2, Fate::Pool)
    };
    let reorg = chain.reorg(&reorg).unwrap();
    let (new_head, new_state) = (chain.head().hash, accounts(chain.state()));
    for _ in 0..3 {
        chain.switch_to(reorg.left).unwrap();
        assert_eq!(
            (chain.head().hash, accounts(chain.state())),
            (old_head, old_state.clone())
        );
        assert_eq!(chain.pooled(MAIN).unwrap(), [], "all of it is mined here");
        assert_eq!(
            receipt(&mut chain, tx(0, 2).hash())["blockHash"],
            json!(old_head)
        );
        chain.switch_to(reorg.entered).unwrap();
        assert_eq!(
            (chain.head().hash, accounts(chain.state())),
            (new_head, new_state.clone())
        );
        assert_eq!(chain.pooled(MAIN).unwrap().len(), 4);
        assert_eq!(receipt(&mut chain, tx(0, 2).hash()), Value::Null);
    }
    mine(&mut chain);
    assert_eq!(accounts(chain.state()), old_state);
}

#[test]
fn a_reorg_that_cannot_be_changes_nothing() {
    let mut chain = three_blocks();
    let before = (chain.head().hash, chain.branches());
    assert_eq!(chain.reorg(&plan(0, Fate::Keep)), Err(ReorgError::Nothing));
    assert_eq!(
        chain.reorg(&plan(4, Fate::Keep)),
        Err(ReorgError::TooDeep(3))
    );
    let long = Plan {
        extra: u64::MAX,
        ..plan(1, Fate::Keep)
    };
    assert_eq!(chain.reorg(&long), Err(ReorgError::TooLong));
    assert!(matches!(
        chain.switch_to(BranchId(7)),
        Err(ReorgError::NotThere(_))
    ));
    assert_eq!((chain.head().hash, chain.branches()), before);
}

#[test]
fn money_that_was_given_by_hand_survives_reorgs() {
    let mut chain = three_blocks();
    chain.set_balance(key(8).address(), ether(5));
    chain.set_balance(key(0).address(), ether(1_000));
    let before = accounts(chain.state());
    let reorg = chain.reorg(&plan(3, Fate::Keep)).unwrap();
    assert_eq!(accounts(chain.state()), before);
    chain.switch_to(reorg.left).unwrap();
    assert_eq!(accounts(chain.state()), before);
    chain.set_balance(key(8).address(), ether(2));
    chain.switch_to(reorg.entered).unwrap();
    assert_eq!(chain.state().balance(&key(8).address()), ether(2));
}
