//! Nodes as processes, on one database. Dropping one kills it.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use fencepost_testkit::postgres::connect;
use fencepost_testkit::wait;
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use reqwest::{Client, StatusCode};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::oneshot;

/// Short, so that a failover is seen soon.
pub(crate) const LEASE: Duration = Duration::from_secs(3);
pub(crate) const SKEW: Duration = Duration::from_millis(200);
/// How long a request may take to be forwarded.
pub(crate) const DEADLINE: Duration = Duration::from_secs(1);

/// The file of a node that asks for a key, and what shows it.
const KEYS: &str = "[[key]]\nname = \"all\"\n\
    sha256 = \"49944ee1fbb9d6f1ab5e9d81ca0bf7c0c7bb8990e7fce50be6ca34f6c98952b0\"\n\
    scopes = [\"submit\", \"read\", \"operate\"]\n";
pub(crate) const BEARER: &str = "Bearer secret of ops";

/// What all nodes share.
pub(crate) struct Fleet {
    store: String,
    home: TempDir,
    /// Further lines of the configuration, by section.
    more: String,
    log: &'static str,
    schema: &'static str,
    /// A variable of the environment, with its value.
    env: Option<(&'static str, String)>,
    /// How many file descriptors a node may have; none is as many as this process.
    descriptors: Option<u32>,
    pub(crate) http: Client,
}

/// One process.
pub(crate) struct Member {
    pub(crate) url: String,
    child: Child,
    log: Arc<Mutex<Vec<Value>>>,
    http: Client,
}

/// An answer of the API.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) retry_after: Option<u64>,
    pub(crate) body: Value,
}

impl Answer {
    pub(crate) fn is_accepted(&self) -> bool {
        [StatusCode::ACCEPTED, StatusCode::OK].contains(&self.status)
    }

    pub(crate) fn tx(&self) -> String {
        self.body["txId"].as_str().unwrap_or_default().to_owned()
    }
}

/// The n-th signer.
pub(crate) fn signer(n: u8) -> String {
    format!("0x{}", format!("{n:02x}").repeat(20))
}

pub(crate) fn request(signer_n: u8, name: Option<&str>) -> Value {
    json!({
        "signer": signer(signer_n),
        "requestId": name,
        "payload": { "to": signer(0x99), "value": "1" },
    })
}

impl Fleet {
    pub(crate) fn new(store: String) -> Result<Self> {
        // Another test of this process may have chosen it before.
        let _ = rustls::crypto::ring::default_provider().install_default();
        Ok(Self {
            store,
            home: TempDir::new()?,
            more: String::new(),
            log: "info",
            schema: "public",
            env: None,
            descriptors: None,
            http: Client::builder().timeout(Duration::from_secs(30)).build()?,
        })
    }

    pub(crate) fn with(self, more: &str) -> Self {
        Self {
            more: more.to_owned(),
            ..self
        }
    }

    /// With their tables in another schema.
    pub(crate) fn schema(self, schema: &'static str) -> Self {
        Self { schema, ..self }
    }

    /// A file beside the configurations.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    /// With more in their logs.
    pub(crate) fn logging(self, log: &'static str) -> Self {
        Self { log, ..self }
    }

    /// With a variable of the environment.
    pub(crate) fn env(self, name: &'static str, value: &str) -> Self {
        Self {
            env: Some((name, value.to_owned())),
            ..self
        }
    }

    /// With so many file descriptors, soft and hard.
    pub(crate) fn descriptors(self, limit: u32) -> Self {
        Self {
            descriptors: Some(limit),
            ..self
        }
    }

