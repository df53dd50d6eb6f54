//! How many statements a transaction takes from its create to CONFIRMED, and how many requests go to its chain (a
//! JSON-RPC batch is one): the real application, JSON-RPC client and keys, with SQLite in memory and devchain, in virtual
//! time. A statement and a request take a while of that time, as they do in life: what comes meanwhile is done together.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};
use async_trait::async_trait;
use fencepost_app::lifecycle::accept::{Origin, Verdict};
use fencepost_app::node::Node;
use fencepost_app::ports::{
    Body, Clock, NewTx, READ_LIMIT_MAX, Signer, Store, StoreError, Watched, Watcher,
};
use fencepost_app::settings::Settings;
use fencepost_devchain::{Config, Devchain, EndpointConfig, EndpointId, Shared};
use fencepost_domain::flat::Name;
use fencepost_domain::ids::{FeedSeq, Lane, TxId};
use fencepost_domain::request::{Draft, Payload};
use fencepost_domain::{Address, U256};
use fencepost_evm::{ChainConfig, Chains, Meters, Response, Transport, TransportError};
use fencepost_signer::{KeySource, KeySpec, Keyring};
use fencepost_sqlite::SqliteStore;
use futures::future::try_join_all;
use prometheus_client::registry::Registry;
use tokio::time::{Instant, sleep, timeout};
use uuid::Builder;

use crate::alone::Hands;
use crate::figures::{Figures, per};
use crate::node::{CEILINGS, CHAIN, Outside, chain_id};

const PHRASE: &str = "test test test test test test test test test test test junk";
/// How long a statement takes.
const STATEMENT: Duration = Duration::from_millis(2);
/// How long a request to the chain takes.
const REQUEST: Duration = Duration::from_millis(5);
const BLOCK_EVERY: Duration = Duration::from_secs(1);
/// Requests come in waves of so many, so often.
const WAVE: u64 = 50;
const WAVE_EVERY: Duration = Duration::from_millis(50);
/// How often it is looked whether all have ended, and when that is given up.
const LOOK_EVERY: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_mins(10);
/// Without a failover of the database this sends it no statement.
const NO_STATEMENT: &str = "vouch";
/// Operations that write nothing.
const READS: [&str; 21] = [
    "ping",
    "now",
    "backlog",
    "paused_lanes",
    "listing",
    "orphans",
    "unwatched",
    "lane",
    "lanes",
    "gaps",
    "queued",
    "queued_lanes",
    "remedy_lanes",
    "acts",
    "find",
    "find_many",
    "page",
    "unfinished",
    "history",
    "attempts",
    "completions",
];
/// Writes that have a figure of their own; `writes` has them too.
const TOLD: [&str; 4] = ["create", "apply", "complete", "claim_due"];

