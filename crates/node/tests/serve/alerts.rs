//! The alerts and the dashboard are true: a real Prometheus scrapes a real node, loads the rules, and answers every
//! query of them; promtool fires each alert and sees that it is quiet.

use std::collections::BTreeSet;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::Stdio;

use anyhow::{Context, Result, bail, ensure};
use fencepost_devchain::EndpointId;
use fencepost_testkit::wait;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::process::{Child, Command};

use super::log::on_a_chain;
use super::process::{KEYED, client};

/// Tests run where their crate is. Not where it was compiled: clones share what they have built.
fn file(name: &str) -> PathBuf {
    PathBuf::from("../..").join(name)
}

fn read(name: &str) -> Result<String> {
    std::fs::read_to_string(file(name)).with_context(|| name.to_owned())
}

/// What follows a key on its line, in a file that writes each value on one line.
fn values(text: &str, key: &str) -> Vec<String> {
    let found = text.lines().filter_map(|line| {
        let line = line.trim_start().trim_start_matches("- ");
        line.strip_prefix(key)?.strip_prefix(": ")
    });
    let plain = |value: &str| value.trim_matches('\'').replace("''", "'");
    found.map(plain).collect()
}

async fn promtool(arguments: &[&str]) -> Result<()> {
    let ran = Command::new("promtool").args(arguments).output().await;
    let ran = ran.context("promtool (Debian package `prometheus`)")?;
    let said = String::from_utf8([ran.stdout, ran.stderr].concat())?;
    ensure!(ran.status.success(), "{said}");
    Ok(())
}

#[tokio::test]
async fn every_alert_fires_and_is_quiet_as_its_tests_say() -> Result<()> {
    let (rules, tests) = (
        file("alerts/fencepost.rules.yml"),
        file("alerts/fencepost.test.yml"),
    );
    let [rules, tests] = [&rules, &tests].map(|path| path.to_str().unwrap_or_default());
    promtool(&["check", "rules", rules]).await?;
    promtool(&["test", "rules", tests]).await
}

#[test]
fn every_alert_has_a_severity_a_runbook_and_tests_of_both_kinds() -> Result<()> {
    let rules = read("alerts/fencepost.rules.yml")?;
    let tests = values(&read("alerts/fencepost.test.yml")?, "name");
    let page = read("docs/operations/alerts.md")?;
    let index = read("docs/operations.md")?;
    let alerts = values(&rules, "alert");
    ensure!(alerts.len() > 20, "{alerts:?}");
    for part in ["expr", "for", "severity", "summary", "runbook_url"] {
        assert_eq!(values(&rules, part).len(), alerts.len(), "{part}");
    }
    let waits = values(&rules, "for");
    let severities = values(&rules, "severity");
    for (at, (alert, runbook)) in alerts.iter().zip(values(&rules, "runbook_url")).enumerate() {
        let anchor = alert.to_lowercase();
        // Both pages say after how long it fires, as the rules do.
        let (wait, severity) = (waits[at].as_str(), &severities[at]);
        let cell = if wait == "0m" { "at once" } else { wait };
        let row = format!("| [{alert}](operations/alerts.md#{anchor}) | {severity} | {cell} | ");
        ensure!(index.contains(&row), "the index has no {row}");
        let after = match wait {
            "0m" => severity.clone(),
            wait => format!("{severity}, after {wait}"),
        };
        let head = format!("\n## {alert}\n\n{after}: `");
        ensure!(page.contains(&head), "the page has no {head}");
        assert_eq!(runbook, format!("docs/operations/alerts.md#{anchor}"));
        for kind in ["fires", "is quiet"] {
            ensure!(
                tests.contains(&format!("{alert} {kind}")),
                "no test: {alert} {kind}"
            );
        }
    }
    // The page has the expression as it is loaded, and no section too many.
    for expression in values(&rules, "expr") {
        ensure!(
            page.contains(&format!("`{expression}`")),
            "{expression} in the page"
        );
    }
    assert_eq!(page.matches("\n## ").count(), alerts.len());
    assert_eq!(tests.len(), 2 * alerts.len());
    Ok(())
}

/// A Prometheus that scrapes one node, on a port of its own.
struct Prometheus {
    url: String,
    _home: TempDir,
    _child: Child,
}

impl Prometheus {
    async fn start(node: &str) -> Result<Self> {
        let home = TempDir::new()?;
        let rules = std::fs::canonicalize(file("alerts/fencepost.rules.yml"))?;
        let (rules, target) = (rules.display(), node.trim_start_matches("http://"));
        let config = format!(
            "global: {{ scrape_interval: 1s, evaluation_interval: 1s }}\n\
             rule_files: ['{rules}']\n\
             scrape_configs:\n  - job_name: fencepost\n    static_configs: [{{ targets: ['{target}'] }}]\n"
        );
        let path = home.path().join("prometheus.yml");
        std::fs::write(&path, config)?;
        // It cannot be told to take any free port: one that was free a moment ago.
        let listen = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let child = Command::new("prometheus")
            .arg(format!("--config.file={}", path.display()))
            .arg(format!(
                "--storage.tsdb.path={}",
                home.path().join("data").display()
            ))
            .arg(format!("--web.listen-address={listen}"))
            .arg("--log.level=error")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .context("prometheus (Debian package `prometheus`)")?;
        let url = format!("http://{listen}");
        let started = Self {
            url,
            _home: home,
            _child: child,
        };
        let ready = format!("{}/-/ready", started.url);
        wait::until("Prometheus is ready", || async {
            let answer = client().get(&ready).send().await;
            Ok(answer
                .is_ok_and(|answer| answer.status() == 200)
                .then_some(()))
        })
        .await?;
        Ok(started)
    }

