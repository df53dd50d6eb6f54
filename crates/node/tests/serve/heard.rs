//! What a node hears when an operator types a verb, and what the operator reads then. The node here only
//! listens: what the routes do is tested where they are.

use std::sync::Mutex;

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::process::run;

const TX: &str = "01900000-0000-7000-8000-000000000007";

/// A verb and what became of it.
struct Typed {
    /// Each request: method and path, and its body.
    heard: Vec<(String, Value)>,
    code: Option<i32>,
    said: String,
}

/// Types a line; the node answers with these, one for each request.
async fn typed(line: &str, answers: &[Value]) -> Result<Typed> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}", listener.local_addr()?);
    let mut arguments: Vec<&str> = line.split(' ').collect();
    arguments.extend(["--url", &url]);
    let heard = Mutex::new(Vec::new());
    let listening = async {
        // A request beyond those that are expected is heard too.
        for answer in answers.iter().chain([&Value::Null]) {
            let (stream, _) = listener.accept().await?;
            let asked = answered(stream, answer).await?;
            heard.lock().unwrap().push(asked);
        }
        anyhow::Ok(())
    };
    let (code, said) = tokio::select! {
        ended = run(&arguments) => ended?,
        failed = listening => {
            failed?;
            bail!("{line}: more was asked than expected: {heard:?}");
        }
    };
    let heard = heard.into_inner().unwrap();
    Ok(Typed { heard, code, said })
}

async fn answered(mut stream: TcpStream, answer: &Value) -> Result<(String, Value)> {
    let mut bytes = Vec::new();
    let end = loop {
        ensure!(stream.read_buf(&mut bytes).await? > 0, "half a request");
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n");
        if let Some(end) = end {
            break end + 4;
        }
    };
    let head = String::from_utf8(bytes[..end].to_vec())?.to_lowercase();
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "));
    let length: usize = length.unwrap_or("0").parse()?;
    while bytes.len() < end + length {
        ensure!(stream.read_buf(&mut bytes).await? > 0, "half a body");
    }
    let text = answer.to_string();
    let reply = format!(
        "HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{text}",
        text.len()
    );
    stream.write_all(reply.as_bytes()).await?;
    let first = String::from_utf8(bytes[..end].to_vec())?;
    let first = first.lines().next().context("a request")?;
    let asked = first.trim_end_matches(" HTTP/1.1").to_owned();
    let body = match length {
        0 => Value::Null,
        _ => serde_json::from_slice(&bytes[end..])?,
    };
    Ok((asked, body))
}

/// One verb, one request: what is heard, and parts of what is read.
async fn check(line: &str, asked: &str, body: Value, answer: Value, parts: &[&str]) -> Result<()> {
    let typed = typed(line, &[answer]).await?;
    assert_eq!(typed.code, Some(0), "{line}: {}", typed.said);
    assert_eq!(typed.heard, [(asked.to_owned(), body)], "{line}");
    for part in parts {
        ensure!(typed.said.contains(part), "{part} in\n{}", typed.said);
    }
    Ok(())
}

#[tokio::test]
async fn a_remedy_is_asked_for_with_its_reason_and_all_of_them_are_listed() -> Result<()> {
    check(
        &format!("tx remedy {TX} --action replace --reason slow --ticket OPS-7"),
        &format!("POST /api/v1/tx/{TX}/remedy"),
        json!({"action": "REPLACE", "reason": "slow", "audit": {"ticket": "OPS-7"}}),
        json!({"txId": TX, "state": "STUCK", "subState": "NO_RECEIPT"}),
        &[TX, "NO_RECEIPT"],
    )
    .await?;
    let remedy = json!({
        "remedyId": 3, "round": 2, "action": "REPLACE", "by": "ops", "reason": "slow",
        "fees": {"maxFeePerGas": "112", "maxPriorityFeePerGas": "3"},
        "audit": {"ticket": "OPS-7"}, "state": "DONE", "node": "a", "result": "signed and sent",
        "askedAt": "2030-01-01T00:00:00Z", "closedAt": null,
    });
    check(
        &format!("tx remedies {TX}"),
        &format!("GET /api/v1/tx/{TX}/remedies"),
        Value::Null,
        json!({ "remedies": [remedy] }),
        &["REPLACE", "112", "signed and sent", "OPS-7"],
    )
    .await
}