    /// With a key that nodes ask for and clients show.
    pub(crate) fn keyed(mut self) -> Result<Self> {
        let file = self.home.path().join("keys.toml");
        std::fs::write(&file, KEYS)?;
        // Others must not be able to read keys.
        std::fs::set_permissions(&file, Permissions::from_mode(0o600))?;
        self.more = format!("{}[auth]\nkeys_file = \"{}\"\n", self.more, file.display());
        let mut headers = HeaderMap::new();
        headers.insert(AUTHORIZATION, HeaderValue::from_static(BEARER));
        let mut http = Client::builder().timeout(Duration::from_secs(30));
        if self.descriptors.is_some() {
            // A node that runs out of them closes idle connections, and a request could be sent into one.
            http = http.pool_max_idle_per_host(0);
        }
        self.http = http.default_headers(headers).build()?;
        Ok(self)
    }

    fn config(&self, id: &str) -> Result<PathBuf> {
        let signers: Vec<String> = (1..=4)
            .map(|n| {
                format!(
                    "[[signer]]\nchains = [\"main\"]\naddress = \"{}\"\n",
                    signer(n)
                )
            })
            .collect();
        let text = format!(
            "[node]\nid = \"{id}\"\nlisten = \"127.0.0.1:0\"\ncluster_secret_env = \"CLUSTER_SECRET\"\n\
             [store]\nurl = \"{}\"\nschema = \"{}\"\nstatement_timeout = \"1s\"\n\
             [[chain]]\nname = \"main\"\nid = 1\n{}\
             [lease]\nduration = \"{}ms\"\nrenew_interval = \"500ms\"\nclock_skew_allowance = \"{}ms\"\n\
             [nonce]\nchain_query = false\n[routing]\ndeadline = \"{}ms\"\n{}",
            self.store,
            self.schema,
            signers.concat(),
            LEASE.as_millis(),
            SKEW.as_millis(),
            DEADLINE.as_millis(),
            self.more,
        );
        let file = self.home.path().join(format!("{id}.toml"));
        std::fs::write(&file, text)?;
        Ok(file)
    }

    fn command(&self, id: &str, verb: &[&str]) -> Result<Command> {
        let program = env!("CARGO_BIN_EXE_fencepost");
        let mut command = match self.descriptors {
            None => Command::new(program),
            Some(limit) => {
                let mut shell = Command::new("sh");
                let limited = format!("ulimit -n {limit} && exec \"$0\" \"$@\"");
                shell.args(["-c", &limited, program]);
                shell
            }
        };
        command
            .args(verb)
            .arg("--config")
            .arg(self.config(id)?)
            .env(
                "CLUSTER_SECRET",
                "a secret that all nodes of the cluster share",
            )
            .env("RUST_LOG", self.log)
            .env_remove("PGPASSWORD")
            .envs(self.env.clone())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        Ok(command)
    }

    /// Starts a node that must not come up, and returns what it says.
    pub(crate) async fn refused(&self, id: &str) -> Result<String> {
        let mut command = self.command(id, &["serve"])?;
        let output = tokio::time::timeout(wait::PATIENCE, command.output()).await??;
        ensure!(!output.status.success(), "{id} came up");
        Ok(String::from_utf8_lossy(&output.stderr).into_owned())
    }

