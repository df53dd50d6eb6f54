//! Two transactions of one nonce: which of them waits, which is mined, and which a reorg leaves mined.

use std::collections::BTreeMap;

use alloy_primitives::{B256, U256};
use fencepost_devchain::{
    Config, Devchain, EndpointConfig, Fate, GWEI, Plan, PoolChoice, Rejection, ReorgError, Unfit,
    Unminable,
};
use serde_json::{Value, json};

use crate::world::*;

fn old() -> Made {
    tx(0, 0)
}

/// Pays enough more to take the old one's place.
fn new() -> Made {
    tx(0, 0).paying(gwei(20), gwei(2)).value(U256::from(7))
}

/// The pool holds the new one, in the place of the old.
fn replaced() -> Devchain {
    let mut chain = chain();
    send(&mut chain, &old()).unwrap();
    send(&mut chain, &new()).unwrap();
    chain
}

fn pooled(chain: &Devchain, at: fencepost_devchain::EndpointId) -> Vec<B256> {
    let pooled = chain.pooled(at).unwrap();
    pooled.iter().map(|one| one.hash).collect()
}

fn mined(chain: &Devchain) -> Vec<B256> {
    let mined = chain.mined_of(key(0).address());
    mined.iter().map(|one| one.hash).collect()
}

fn next(chain: &Devchain) -> u64 {
    chain.head().header.timestamp + 12
}

fn swap(out: &Made, stand_in: &Made) -> Plan {
    Plan {
        depth: 1,
        instead: BTreeMap::from([(out.hash(), stand_in.hash())]),
        ..Plan::default()
    }
}

#[test]
fn the_old_one_can_be_mined_although_the_pool_has_the_new() {
    let mut chain = replaced();
    send(&mut chain, &tx(0, 1)).unwrap();
    send(&mut chain, &tx(1, 0)).unwrap();
    assert_eq!(pooled(&chain, MAIN).len(), 3);
    assert!(!pooled(&chain, MAIN).contains(&old().hash()));
    let time = next(&chain);
    let block = chain.mine_with(&[old().hash()], time).unwrap();
    assert_eq!(block.txs[0].tx.hash, old().hash());
    assert_eq!(block.txs.len(), 3, "the rest of the pool follows");
    assert_eq!(mined(&chain), [old().hash(), tx(0, 1).hash()]);
    assert_eq!(pooled(&chain, MAIN), [] as [B256; 0]);
    assert_eq!(send(&mut chain, &new()), Err(Rejection::NonceTooLow));
    let receipt = json!([new().hash()]);
    let receipt = ask(&mut chain, MAIN, "eth_getTransactionReceipt", receipt);
    assert_eq!(receipt, Value::Null);
}

#[test]
fn what_does_not_fit_is_said_and_nothing_is_mined() {
    let mut chain = replaced();
    let before = (chain.head().hash, pooled(&chain, MAIN));
    let time = next(&chain);
    let stranger = tx(1, 0).hash();
    let check = |chain: &mut Devchain, wanted: &[B256], why| {
        assert_eq!(chain.mine_with(wanted, time), Err(why));
        assert_eq!((chain.head().hash, pooled(chain, MAIN)), before);
    };
    check(&mut chain, &[stranger], Unminable::Unknown(stranger));
    let both = [old().hash(), new().hash()];
    let twice = Unminable::Unfit(new().hash(), Unfit::Nonce);
    check(&mut chain, &both, twice);
    chain.set_base_fee(Some(15 * GWEI));
    let dear = Unminable::Unfit(old().hash(), Unfit::BaseFee);
    check(&mut chain, &[old().hash()], dear);
    chain.mine_with(&[new().hash()], time).unwrap();
    assert_eq!(mined(&chain), [new().hash()]);
}

/// Both endpoints are of one network that has split: the one was told of the replacement, the other
/// was not.
#[test]
fn an_endpoint_with_a_pool_of_its_own_mines_what_it_holds() {
    let mut endpoints = config().endpoints;
    endpoints[1] = EndpointConfig {
        pool: PoolChoice::Own,
        ..EndpointConfig::new("other")
    };
    let mut chain = Devchain::new(Config {
        endpoints,
        ..config()
    });
    chain.send(OTHER, old().raw()).unwrap();
    send(&mut chain, &new()).unwrap();
    assert_eq!(
        (pooled(&chain, MAIN), pooled(&chain, OTHER)),
        (vec![new().hash()], vec![old().hash()])
    );
    let time = next(&chain);
    chain.mine_as(OTHER, time).unwrap();
    assert_eq!(mined(&chain), [old().hash()]);
    assert_eq!(pooled(&chain, MAIN), [] as [B256; 0]);
    // What it lost is still known, and a reorg may find it in the block.
    chain.reorg(&swap(&old(), &new())).unwrap();
    assert_eq!(mined(&chain), [new().hash()]);
}

