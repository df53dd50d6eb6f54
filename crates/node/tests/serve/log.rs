//! What a node logs: each critical write once, with who made it; errors with whom they concern.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use fencepost_devchain::{Config, Devchain, EndpointId, Server, ServerConfig, Shared};
use fencepost_domain::U256;
use fencepost_testkit::wait;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::ChildStderr;
use tokio::task::JoinHandle;

use super::process::{Home, KEYED, Node, SIGNER, client, run};

/// What every line about a critical write has.
const FIELDS: [&str; 7] = ["signer", "tx_id", "node_id", "token", "nonce", "from", "to"];

/// A chain with a funded signer and a block every tenth of a second, and a node's home that follows it closely.
pub(crate) async fn on_a_chain() -> Result<(Server, Home)> {
    let signer = KEYED.parse()?;
    let chain = Devchain::new(Config {
        chain_id: 1,
        accounts: vec![(signer, U256::from(10_u128.pow(19)))],
        ..Config::default()
    });
    let config = ServerConfig {
        block_interval: Some(Duration::from_millis(100)),
        ..ServerConfig::default()
    };
    let server = Server::start(Shared::new(chain), config).await?;
    let home = Home::signing(&server.url(EndpointId(0)))?;
    let text = std::fs::read_to_string(home.config())?;
    let close = "poll_interval = \"100ms\", finality.confirmations = 2, rpc =";
    std::fs::write(home.config(), text.replace("rpc =", close))?;
    Ok((server, home))
}

/// Reads a log to its end: a log that nobody reads would fill its pipe and stop the node.
fn lines_of(log: BufReader<ChildStderr>) -> JoinHandle<Result<Vec<Value>>> {
    tokio::spawn(async move {
        let (mut lines, mut read) = (log.lines(), Vec::new());
        while let Some(line) = lines.next_line().await? {
            read.push(serde_json::from_str(&line).with_context(|| line.clone())?);
        }
        Ok(read)
    })
}

async fn until_state(node: &Node, tx: &str, state: &str) -> Result<()> {
    wait::until(state, || async {
        let now = node.get(&format!("/api/v1/tx/{tx}")).await?;
        Ok((now["state"] == state).then_some(()))
    })
    .await
}

fn assert_fields(line: &Value, fields: &[&str]) {
    for field in fields {
        assert!(line[field].is_string(), "{field} is missing in {line}");
    }
}

#[tokio::test]
async fn every_critical_write_is_one_line_with_all_its_fields() -> Result<()> {
    let (_server, home) = on_a_chain().await?;
    let (mut node, log) = home.serve_with_log().await?;
    let log = lines_of(log);
    let request = json!({ "signer": KEYED, "payload": { "to": KEYED, "value": "1" } });
    let sent = node.post(&request).await?;
    let tx = sent["txId"].as_str().context("an id")?.to_owned();
    until_state(&node, &tx, "CONFIRMED").await?;
    let pause = ["signers", "pause", KEYED, "--reason", "test", "--url"];
    let (code, said) = run(&[&pause[..], &[node.url.as_str()]].concat()).await?;
    assert_eq!(code, Some(0), "{said}");
    node.signal("TERM")?;
    node.ended().await?;

    let lines = log.await??;
    let writes: Vec<&Value> = lines
        .iter()
        .filter(|line| line["write"].is_string())
        .collect();
    for line in &writes {
        assert_eq!(line["level"], "INFO", "{line}");
        assert_fields(line, &FIELDS);
        assert_eq!(line["signer"], KEYED, "{line}");
    }
    // The whole way of the transaction, each line beginning where the one before it ended.
    let way: Vec<&&Value> = writes.iter().filter(|line| line["tx_id"] == *tx).collect();
    let first = way.first().context("its lines")?;
    assert_eq!(
        (&first["write"], &first["from"]),
        (&json!("create"), &json!("NONE"))
    );
    for pair in way.windows(2) {
        assert_eq!(
            (&pair[0]["to"], &pair[0]["to_sub"]),
            (&pair[1]["from"], &pair[1]["from_sub"])
        );
    }
    let last = way.last().context("its lines")?;
    assert_eq!(
        (&last["write"], &last["to"]),
        (&json!("end"), &json!("CONFIRMED"))
    );
    for line in &way {
        assert_eq!(
            (&line["nonce"], &line["token"]),
            (&json!("0"), &json!("1")),
            "{line}"
        );
    }
    // And what was done to its lane.
    let lane = |write: &str, from: &str, to: &str| {
        let is_it =
            |line: &&&Value| line["write"] == write && line["from"] == from && line["to"] == to;
        writes.iter().filter(is_it).count()
    };
    assert_eq!(lane("acquire", "nobody", "this node"), 1);
    assert_eq!(lane("pause", "RUNNING", "OPERATOR"), 1);
    assert_eq!(lane("release", "this node", "nobody"), 1);
    Ok(())
}