    async fn get(&self, path: &str) -> Result<Value> {
        let answer = client().get(format!("{}{path}", self.url)).send().await?;
        let body: Value = serde_json::from_str(&answer.text().await?)?;
        if body["status"] != "success" {
            bail!("{path}: {body}");
        }
        Ok(body["data"].clone())
    }

    /// How many series a query gives. One that Prometheus does not take is an error.
    async fn count(&self, query: &str) -> Result<usize> {
        let query: String = query.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let data = self.get(&format!("/api/v1/query?query={query}")).await?;
        Ok(data["result"].as_array().context("a result")?.len())
    }

    /// Waits until a query gives something.
    async fn until_some(&self, query: &str) -> Result<()> {
        let some = || async { Ok((self.count(query).await? > 0).then_some(())) };
        wait::until(query, some).await
    }
}

/// The metrics that a query selects, each with its labels: `name{label="word"}`.
fn selectors(query: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (at, _) in query.match_indices("fencepost_") {
        let rest = &query[at..];
        let name = rest.find(|c: char| !(c.is_ascii_lowercase() || c == '_'));
        let name = &rest[..name.unwrap_or(rest.len())];
        let labels = rest[name.len()..]
            .split_once('}')
            .map_or("", |(labels, _)| labels);
        found.insert(if labels.starts_with('{') {
            format!("{name}{labels}}}")
        } else {
            name.to_owned()
        });
    }
    found
}

/// The dashboard's queries, once its shape was looked at.
fn panels() -> Result<Vec<String>> {
    let dashboard: Value = serde_json::from_str(&read("dashboards/fencepost.json")?)?;
    assert_eq!(dashboard["templating"]["list"][0]["type"], "datasource");
    let (mut ids, mut queries) = (BTreeSet::new(), Vec::new());
    for panel in dashboard["panels"].as_array().context("panels")? {
        ensure!(
            ids.insert(panel["id"].as_u64()),
            "two panels have one id: {panel}"
        );
        ensure!(
            panel["gridPos"].is_object() && panel["title"].is_string(),
            "{panel}"
        );
        for target in panel["targets"].as_array().into_iter().flatten() {
            assert_eq!(target["datasource"]["uid"], "${datasource}", "{panel}");
            let query = target["expr"].as_str().context("a query")?;
            queries.push(query.replace("$__rate_interval", "1m"));
        }
    }
    ensure!(queries.len() > 20, "{queries:?}");
    Ok(queries)
}

/// Every metric that the page names is on the dashboard: what is measured can be seen.
#[test]
fn the_dashboard_shows_every_metric() -> Result<()> {
    let shown = panels()?.join("\n");
    let page = read("docs/metrics.md")?;
    for row in page.lines().filter_map(|line| line.strip_prefix("| `")) {
        let (name, _) = row.split_once('`').unwrap_or_default();
        ensure!(shown.contains(name), "no panel shows {name}");
    }
    Ok(())
}

/// With load, so that there are series. Each part of each query finds something in what the node exposes: a
/// metric or a label that is misspelt finds nothing.
#[tokio::test]
async fn a_real_prometheus_answers_every_query_from_a_real_node() -> Result<()> {
    let (server, home) = on_a_chain().await?;
    home.announce(&server.url(EndpointId(0)).replacen("http", "ws", 1))?;
    let node = home.serve().await?;
    for value in ["1", "2", "3"] {
        let request = json!({ "signer": KEYED, "payload": { "to": KEYED, "value": value } });
        node.post(&request).await?;
    }
    let prometheus = Prometheus::start(&node.url).await?;
    prometheus.until_some("up{job=\"fencepost\"} == 1").await?;
    prometheus
        .until_some("fencepost_tx_end_total{state=\"CONFIRMED\"} >= 3")
        .await?;
    // What is taken now and then, and what needs two scrapes.
    prometheus
        .until_some("fencepost_signer_balance_wei")
        .await?;
    prometheus
        .until_some("rate(fencepost_tx_end_total[1m])")
        .await?;

    let rules = values(&read("alerts/fencepost.rules.yml")?, "expr");
    let panels = panels()?;
    for query in &panels {
        ensure!(prometheus.count(query).await? > 0, "{query} gives nothing");
    }
    for query in &rules {
        prometheus.count(query).await?;
    }
    let parts: BTreeSet<String> = rules
        .iter()
        .chain(&panels)
        .flat_map(|query| selectors(query))
        .collect();
    ensure!(parts.len() > 30, "{parts:?}");
    for part in parts {
        ensure!(prometheus.count(&part).await? > 0, "{part} finds nothing");
    }
    // As Prometheus itself has evaluated them.
    let loaded = wait::until("all rules are evaluated", || async {
        let data = prometheus.get("/api/v1/rules").await?;
        let groups = data["groups"].as_array().cloned().unwrap_or_default();
        let rules = groups
            .into_iter()
            .flat_map(|group| group["rules"].as_array().cloned().unwrap_or_default());
        let rules: Vec<Value> = rules.collect();
        Ok(rules
            .iter()
            .all(|rule| rule["health"] != "unknown")
            .then_some(rules))
    })
    .await?;
    assert_eq!(loaded.len(), rules.len());
    for rule in loaded {
        assert_eq!(rule["health"], "ok", "{rule}");
        assert_ne!(rule["state"], "firing", "{rule}: a healthy node alerts");
    }
    Ok(())
}
