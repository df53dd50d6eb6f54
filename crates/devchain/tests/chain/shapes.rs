//! Answers as alloy reads them.

use alloy_consensus::Transaction as _;
use alloy_consensus::transaction::TxHashRef;
use alloy_primitives::{B256, TxKind, U256};
use alloy_rpc_types_eth::{Block, FeeHistory, Transaction, TransactionReceipt};
use fencepost_devchain::Devchain;
use serde_json::{Value, json};

use crate::world::*;

/// A block with one transaction of each type and a creation, all of key 0.
fn one_of_each() -> Devchain {
    let mut chain = chain();
    let raws = [
        tx(0, 0).legacy(Some(CHAIN_ID)),
        tx(0, 1).gas(50_000).listed(),
        tx(0, 2).raw(),
        tx(0, 3).create().gas(100_000).input(vec![1]).raw(),
    ];
    for raw in raws {
        send_raw(&mut chain, raw).unwrap();
    }
    mine(&mut chain);
    chain
}

#[test]
fn blocks_are_read_whole() {
    let mut chain = one_of_each();
    let params = json!(["latest", true]);
    let full: Block =
        serde_json::from_value(ask(&mut chain, MAIN, "eth_getBlockByNumber", params)).unwrap();
    let head = chain.head().clone();
    assert_eq!(full.header.hash, head.hash);
    assert_eq!(full.header.inner, head.header, "every field of the header");
    assert_eq!(full.header.inner.hash_slow(), head.hash);
    let txs = full.transactions.as_transactions().unwrap();
    assert_eq!(txs.len(), 4);
    let params = json!([head.hash, false]);
    let hashes: Block =
        serde_json::from_value(ask(&mut chain, MAIN, "eth_getBlockByHash", params)).unwrap();
    let told: Vec<_> = hashes.transactions.hashes().collect();
    let mined: Vec<_> = head.txs.iter().map(|mined| mined.tx.hash).collect();
    assert_eq!(told, mined);
    let params = json!(["pending", true]);
    let pending: Block =
        serde_json::from_value(ask(&mut chain, MAIN, "eth_getBlockByNumber", params)).unwrap();
    assert_eq!(pending.header.parent_hash, head.hash);
}

#[test]
fn transactions_are_read_back_to_their_bytes() {
    use alloy_eips::eip2718::Encodable2718;
    let mut chain = one_of_each();
    let head = chain.head().clone();
    for (position, mined) in head.txs.iter().enumerate() {
        let params = json!([mined.tx.hash]);
        let told = ask(&mut chain, MAIN, "eth_getTransactionByHash", params);
        let told: Transaction = serde_json::from_value(told).unwrap();
        assert_eq!(told.inner.encoded_2718(), mined.tx.raw);
        assert_eq!(*told.inner.tx_hash(), mined.tx.hash);
        assert_eq!(told.inner.signer(), key(0).address());
        assert_eq!(told.block_hash, Some(head.hash));
        assert_eq!(told.block_number, Some(1));
        assert_eq!(
            told.transaction_index,
            Some(u64::try_from(position).unwrap())
        );
    }
    let waits = send(&mut chain, &tx(1, 0)).unwrap();
    let told = ask(&mut chain, MAIN, "eth_getTransactionByHash", json!([waits]));
    let told: Transaction = serde_json::from_value(told).unwrap();
    assert_eq!(
        (told.block_hash, told.inner.kind()),
        (None, TxKind::Call(TO))
    );
}

#[test]
fn a_block_is_named_by_its_hash_where_geth_takes_one() {
    let mut chain = one_of_each();
    let head = chain.head().clone();
    let (hash, address) = (json!(head.hash), json!(key(0).address()));
    for (method, params) in [
        ("eth_getBlockReceipts", [hash.clone()].to_vec()),
        ("eth_getBalance", vec![address.clone(), hash.clone()]),
        ("eth_getTransactionCount", vec![address, hash.clone()]),
    ] {
        let mut newest = params.clone();
        *newest.last_mut().unwrap() = json!("latest");
        let by_hash = ask(&mut chain, MAIN, method, json!(params));
        assert_eq!(by_hash, ask(&mut chain, MAIN, method, json!(newest)));
    }
    let unknown = json!([B256::repeat_byte(7)]);
    let told = ask(&mut chain, MAIN, "eth_getBlockReceipts", unknown);
    assert_eq!(told, Value::Null);
    let refused = fail(
        &mut chain,
        MAIN,
        "eth_getBlockByNumber",
        json!([hash, false]),
    );
    assert_eq!(refused["code"], -32602, "{refused}");
}

