//! How many transfers a second the chain takes on one core: signed beforehand, sent in batches, mined in
//! blocks, and each receipt asked for.

use std::time::Instant;

use alloy_consensus::{SignableTransaction, TxEip1559, TxEnvelope};
use alloy_eips::eip2718::Encodable2718;
use alloy_primitives::{Address, B256, Bytes, TxKind, U256, keccak256};
use alloy_signer::SignerSync;
use alloy_signer_local::PrivateKeySigner;
use fencepost_devchain::{Answer, Config, Devchain, EndpointId};
use serde_json::json;

const TXS: u64 = 20_000;
const SIGNERS: u64 = 20;
const BATCH: usize = 100;

fn raw(key: &PrivateKeySigner, nonce: u64) -> Bytes {
    let tx = TxEip1559 {
        chain_id: 31_337,
        nonce,
        gas_limit: 21_000,
        max_fee_per_gas: 10_000_000_000,
        max_priority_fee_per_gas: 1_000_000_000,
        to: TxKind::Call(Address::repeat_byte(7)),
        value: U256::from(1),
        ..TxEip1559::default()
    };
    let signature = key
        .sign_hash_sync(&tx.signature_hash())
        .expect("a local key signs");
    TxEnvelope::from(tx.into_signed(signature))
        .encoded_2718()
        .into()
}

fn bodies(method: &str, params: &[String]) -> Vec<String> {
    let batches = params.chunks(BATCH);
    let calls = batches.map(|batch| {
        let calls = batch.iter().enumerate().map(|(id, param)| {
            json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": [param] }).to_string()
        });
        format!("[{}]", calls.collect::<Vec<_>>().join(","))
    });
    calls.collect()
}

fn run(chain: &mut Devchain, bodies: &[String]) {
    for body in bodies {
        match chain.handle(EndpointId(0), body).answer {
            Answer::Reply { body, .. } => assert!(!body.contains("error"), "{body}"),
            Answer::Hang | Answer::Disconnect => panic!("no fault was asked for"),
        }
    }
}

fn main() {
    let keys: Vec<PrivateKeySigner> = (1..=SIGNERS)
        .map(|n| PrivateKeySigner::from_bytes(&B256::from(U256::from(n))).expect("a small key"))
        .collect();
    let raws: Vec<Bytes> = (0..TXS / SIGNERS)
        .flat_map(|nonce| keys.iter().map(move |key| raw(key, nonce)))
        .collect();
    let hashes: Vec<String> = raws.iter().map(|raw| keccak256(raw).to_string()).collect();
    let sends: Vec<String> = raws.iter().map(Bytes::to_string).collect();
    let sends = bodies("eth_sendRawTransaction", &sends);
    let receipts = bodies("eth_getTransactionReceipt", &hashes);
    let mut chain = Devchain::new(Config {
        accounts: keys
            .iter()
            .map(|key| (key.address(), U256::MAX >> 1))
            .collect(),
        gas_limit: 1_000_000_000,
        ..Config::default()
    });

    let start = Instant::now();
    run(&mut chain, &sends);
    let sent = start.elapsed();
    chain.mine(1_800_000_000);
    let mined = start.elapsed();
    assert_eq!(chain.head().txs.len(), sends.len() * BATCH);
    run(&mut chain, &receipts);
    let all = start.elapsed();
    let per_second =
        |elapsed: std::time::Duration| u128::from(TXS) * 1_000_000 / elapsed.as_micros();
    println!("sent      {:>8} tx/s", per_second(sent));
    println!("and mined {:>8} tx/s", per_second(mined));
    println!("and asked {:>8} tx/s", per_second(all));
}
