//! A business that decides about stuck transactions, and all the ways in which it does not.

use std::time::{Duration, Instant};

use fencepost_app::ports::{Action, Advice, Instead, Plight, Policy};
use fencepost_domain::Bytes;
use fencepost_domain::attempt::SignedFees;
use fencepost_domain::decision::{After, Severity};
use fencepost_domain::flat::Name;
use fencepost_domain::ids::{ChainId, Nonce, RequestId, TxId};
use fencepost_domain::request::{Ceilings, Draft, Meta, Payload};
use fencepost_domain::state::{Kind, Why};
use fencepost_http::{ChainInfo, HttpPolicy, PolicyMeters, PolicySecret, Secret};
use hmac::{Hmac, KeyInit, Mac};
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use uuid::Uuid;

use super::chain_steps::hash;
use super::warnings::Warnings;
use super::world::{ALICE, lane_on};

/// What a machine with too much to do still manages.
const LONG: Duration = Duration::from_secs(30);
/// What is waited for those who never answer.
const SHORT: Duration = Duration::from_millis(500);

pub(crate) fn plight() -> Plight {
    Plight {
        chain: "main".to_owned(),
        lane: lane_on(1, ALICE),
        tx: TxId(Uuid::nil()),
        kind: Kind::Managed,
        nonce: Nonce::new(7).unwrap(),
        request_id: Some(RequestId::new("order-17").unwrap()),
        meta: Some(Meta::new(r#"{"who": 1}"#).unwrap()),
        hashes: vec![hash(1), hash(2)],
        fees: Some(SignedFees {
            max_fee: 100,
            max_priority_fee: Some(10),
        }),
        newest: Some(fencepost_domain::attempt::Kind::Original),
        payload: None,
        state: Name::Stuck,
        sub_state: Some(Why::NoReceipt.word()),
        why: Some(Why::NoReceipt),
        submit_attempts: 3,
        last_error: Some("no".to_owned()),
        age: Duration::from_secs(601),
        backlog: 12,
        gaps: vec![Nonce::new(5).unwrap()],
        round: 2,
    }
}

fn policy(url: &str, secret: Option<Secret>) -> HttpPolicy {
    waiting(url, LONG, secret)
}

pub(crate) fn main_chain() -> ChainInfo {
    ChainInfo {
        name: "main".to_owned(),
        id: ChainId::new(1).unwrap(),
        ceilings: Ceilings {
            max_fee: 1_000,
            max_priority_fee: 100,
        },
    }
}

fn waiting(url: &str, within: Duration, secret: Option<Secret>) -> HttpPolicy {
    let secret = secret.map(|secret| PolicySecret {
        secret,
        signed_answers: false,
    });
    let meters = PolicyMeters::register(&mut Registry::default());
    HttpPolicy::new(url, within, secret, &[main_chain()], meters)
}

/// What a question looked like on its way.
pub(crate) struct Asked {
    head: String,
    pub(crate) body: String,
}

impl Asked {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        let mut found = lines.filter(|(key, _)| key.eq_ignore_ascii_case(name));
        found.next().map(|(_, value)| value)
    }
}

pub(crate) async fn question(stream: &mut TcpStream) -> Asked {
    let mut bytes = Vec::new();
    loop {
        stream.read_buf(&mut bytes).await.unwrap();
        let text = String::from_utf8(bytes.clone()).unwrap();
        let Some((head, body)) = text.split_once("\r\n\r\n") else {
            continue;
        };
        let asked = Asked {
            head: head.to_owned(),
            body: body.to_owned(),
        };
        let length: usize = asked.header("content-length").unwrap().parse().unwrap();
        if asked.body.len() == length {
            return asked;
        }
    }
}

/// A business that gives one answer, byte for byte, and then keeps the line or hangs up.
async fn business(answer: Vec<u8>, hangs: bool) -> (String, JoinHandle<Asked>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/decide", listener.local_addr().unwrap());
    let serving = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let asked = question(&mut stream).await;
        // Whoever asked may have heard enough.
        let _ = stream.write_all(&answer).await;
        if hangs {
            let _ = stream.read(&mut [0; 1]).await;
        }
        asked
    });
    (url, serving)
}

pub(crate) fn response(status: &str, kind: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\n{kind}Content-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    )
    .into_bytes()
}