#[test]
fn receipts_are_read_whole() {
    let mut chain = one_of_each();
    let head = chain.head().clone();
    let all = ask(&mut chain, MAIN, "eth_getBlockReceipts", json!(["latest"]));
    let all: Vec<TransactionReceipt> = serde_json::from_value(all).unwrap();
    let mut cumulative = 0;
    for (position, mined) in head.txs.iter().enumerate() {
        let params = json!([mined.tx.hash]);
        let told = ask(&mut chain, MAIN, "eth_getTransactionReceipt", params);
        let told: TransactionReceipt = serde_json::from_value(told).unwrap();
        assert_eq!(told, all[position]);
        assert!(told.inner.status());
        assert_eq!(told.transaction_hash, mined.tx.hash);
        assert_eq!(told.block_hash, Some(head.hash));
        assert_eq!(told.gas_used, mined.receipt.gas_used);
        cumulative += told.gas_used;
        assert_eq!(told.inner.cumulative_gas_used(), cumulative);
        assert_eq!(told.effective_gas_price, mined.receipt.price);
        assert_eq!(u8::from(told.inner.tx_type()), mined.tx.kind.number());
        assert_eq!(
            (told.from, told.to),
            (key(0).address(), mined.tx.to.to().copied())
        );
        assert_eq!(told.contract_address, mined.receipt.contract);
    }
    let created = all.iter().filter_map(|receipt| receipt.contract_address);
    assert_eq!(created.collect::<Vec<_>>(), [key(0).address().create(3)]);
}

#[test]
fn fee_history_is_read_with_and_without_tips() {
    let mut chain = chain();
    for tip in [1, 2, 4] {
        send(
            &mut chain,
            &tx(u8::try_from(tip).unwrap(), 0).paying(gwei(10), gwei(tip)),
        )
        .unwrap();
    }
    mine(&mut chain);
    mine(&mut chain);
    let params = json!(["0x5", "latest", [0, 50, 100]]);
    let told = ask(&mut chain, MAIN, "eth_feeHistory", params);
    let told: FeeHistory = serde_json::from_value(told).unwrap();
    assert_eq!(told.oldest_block, 0);
    assert_eq!(told.base_fee_per_gas, [gwei(1); 4]);
    assert_eq!(told.gas_used_ratio.len(), 3);
    assert!((told.gas_used_ratio[1] - 63_000.0 / 60_000_000.0).abs() < 0.000_01);
    let tips = vec![gwei(1), gwei(2), gwei(4)];
    assert_eq!(told.reward, Some(vec![vec![0; 3], tips, vec![0; 3]]));
    let told = ask(&mut chain, MAIN, "eth_feeHistory", json!([1, "0x1", []]));
    let told: FeeHistory = serde_json::from_value(told).unwrap();
    assert_eq!((told.oldest_block, told.reward), (1, None));
    for bad in [json!([1, "latest", [50, 20]]), json!([1, "latest", [101]])] {
        fail(&mut chain, MAIN, "eth_feeHistory", bad);
    }
}

#[test]
fn small_answers_have_their_shapes() {
    let mut chain = one_of_each();
    let mut check = |method: &str, params: serde_json::Value, expected: serde_json::Value| {
        assert_eq!(ask(&mut chain, MAIN, method, params), expected, "{method}");
    };
    let address = key(1).address();
    check("eth_chainId", json!([]), json!("0x7a69"));
    check("net_version", json!([]), json!("31337"));
    check("eth_blockNumber", json!(null), json!("0x1"));
    check("eth_syncing", json!([]), json!(false));
    check("eth_accounts", json!([]), json!([]));
    check("eth_gasPrice", json!([]), json!("0x77359400"));
    check("eth_maxPriorityFeePerGas", json!([]), json!("0x3b9aca00"));
    check(
        "eth_getBalance",
        json!([address, "latest"]),
        json!(ether(100)),
    );
    check(
        "eth_getBalance",
        json!([TO, { "blockNumber": "0x0" }]),
        json!(U256::ZERO),
    );
    check(
        "eth_call",
        json!([{ "to": TO, "data": "0x12345678" }, "latest"]),
        json!("0x"),
    );
    check("eth_estimateGas", json!([{ "to": TO }]), json!("0x5208"));
    check(
        "eth_getBlockTransactionCountByNumber",
        json!(["0x1"]),
        json!("0x4"),
    );
    check("eth_getBlockByNumber", json!(["0x9", false]), json!(null));
    check(
        "txpool_status",
        json!([]),
        json!({ "pending": "0x0", "queued": "0x0" }),
    );
}

#[test]
fn the_pool_is_shown_by_what_can_be_mined() {
    let mut chain = chain();
    for nonce in [0, 1, 5] {
        send(&mut chain, &tx(0, nonce)).unwrap();
    }
    let status = ask(&mut chain, MAIN, "txpool_status", json!([]));
    assert_eq!(status, json!({ "pending": "0x2", "queued": "0x1" }));
    let content = ask(&mut chain, MAIN, "txpool_content", json!([]));
    let from = format!("{:#x}", key(0).address());
    assert_eq!(
        content["queued"][&from]["5"]["hash"],
        json!(tx(0, 5).hash())
    );
    assert!(content["pending"][&from]["1"].is_object());
}
