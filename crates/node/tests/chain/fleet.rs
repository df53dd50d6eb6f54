//! What all nodes of a test share: their store, their chains and their keys, which are the accounts of
//! the phrase that everybody knows.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use fencepost_devchain::{
    Config, Devchain, EndpointConfig, EndpointId, Server, ServerConfig, Shared,
};
use fencepost_domain::{Address, U256};
use fencepost_signer::{KeySource, KeySpec, Keyring};
use fencepost_testkit::wait;
use reqwest::Client;
use tempfile::TempDir;
use tokio::process::Command;

use super::member::Member;

pub(crate) const PHRASE: &str = "test test test test test test test test test test test junk";
/// What the questions of the stuck policy are signed with.
pub(crate) const POLICY_SECRET: &str = "a secret that the business knows";
pub(crate) const PHRASE_VARIABLE: &str = "TEST_PHRASE";
pub(crate) const CHAIN_ID: u64 = 31_337;
/// Short, so that a takeover is seen soon. Statements get as much of it as they may: on a busy machine
/// they need it.
const SHORT_LEASE: &str =
    "[lease]\nduration = \"3s\"\nrenew_interval = \"500ms\"\nclock_skew_allowance = \"100ms\"\n";
const SHORT_STATEMENTS: &str = "statement_timeout = \"1400ms\"\n";

/// The first accounts of the phrase.
pub(crate) async fn accounts(count: u32) -> Result<Vec<Address>> {
    let source = KeySource::Mnemonic {
        phrase: PHRASE.into(),
        count,
    };
    let address = None;
    match Keyring::open(vec![KeySpec { source, address }]).await {
        Ok(keyring) => Ok(keyring.addresses().concat()),
        Err(errors) => bail!("{errors:?}"),
    }
}

/// A devchain that serves on a free port and mines by itself. It stops when this is dropped.
pub(crate) struct Chain {
    pub(crate) shared: Shared,
    pub(crate) id: u64,
    server: Server,
}

impl Chain {
    pub(crate) async fn start(id: u64, accounts: &[Address], block: Duration) -> Result<Self> {
        Self::start_with(id, accounts, block, &["first"]).await
    }

    pub(crate) async fn start_with(
        id: u64,
        accounts: &[Address],
        block: Duration,
        endpoints: &[&str],
    ) -> Result<Self> {
        let ether = U256::from(10).pow(U256::from(18));
        let rich = |account: &Address| (*account, U256::from(10_000) * ether);
        let shared = Shared::new(Devchain::new(Config {
            chain_id: id,
            accounts: accounts.iter().map(rich).collect(),
            endpoints: endpoints.iter().copied().map(EndpointConfig::new).collect(),
            ..Config::default()
        }));
        let config = ServerConfig {
            block_interval: Some(block),
            ..ServerConfig::default()
        };
        let server = Server::start(shared.clone(), config).await?;
        Ok(Self { shared, id, server })
    }

    pub(crate) fn url(&self, endpoint: usize) -> String {
        self.server.url(EndpointId(endpoint))
    }

    /// HTTP requests that the first endpoint has had, and bytes that were sent to it.
    pub(crate) fn asked(&self) -> (u64, u64) {
        let requests = self.shared.lock().stats(EndpointId(0)).unwrap().requests;
        (requests, self.calls("eth_sendRawTransaction"))
    }

    /// Calls of a method that the first endpoint has had.
    pub(crate) fn calls(&self, method: &str) -> u64 {
        let chain = self.shared.lock();
        let calls = &chain.stats(EndpointId(0)).unwrap().calls;
        calls.get(method).copied().unwrap_or(0)
    }
}

/// What all nodes share.
pub(crate) struct Fleet {
    store: String,
    home: TempDir,
    chains: String,
    names: Vec<String>,
    signers: u32,
    statements: &'static str,
    more: String,
    http: Client,
}

impl Fleet {
    /// Nodes on this store, with so many keys.
    pub(crate) fn new(store: String, signers: u32) -> Result<Self> {
        // Another test of this process may have chosen it before.
        let _ = rustls::crypto::ring::default_provider().install_default();
        Ok(Self {
            store,
            home: TempDir::new()?,
            chains: String::new(),
            names: vec![],
            signers,
            statements: "",
            more: String::new(),
            http: Client::builder().timeout(Duration::from_secs(60)).build()?,
        })
    }

    /// With a chain; `more` is what its section has besides.
    pub(crate) fn chain(mut self, name: &str, id: u64, rpc: &[String], more: &str) -> Self {
        self.chains += &format!("[[chain]]\nname = \"{name}\"\nid = {id}\nrpc = {rpc:?}\n{more}\n");
        self.names.push(name.to_owned());
        self
    }

    /// With leases that soon run out.
    pub(crate) fn leasing_shortly(self) -> Self {
        let statements = SHORT_STATEMENTS;
        Self { statements, ..self }.with(SHORT_LEASE)
    }

    /// With further lines about the store.
    pub(crate) fn storing(self, statements: &'static str) -> Self {
        Self { statements, ..self }
    }

    /// With further sections.
    pub(crate) fn with(mut self, more: &str) -> Self {
        self.more += more;
        self
    }

    fn config(&self, id: &str) -> Result<PathBuf> {
        let text = format!(
            "[node]\nid = \"{id}\"\nlisten = \"127.0.0.1:0\"\ncluster_secret_env = \"CLUSTER_SECRET\"\n\
             [store]\nurl = \"{}\"\n{}{}\
             [[signer]]\nchains = {:?}\nkey.mnemonic_env = \"{PHRASE_VARIABLE}\"\nkey.count = {}\n{}",
            self.store, self.statements, self.chains, self.names, self.signers, self.more,
        );
        let file = self.home.path().join(format!("{id}.toml"));
        std::fs::write(&file, text)?;
        Ok(file)
    }

    /// Declares for a node that its store is meant to be new.
    pub(crate) async fn declare_new(&self, id: &str) -> Result<()> {
        let declared = Command::new(env!("CARGO_BIN_EXE_fencepost"))
            .args(["migrate", "--new-store", "--config"])
            .arg(self.config(id)?)
            .output();
        let output = tokio::time::timeout(wait::PATIENCE, declared).await??;
        ensure!(output.status.success(), "{output:?}");
        Ok(())
    }

    /// Starts a node and waits until it is ready.
    pub(crate) async fn start(&self, id: &str) -> Result<Member> {
        Member::start(&self.config(id)?, PHRASE, None, &self.http).await
    }

    /// The same, of one that dies at this point.
    #[cfg(debug_assertions)]
    pub(crate) async fn start_trapped(&self, id: &str, trap: &str) -> Result<Member> {
        let trap = Some(("FENCEPOST_TRAP", trap));
        Member::start(&self.config(id)?, PHRASE, trap, &self.http).await
    }

    /// The same, of one whose clock is ahead by so many seconds.
    #[cfg(debug_assertions)]
    pub(crate) async fn start_ahead(&self, id: &str, seconds: i64) -> Result<Member> {
        let seconds = seconds.to_string();
        let clock = Some(("FENCEPOST_CLOCK_AHEAD", seconds.as_str()));
        Member::start(&self.config(id)?, PHRASE, clock, &self.http).await
    }
}