    /// Runs another verb with a node's configuration, and returns what it prints.
    pub(crate) async fn run(&self, id: &str, verb: &[&str]) -> Result<String> {
        let mut command = self.command(id, verb)?;
        command.stdout(Stdio::piped());
        let output = tokio::time::timeout(wait::PATIENCE, command.output()).await??;
        ensure!(output.status.success(), "{output:?}");
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Starts a node and waits until it is ready.
    pub(crate) async fn start(&self, id: &str) -> Result<Member> {
        let mut child = self.command(id, &["serve"])?.spawn()?;
        let log = Arc::new(Mutex::new(Vec::new()));
        let lines = BufReader::new(child.stderr.take().context("its log")?).lines();
        let (ready, listening) = oneshot::channel();
        tokio::spawn(keep_log(lines, Arc::clone(&log), ready));
        let listening = tokio::time::timeout(wait::PATIENCE, listening).await;
        let Ok(Ok(listening)) = listening else {
            bail!("{id} never became ready: {:?}", log.lock().unwrap());
        };
        Ok(Member {
            url: format!("http://{listening}"),
            child,
            log,
            http: self.http.clone(),
        })
    }

    pub(crate) async fn three(&self) -> Result<[Member; 3]> {
        Ok([
            self.start("a").await?,
            self.start("b").await?,
            self.start("c").await?,
        ])
    }

    /// One number of the database.
    pub(crate) async fn number(&self, sql: &str) -> Result<i64> {
        Ok(connect(&self.store)
            .await?
            .query_one(sql, &[])
            .await?
            .get(0))
    }

    /// The nonces of a signer's transactions, in order of arrival; null for those that wait.
    pub(crate) async fn nonces(&self, n: u8) -> Result<Vec<Option<i64>>> {
        let sql = "SELECT m.nonce FROM managed_tx m JOIN signer_lease l USING (lane_id)
                    WHERE l.signer = decode($1, 'hex') ORDER BY m.nonce";
        let client = connect(&self.store).await?;
        let hex = signer(n).trim_start_matches("0x").to_owned();
        let rows = client.query(sql, &[&hex]).await?;
        Ok(rows.iter().map(|row| row.get(0)).collect())
    }

    /// Waits until all of a signer's transactions have their nonces, and each nonce from 0 is there once.
    pub(crate) async fn all_allocated(&self, n: u8, count: usize) -> Result<()> {
        wait::until("all have their nonces", || async {
            let nonces = self.nonces(n).await?;
            Ok(nonces.iter().all(Option::is_some).then_some(()))
        })
        .await?;
        let nonces: Option<Vec<i64>> = self.nonces(n).await?.into_iter().collect();
        let expected: Vec<i64> = (0..i64::try_from(count)?).collect();
        ensure!(nonces.as_ref() == Some(&expected), "{nonces:?}");
        Ok(())
    }

    /// The token of a signer's lane, and when its lease ends, in milliseconds.
    pub(crate) async fn lease(&self, n: u8) -> Result<(i64, i64)> {
        let sql = "SELECT fencing_token, (extract(epoch FROM expires_at) * 1000)::bigint
                     FROM signer_lease WHERE signer = decode($1, 'hex')";
        let client = connect(&self.store).await?;
        let hex = signer(n).trim_start_matches("0x").to_owned();
        let row = client.query_one(sql, &[&hex]).await?;
        Ok((row.get(0), row.get(1)))
    }

    /// Who leads a signer's lane, by the database's clock.
    /// Who led last, whether its lease has run out or not.
    pub(crate) async fn owner(&self, n: u8) -> Result<Option<String>> {
        let sql = "SELECT owner_node FROM signer_lease WHERE signer = decode($1, 'hex')";
        let client = connect(&self.store).await?;
        let hex = signer(n).trim_start_matches("0x").to_owned();
        let row = client.query_opt(sql, &[&hex]).await?;
        Ok(row.and_then(|row| row.get(0)))
    }

    pub(crate) async fn leader(&self, n: u8) -> Result<Option<String>> {
        let sql = "SELECT owner_node FROM signer_lease
                    WHERE signer = decode($1, 'hex') AND expires_at > clock_timestamp()";
        let client = connect(&self.store).await?;
        let hex = signer(n).trim_start_matches("0x").to_owned();
        let row = client.query_opt(sql, &[&hex]).await?;
        Ok(row.and_then(|row| row.get(0)))
    }
}

async fn keep_log(
    mut lines: tokio::io::Lines<BufReader<tokio::process::ChildStderr>>,
    log: Arc<Mutex<Vec<Value>>>,
    ready: oneshot::Sender<String>,
) {
    let mut ready = Some(ready);
    while let Ok(Some(line)) = lines.next_line().await {
        let entry: Value = serde_json::from_str(&line).unwrap_or(Value::String(line));
        if entry["message"] == "ready"
            && let (Some(listening), Some(ready)) = (entry["listening"].as_str(), ready.take())
        {
            let _ = ready.send(listening.to_owned());
        }
        log.lock().unwrap().push(entry);
    }
}

impl Member {
    pub(crate) async fn post(&self, body: &Value) -> reqwest::Result<Answer> {
        self.post_to("/api/v1/tx", body).await
    }

