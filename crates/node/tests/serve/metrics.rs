//! `docs/metrics.md` and a running node's `/metrics` name the same metrics, of the same types.

use std::collections::{BTreeMap, BTreeSet};

use super::process::{Home, KEYED};
use anyhow::Result;
use fencepost_devchain::{Config, Devchain, EndpointId, Server, ServerConfig, Shared};
use serde_json::json;

const PAGE: &str = include_str!("../../../../docs/metrics.md");

/// Names and types of the table's rows.
fn documented() -> BTreeMap<String, String> {
    let rows = PAGE
        .lines()
        .filter_map(|line| line.strip_prefix("| `fencepost_"));
    rows.map(|row| {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        assert_eq!(cells.len(), 6, "{row}");
        (
            format!("fencepost_{}", cells[0].trim_end_matches('`')),
            cells[1].to_owned(),
        )
    })
    .collect()
}

/// Names and types of what is exposed. The text names a counter without the ending of its samples.
fn exposed(metrics: &str) -> BTreeMap<String, String> {
    let types = metrics
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE "));
    types
        .filter_map(|line| line.split_once(' '))
        .map(|(name, kind)| {
            let ending = if kind == "counter" { "_total" } else { "" };
            (format!("{name}{ending}"), kind.to_owned())
        })
        .collect()
}

/// The words of each counter's labels, as its row names them.
fn documented_words() -> BTreeMap<String, BTreeSet<String>> {
    let rows = PAGE
        .lines()
        .filter_map(|line| line.strip_prefix("| `fencepost_"));
    rows.filter_map(|row| {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let counted = cells[1] == "counter" && !["", "`chain`"].contains(&cells[2]);
        let words = cells[3].split('`').skip(1).step_by(2).map(str::to_owned);
        let name = format!("fencepost_{}", cells[0].trim_end_matches('`'));
        counted.then(|| (name, words.collect()))
    })
    .collect()
}

/// The same of what is exposed; every word stands there from the start.
fn exposed_words(metrics: &str) -> BTreeMap<String, BTreeSet<String>> {
    let mut words: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for line in metrics.lines().filter(|line| !line.starts_with('#')) {
        let (sample, _) = line.rsplit_once(' ').unwrap_or_default();
        let Some((name, labels)) = sample.split_once('{') else {
            continue;
        };
        for (label, word) in labels.trim_end_matches('}').split(',').filter_map(pair) {
            // The names of chains are the operator's own, and what has no sub-state has an empty word.
            if name.ends_with("_total") && label != "chain" && !word.is_empty() {
                words.entry(name.to_owned()).or_default().insert(word);
            }
        }
    }
    words
}

fn pair(label: &str) -> Option<(&str, String)> {
    let (name, word) = label.split_once('=')?;
    Some((name, word.trim_matches('"').to_owned()))
}

#[tokio::test]
async fn the_page_has_every_metric_and_no_other() -> Result<()> {
    let chain = Devchain::new(Config {
        chain_id: 1,
        ..Config::default()
    });
    let server = Server::start(Shared::new(chain), ServerConfig::default()).await?;
    let home = Home::signing(&server.url(EndpointId(0)))?;
    // Only chains with such an endpoint have its metrics; this one answers, and refuses.
    home.announce(&server.url(EndpointId(0)).replacen("http", "ws", 1))?;
    let node = home.serve().await?;
    let request = json!({ "signer": KEYED, "payload": { "to": KEYED, "value": "1" } });
    node.post(&request).await?;
    // The gauges about all lanes are taken beside the requests.
    node.until_meter("fencepost_pending_depth{chain=\"main\"}")
        .await?;
    // What signers have is asked for now and then.
    node.until_meter("fencepost_signer_balance_wei{").await?;
    // Once the chain's head was read.
    let metrics = node.until_meter("fencepost_rpc_head_lag_blocks{").await?;
    assert_eq!(exposed(&metrics), documented());
    assert_eq!(exposed_words(&metrics), documented_words());
    for created in ["new\"} 1", "known\"} 0"] {
        let line = format!("fencepost_tx_create_total{{result=\"{created}");
        assert!(metrics.contains(&line), "{line} in\n{metrics}");
    }
    Ok(())
}
