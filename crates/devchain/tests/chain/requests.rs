//! Requests of every kind, good and bad: each gets the answer that JSON-RPC asks for, and none breaks the
//! chain.

use fencepost_devchain::{Answer, Devchain};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::world::*;

fn body(chain: &mut Devchain, request: &str) -> String {
    match chain.handle(MAIN, request).answer {
        Answer::Reply { status: 200, body } => body,
        other @ (Answer::Reply { .. } | Answer::Hang | Answer::Disconnect) => {
            panic!("{request}: {other:?}")
        }
    }
}

fn code(request: &str) -> Value {
    let body = body(&mut chain(), request);
    serde_json::from_str::<Value>(&body).unwrap()["error"]["code"].clone()
}

#[test]
fn errors_have_the_codes_of_json_rpc() {
    assert_eq!(code(""), -32700);
    assert_eq!(code("{"), -32700);
    assert_eq!(code("[{]"), -32700);
    assert_eq!(code("[]"), -32600);
    assert_eq!(code("7"), -32600);
    assert_eq!(code("{}"), -32600);
    assert_eq!(
        code(r#"{"jsonrpc":"1.0","id":1,"method":"eth_chainId"}"#),
        -32600
    );
    assert_eq!(code(r#"{"jsonrpc":"2.0","id":1,"method":7}"#), -32600);
    assert_eq!(
        code(r#"{"jsonrpc":"2.0","id":{},"method":"eth_chainId"}"#),
        -32600
    );
    assert_eq!(code(&request("eth_nonsense", &json!([]))), -32601);
    assert_eq!(code(&request("dev_nonsense", &json!([]))), -32601);
    assert_eq!(code(&request("eth_chainId", &json!({}))), -32602);
    assert_eq!(code(&request("eth_getBalance", &json!([]))), -32602);
    assert_eq!(code(&request("eth_getBalance", &json!(["0x12"]))), -32602);
    assert_eq!(
        code(&request("eth_getBlockByNumber", &json!(["0x01", false]))),
        -32602
    );
    assert_eq!(
        code(&request("eth_getBlockByNumber", &json!(["newest", false]))),
        -32602
    );
    assert_eq!(
        code(&request("eth_getBlockByNumber", &json!(["0x1", 1]))),
        -32602
    );
    assert_eq!(
        code(&request("eth_sendRawTransaction", &json!(["beef"]))),
        -32602
    );
    assert_eq!(
        code(&request("eth_getTransactionCount", &json!([TO, "0x9"]))),
        -32000
    );
}

#[test]
fn ids_of_every_kind_come_back_as_they_were() {
    for id in [
        "1",
        "-7",
        "\"a\\u00e9\"",
        "null",
        "1.5",
        "18446744073709551616",
        "true",
    ] {
        let request = format!(r#"{{"id":{id},"jsonrpc":"2.0","method":"eth_syncing"}}"#);
        let expected = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":false}}"#);
        assert_eq!(body(&mut chain(), &request), expected);
    }
}

#[test]
fn a_batch_is_answered_in_order_and_its_bad_parts_alone_fail() {
    let mut chain = chain();
    let call = |id: u8, method: &str| json!({ "jsonrpc": "2.0", "id": id, "method": method });
    let notification = json!({ "jsonrpc": "2.0", "method": "eth_chainId" });
    let calls = json!([
        call(1, "eth_chainId"),
        5,
        notification,
        call(2, "eth_nope"),
        call(3, "eth_syncing")
    ]);
    let answers: Vec<Value> = serde_json::from_str(&body(&mut chain, &calls.to_string())).unwrap();
    assert_eq!(answers.len(), 4);
    assert_eq!(answers[0]["result"], "0x7a69");
    assert_eq!(
        (&answers[1]["id"], &answers[1]["error"]["code"]),
        (&Value::Null, &json!(-32600))
    );
    assert_eq!(
        (&answers[2]["id"], &answers[2]["error"]["code"]),
        (&json!(2), &json!(-32601))
    );
    assert_eq!(answers[3]["id"], 3);
    assert_eq!(body(&mut chain, &notification.to_string()), "");
    assert_eq!(body(&mut chain, &format!("[{notification}]")), "");
    let many = vec![call(1, "eth_chainId"); 1_001];
    assert_eq!(code(&json!(many).to_string()), -32600);
}

fn methods() -> impl Strategy<Value = String> {
    let names = [
        "eth_sendRawTransaction",
        "eth_getTransactionReceipt",
        "eth_getTransactionCount",
        "eth_getBlockByNumber",
        "eth_getBlockByHash",
        "eth_getBlockReceipts",
        "eth_getBalance",
        "eth_feeHistory",
        "eth_estimateGas",
        "eth_call",
        "eth_getCode",
        "txpool_content",
        "evm_mine",
        "anvil_mine",
        "dev_setBalance",
        "dev_setBaseFee",
        "dev_reorg",
        "dev_mineWith",
        "dev_switch",
        "dev_view",
        "dev_dialect",
        "dev_fault",
        "dev_clear",
        "dev_drop",
        "dev_gossip",
        "dev_sends",
        "dev_stats",
        "eth_gasPrice",
        "eth_blockNumber",
        "eth_getTransactionByHash",
        "dev_branches",
    ];
    prop::sample::select(names.to_vec()).prop_map(str::to_owned)
}

fn values() -> impl Strategy<Value = Value> {
    let fixed = [
        json!(null),
        json!(true),
        json!(0),
        json!(-1),
        json!(1e300),
        json!("latest"),
        json!("pending"),
        json!("0x"),
        json!("0x0"),
        json!("0x1"),
        json!("0xffffffffffffffff"),
        json!(u64::MAX),
        json!(key(0).address()),
        json!(TO),
        json!(tx(0, 0).hash()),
        json!(tx(0, 0).raw()),
        json!(tx(0, 1).legacy(Some(CHAIN_ID))),
        json!("geth"),
        json!({}),
        json!({ "depth": 1 }),
        json!({ "depth": 2, "extra": 1, "txs": "pool" }),
        json!({ "depth": 1, "instead": { B: B } }),
        json!([B]),
        json!([0, 50.5]),
        json!({ "lag": u64::MAX }),
        json!({ "kind": { "stale": u64::MAX } }),
        json!({ "kind": { "pruned": 0 } }),
        json!({ "from": TO, "to": TO, "gasPrice": "0x1", "value": "0x0" }),
        json!({ "kind": "null", "times": 0 }),
        json!({ "kind": { "late": u64::MAX } }),
        json!({ "kind": { "http": { "status": 0, "body": "x" } }, "times": 1 }),
        json!({ "to": TO, "data": "0x6d5860d4", "value": "0x1" }),
        json!({ "blockHash": B, "blockNumber": "0x0" }),
    ];
    prop_oneof![
        prop::sample::select(fixed.to_vec()),
        ".{0,12}".prop_map(Value::from)
    ]
}

const B: &str = "0x0000000000000000000000000000000000000000000000000000000000000000";

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn text_of_any_kind_is_answered(text in ".{0,200}", json in r#"[\[\]{}:,"a-z0-9 ]{0,60}"#) {
        let mut chain = chain();
        for request in [text, json] {
            let body = body(&mut chain, &request);
            let answer: Value = serde_json::from_str(&body).unwrap();
            prop_assert!(answer["error"]["code"].is_i64() || answer.is_array());
        }
    }

    /// Calls of every method with parameters of every kind, one after another on one chain: whatever faults
    /// and reorgs they add up to, the chain goes on.
    #[test]
    fn calls_of_any_kind_are_answered(
        calls in prop::collection::vec((methods(), prop::collection::vec(values(), 0..4)), 1..30),
    ) {
        let mut chain = chain();
        for (method, params) in calls {
            let outcome = chain.handle(MAIN, &request(&method, &json!(params)));
            if let Answer::Reply { body, status: 200 } = outcome.answer {
                let answer: Value = serde_json::from_str(&body).unwrap();
                prop_assert!(answer.get("result").is_some() != answer.get("error").is_some());
            }
        }
        let before = chain.head().number();
        mine(&mut chain);
        prop_assert_eq!(chain.head().number(), before + 1);
    }
}