#[tokio::test]
async fn a_signer_that_is_not_held_is_reconciled_after_a_look() -> Result<()> {
    let compared = json!({
        "signer": "0xA", "chain": "main", "dryRun": false,
        "nextNonce": {"before": 17, "after": 19}, "chainLatest": 19, "chainPending": 19,
        "droppedFreeNonces": [], "gaps": [], "paused": {"before": "CURSOR_JUMP", "after": "CURSOR_JUMP"},
    });
    let line = "signers reconcile 0xA --reason looked --chain main --ticket OPS-7";
    let done = typed(line, &[json!({"paused": "CURSOR_JUMP"}), compared]).await?;
    assert_eq!(done.code, Some(0), "{}", done.said);
    let body = json!({"chain": "main", "reason": "looked", "audit": {"ticket": "OPS-7"}});
    let expected = [
        ("GET /api/v1/signers/0xA?chain=main".to_owned(), Value::Null),
        ("POST /api/v1/signers/0xA/reconcile".to_owned(), body),
    ];
    assert_eq!(done.heard, expected);
    ensure!(done.said.contains("17 → 19"), "{}", done.said);
    Ok(())
}

/// Nothing is asked for but the look: the hold ends only for someone who says the word.
#[tokio::test]
async fn a_hold_after_a_failover_is_left_alone_without_the_word() -> Result<()> {
    let line = "signers reconcile 0xA --reason looked";
    let refused = typed(line, &[json!({"paused": "FAILOVER"})]).await?;
    assert_eq!(refused.code, Some(2), "{}", refused.said);
    ensure!(
        refused.said.contains("--after-failover"),
        "{}",
        refused.said
    );
    assert_eq!(refused.heard.len(), 1, "{:?}", refused.heard);
    let compared = json!({"dryRun": false, "paused": {"before": "FAILOVER", "after": null}});
    check(
        &format!("{line} --after-failover"),
        "POST /api/v1/signers/0xA/reconcile",
        json!({"reason": "looked"}),
        compared.clone(),
        &["FAILOVER → -"],
    )
    .await?;
    check(
        &format!("{line} --dry-run"),
        "POST /api/v1/signers/0xA/reconcile",
        json!({"reason": "looked", "dryRun": true}),
        json!({"dryRun": true}),
        &["Nothing was changed"],
    )
    .await
}

/// Only signers that are held after a failover, each by itself; nothing without the word, and nothing for one and all.
#[tokio::test]
async fn every_held_signer_is_reconciled_with_one_command() -> Result<()> {
    let signers = json!({"nextCursor": null, "signers": [
        {"signer": "0xA", "chain": "main", "paused": "FAILOVER"},
        {"signer": "0xB", "chain": "main", "paused": null},
        {"signer": "0xC", "chain": "side", "paused": "OPERATOR"},
        {"signer": "0xD", "chain": "side", "paused": "FAILOVER"},
    ]});
    let of = |signer: &str, chain: &str| {
        json!({
            "signer": signer, "chain": chain, "nextNonce": {"before": 1, "after": 2},
            "paused": {"before": "FAILOVER", "after": null},
        })
    };
    let answers = [signers, of("0xA", "main"), of("0xD", "side")];
    for dry_run in [true, false] {
        let flag = if dry_run { " --dry-run" } else { "" };
        let line = format!("signers reconcile --all --after-failover --reason compared{flag}");
        let done = typed(&line, &answers).await?;
        assert_eq!(done.code, Some(0), "{}", done.said);
        let body = |chain: &str| {
            let mut body = json!({"chain": chain, "reason": "compared"});
            if dry_run {
                body["dryRun"] = json!(true);
            }
            body
        };
        let expected = [
            ("GET /api/v1/signers".to_owned(), Value::Null),
            (
                "POST /api/v1/signers/0xA/reconcile".to_owned(),
                body("main"),
            ),
            (
                "POST /api/v1/signers/0xD/reconcile".to_owned(),
                body("side"),
            ),
        ];
        assert_eq!(done.heard, expected);
        ensure!(done.said.contains("FAILOVER → -"), "{}", done.said);
        ensure!(
            done.said.contains("Nothing was changed") == dry_run,
            "{}",
            done.said
        );
    }
    for line in [
        "--all --reason compared",
        "0xA --all --after-failover --reason compared",
    ] {
        let refused = typed(&format!("signers reconcile {line}"), &[]).await?;
        assert_eq!(
            (refused.code, refused.heard.len()),
            (Some(2), 0),
            "{}",
            refused.said
        );
    }
    Ok(())
}

