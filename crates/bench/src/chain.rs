//! The chain that transactions are sent to: a devchain in a process of its own, so that what it costs is
//! neither the node's nor the generator's; anvil; or one that we are given.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::process::{ChildStdin, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use fencepost_devchain::{Config, Devchain, EndpointId, Server, ServerConfig, Shared};
use fencepost_domain::{Address, U256};
use fencepost_testkit::anvil::Anvil;
use serde_json::{Value, json};
use tokio::net::lookup_host;
use tokio::task::spawn_blocking;
use url::Url;

use crate::http::{Connection, post};
use crate::keys::transfer;
use crate::process::{Process, cpu_seconds};

/// What each account begins with.
const ETHER: u64 = 100_000;
/// More than one block is ever sent.
const GAS_LIMIT: u64 = 30_000_000_000;
const TEST_ID: u64 = 31_337;
/// The verb behind which [`serve`] runs.
const VERB: &str = "bench-chain";
/// How many sends one call carries.
const SENDS: usize = 100;

/// A chain that can be asked.
pub(crate) struct Chain {
    pub(crate) url: String,
    pub(crate) id: u64,
    /// Kept because it ends when dropped.
    running: Running,
}

enum Running {
    /// It also ends when its stdin does.
    Own {
        process: Process,
        _orders: ChildStdin,
    },
    Anvil {
        _anvil: Anvil,
    },
    Given,
}

impl Chain {
    /// A devchain with funds for these, and a block each so often.
    pub(crate) async fn start(accounts: &[String], block: Duration) -> Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command
            .arg(VERB)
            .env_clear()
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut process = Process::start(&mut command)?;
        let (mut orders, answers) = (
            process.stdin().context("its stdin is piped")?,
            process.stdout().context("its stdout is piped")?,
        );
        let order = json!({ "accounts": accounts, "blockMs": u64::try_from(block.as_millis())? });
        let url = spawn_blocking(move || -> Result<(String, ChildStdin)> {
            writeln!(orders, "{order}")?;
            let mut line = String::new();
            BufReader::new(answers).read_line(&mut line)?;
            Ok((line.trim().to_owned(), orders))
        });
        let (url, orders) = url.await??;
        ensure!(url.starts_with("http"), "the chain did not start: {url:?}");
        Ok(Self {
            url,
            id: TEST_ID,
            running: Running::Own {
                process,
                _orders: orders,
            },
        })
    }

    /// An anvil with so many accounts of the test phrase, and a block each second.
    pub(crate) async fn anvil(accounts: usize) -> Result<Self> {
        let accounts = accounts.to_string();
        let gas = GAS_LIMIT.to_string();
        let arguments = [
            "--accounts",
            &accounts,
            "--balance",
            "100000",
            "--block-time",
            "1",
            "--gas-limit",
            &gas,
            "--no-request-size-limit",
        ];
        let anvil = Anvil::start(&arguments).await?;
        Ok(Self {
            url: anvil.url().to_owned(),
            id: TEST_ID,
            running: Running::Anvil { _anvil: anvil },
        })
    }

    /// Somebody's.
    pub(crate) async fn given(url: &str) -> Result<Self> {
        let mut chain = Self {
            url: url.to_owned(),
            id: 0,
            running: Running::Given,
        };
        let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "eth_chainId", "params": [] });
        let told = chain.connect().await?.call(&call).await?;
        let id = told["result"].as_str().and_then(|id| id.strip_prefix("0x"));
        chain.id = u64::from_str_radix(id.context("the node at --rpc tells no chain id")?, 16)?;
        Ok(chain)
    }

    /// CPU seconds, where it is a process that we can see.
    pub(crate) fn cpu_seconds(&self) -> Option<f64> {
        match &self.running {
            Running::Own { process, .. } => Some(cpu_seconds(process.id())),
            Running::Anvil { .. } | Running::Given => None,
        }
    }

    async fn connect(&self) -> Result<Rpc> {
        let url = Url::parse(&self.url)?;
        let host = url.host_str().context("a URL without a host")?;
        let port = url
            .port_or_known_default()
            .context("a URL without a port")?;
        let address: Option<SocketAddr> = lookup_host((host, port)).await?.next();
        let address = address.with_context(|| format!("{host} has no address"))?;
        Ok(Rpc {
            connection: Connection::open(address).await?,
            path: url.path().to_owned(),
        })
    }

    /// How many signed transfers a second it takes when it is sent nothing else: so many of each key, signed
    /// beforehand.
    pub(crate) async fn raw_sends_per_second(
        &self,
        keys: &[alloy_signer_local::PrivateKeySigner],
        each: u64,
    ) -> Result<f64> {
        let mut calls = Vec::new();
        for nonce in 0..each {
            for key in keys {
                let raw = transfer(key, self.id, nonce)?;
                calls.push(json!({ "jsonrpc": "2.0", "id": calls.len(), "method": "eth_sendRawTransaction", "params": [raw] }));
            }
        }
        let mut rpc = self.connect().await?;
        let began = std::time::Instant::now();
        for chunk in calls.chunks(SENDS) {
            let told = rpc.call(&json!(chunk)).await?;
            let is_well = |answer: &Value| answer["result"].is_string();
            let all = told.as_array().context("a batch is answered by a list")?;
            let refused = all.iter().find(|answer| !is_well(answer));
            ensure!(refused.is_none(), "a send is refused: {refused:?}");
        }
        Ok(crate::figures::many(calls.len()) / began.elapsed().as_secs_f64())
    }
}

struct Rpc {
    connection: Connection,
    path: String,
}

impl Rpc {
    async fn call(&mut self, body: &Value) -> Result<Value> {
        let request = post(&self.path, &body.to_string());
        let (status, body) = self.connection.exchange(&request).await?;
        ensure!(status == 200, "the chain answers {status}");
        Ok(serde_json::from_slice(body)?)
    }
}

/// A devchain for a bench: it is told its accounts on stdin, says where it listens on stdout, and ends when its
/// stdin does, however that came.
pub async fn serve() -> Result<()> {
    let mut orders = BufReader::new(std::io::stdin());
    let mut line = String::new();
    orders.read_line(&mut line)?;
    let order: Value = serde_json::from_str(&line).context("no order on stdin")?;
    let each = U256::from(ETHER) * U256::from(10).pow(U256::from(18));
    let accounts = order["accounts"].as_array().context("accounts")?;
    let accounts = accounts.iter().map(|account| {
        let address: Address = account.as_str().unwrap_or_default().parse()?;
        Ok((address, each))
    });
    let block = order["blockMs"].as_u64().context("blockMs")?;
    let chain = Shared::new(Devchain::new(Config {
        chain_id: TEST_ID,
        accounts: accounts.collect::<Result<_>>()?,
        gas_limit: GAS_LIMIT,
        ..Config::default()
    }));
    let config = ServerConfig {
        block_interval: Some(Duration::from_millis(block)),
        ..ServerConfig::default()
    };
    let server = Server::start(chain, config).await?;
    println!("{}", server.url(EndpointId(0)));
    spawn_blocking(move || orders.read_to_end(&mut Vec::new())).await??;
    Ok(())
}