#[test]
fn a_reorg_can_change_which_of_the_two_is_in_the_block() {
    let mut chain = replaced();
    mine(&mut chain);
    assert_eq!(mined(&chain), [new().hash()]);
    let (height, before) = (chain.head().number(), chain.head().hash);
    let reorg = chain.reorg(&swap(&new(), &old())).unwrap();
    assert_eq!(mined(&chain), [old().hash()]);
    assert_eq!(chain.head().number(), height);
    assert_ne!(chain.head().hash, before);
    assert_eq!(chain.state().nonce(&key(0).address()), 1);
    assert_eq!(chain.state().balance(&TO), U256::from(1));
    assert_eq!(pooled(&chain, MAIN), [] as [B256; 0]);
    let receipt = |chain: &mut Devchain, tx: &Made| {
        let params = json!([tx.hash()]);
        ask(chain, MAIN, "eth_getTransactionReceipt", params)["blockHash"].clone()
    };
    assert_eq!(receipt(&mut chain, &new()), Value::Null);
    assert_eq!(receipt(&mut chain, &old()), json!(chain.head().hash));
    // And back again, and forth.
    chain.switch_to(reorg.left).unwrap();
    assert_eq!(mined(&chain), [new().hash()]);
    assert_eq!(pooled(&chain, MAIN), [] as [B256; 0]);
    chain.reorg(&swap(&new(), &old())).unwrap();
    chain.reorg(&swap(&old(), &new())).unwrap();
    assert_eq!(mined(&chain), [new().hash()]);
    assert_eq!(chain.state().balance(&TO), U256::from(7));
}

#[test]
fn a_stand_in_has_the_fate_of_the_one_it_stands_in_for() {
    let mut chain = replaced();
    mine(&mut chain);
    let later = Plan {
        extra: 2,
        only: BTreeMap::from([(new().hash(), Fate::Later(1))]),
        ..swap(&new(), &old())
    };
    chain.reorg(&later).unwrap();
    let params = json!([old().hash()]);
    let receipt = ask(&mut chain, MAIN, "eth_getTransactionReceipt", params);
    assert_eq!(receipt["blockNumber"], "0x2");
    // One that cannot pay for its block waits for a better one, and nobody takes its place.
    chain.set_base_fee(Some(15 * GWEI));
    let back = Plan {
        depth: 2,
        ..swap(&old(), &new())
    };
    chain.reorg(&back).unwrap();
    chain.reorg(&swap(&new(), &old())).unwrap_err();
    let cheap = Plan {
        depth: 2,
        ..swap(&new(), &old())
    };
    chain.reorg(&cheap).unwrap();
    assert_eq!(mined(&chain), [] as [B256; 0]);
    assert_eq!(pooled(&chain, MAIN), [old().hash()]);
    chain.set_base_fee(None);
    mine(&mut chain);
    assert_eq!(mined(&chain), [old().hash()]);
}

#[test]
fn a_stand_in_that_cannot_be_changes_nothing() {
    let mut chain = replaced();
    send(&mut chain, &tx(1, 0)).unwrap();
    mine(&mut chain);
    let before = (chain.head().hash, chain.branches());
    let mut check = |plan: &Plan, why| {
        assert_eq!(chain.reorg(plan), Err(why));
        assert_eq!((chain.head().hash, chain.branches()), before);
    };
    let nowhere = tx(2, 0);
    check(
        &swap(&nowhere, &old()),
        ReorgError::NotReplaced(nowhere.hash()),
    );
    check(&swap(&old(), &new()), ReorgError::NotReplaced(old().hash()));
    check(&swap(&new(), &nowhere), ReorgError::Unknown(nowhere.hash()));
    let other = tx(1, 0);
    check(&swap(&new(), &other), ReorgError::NotRival(other.hash()));
}

#[test]
fn what_was_dropped_or_pushed_out_is_known_for_a_while() {
    let mut chain = replaced();
    assert!(chain.drop_tx(MAIN, new().hash()).unwrap());
    let time = next(&chain);
    chain.mine_with(&[new().hash()], time).unwrap();
    assert_eq!(mined(&chain), [new().hash()]);
    send(&mut chain, &tx(1, 0)).unwrap();
    assert_eq!(chain.drop_all(MAIN), Ok(1));
    let block = chain.mine_with(&[tx(1, 0).hash()], time).unwrap();
    assert_eq!(block.txs.len(), 1);
    // Not for ever: attempts of long ago are forgotten, oldest first.
    let dropped = tx(2, 0);
    send(&mut chain, &dropped).unwrap();
    chain.drop_all(MAIN).unwrap();
    for value in 0..1_024 {
        let other = tx(3, 0).value(U256::from(value));
        send(&mut chain, &other).unwrap();
        chain.drop_all(MAIN).unwrap();
    }
    let forgotten = Unminable::Unknown(dropped.hash());
    assert_eq!(chain.mine_with(&[dropped.hash()], time), Err(forgotten));
    let last = tx(3, 0).value(U256::from(1_023)).hash();
    chain.mine_with(&[last], time).unwrap();
}

#[test]
fn the_same_is_done_by_call() {
    let mut chain = replaced();
    let params = json!([[old().hash()], 1_900_000_000]);
    let told = ask(&mut chain, MAIN, "dev_mineWith", params);
    assert_eq!(
        told,
        json!({ "number": 1, "hash": chain.head().hash.to_string() })
    );
    assert_eq!(chain.head().header.timestamp, 1_900_000_000);
    assert_eq!(mined(&chain), [old().hash()]);
    let instead = json!({ old().hash().to_string(): new().hash() });
    let plan = json!([{ "depth": 1, "instead": instead }]);
    ask(&mut chain, MAIN, "dev_reorg", plan);
    assert_eq!(mined(&chain), [new().hash()]);
    let error = fail(&mut chain, MAIN, "dev_mineWith", json!([[TO]]));
    assert_eq!(error["code"], -32602);
    let used = json!([[new().hash()]]);
    let error = fail(&mut chain, MAIN, "dev_mineWith", used);
    assert_eq!(error["code"], -32000);
    // Without any it is a block like others.
    ask(&mut chain, MAIN, "dev_mineWith", json!([]));
    assert_eq!(chain.head().number(), 2);
}
