//! Bodies that cannot be taken, and what is told about them.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{Method, Request};
use serde_json::{Value, json};

use super::world::{ALICE, Server, TO, World, payment};

async fn fields(server: &Server, body: &Value) -> Vec<String> {
    server.post("/api/v1/tx", body).await.fields()
}

#[tokio::test(start_paused = true)]
async fn everything_that_is_wrong_is_told_at_once() {
    let server = World::new().server().await;
    let body = json!({
        "signer": 7,
        "chain": [],
        "requestId": " padded",
        "payload": {
            "to": "0x1", "value": 5.5, "data": "0xf", "gas": true, "gasPrice": "1",
            "maxFeePerGas": "2", "nonce": "7",
            "accessList": [{ "storageKeys": ["0x00", 1], "more": 1 }, "x"],
        },
        "notAfter": "tomorrow",
        "meta": "x".repeat(20_000),
        "colour": "red",
    });
    let reply = server.post("/api/v1/tx", &body).await;
    let mut told = reply.fields();
    told.sort();
    told.dedup();
    let mut expected = vec![
        "signer",
        "chain",
        "requestId",
        "payload.to",
        "payload.value",
        "payload.data",
        "payload.gas",
        "payload.gasPrice",
        "payload.nonce",
        "payload.accessList[0].address",
        "payload.accessList[0].storageKeys[1]",
        "payload.accessList[0].more",
        "payload.accessList[1]",
        "notAfter",
        "meta",
        "colour",
    ];
    expected.sort_unstable();
    assert_eq!(told, expected);
    assert!(
        reply.text().contains("must be a string, not a number"),
        "{}",
        reply.text()
    );
    assert!(server.rows().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn each_wrong_field_is_told_by_its_name() {
    let server = World::new().server().await;
    let check = async |change: fn(&mut Value), expected: &[&str]| {
        let mut body = payment(1);
        change(&mut body);
        assert_eq!(fields(&server, &body).await, expected, "{body}");
    };
    check(|body| body["signer"] = Value::Null, &["signer"]).await;
    check(
        |body| body["signer"] = json!("0x5AAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"),
        &["signer"],
    )
    .await;
    check(|body| body["payload"] = Value::Null, &["payload"]).await;
    check(|body| body["payload"] = json!("0x"), &["payload"]).await;
    check(|body| body["payload"] = json!({}), &["payload.to"]).await;
    check(
        |body| body["payload"]["value"] = json!(1.5),
        &["payload.value"],
    )
    .await;
    check(
        |body| body["payload"]["value"] = json!("1e18"),
        &["payload.value"],
    )
    .await;
    check(
        |body| body["payload"]["gas"] = json!("20999"),
        &["payload.gas"],
    )
    .await;
    check(
        |body| body["payload"]["gasPrice"] = json!("1001"),
        &["payload.gasPrice"],
    )
    .await;
    check(
        |body| body["payload"]["maxPriorityFeePerGas"] = json!("101"),
        &["payload.maxPriorityFeePerGas"],
    )
    .await;
    check(
        |body| body["payload"]["accessList"] = json!({}),
        &["payload.accessList"],
    )
    .await;
    check(
        |body| body["payload"]["accessList"] = json!([{ "address": TO, "storageKeys": ["0x1"] }]),
        &["payload.accessList"],
    )
    .await;
    check(|body| body["requestId"] = json!(""), &["requestId"]).await;
    check(
        |body| body["requestId"] = json!("x".repeat(201)),
        &["requestId"],
    )
    .await;
    check(
        |body| body["notAfter"] = json!(1_800_000_000),
        &["notAfter"],
    )
    .await;
    check(
        |body| body["notAfter"] = json!("1999-01-01T00:00:00Z"),
        &["notAfter"],
    )
    .await;
    check(|body| body["txId"] = json!("mine"), &["txId"]).await;
    assert!(server.rows().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn null_is_the_same_as_leaving_a_field_out() {
    let server = World::new().server().await;
    let body = json!({
        "signer": ALICE, "chain": null, "requestId": null, "notAfter": null, "meta": null,
        "payload": {
            "to": TO, "value": null, "data": null, "gas": null, "gasPrice": null,
            "maxFeePerGas": null, "maxPriorityFeePerGas": null, "accessList": null,
        },
    });
    let told = server.create(&body).await;
    assert_eq!(told["payload"], json!({ "to": TO }));
    assert_eq!(told["meta"], Value::Null);
}

#[tokio::test(start_paused = true)]
async fn a_field_given_twice_is_refused() {
    let server = World::new().server().await;
    let twice = format!(r#"{{"signer":"{ALICE}","signer":"{ALICE}","payload":{{"to":"{TO}"}}}}"#);
    let reply = server.call(Method::POST, "/api/v1/tx", twice).await;
    assert_eq!(reply.fields(), ["signer"]);
}

#[tokio::test(start_paused = true)]
async fn what_is_not_a_json_object_is_refused() {
    let server = World::new().server().await;
    for text in [
        "",
        " ",
        "{",
        "nul",
        "{}{}",
        "{'a':1}",
        "\u{feff}{}",
        "{\"signer\":\"\u{1}\"}",
    ] {
        let reply = server.call(Method::POST, "/api/v1/tx", text).await;
        assert_eq!(
            (reply.status, reply.code().as_str()),
            (400, "malformed"),
            "{text:?}"
        );
    }
    let deep = format!("{}{}", "{\"payload\":".repeat(3), "[".repeat(10_000));
    let reply = server.call(Method::POST, "/api/v1/tx", deep).await;
    assert_eq!(reply.code(), "malformed");
    let reply = server
        .call(Method::POST, "/api/v1/tx", vec![b'"', 0xff, b'"'])
        .await;
    assert_eq!(reply.code(), "malformed");
    for text in ["null", "1", "[]", "\"x\"", "true"] {
        let reply = server.call(Method::POST, "/api/v1/tx", text).await;
        assert_eq!(reply.fields(), ["body"], "{text:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn meta_that_others_could_not_read_is_refused() {
    let server = World::new().server().await;
    for meta in [
        format!("{}{}", "[".repeat(500), "]".repeat(500)),
        r#""\ud800""#.to_owned(),
    ] {
        let body = payment(1).to_string();
        let body = body.replacen('{', &format!("{{\"meta\": {meta},"), 1);
        let reply = server.call(Method::POST, "/api/v1/tx", body).await;
        assert_eq!(reply.fields(), ["meta"], "{meta}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_body_above_the_limit_is_refused_announced_or_not() {
    let server = World::new().server().await;
    let mut body = payment(1).to_string();
    body.extend(std::iter::repeat_n(' ', 256 * 1024 - body.len()));
    assert_eq!(
        server
            .call(Method::POST, "/api/v1/tx", body.clone())
            .await
            .status,
        202
    );
    body.push(' ');
    let reply = server.call(Method::POST, "/api/v1/tx", body.clone()).await;
    assert_eq!((reply.status, reply.code().as_str()), (413, "too_large"));
    let chunks = futures::stream::iter([Ok::<_, Infallible>(Bytes::from(body))]);
    let reply = server
        .call(Method::POST, "/api/v1/tx", Body::from_stream(chunks))
        .await;
    assert_eq!(reply.code(), "too_large");
    assert_eq!(server.rows().await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_body_that_does_not_arrive_is_not_waited_for() {
    let server = World::new().server().await;
    let never = futures::stream::pending::<Result<Bytes, Infallible>>();
    let request = Request::post("/api/v1/tx")
        .body(Body::from_stream(never))
        .unwrap();
    let asked = tokio::time::Instant::now();
    let reply = server.send(request).await;
    assert_eq!(
        (reply.status, reply.code().as_str()),
        (408, "request_timeout")
    );
    assert!(asked.elapsed() < Duration::from_secs(11));
}

#[tokio::test(start_paused = true)]
async fn very_many_faults_are_counted_and_not_all_told() {
    let server = World::new().server().await;
    let mut body = payment(1);
    for n in 0..200 {
        body[format!("field{n}")] = json!(1);
    }
    let long = "x".repeat(500);
    body["payload"][&long] = json!(1);
    let reply = server.post("/api/v1/tx", &body).await;
    assert_eq!(reply.fields().len(), 50);
    assert!(reply.body.len() < 20_000);
}
