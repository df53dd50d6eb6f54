//! A world with a chain in it: a devchain behind the real JSON-RPC client, real keys, and a miner.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use fencepost_app::ports::{Completion, NewTx, Record, Store};
use fencepost_devchain::{Config, Devchain, EndpointConfig, EndpointId, Fault, FaultKind, Shared};
use fencepost_domain::ids::{ChainId, FeedSeq, Lane};
use fencepost_domain::request::{Ceilings, Draft, Payload};
use fencepost_domain::state::State;
use fencepost_domain::{Address, U256};
use fencepost_evm::{ChainConfig, Chains, Meters, Response, Transport, TransportError};
use fencepost_signer::{KeySource, KeySpec, Keyring};
use prometheus_client::registry::Registry;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::nodes::{Member, World, accepted, pass, unnamed};

const GWEI: u128 = 1_000_000_000;
const PHRASE: &str = "test test test test test test test test test test test junk";

/// One endpoint of the devchain, without sockets.
struct Wire {
    chain: Shared,
    endpoint: EndpointId,
}

#[async_trait]
impl Transport for Wire {
    async fn post(&self, body: String, within: Duration) -> Result<Response, TransportError> {
        match timeout(within, self.chain.call(self.endpoint, body)).await {
            Err(_) => Err(TransportError::TimedOut),
            Ok(Err(cut)) => Err(TransportError::Broken(cut.to_string())),
            Ok(Ok((status, body))) => Ok(Response {
                status,
                body: body.into_bytes(),
            }),
        }
    }
}

/// A world with a chain.
pub(crate) struct Life {
    pub(crate) world: World,
    pub(crate) chain: Shared,
    pub(crate) lanes: Vec<Lane>,
    miner: Option<JoinHandle<()>>,
}

impl Drop for Life {
    fn drop(&mut self) {
        self.rest();
    }
}

impl Life {
    /// With so many endpoints and accounts; a block a second.
    pub(crate) async fn new(endpoints: usize, accounts: u32) -> Self {
        let source = KeySource::Mnemonic {
            phrase: PHRASE.into(),
            count: accounts,
        };
        let spec = KeySpec {
            source,
            address: None,
        };
        let keyring = Keyring::open(vec![spec]).await.unwrap();
        let addresses = keyring.addresses()[0].clone();
        let ether = U256::from(10_u64.pow(18)) * U256::from(1_000);
        let chain = Shared::new(Devchain::new(Config {
            chain_id: 1,
            accounts: addresses.iter().map(|each| (*each, ether)).collect(),
            endpoints: (0..endpoints)
                .map(|n| EndpointConfig::new(&n.to_string()))
                .collect(),
            ..Config::default()
        }));
        let mut world = World::new();
        world.main.ceilings = Ceilings {
            max_fee: 500 * GWEI,
            max_priority_fee: 50 * GWEI,
        };
        world.settings.chain_query = Some(fencepost_app::ports::CountMode::Pending);
        world.settings.resubmit_interval = Some(Duration::from_secs(5));
        world.settings.stale_receipt_timeout = Duration::from_secs(5);
        let id = ChainId::new(1).unwrap();
        let lane = |signer: &Address| Lane {
            chain: id,
            signer: *signer,
        };
        let lanes: Vec<Lane> = addresses.iter().map(lane).collect();
        world.lanes.clone_from(&lanes);
        world.signer = Some(Arc::new(keyring));
        let mut life = Self {
            world,
            chain,
            lanes,
            miner: None,
        };
        life.connect(endpoints);
        life.work();
        life
    }

    /// The JSON-RPC client of a node that starts now.
    fn connect(&mut self, endpoints: usize) {
        let wires = (0..endpoints).map(|n| {
            let wire = Wire {
                chain: self.chain.clone(),
                endpoint: EndpointId(n),
            };
            Arc::new(wire) as Arc<dyn Transport>
        });
        let id = ChainId::new(1).unwrap();
        let mut config = ChainConfig::new(id, "main", wires.collect());
        config.deadline = Duration::from_secs(1);
        let meters = Meters::register(&mut Registry::default());
        self.world.chain = Some(Arc::new(Chains::new(vec![config], &meters)));
    }

    /// A block a second, from now on.
    pub(crate) fn work(&mut self) {
        let chain = self.chain.clone();
        let mine = async move {
            let mut time = 1_800_000_000;
            loop {
                tokio::time::sleep(Duration::from_secs(1)).await;
                time += 1;
                chain.lock().mine(time);
            }
        };
        self.rest();
        self.miner = Some(tokio::spawn(mine));
    }

    /// No blocks until it works again.
    pub(crate) fn rest(&mut self) {
        if let Some(miner) = self.miner.take() {
            miner.abort();
        }
    }

