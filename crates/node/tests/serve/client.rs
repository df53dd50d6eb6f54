//! The verbs that ask a node, against a running one: what people read, what scripts read, and how
//! they are told that something is wrong.

use super::process::{Home, Node, SIGNER, run};
use anyhow::{Result, ensure};
use fencepost_testkit::wait;
use serde_json::{Value, json};

struct Asked {
    node: Node,
    home: Home,
}

impl Asked {
    async fn new() -> Result<Self> {
        let home = Home::new()?;
        let node = home.serve().await?;
        Ok(Self { node, home })
    }

    async fn run(&self, line: &str) -> Result<(Option<i32>, String)> {
        let mut arguments: Vec<&str> = line.split(' ').collect();
        arguments.extend(["--url", &self.node.url]);
        run(&arguments).await
    }

    /// What a verb answers to a script.
    async fn json(&self, line: &str) -> Result<Value> {
        let (code, said) = self.run(&format!("{line} --json")).await?;
        ensure!(code == Some(0), "{line}: {said}");
        Ok(serde_json::from_str(&said)?)
    }

    /// What a verb answers to a person.
    async fn text(&self, line: &str) -> Result<String> {
        let (code, said) = self.run(line).await?;
        ensure!(code == Some(0), "{line}: {said}");
        Ok(said)
    }
}

#[tokio::test]
async fn a_transaction_is_sent_found_and_listed() -> Result<()> {
    let node = Asked::new().await?;
    let send = format!("tx send --signer {SIGNER} --to {SIGNER} --value 7 --request-id one");
    let sent = node.json(&send).await?;
    assert_eq!(sent["payload"]["value"], "7", "{sent}");
    let id = sent["txId"].as_str().unwrap_or_default();
    for found in [
        format!("tx get {id}"),
        format!("tx get --request-id one --signer {SIGNER}"),
        format!("tx get --nonce 0 --signer {SIGNER} --chain main"),
        send.clone(),
    ] {
        assert_eq!(node.json(&found).await?["txId"], id, "{found}");
        ensure!(node.text(&found).await?.contains(id), "{found}");
    }
    node.text(&format!("tx send --signer {SIGNER} --to {SIGNER}"))
        .await?;
    let page = node.json("tx list --limit 1 --state ALLOCATED").await?;
    assert_eq!(page["transactions"][0]["nonce"], 1, "{page}");
    let cursor = page["nextCursor"].as_str().unwrap_or_default();
    ensure!(
        node.text("tx list --limit 1")
            .await?
            .contains("more: --cursor"),
        "a next page"
    );
    let page = node
        .json(&format!("tx list --limit 1 --cursor {cursor}"))
        .await?;
    assert_eq!(page["transactions"][0]["txId"], id, "{page}");
    Ok(())
}

#[tokio::test]
async fn a_signer_is_paused_and_resumed() -> Result<()> {
    let node = Asked::new().await?;
    let send = format!("tx send --signer {SIGNER} --to {SIGNER}");
    node.json(&send).await?;
    let list = node.json("signers list").await?;
    assert_eq!(list["signers"][0]["nextNonce"], 1, "{list}");
    ensure!(node.text("signers list").await?.contains(SIGNER), "a table");
    node.text(&format!("signers pause {SIGNER} --reason audit"))
        .await?;
    let (code, said) = node.run(&send).await?;
    assert_eq!(code, Some(1), "{said}");
    ensure!(said.starts_with("error: signer_paused: "), "{said}");
    node.text(&format!(
        "signers resume {SIGNER} --reason done --chain main"
    ))
    .await?;
    assert_eq!(node.json(&send).await?["nonce"], 1);
    let shown = node.json(&format!("signers show {SIGNER}")).await?;
    assert_eq!(shown["paused"], Value::Null, "{shown}");
    Ok(())
}

#[tokio::test]
async fn an_empty_feed_ends_and_a_transaction_without_an_end_is_given_up_on() -> Result<()> {
    let node = Asked::new().await?;
    assert_eq!(node.text("completions tail").await?, "");
    let (code, said) = node.run("completions tail --after 5").await?;
    assert_eq!(code, Some(1), "{said}");
    ensure!(said.starts_with("error: feed_reset: "), "{said}");
    let sent = node
        .json(&format!("tx send --signer {SIGNER} --to {SIGNER}"))
        .await?;
    let id = sent["txId"].as_str().unwrap_or_default();
    let (code, said) = node.run(&format!("tx watch {id} --timeout 100ms")).await?;
    assert_eq!(code, Some(1), "{said}");
    ensure!(
        said.contains("accepted") && said.contains("has not ended within 100ms"),
        "{said}"
    );
    Ok(())
}

#[tokio::test]
async fn what_a_node_refuses_is_told_with_its_code_and_fields() -> Result<()> {
    let node = Asked::new().await?;
    let (code, said) = node.run("tx send --signer 0x12 --to 0x34").await?;
    assert_eq!(code, Some(1), "{said}");
    ensure!(
        said.starts_with("error: invalid_request: ") && said.contains("\n  signer: "),
        "{said}"
    );
    let (code, said) = node
        .run("tx get 01900000-0000-7000-8000-000000000000")
        .await?;
    assert_eq!(code, Some(1), "{said}");
    ensure!(said.starts_with("error: not_found: "), "{said}");
    let (code, said) = run(&["signers", "list", "--url", "http://127.0.0.1:1"]).await?;
    assert_eq!(code, Some(1), "{said}");
    ensure!(
        said.starts_with("error: http://127.0.0.1:1/ does not answer: "),
        "{said}"
    );
    let (code, said) = run(&["signers", "list", "--url", "node-1"]).await?;
    assert_eq!(code, Some(2), "{said}");
    Ok(())
}

/// A prober sees that signers stand still without a key and without knowing which.
#[tokio::test]
async fn readiness_tells_how_many_signers_are_paused() -> Result<()> {
    let mut asked = Asked::new().await?;
    asked
        .text(&format!("signers pause {SIGNER} --reason audit"))
        .await?;
    // A node counts when it starts, and then every quarter of a minute.
    asked.node.signal("TERM")?;
    asked.node.ended().await?;
    asked.node = asked.home.serve().await?;
    let node = &asked.node;
    let ready = wait::until("lanes are counted", || async {
        let ready = node.get("/readyz").await?;
        Ok((!ready["paused"].is_null()).then_some(ready))
    })
    .await?;
    assert_eq!((&ready["paused"], &ready["held"]), (&json!(1), &json!(0)));
    assert_eq!(ready["status"], "ready");
    Ok(())
}