/// What an operator sets or takes over is a critical write like any other, each nonce with a line of its own.
#[tokio::test]
async fn a_set_cursor_and_every_imported_nonce_is_a_line_with_all_its_fields() -> Result<()> {
    let (_server, home) = on_a_chain().await?;
    let (mut node, log) = home.serve_with_log().await?;
    let log = lines_of(log);
    let post = async |verb: &str, body: &Value| {
        let to = format!("{}/api/v1/signers/{KEYED}/{verb}", node.url);
        let answer = client().post(to).json(body).send().await?;
        let (status, text) = (answer.status(), answer.text().await?);
        ensure!(status.is_success(), "{verb}: {text}");
        Ok::<Value, anyhow::Error>(serde_json::from_str(&text)?)
    };
    post("pause", &json!({ "reason": "test" })).await?;
    post("cursor", &json!({ "nextNonce": 2, "reason": "test" })).await?;
    let hash = format!("0x{}", "07".repeat(32));
    let open = json!([
        { "nonce": 3, "state": "RESERVED" },
        { "nonce": 4, "state": "SUBMITTED", "txHash": hash },
    ]);
    let file = json!({ "nextNonce": 5, "open": open, "reason": "test" });
    let told = post("import", &file).await?;
    // Again: nothing is written, so there is no line.
    assert_eq!(post("import", &file).await?["open"], told["open"]);
    node.signal("TERM")?;
    node.ended().await?;

    let lines = log.await??;
    let of = |write: &str| -> Vec<&Value> {
        lines.iter().filter(|line| line["write"] == write).collect()
    };
    for line in of("cursor").iter().chain(&of("import")) {
        assert_fields(line, &FIELDS);
        assert_fields(line, &["tx_hash"]);
        assert_eq!(line["signer"], KEYED, "{line}");
    }
    let moved: Vec<_> = of("cursor")
        .iter()
        .map(|line| (&line["from"], &line["to"]))
        .collect();
    assert_eq!(
        moved,
        [(&json!("0"), &json!("2")), (&json!("2"), &json!("5"))]
    );
    let imported = of("import");
    assert_eq!(imported.len(), 2, "{imported:?}");
    for (n, line) in imported.iter().enumerate() {
        let item = &told["open"][n];
        assert_eq!(
            (&line["tx_id"], &line["to"]),
            (&item["txId"], &item["state"])
        );
        assert_eq!(line["nonce"], item["nonce"].to_string());
    }
    assert_eq!(
        (&imported[0]["tx_hash"], &imported[1]["tx_hash"]),
        (&json!("-"), &json!(hash))
    );
    Ok(())
}

#[tokio::test]
async fn above_the_rate_lines_are_left_out_and_counted_by_kind() -> Result<()> {
    let home = Home::new()?;
    home.add("[log]\nwrites_per_second = 5")?;
    let (mut node, log) = home.serve_with_log().await?;
    let log = lines_of(log);
    let one = json!({ "signer": SIGNER, "payload": { "to": SIGNER, "value": "1" } });
    let all = json!({ "requests": vec![one; 200] });
    let to = format!("{}/api/v1/tx/batch", node.url);
    let answer = client().post(to).json(&all).send().await?;
    ensure!(answer.status().is_success(), "{}", answer.text().await?);
    let metrics = node.metrics().await?;
    node.signal("TERM")?;
    node.ended().await?;

    let lines = log.await??;
    let told = lines
        .iter()
        .filter(|line| line["write"] == "create")
        .count();
    let left_out = lines.iter().filter_map(|line| {
        let kinds = line["kinds"].as_str()?.split(' ');
        let creates = kinds.filter_map(|kind| kind.strip_prefix("create="));
        creates
            .map(|n| n.parse::<usize>().ok())
            .sum::<Option<usize>>()
    });
    assert_eq!(told + left_out.sum::<usize>(), 200);
    ensure!((1..100).contains(&told), "{told} lines");
    // Metrics count all of them.
    let counted = "fencepost_tx_create_total{result=\"new\"} 200";
    ensure!(metrics.contains(counted), "{metrics}");
    Ok(())
}