    pub(crate) fn mine(&self, blocks: u64) {
        let mut chain = self.chain.lock();
        for _ in 0..blocks {
            let next = chain.head().header.timestamp + 1;
            chain.mine(next);
        }
    }

    pub(crate) fn fault(&self, endpoint: usize, fault: Fault) {
        let mut chain = self.chain.lock();
        chain.add_fault(EndpointId(endpoint), fault).unwrap();
    }

    pub(crate) fn heal(&self) {
        let mut chain = self.chain.lock();
        let all: Vec<EndpointId> = chain.endpoints().map(|(id, _)| id).collect();
        for endpoint in all {
            chain.clear_faults(endpoint, None).unwrap();
        }
    }

    /// Accepts so many transfers in a lane.
    pub(crate) async fn send(&self, node: &Member, lane: Lane, count: u64) -> Vec<Record> {
        let mut records = Vec::new();
        for n in 0..count {
            records.push(accepted(node.ask(lane, transfer(n + 1)).await));
        }
        records
    }

    /// Waits until nothing of these lanes is unfinished.
    pub(crate) async fn until_ended(&self) {
        self.world
            .until("all have ended", async || {
                for lane in &self.lanes {
                    let rows = self.world.rows(*lane).await;
                    if !rows.iter().all(|row| row.state.is_final()) {
                        return false;
                    }
                }
                true
            })
            .await;
    }

    /// Waits until a row is in a state with this name and sub-state.
    pub(crate) async fn until_state(&self, record: &Record, words: &str) {
        self.world
            .until(words, async || self.words(record).await == words)
            .await;
    }

    pub(crate) async fn words(&self, record: &Record) -> String {
        let state = self.world.record(record.tx).await.state;
        words(&state)
    }

    pub(crate) async fn feed(&self) -> Vec<Completion> {
        let feed = self.world.store.completions(FeedSeq::ZERO, 1_000).await;
        feed.unwrap().completions
    }

    /// Store and chain tell the same story: each nonce once, by the transaction that holds it, with one of
    /// its own hashes and with the same result; and nothing on chain that we do not know.
    pub(crate) async fn check(&self) {
        for lane in &self.lanes {
            let mined = self.chain.lock().mined_of(lane.signer);
            let rows = self.world.rows(*lane).await;
            let mut held: Vec<(u64, fencepost_domain::B256)> = Vec::new();
            for row in &rows {
                let Some(nonce) = row.state.nonce() else {
                    continue;
                };
                let hash = row.state.hash().unwrap();
                held.push((nonce.get(), hash));
                let attempts = self.world.store.attempts(&[row.tx]).await.unwrap();
                assert!(attempts.iter().any(|each| each.attempt.hash == hash));
            }
            held.sort_unstable();
            let on_chain: Vec<_> = mined.iter().map(|each| (each.nonce, each.hash)).collect();
            assert_eq!(on_chain, held, "{lane:?}");
        }
    }

    /// The feed has no holes, and each transaction's newest row in it is its end.
    pub(crate) async fn check_feed(&self) {
        let feed = self.feed().await;
        let seqs: Vec<u64> = feed.iter().map(|row| row.seq.get()).collect();
        let len = u64::try_from(seqs.len()).unwrap();
        assert_eq!(seqs, (1..=len).collect::<Vec<_>>());
        for lane in &self.lanes {
            for row in self.world.rows(*lane).await {
                // A nonce that was given back ended nothing.
                if matches!(row.state, State::Recyclable(_)) {
                    continue;
                }
                let last = feed.iter().rev().find(|told| told.tx == row.tx).unwrap();
                assert_eq!(last.state, row.state.name());
            }
        }
    }
}

pub(crate) fn words(state: &State) -> String {
    match state.sub() {
        Some(sub) => format!("{}/{sub}", state.name().word()),
        None => state.name().word().to_owned(),
    }
}

pub(crate) fn transfer(wei: u64) -> NewTx {
    with(Draft {
        to: Some(Address::repeat_byte(9).to_string()),
        value: Some(wei.to_string()),
        gas: Some("21000".to_owned()),
        ..Draft::default()
    })
}

pub(crate) fn with(draft: Draft) -> NewTx {
    let ceilings = Ceilings {
        max_fee: 500 * GWEI,
        max_priority_fee: 50 * GWEI,
    };
    let payload = Payload::parse(&draft, ceilings).unwrap();
    NewTx {
        body: fencepost_app::ports::Body::Managed(payload),
        ..unnamed()
    }
}

/// Sends of this kind, as often as it says.
pub(crate) fn on_send(kind: FaultKind) -> Fault {
    Fault::new(kind).on("eth_sendRawTransaction")
}

pub(crate) async fn seconds(n: u64) {
    pass(Duration::from_secs(n)).await;
}