    pub(crate) async fn post_to(&self, path: &str, body: &Value) -> reqwest::Result<Answer> {
        let sent = self.http.post(format!("{}{path}", self.url)).json(body);
        answer(sent.send().await?).await
    }

    pub(crate) async fn post_batch(&self, requests: &[Value]) -> reqwest::Result<Answer> {
        let url = format!("{}/api/v1/tx/batch", self.url);
        let sent = self.http.post(url).json(&json!({ "requests": requests }));
        answer(sent.send().await?).await
    }

    pub(crate) async fn get(&self, path: &str) -> reqwest::Result<Answer> {
        answer(self.http.get(format!("{}{path}", self.url)).send().await?).await
    }

    /// The value of a meter, by the beginning of its line.
    pub(crate) async fn meter(&self, line: &str) -> Result<f64> {
        let text = self
            .http
            .get(format!("{}/metrics", self.url))
            .send()
            .await?;
        let text = text.text().await?;
        let value = text.lines().find_map(|each| each.strip_prefix(line));
        Ok(value.unwrap_or("0").trim().parse()?)
    }

    pub(crate) fn signal(&self, name: &str) -> Result<()> {
        let pid = self.child.id().context("it runs")?;
        let sent = std::process::Command::new("kill")
            .args([&format!("-{name}"), &pid.to_string()])
            .status()?;
        ensure!(sent.success(), "kill -{name} {pid}");
        Ok(())
    }

    pub(crate) async fn kill(mut self) -> Result<()> {
        Ok(self.child.kill().await?)
    }

    pub(crate) async fn ended(&mut self) -> Result<ExitStatus> {
        Ok(tokio::time::timeout(wait::PATIENCE, self.child.wait()).await??)
    }

    /// Kilobytes of memory that the process holds.
    pub(crate) fn memory_kb(&self) -> Result<u64> {
        self.status_kb("VmRSS:")
    }

    /// The most that it ever held.
    pub(crate) fn memory_peak_kb(&self) -> Result<u64> {
        self.status_kb("VmHWM:")
    }

    fn status_kb(&self, name: &str) -> Result<u64> {
        let pid = self.child.id().context("it runs")?;
        let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let number = line.context("a line")?.trim().trim_end_matches(" kB");
        Ok(number.parse()?)
    }

    /// How many lines of its log have this code.
    pub(crate) fn lines(&self, code: &str) -> usize {
        let log = self.log.lock().unwrap();
        log.iter().filter(|entry| entry["code"] == code).count()
    }

    /// Whether it has logged this code.
    pub(crate) fn has_logged(&self, code: &str) -> bool {
        self.logged("code", code)
    }

    /// Whether it has logged that something of this signer's lane is missing after a failover.
    pub(crate) fn has_lost(&self, signer: &str) -> bool {
        let log = self.log.lock().unwrap();
        let is_it = |entry: &Value| entry["signer"].as_str() == Some(signer);
        log.iter()
            .any(|entry| entry["code"] == "failover_loss" && is_it(entry))
    }

    /// Whether a line of its log has this field.
    pub(crate) fn logged(&self, field: &str, value: &str) -> bool {
        let log = self.log.lock().unwrap();
        log.iter().any(|entry| entry[field] == value)
    }
}

async fn answer(response: reqwest::Response) -> reqwest::Result<Answer> {
    let status = response.status();
    let retry_after = response.headers().get("retry-after");
    let retry_after = retry_after.and_then(|value| value.to_str().ok()?.parse().ok());
    let body = response.text().await?;
    let body = serde_json::from_str(&body).unwrap_or(Value::String(body));
    Ok(Answer {
        status,
        retry_after,
        body,
    })
}