#[tokio::test]
async fn what_is_done_to_a_signer_says_why_and_can_be_read_again() -> Result<()> {
    check(
        "signers pause 0xA --reason audit --ticket OPS-7",
        "POST /api/v1/signers/0xA/pause",
        json!({"reason": "audit", "audit": {"ticket": "OPS-7"}}),
        json!({"signer": "0xA", "chain": "main", "paused": "OPERATOR"}),
        &["next: fencepost signers resume 0xA --chain main --reason …"],
    )
    .await?;
    check(
        "signers placeholder 0xA --nonce 17 --reason gap --chain main",
        "POST /api/v1/signers/0xA/placeholder",
        json!({"chain": "main", "nonce": 17, "reason": "gap"}),
        json!({"txId": TX, "kind": "placeholder", "nonce": 17, "state": "ALLOCATED"}),
        &[TX, "placeholder"],
    )
    .await?;
    let act = json!({
        "id": 9, "action": "PAUSE", "by": "ops", "reason": "audit", "audit": {"ticket": "OPS-7"},
        "beforeAfter": null, "at": "2030-01-01T00:00:00Z",
    });
    check(
        "signers audit 0xA --limit 1",
        "GET /api/v1/signers/0xA/audit?limit=1",
        Value::Null,
        json!({"acts": [act], "nextCursor": "a1-9"}),
        &["PAUSE", "OPS-7", "more: --cursor a1-9"],
    )
    .await
}

/// At 3 a.m. the last line is the one to type.
#[tokio::test]
async fn the_last_line_about_a_signer_is_what_to_press() -> Result<()> {
    let signer = json!({
        "signer": "0xA", "chain": "main", "leader": {"node": "a"}, "queued": 0, "gaps": [],
        "paused": null, "head": {
            "txId": TX, "nonce": 17, "state": "STUCK", "subState": "NO_RECEIPT",
            "why": "sent 12 times in 11m, in no block",
        },
    });
    let shown = typed("signers show 0xA", &[signer]).await?;
    let lines: Vec<&str> = shown.said.lines().rev().take(2).collect();
    let expected = [
        format!("next: fencepost tx remedy {TX} --action REPLACE --reason …"),
        "why:  nonce 17 is STUCK/NO_RECEIPT: sent 12 times in 11m, in no block".to_owned(),
    ];
    assert_eq!(lines, expected, "{}", shown.said);
    Ok(())
}

#[tokio::test]
async fn nonces_are_borrowed_and_settled() -> Result<()> {
    let lent = json!({
        "reservationId": TX, "signer": "0xA", "chain": "main", "requestId": "one", "nonce": 17,
        "lockToken": "lock", "state": "RESERVED", "txHash": null, "expiresAt": "2030-01-01T00:00:00Z",
    });
    check(
        "nonces reserve --signer 0xA --chain main --request-id one --ttl 2m",
        "POST /api/v1/nonces/reserve",
        json!({"signer": "0xA", "chain": "main", "requestId": "one", "ttlSeconds": 120}),
        lent.clone(),
        &["lock", "RESERVED"],
    )
    .await?;
    check(
        "nonces reserve --signer 0xA --count 2",
        "POST /api/v1/nonces/reserve",
        json!({"signer": "0xA", "count": 2}),
        json!({"reservations": [lent, {"nonce": 18}]}),
        &["17", "18"],
    )
    .await?;
    let settled = [
        (
            "submitted --lock-token lock --tx-hash 0x3",
            json!({"lockToken": "lock", "txHash": "0x3"}),
        ),
        ("recycle --lock-token lock", json!({"lockToken": "lock"})),
        (
            "extend --lock-token lock --ttl 90s",
            json!({"lockToken": "lock", "ttlSeconds": 90}),
        ),
    ];
    for (line, body) in settled {
        let verb = line.split(' ').next().unwrap_or_default();
        check(
            &format!("nonces {line} {TX}"),
            &format!("POST /api/v1/nonces/{TX}/{verb}"),
            body,
            json!({"reservationId": TX, "state": "SUBMITTED"}),
            &[TX],
        )
        .await?;
    }
    check(
        &format!("nonces get {TX}"),
        &format!("GET /api/v1/nonces/{TX}"),
        Value::Null,
        json!({"reservationId": TX, "state": "USED"}),
        &["USED"],
    )
    .await
}