#[tokio::test]
async fn an_error_about_a_transaction_names_its_node_its_lane_and_its_token() -> Result<()> {
    let (_server, home) = on_a_chain().await?;
    let (mut node, log) = home.serve_with_log().await?;
    let log = lines_of(log);
    let payload = json!({ "to": KEYED, "value": "9".repeat(40), "gas": "21000" });
    let sent = node
        .post(&json!({ "signer": KEYED, "payload": payload }))
        .await?;
    let tx = sent["txId"].as_str().context("an id")?.to_owned();
    until_state(&node, &tx, "STUCK").await?;
    node.signal("TERM")?;
    node.ended().await?;
    let lines = log.await??;
    let errors: Vec<&Value> = lines
        .iter()
        .filter(|line| line["level"] == "ERROR")
        .collect();
    let stuck = errors.iter().find(|line| line["tx_id"] == *tx);
    assert_fields(stuck.context("an error")?, &FIELDS);
    for line in lines.iter() {
        assert_fields(line, &["node_id"]);
    }
    Ok(())
}

#[tokio::test]
async fn lines_from_before_the_configuration_is_read_have_a_node_id_too() -> Result<()> {
    let home = Home::new()?;
    home.add("[leese]\nduration = 1")?;
    let (code, said) = run(&["serve", "--config", &home.config()]).await?;
    assert_ne!(code, Some(0), "{said}");
    let line: Value = serde_json::from_str(said.lines().next().context("a line")?)?;
    assert_eq!(
        (&line["level"], &line["node_id"]),
        (&json!("ERROR"), &json!("-")),
        "{said}"
    );
    Ok(())
}

/// Errors that no lane is concerned in, by file and how many of them.
const NO_LANE: &[(&str, usize)] = &[
    // Why the program ends, and panics.
    ("node/src/main.rs", 1),
    ("node/src/telemetry.rs", 2),
    // A changed file that cannot be used: API keys belong to no lane.
    ("node/src/reload.rs", 2),
    // Another process has this node's id.
    ("app/src/node.rs", 1),
    // After a failover of the database nobody leads a lane that is held: there is no token to name.
    ("postgres/src/failover.rs", 1),
    ("postgres/src/judge.rs", 1),
    ("app/src/failover.rs", 5),
    // The store as a whole: an old primary, and the file in which the node remembers it.
    ("app/src/recovery/first_meeting.rs", 1),
    ("node/src/state_file.rs", 1),
    // The store failed for a request, which may be about anything.
    ("http/src/problem/unasked.rs", 2),
    ("http/src/envelope.rs", 1),
    // An endpoint of another chain.
    ("evm/src/endpoint.rs", 1),
    // An answer that is refused names signer and transaction; who asks the policy is given no token.
    ("http/src/policy.rs", 1),
];

fn sources(folder: &Path, found: &mut Vec<PathBuf>) -> Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            sources(&path, found)?;
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            found.push(path);
        }
    }
    Ok(())
}

/// The text between the brackets that begin here.
fn bracketed(text: &str) -> &str {
    let mut depth = 0;
    for (at, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' if depth == 1 => return &text[..at],
            ')' => depth -= 1,
            _ => {}
        }
    }
    text
}

/// Every `error!` in the sources names signer and token, but for those that are about no lane.
#[test]
fn every_error_in_the_sources_names_its_lane() -> Result<()> {
    let mut nameless: BTreeMap<String, usize> = BTreeMap::new();
    let mut seen = 0;
    for entry in std::fs::read_dir("..")? {
        let folder = entry?.path().join("src");
        let mut files = Vec::new();
        if folder.is_dir() {
            sources(&folder, &mut files)?;
        }
        for file in files {
            let text = std::fs::read_to_string(&file)?;
            for (at, _) in text.match_indices("tracing::error!(") {
                let said = bracketed(&text[at + "tracing::error!".len()..]);
                seen += 1;
                if !(said.contains("signer") && said.contains("token")) {
                    let name = file.strip_prefix("..")?.display().to_string();
                    *nameless.entry(name).or_default() += 1;
                }
            }
        }
    }
    ensure!(seen > 10, "{seen} lines");
    let allowed = NO_LANE.iter().copied();
    let allowed = allowed.map(|(file, count)| (file.to_owned(), count));
    let allowed: BTreeMap<String, usize> = allowed.collect();
    assert_eq!(
        nameless, allowed,
        "use lane_error!, or name signer and token"
    );
    Ok(())
}