pub(crate) const JSON: &str = "Content-Type: application/json; charset=utf-8\r\n";

/// What is made of an answer that arrives.
async fn decided(answer: Vec<u8>) -> Advice {
    let (url, _serving) = business(answer, false).await;
    policy(&url, None).decide(&plight()).await
}

async fn decided_by(body: &Value) -> Advice {
    decided(response("200 OK", JSON, &body.to_string())).await
}

#[tokio::test]
async fn every_good_answer_is_taken() {
    let warnings = Warnings::watch();
    for (word, action) in [
        ("NOOP", None),
        ("RESUBMIT", Some(Action::Resubmit)),
        ("REPLACE", Some(Action::Replace)),
        ("CANCEL", Some(Action::Cancel)),
        ("PLACEHOLDER", Some(Action::Placeholder)),
    ] {
        let advice = decided_by(&json!({ "action": word })).await;
        let expected = Advice {
            action,
            ..Advice::noop("it gave no reason")
        };
        assert_eq!(advice, expected, "{word}");
    }
    let advice = decided_by(&json!({
        "action": "REPLACE", "reason": "pay more", "audit": { "ticket": 5 },
        "fees": { "maxFeePerGas": "0x6e", "maxPriorityFeePerGas": "11" },
    }))
    .await;
    let expected = Advice {
        action: Some(Action::Replace),
        fees: Some(SignedFees {
            max_fee: 110,
            max_priority_fee: Some(11),
        }),
        details: Some(r#"{"ticket":5}"#.to_owned()),
        ..Advice::noop("pay more")
    };
    assert_eq!(advice, expected);
    let long =
        json!({ "action": "CANCEL", "reason": "x".repeat(5_000), "fees": null, "audit": null });
    let advice = decided_by(&long).await;
    assert_eq!(
        (advice.action, advice.reason.len()),
        (Some(Action::Cancel), 1_000)
    );
    assert_eq!(warnings.take(), 0);
}

#[tokio::test]
async fn whatever_is_wrong_is_nothing_to_do_and_warned_about_once() {
    let warnings = Warnings::watch();
    let check = async |answer: Vec<u8>, words: &str| {
        let advice = decided(answer).await;
        assert_eq!(advice, Advice::noop(advice.reason.clone()), "{words}");
        assert!(advice.reason.contains(words), "{words}: {}", advice.reason);
        assert!(advice.reason.len() <= 1_000);
        assert_eq!(warnings.take(), 1, "{words}");
    };
    let ok = |body: &str| response("200 OK", JSON, body);
    let cancel = r#"{"action":"CANCEL"}"#;
    check(response("500 No", JSON, cancel), "status 500").await;
    check(response("201 Created", JSON, cancel), "status 201").await;
    check(response("204 No Content", JSON, ""), "status 204").await;
    check(
        response("200 OK", "", cancel),
        "not declared as application/json",
    )
    .await;
    check(
        response("200 OK", "Content-Type: text/html\r\n", cancel),
        "not declared",
    )
    .await;
    check(ok(""), "not JSON").await;
    check(ok("CANCEL"), "not JSON").await;
    check(ok(&format!("{cancel}{cancel}")), "not JSON").await;
    check(ok(&"[".repeat(50_000)), "not JSON").await;
    check(ok("[]"), "must be an object").await;
    check(ok("{}"), "action is required").await;
    check(ok(r#"{"action":null}"#), "action is required").await;
    check(ok(r#"{"action":"DECIDE"}"#), "is not one of NOOP, RESUBMIT").await;
    check(ok(r#"{"action":"cancel"}"#), "is not one of NOOP, RESUBMIT").await;
    check(
        ok(r#"{"action":"CANCEL","action":"NOOP"}"#),
        "is given twice",
    )
    .await;
    check(
        ok(r#"{"action":"CANCEL","nonce":7}"#),
        "nonce is not a field",
    )
    .await;
    check(
        ok(r#"{"action":"CANCEL","reason":7}"#),
        "reason must be a string",
    )
    .await;
    check(
        ok(r#"{"action":"CANCEL","audit":[]}"#),
        "audit must be an object",
    )
    .await;
    let large = json!({ "action": "CANCEL", "audit": { "a": "x".repeat(20_000) } });
    check(ok(&large.to_string()), "audit is above the limit").await;
    let mut not_utf8 = ok(r#"{"action":"CANCEL","reason":"?"}"#);
    let at = not_utf8.len() - 3;
    not_utf8[at] = 0xff;
    check(not_utf8, "not UTF-8").await;
    check(
        b"HTTP/1.1 200 OK\r\nContent-Le".to_vec(),
        "could not be asked",
    )
    .await;
    check(b"nonsense\r\n\r\n".to_vec(), "could not be asked").await;
    let mut short = ok(cancel);
    short.truncate(short.len() - 5);
    check(short, "could not be asked").await;
}

/// A business may bring a transaction, or bytes; what is not clear is not done.
#[tokio::test]
async fn a_transaction_of_the_business_is_read_as_strictly_as_a_clients() {
    let to = "0x00000000000000000000000000000000000000aa";
    let advice = decided_by(&json!({
        "action": "CANCEL", "reason": "pay the other", "severity": "critical", "then": "stuck",
        "transaction": {
            "to": to, "value": "7", "gas": 21000,
            "fees": { "maxFeePerGas": "110", "maxPriorityFeePerGas": "11" },
        },
    }))
    .await;
    let draft = Draft {
        to: Some(to.to_owned()),
        value: Some("7".to_owned()),
        gas: Some("21000".to_owned()),
        ..Draft::default()
    };
    let most = Ceilings {
        max_fee: 1_000,
        max_priority_fee: 100,
    };
    let payload = Payload::parse(&draft, most).unwrap();
    let expected = Advice {
        action: Some(Action::Cancel),
        fees: Some(SignedFees {
            max_fee: 110,
            max_priority_fee: Some(11),
        }),
        instead: Some(Instead::Payload(payload)),
        severity: Some(Severity::Critical),
        after: Some(After::Stuck),
        ..Advice::noop("pay the other")
    };
    assert_eq!(advice, expected);
    let raw = decided_by(&json!({ "action": "REPLACE", "rawTransaction": "0x02aa" })).await;
    let bytes = Bytes::from_static(&[0x02, 0xaa]);
    assert_eq!(raw.instead, Some(Instead::Raw(bytes)));

    let check = async |body: Value, words: &str| {
        let advice = decided_by(&body).await;
        assert_eq!(advice, Advice::noop(advice.reason.clone()), "{words}");
        assert!(advice.reason.contains(words), "{words}: {}", advice.reason);
    };
    let own = json!({ "to": to, "value": "7" });
    for action in ["NOOP", "RESUBMIT"] {
        let body = json!({ "action": action, "transaction": own });
        check(body, "transaction goes with REPLACE, CANCEL").await;
        let body = json!({ "action": action, "rawTransaction": "0x02aa" });
        check(body, "rawTransaction goes with REPLACE, CANCEL").await;
    }
    let both = json!({ "action": "REPLACE", "transaction": own, "rawTransaction": "0x02aa" });
    check(both, "cannot stand beside transaction or fees").await;
    let fees = json!({ "maxFeePerGas": "110", "maxPriorityFeePerGas": "11" });
    let both = json!({ "action": "REPLACE", "fees": fees, "rawTransaction": "0x02aa" });
    check(both, "cannot stand beside transaction or fees").await;
    let twice = json!({ "to": to, "fees": fees });
    let twice = json!({ "action": "REPLACE", "fees": fees, "transaction": twice });
    check(twice, "transaction.fees cannot stand beside fees").await;
    let wrong = json!({ "action": "REPLACE", "rawTransaction": "nonsense" });
    check(wrong, "rawTransaction").await;
    let wrong = json!({ "action": "REPLACE", "transaction": { "to": "0x1" } });
    check(wrong, "transaction.to").await;
    let wrong = json!({ "action": "REPLACE", "transaction": { "to": to, "nonce": 7 } });
    check(wrong, "transaction.nonce is not a field").await;
    let wrong = json!({ "action": "NOOP", "severity": "urgent" });
    check(wrong, "severity is not one of info, warning, critical").await;
    let wrong = json!({ "action": "NOOP", "then": "final" });
    check(wrong, "then is not one of track, stuck").await;
}

#[tokio::test]
async fn fees_that_may_not_or_cannot_replace_are_nothing_to_do() {
    let warnings = Warnings::watch();
    let check = async |fees: Value, words: &str| {
        let advice = decided_by(&json!({ "action": "REPLACE", "fees": fees })).await;
        assert_eq!((advice.action, advice.fees), (None, None), "{words}");
        assert!(advice.reason.contains(words), "{words}: {}", advice.reason);
        assert_eq!(warnings.take(), 1, "{words}");
    };
    let fees = |cap: &str, tip: &str| json!({ "maxFeePerGas": cap, "maxPriorityFeePerGas": tip });
    check(fees("1001", "11"), "is above the ceiling of 1000").await;
    check(fees("1000", "101"), "is above the ceiling of 100").await;
    check(fees("110", "111"), "is above maxFeePerGas").await;
    check(fees("109", "11"), "must be at least 110").await;
    check(fees("110", "10"), "must be at least 11").await;
    check(fees("-1", "1"), "neither a decimal number nor 0x-hex").await;
    check(
        json!({ "gasPrice": "200" }),
        "cannot replace an EIP-1559 attempt",
    )
    .await;
    check(
        json!({ "maxFeePerGas": "200" }),
        "maxPriorityFeePerGas is required",
    )
    .await;
    check(json!({}), "must have maxFeePerGas").await;
    check(
        json!({ "maxFeePerGas": 110.5, "maxPriorityFeePerGas": 11 }),
        "must be a string, or a whole number",
    )
    .await;
    for action in ["NOOP", "RESUBMIT"] {
        let advice = decided_by(&json!({ "action": action, "fees": fees("110", "11") })).await;
        assert_eq!((advice.action, advice.fees), (None, None), "{action}");
        let why = "fees goes with REPLACE, CANCEL and PLACEHOLDER only";
        assert!(advice.reason.contains(why), "{}", advice.reason);
    }
    // Of a chain that it was not told about, nobody knows what is too much.
    let body = json!({ "action": "REPLACE", "fees": fees("110", "11") }).to_string();
    let (url, _serving) = business(response("200 OK", JSON, &body), false).await;
    let elsewhere = Plight {
        lane: lane_on(2, ALICE),
        ..plight()
    };
    let advice = policy(&url, None).decide(&elsewhere).await;
    assert_eq!(advice.action, None);
}

#[tokio::test]
async fn an_answer_that_never_ends_or_never_begins_is_not_waited_for() {
    let begun = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{\"action\"";
    let drip = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n";
    for answer in [&b""[..], begun, drip] {
        let (url, serving) = business(answer.to_vec(), true).await;
        let began = Instant::now();
        let advice = waiting(&url, SHORT, None).decide(&plight()).await;
        assert_eq!(advice.action, None);
        assert!(advice.reason.contains("in time"), "{}", advice.reason);
        let took = began.elapsed();
        assert!(took >= SHORT && took < LONG, "{took:?}");
        // The line is given up, so that whoever hangs is not kept for ever.
        serving.await.unwrap();
    }
}

/// Bytes come for ever, one at a time and each in time: the whole is bounded, not the pauses.
#[tokio::test]
async fn an_answer_that_drips_is_not_waited_for() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let dripping = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        question(&mut stream).await;
        let head =
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 60000\r\n\r\n";
        stream.write_all(head).await.unwrap();
        while stream.write_all(b" ").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    let began = Instant::now();
    let advice = waiting(&url, SHORT, None).decide(&plight()).await;
    assert!(advice.reason.contains("in time"), "{}", advice.reason);
    assert!(began.elapsed() < LONG, "{:?}", began.elapsed());
    dripping.await.unwrap();
}

#[tokio::test]
async fn ten_megabytes_are_not_read() {
    let megabytes = 10 * 1024 * 1024;
    let good = format!(r#"{{"action":"CANCEL"{}}}"#, " ".repeat(megabytes));
    let announced = response("200 OK", JSON, &good);
    let mut chunked = format!(
        "HTTP/1.1 200 OK\r\n{JSON}Transfer-Encoding: chunked\r\n\r\n{:x}\r\n",
        good.len()
    )
    .into_bytes();
    chunked.extend_from_slice(good.as_bytes());
    chunked.extend_from_slice(b"\r\n0\r\n\r\n");
    for answer in [announced, chunked] {
        let (url, serving) = business(answer, false).await;
        let advice = policy(&url, None).decide(&plight()).await;
        assert_eq!(advice.action, None);
        assert!(
            advice.reason.contains("above 393216 bytes"),
            "{}",
            advice.reason
        );
        serving.await.unwrap();
    }
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let good = response("200 OK", JSON, r#"{"action":"CANCEL"}"#);
    let (elsewhere, _serving) = business(good, false).await;
    for status in ["301 Moved", "302 Found", "307 Temporary", "308 Permanent"] {
        let location = format!("Location: {elsewhere}\r\n{JSON}");
        let advice = decided(response(status, &location, r#"{"action":"CANCEL"}"#)).await;
        assert_eq!(advice.action, None);
        assert!(advice.reason.contains("status 30"), "{}", advice.reason);
    }
}

#[tokio::test]
async fn a_business_that_is_not_there_is_nothing_to_do_and_its_address_stays_secret() {
    let warnings = Warnings::watch();
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = closed.local_addr().unwrap();
    drop(closed);
    for url in [
        format!("http://user:hush@{at}/hush"),
        "http://hush.invalid/hush".to_owned(),
        "no url of hush".to_owned(),
        String::new(),
    ] {
        let advice = policy(&url, None).decide(&plight()).await;
        assert_eq!(advice.action, None);
        assert!(!advice.reason.contains("hush"), "{}", advice.reason);
        assert_eq!(warnings.take(), 1);
    }
}

#[tokio::test]
async fn a_question_tells_all_and_is_signed() {
    let good = response("200 OK", JSON, r#"{"action":"CANCEL"}"#);
    let (url, serving) = business(good.clone(), false).await;
    let secret = Secret::new("open sesame".to_owned());
    let policy_with_secret = policy(&url, Some(secret));
    assert!(policy_with_secret.is_worth_asking(&plight()));
    assert_eq!(policy_with_secret.name(), "http");
    policy_with_secret.decide(&plight()).await;
    let asked = serving.await.unwrap();
    assert!(
        asked.head.starts_with("POST /decide HTTP/1.1\r\n"),
        "{}",
        asked.head
    );
    assert_eq!(asked.header("content-type"), Some("application/json"));
    let body: Value = serde_json::from_str(&asked.body).unwrap();
    let expected = json!({
        "chain": "main", "chainId": 1, "signer": ALICE, "txId": Uuid::nil().to_string(), "kind": "managed",
        "nonce": 7, "requestId": "order-17", "meta": { "who": 1 }, "payload": null,
        "hashes": [hash(1).to_string(), hash(2).to_string()],
        "fees": { "maxFeePerGas": "100", "maxPriorityFeePerGas": "10" }, "state": "STUCK",
        "subState": "NO_RECEIPT", "submitAttempts": 3, "lastError": "no", "ageSeconds": 601,
        "backlog": 12, "gaps": [5], "round": 2,
    });
    assert_eq!(body, expected);
    // As a business would check it.
    let at = asked.header("x-fencepost-timestamp").unwrap();
    let age = jiff::Timestamp::now().as_second() - at.parse::<i64>().unwrap();
    assert!((0..60).contains(&age), "{age}");
    let hex = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02x}")).collect::<String>();
    let digest = hex(&Sha256::digest(asked.body.as_bytes()));
    let mut mac = Hmac::<Sha256>::new_from_slice(b"open sesame").unwrap();
    mac.update(format!("fencepost stuck 1\n{at}\n{digest}\n").as_bytes());
    let signature = format!("0x{}", hex(&mac.finalize().into_bytes()));
    assert_eq!(asked.header("x-fencepost-signature"), Some(&*signature));

    let (url, serving) = business(good, false).await;
    let legacy = Plight {
        fees: Some(SignedFees {
            max_fee: 100,
            max_priority_fee: None,
        }),
        request_id: None,
        meta: None,
        ..plight()
    };
    policy(&url, None).decide(&legacy).await;
    let asked = serving.await.unwrap();
    assert_eq!(asked.header("x-fencepost-signature"), None);
    let body: Value = serde_json::from_str(&asked.body).unwrap();
    assert_eq!(body["fees"], json!({ "gasPrice": "100" }));
    assert_eq!(
        (&body["requestId"], &body["meta"]),
        (&Value::Null, &Value::Null)
    );
}