/// Counts statements, by what they are for.
#[derive(Default)]
struct Statements(Mutex<BTreeMap<&'static str, u64>>);

impl Statements {
    fn count(&self, op: &'static str) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *counts.entry(op).or_default() += 1;
    }
}

#[async_trait]
impl Watcher for Statements {
    async fn before(&self, op: &'static str) -> Result<(), StoreError> {
        if op == NO_STATEMENT {
            return Ok(());
        }
        self.count(op);
        sleep(STATEMENT).await;
        Ok(())
    }

    async fn after(&self, _: &'static str, _: Duration) -> Result<(), StoreError> {
        Ok(())
    }
}

/// The way to the chain's one endpoint, which counts.
struct Wire {
    chain: Shared,
    requests: Arc<AtomicU64>,
}

#[async_trait]
impl Transport for Wire {
    async fn post(&self, body: String, within: Duration) -> Result<Response, TransportError> {
        self.requests.fetch_add(1, Ordering::Relaxed);
        sleep(REQUEST).await;
        let called = timeout(within, self.chain.call(EndpointId(0), body)).await;
        let answered = called.map_err(|_| TransportError::TimedOut)?;
        let (status, body) = answered.map_err(|cut| TransportError::Broken(cut.to_string()))?;
        Ok(Response {
            status,
            body: body.into_bytes(),
        })
    }
}

/// Statements and requests of so many transactions of so many signers, for each transaction.
pub(crate) async fn measure(signers: u32, count: u64) -> Result<Figures> {
    let keys = Keyring::open(vec![KeySpec {
        source: KeySource::Mnemonic {
            phrase: PHRASE.into(),
            count: signers,
        },
        address: None,
    }]);
    let keys = keys.await;
    let keys = keys.map_err(|errors| anyhow!("the keys cannot be opened: {errors:?}"))?;
    let chain = chain_id()?;
    let accounts = keys.addresses().first().context("there are keys")?;
    let lane = |signer: &Address| Lane {
        chain,
        signer: *signer,
    };
    let lanes: Vec<Lane> = accounts.iter().map(lane).collect();
    let devchain = devchain(accounts);
    let settings = Settings::default();
    let hands = Arc::new(Hands::new());
    let store = SqliteStore::in_memory(settings.lease, Arc::clone(&hands) as Arc<dyn Clock>)?;
    let store = Arc::new(store);
    let statements = Arc::new(Statements::default());
    let requests = Arc::new(AtomicU64::new(0));
    let working = Outside {
        store: Arc::new(Watched::new(
            Arc::clone(&store) as Arc<dyn Store>,
            Arc::clone(&statements) as Arc<dyn Watcher>,
        )),
        hands,
        chain: Some(Arc::new(chains(&devchain, &requests)?)),
        signer: Some(Arc::new(keys) as Arc<dyn Signer>),
        lanes: lanes.clone(),
        settings,
    };
    let working = working.start().await?;
    let miner = tokio::spawn(mine(devchain));
    put(&working.node, &lanes, count).await?;
    until_ended(&*store, count).await?;
    let statements = statements.0.lock().unwrap_or_else(PoisonError::into_inner);
    let figures = figures(&statements, requests.load(Ordering::Relaxed), count);
    miner.abort();
    drop(working.running);
    figures
}

fn figures(statements: &BTreeMap<&'static str, u64>, requests: u64, count: u64) -> Result<Figures> {
    let sum = |reads: bool| -> u64 {
        let of_kind = statements
            .iter()
            .filter(|(op, _)| READS.contains(op) == reads);
        of_kind.map(|(_, count)| count).sum()
    };
    let mut figures: Figures = [
        ("reads".to_owned(), per(sum(true), count)?),
        ("writes".to_owned(), per(sum(false), count)?),
        ("rpc_requests".to_owned(), per(requests, count)?),
    ]
    .into();
    for op in TOLD {
        let asked = statements.get(op).copied().unwrap_or_default();
        figures.insert(op.to_owned(), per(asked, count)?);
    }
    Ok(figures)
}

fn devchain(accounts: &[Address]) -> Shared {
    let ether = U256::from(10_u64.pow(18)) * U256::from(1_000);
    Shared::new(Devchain::new(Config {
        chain_id: 1,
        accounts: accounts.iter().map(|each| (*each, ether)).collect(),
        endpoints: vec![EndpointConfig::new("0")],
        ..Config::default()
    }))
}

fn chains(devchain: &Shared, requests: &Arc<AtomicU64>) -> Result<Chains> {
    let wire = Wire {
        chain: devchain.clone(),
        requests: Arc::clone(requests),
    };
    let wires = vec![Arc::new(wire) as Arc<dyn Transport>];
    let config = ChainConfig::new(chain_id()?, CHAIN, wires);
    let meters = Meters::register(&mut Registry::default());
    Ok(Chains::new(vec![config], &meters))
}

async fn mine(devchain: Shared) {
    loop {
        sleep(BLOCK_EVERY).await;
        let mut chain = devchain.lock();
        let next = chain.head().header.timestamp + 1;
        chain.mine(next);
    }
}

/// Puts all requests, wave by wave, whether or not those before have their answers.
async fn put(node: &Arc<Node>, lanes: &[Lane], count: u64) -> Result<()> {
    let mut waves = Vec::new();
    let mut turn = lanes.iter().cycle();
    for first in (0..count).step_by(usize::try_from(WAVE)?) {
        let mut wave = Vec::new();
        for n in first..count.min(first + WAVE) {
            let lane = turn.next().context("there are lanes")?;
            let seat = node.directory().seat(*lane).context("it has all lanes")?;
            wave.push((seat, transfer(n)?));
        }
        let node = Arc::clone(node);
        waves.push(tokio::spawn(async move {
            let answers = wave.into_iter().map(|(seat, tx)| {
                let pending = node.submit(seat, tx, Origin::Client);
                node.settle(pending)
            });
            for verdict in futures::future::join_all(answers).await {
                if !matches!(verdict, Verdict::New(_)) {
                    bail!("a create was refused: {verdict:?}");
                }
            }
            Ok(())
        }));
        sleep(WAVE_EVERY).await;
    }
    try_join_all(waves).await?.into_iter().collect()
}

fn transfer(n: u64) -> Result<NewTx> {
    let draft = Draft {
        to: Some(Address::repeat_byte(9).to_string()),
        value: Some("1".to_owned()),
        gas: Some("21000".to_owned()),
        ..Draft::default()
    };
    let Ok(payload) = Payload::parse(&draft, CEILINGS) else {
        bail!("the payload is refused");
    };
    let mut rest = [0; 10];
    rest[2..].copy_from_slice(&n.to_be_bytes());
    let id = Builder::from_unix_timestamp_millis(1_760_000_000_000 + n, &rest);
    Ok(NewTx {
        tx: TxId(id.into_uuid()),
        seal: None,
        request_id: None,
        body: Body::Managed(payload),
        not_after: None,
        meta: None,
        created_by: None,
    })
}

/// Waits until all are CONFIRMED: what ends otherwise would cost less.
async fn until_ended(store: &dyn Store, count: u64) -> Result<()> {
    let began = Instant::now();
    let mut after = FeedSeq::ZERO;
    let mut ended = 0;
    while ended < count {
        ensure!(
            began.elapsed() < LONGEST,
            "only {ended} of {count} have ended"
        );
        let feed = store.completions(after, READ_LIMIT_MAX).await?;
        for told in &feed.completions {
            ensure!(
                told.state == Name::Confirmed,
                "it ended otherwise: {told:?}"
            );
            after = told.seq;
            ended += 1;
        }
        sleep(LOOK_EVERY).await;
    }
    Ok(())
}
