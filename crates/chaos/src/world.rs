//! What a run is made of: three nodes, their database, two chains, and everything that stands between them.

pub(crate) mod lane;
pub(crate) mod rpc;
pub(crate) mod anvil;
pub(crate) mod dev;
pub(crate) mod node;
pub(crate) mod config;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use fencepost_domain::Address;
use fencepost_signer::{KeySource, KeySpec, Keyring};
use fencepost_testkit::postgres::{Cluster, Database, Options};
use fencepost_testkit::proxy::Proxy;
use futures::future::try_join_all;
use reqwest::Client;
use tokio::time::sleep;

use crate::journal::Journal;
use crate::note::{Note, now};
use anvil::AnvilChain;
use dev::DevChain;
use lane::{Lane, SIGNERS, lanes};
use node::{Node, Ways};

pub(crate) const NAMES: [&str; 3] = ["a", "b", "c"];
/// How long a client waits for an answer, as people's code does.
const CLIENT_PATIENCE: Duration = Duration::from_secs(5);
/// How soon a node that has ended by itself is noticed.
const WATCH: Duration = Duration::from_millis(250);

pub(crate) struct World {
    pub(crate) journal: Journal,
    pub(crate) cluster: Cluster,
    pub(crate) database: Database,
    pub(crate) nodes: Vec<Node>,
    pub(crate) anvil: AnvilChain,
    pub(crate) dev: DevChain,
    pub(crate) lanes: Vec<Lane>,
    pub(crate) keys: Keyring,
    pub(crate) http: Client,
    /// Clients begin nothing new once this is set.
    pub(crate) closing: AtomicBool,
    /// Transactions that were acknowledged, and completions that were read: the load waits for the second
    /// when the first is too far ahead.
    pub(crate) acked: AtomicU64,
    pub(crate) completed: AtomicU64,
    /// The next payload's value, which names it on the chain.
    pub(crate) value_next: AtomicU64,
}

/// The node's program: beside ours, where cargo puts both.
fn program() -> Result<PathBuf> {
    let ours = std::env::current_exe()?;
    let program = ours.with_file_name("fencepost");
    ensure!(
        program.is_file(),
        "{} is not there: cargo build -p fencepost",
        program.display()
    );
    Ok(program)
}

async fn keys() -> Result<Keyring> {
    let source = KeySource::Mnemonic {
        phrase: config::PHRASE.into(),
        count: SIGNERS,
    };
    let address = None;
    match Keyring::open(vec![KeySpec { source, address }]).await {
        Ok(keyring) => Ok(keyring),
        Err(errors) => bail!("{errors:?}"),
    }
}

impl World {
    /// Starts everything; returns when all nodes are ready.
    pub(crate) async fn start(home: &Path) -> Result<Self> {
        let keys = keys().await?;
        let signers: Vec<Address> = keys.addresses().concat();
        let cluster = Cluster::start(Options::default()).await?;
        let database = cluster.create_database().await?;
        let anvil = AnvilChain::start(NAMES.len()).await?;
        let dev = DevChain::start(&signers, NAMES.len()).await?;
        let mut nodes = Vec::new();
        for (n, name) in NAMES.into_iter().enumerate() {
            let store = Proxy::start_forgetful(cluster.addr()?).await?;
            let ways = Ways {
                store: Arc::new(store),
            };
            let file = home.join(format!("{name}.toml"));
            let text = config::text(name, n, &database, &ways, (&anvil, &dev));
            std::fs::write(&file, text)?;
            let log = home.join(format!("{name}.log"));
            nodes.push(Node::new(name, ways, program()?, file, log));
        }
        let world = Self {
            journal: Journal::create(&home.join("clients.jsonl"))?,
            cluster,
            database,
            nodes,
            anvil,
            dev,
            lanes: lanes(&signers),
            keys,
            http: Client::builder().timeout(CLIENT_PATIENCE).build()?,
            closing: AtomicBool::new(false),
            acked: AtomicU64::new(0),
            completed: AtomicU64::new(0),
            value_next: AtomicU64::new(1),
        };
        let starts = world.nodes.iter().map(async |node| {
            let mut held = node.hold().await;
            held.start().await
        });
        try_join_all(starts)
            .await
            .context("the nodes do not start")?;
        Ok(world)
    }

    /// Notes every node that ends although nobody has ended it, and starts it again.
    pub(crate) async fn watch(&self, node: usize) -> Result<()> {
        loop {
            let mut held = self.nodes[node].hold().await;
            if let Some(how) = held.ended()? {
                let at = now();
                self.journal.note(&Note::Ended { at, node, how });
                held.start().await?;
            }
            drop(held);
            sleep(WATCH).await;
        }
    }

    /// Undoes whatever still stands between nodes, store and chains.
    pub(crate) fn mend(&self) -> Result<()> {
        for (n, node) in self.nodes.iter().enumerate() {
            let of_dev = (0..dev::ENDPOINTS).map(|endpoint| self.dev.way(n, endpoint));
            let ways = [&node.ways.store, self.anvil.way(n)];
            for way in ways.into_iter().chain(of_dev) {
                way.accept();
                // Whatever was held or swallowed on these connections stays lost: they end.
                way.cut();
            }
        }
        self.dev.be_honest()
    }
}
