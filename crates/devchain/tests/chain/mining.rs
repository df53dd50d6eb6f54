//! What is mined, in which order, and for what fee.

use alloy_primitives::{B256, U256};
use fencepost_devchain::{BaseFee, Config, Devchain, GWEI, SendError};
use serde_json::json;

use crate::world::*;

fn mined(chain: &Devchain) -> Vec<B256> {
    chain.head().txs.iter().map(|mined| mined.tx.hash).collect()
}

#[test]
fn the_higher_tip_goes_first_then_the_earlier_each_account_by_nonce() {
    let mut chain = chain();
    let low_first = tx(0, 0).paying(gwei(10), gwei(1));
    let high_second = tx(0, 1).paying(gwei(50), gwei(9));
    let middle = tx(1, 0).paying(gwei(10), gwei(3));
    let same = tx(2, 0).paying(gwei(10), gwei(3));
    for tx in [&high_second, &low_first, &same, &middle] {
        send(&mut chain, tx).unwrap();
    }
    mine(&mut chain);
    let expected = [&same, &middle, &low_first, &high_second].map(Made::hash);
    assert_eq!(mined(&chain), expected);
    assert_eq!(chain.pooled(MAIN).unwrap(), []);
}

#[test]
fn what_cannot_pay_the_base_fee_waits_and_so_does_what_follows() {
    let mut chain = chain();
    chain.set_base_fee(Some(20 * GWEI));
    send(&mut chain, &tx(0, 0)).unwrap();
    send(&mut chain, &tx(0, 1).paying(gwei(90), gwei(9))).unwrap();
    send(&mut chain, &tx(1, 0).paying(gwei(90), gwei(9))).unwrap();
    mine(&mut chain);
    assert_eq!(mined(&chain).len(), 1);
    assert_eq!(chain.pooled_of(key(0).address()), 2);
    chain.set_base_fee(None);
    mine(&mut chain);
    assert_eq!(mined(&chain).len(), 2);
}

#[test]
fn a_block_holds_what_its_gas_allows_and_the_rest_waits() {
    let mut chain = Devchain::new(Config {
        gas_limit: 50_000,
        ..config()
    });
    for nonce in 0..5 {
        send(&mut chain, &tx(0, nonce)).unwrap();
    }
    let mut sizes = Vec::new();
    for _ in 0..4 {
        mine(&mut chain);
        sizes.push(chain.head().txs.len());
    }
    assert_eq!(sizes, [2, 2, 1, 0]);
    let cumulative: Vec<u64> = (chain.mined_of(key(0).address()).iter())
        .map(|one| one.nonce)
        .collect();
    assert_eq!(cumulative, [0, 1, 2, 3, 4]);
}

#[test]
fn the_base_fee_follows_how_full_blocks_are() {
    let mut chain = Devchain::new(Config {
        base_fee: BaseFee::Eip1559(GWEI),
        gas_limit: 42_000,
        ..config()
    });
    send(&mut chain, &tx(0, 0)).unwrap();
    send(&mut chain, &tx(0, 1)).unwrap();
    mine(&mut chain);
    let (after_empty, full) = (GWEI / 8 * 7, 42_000);
    let header = &chain.head().header;
    assert_eq!(
        (header.gas_used, header.base_fee_per_gas),
        (full, Some(after_empty))
    );
    mine(&mut chain);
    assert_eq!(chain.head().base_fee(), after_empty / 8 * 9);
    mine(&mut chain);
    assert_eq!(chain.head().base_fee(), after_empty / 8 * 9 / 8 * 7);
}

#[test]
fn what_its_sender_can_no_longer_pay_is_dropped() {
    let mut chain = chain();
    send(&mut chain, &tx(0, 0).value(ether(50))).unwrap();
    chain.set_balance(key(0).address(), ether(1));
    mine(&mut chain);
    assert_eq!(mined(&chain), [] as [B256; 0]);
    assert_eq!(chain.pooled(MAIN).unwrap(), []);
}

#[test]
fn blocks_follow_each_other_and_time_never_goes_back() {
    let mut chain = chain();
    let genesis = chain.head().clone();
    let first = chain.mine(genesis.header.timestamp + 5);
    let second = chain.mine(0);
    assert_eq!(first.header.parent_hash, genesis.hash);
    assert_eq!(second.header.parent_hash, first.hash);
    assert_eq!(second.header.timestamp, first.header.timestamp);
    assert_eq!(second.hash, second.header.hash_slow());
}

#[test]
fn roots_are_those_of_the_transactions_and_receipts() {
    use alloy_consensus::{TxEnvelope, proofs::calculate_transaction_root};
    use alloy_eips::eip2718::Decodable2718;
    let mut chain = chain();
    for nonce in 0..20 {
        send(&mut chain, &tx(0, nonce)).unwrap();
    }
    mine(&mut chain);
    let block = chain.head();
    let decoded = |raw: &[u8]| TxEnvelope::decode_2718_exact(raw).unwrap();
    let txs: Vec<_> = block
        .txs
        .iter()
        .map(|mined| decoded(&mined.tx.raw))
        .collect();
    assert_eq!(
        block.header.transactions_root,
        calculate_transaction_root(&txs)
    );
    assert_ne!(block.header.receipts_root, block.header.transactions_root);
}

/// The same calls in the same order, whatever they are, give the same chain to the last bit.
#[test]
fn the_same_script_gives_the_same_hashes() {
    let run = || -> (Vec<B256>, Vec<String>) {
        let mut chain = chain();
        let mut hashes = Vec::new();
        let mut told = Vec::new();
        for round in 0..6 {
            for by in 0..5 {
                let one = tx(by, round).paying(gwei(20), u128::from(by) + 1);
                let body = request("eth_sendRawTransaction", &json!([one.raw()]));
                told.push(format!("{:?}", chain.handle(MAIN, &body)));
            }
            hashes.push(chain.mine(1_800_000_000 + round).hash);
        }
        let plan = json!([{ "depth": 3, "extra": 1, "txs": { "later": 1 }, "order": "reversed" }]);
        told.push(ask(&mut chain, MAIN, "dev_reorg", plan).to_string());
        mine(&mut chain);
        hashes.push(chain.head().hash);
        told.push(ask(&mut chain, MAIN, "txpool_content", json!([])).to_string());
        (hashes, told)
    };
    assert_eq!(run(), run());
}

#[test]
fn an_endpoint_that_is_not_there_is_said_so() {
    let mut chain = chain();
    let nowhere = fencepost_devchain::EndpointId(9);
    let sent = chain.send(nowhere, tx(0, 0).raw());
    assert!(matches!(sent, Err(SendError::NotThere(_))), "{sent:?}");
    let error = fail(&mut chain, nowhere, "eth_blockNumber", json!([]));
    assert_eq!(error["code"], -32602);
    assert_eq!(chain.state().balance(&TO), U256::ZERO);
}
