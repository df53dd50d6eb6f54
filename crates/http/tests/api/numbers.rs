//! Amounts as JSON numbers: taken where they are exact, and the same request as their text.

use serde_json::{Value, json};

use super::world::{ALICE, Server, TO, World};

fn payment(gas: &str, value: &str) -> String {
    format!(
        r#"{{"signer":"{ALICE}","requestId":"a","payload":{{"to":"{TO}","gas":{gas},"value":{value}}}}}"#
    )
}

async fn send(server: &Server, body: String) -> (u16, Value) {
    let method = axum::http::Method::POST;
    let reply = server.call(method, "/api/v1/tx", body).await;
    (reply.status, reply.json())
}

#[tokio::test(start_paused = true)]
async fn a_number_is_the_same_request_as_its_text() {
    let server = World::new().server().await;
    let (status, first) = send(&server, payment("21000", "9007199254740991")).await;
    assert_eq!(status, 202, "{first}");
    assert_eq!(first["payload"]["gas"], "21000");
    assert_eq!(first["payload"]["value"], "9007199254740991");
    for body in [
        payment("\"21000\"", "\"9007199254740991\""),
        payment("\"0x5208\"", "9007199254740991"),
    ] {
        let (status, again) = send(&server, body).await;
        assert_eq!((status, &again["txId"]), (200, &first["txId"]));
    }
    let (status, other) = send(&server, payment("21001", "9007199254740991")).await;
    assert_eq!(
        (status, &other["code"]),
        (409, &json!("idempotency_conflict"))
    );
}

#[tokio::test(start_paused = true)]
async fn fees_are_taken_as_numbers_too() {
    let server = World::new().server().await;
    let body = json!({
        "signer": ALICE,
        "payload": { "to": TO, "maxFeePerGas": 900, "maxPriorityFeePerGas": 90 },
    });
    let told = server.create(&body).await;
    assert_eq!(told["payload"]["maxFeePerGas"], "900");
    let body = json!({ "signer": ALICE, "payload": { "to": TO, "gasPrice": 7 } });
    assert_eq!(server.create(&body).await["payload"]["gasPrice"], "7");
}

#[tokio::test(start_paused = true)]
async fn what_is_not_exact_is_refused_and_says_why() {
    let server = World::new().server().await;
    for (value, why) in [
        ("1e18", "not a fraction or a number beyond 64 bits"),
        ("1.5", "not a fraction or a number beyond 64 bits"),
        ("1.0", "not a fraction or a number beyond 64 bits"),
        (
            "100000000000000000000",
            "not a fraction or a number beyond 64 bits",
        ),
        ("9007199254740992", "not a number of 2^53 or more"),
        ("18446744073709551615", "not a number of 2^53 or more"),
        ("-1", "not a negative number"),
        ("true", "not a boolean"),
    ] {
        let (status, told) = send(&server, payment("21000", value)).await;
        assert_eq!(status, 422, "{value}: {told}");
        assert_eq!(told["errors"][0]["field"], "payload.value", "{value}");
        let detail = told["errors"][0]["detail"].as_str().unwrap();
        assert!(
            detail.contains("a string, or a whole number below 2^53"),
            "{detail}"
        );
        assert!(detail.contains(why), "{value}: {detail}");
    }
    assert!(server.rows().await.is_empty());
}
