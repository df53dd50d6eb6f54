//! `docs/metrics.md` and a running node's `/metrics` name the same metrics, of the same types.

use std::collections::BTreeMap;

use super::process::{Home, SIGNER};
use anyhow::Result;
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

#[tokio::test]
async fn the_page_has_every_metric_and_no_other() -> Result<()> {
    let home = Home::new()?;
    let node = home.serve().await?;
    let request = json!({ "signer": SIGNER, "payload": { "to": SIGNER, "value": "1" } });
    node.post(&request).await?;
    // The gauges about all lanes are taken beside the requests.
    let metrics = node
        .until_meter("fencepost_pending_depth{chain=\"main\"}")
        .await?;
    assert_eq!(exposed(&metrics), documented());
    for created in ["new\"} 1", "known\"} 0"] {
        let line = format!("fencepost_tx_create_total{{result=\"{created}");
        assert!(metrics.contains(&line), "{line} in\n{metrics}");
    }
    Ok(())
}
