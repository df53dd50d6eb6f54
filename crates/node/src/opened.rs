//! Opening the store, and finding out whether it is the one that this node worked on before: another store by accident,
//! or an old primary that came back, would have payments executed a second time.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use fencepost_app::directory::{NewSeat, Start};
use fencepost_app::ports::{Chain, Clock, CountMode, Peers, Store, StoreError, Terms};
use fencepost_app::store_memory::StoreMemory;
use fencepost_domain::ids::Lane;
use fencepost_domain::store_identity::{FoundStore, Meeting, StoreId, meet};
use fencepost_postgres::PostgresStore;
use fencepost_sqlite::SqliteStore;
use futures::future::join_all;
use secrecy::ExposeSecret;

use crate::config::node::Node;
use crate::config::store::{self, Place};
use crate::failure::Failure;
use crate::hardening;
use crate::keyring::Lanes;
use crate::state_file::StateFile;

/// How long another node has to say which store it works on. Longer delays the start by as much where one is dead;
/// shorter, and a busy one is not heard.
const ASK_LIMIT: Duration = Duration::from_secs(2);

/// How many signers are counted at once before the node starts. More asks endpoints faster than some allow.
const COUNTS_AT_ONCE: usize = 32;
/// How long a start counts. Longer delays the start of a node with very many signers, shorter finds a wrong store later.
const COUNTS_LIMIT: Duration = Duration::from_secs(5);

/// What `migrate --new-store` is for, at the end of each refusal that it lifts.
const DECLARE: &str = "check store.url and store.schema; if the store is meant to be new, run `fencepost migrate --new-store` with this configuration";

/// The store, before it is known which one it is.
#[derive(Clone)]
pub(crate) enum Opened {
    Sqlite(Arc<SqliteStore>),
    Postgres(Arc<PostgresStore>),
}

/// Where the node keeps its state.
pub(crate) fn state(node: &Node) -> PathBuf {
    let directory = node.state_dir.as_deref().unwrap_or(Path::new(""));
    StateFile::of(directory, &node.id).path().to_path_buf()
}

/// What this node knows of its store. One that has no place for it takes its store as it is.
pub(crate) fn memory(node: &Node) -> Result<Arc<StoreMemory>, Failure> {
    let Some(directory) = &node.state_dir else {
        return Ok(Arc::new(StoreMemory::unkept()));
    };
    let file = StateFile::of(directory, &node.id);
    let kept = file.read()?;
    Ok(Arc::new(StoreMemory::new(kept, Box::new(file))))
}

impl Opened {
    /// Opens the store and brings its schema up to date; nodes that start together wait for each other.
    pub(crate) async fn open(
        store: &store::Store,
        terms: Terms,
        clock: &Arc<dyn Clock>,
        memory: &Arc<StoreMemory>,
    ) -> Result<Self, StoreError> {
        match &store.place {
            Place::Sqlite(file) => {
                let opened = SqliteStore::open(file, terms, Arc::clone(clock))?;
                hardening::warn_if_shared(file);
                Ok(Self::Sqlite(Arc::new(opened)))
            }
            Place::Postgres(url) => {
                let settings = fencepost_postgres::Settings {
                    url: url.expose_secret().to_owned(),
                    schema: store.schema.0.clone(),
                    tls: store.tls.clone(),
                    password: store.password.clone(),
                    terms,
                    write_connections: store.write_connections,
                    read_connections: store.read_connections,
                    client_connections: store.client_connections,
                    statement_timeout: store.statement_timeout,
                    application_name: store.application_name.clone(),
                    failover: store.failover,
                    kept: Arc::clone(memory),
                };
                let opened = PostgresStore::open(settings).await?;
                Ok(Self::Postgres(Arc::new(opened)))
            }
        }
    }

    pub(crate) fn store(&self) -> Arc<dyn Store> {
        match self {
            Self::Sqlite(store) => Arc::clone(store) as Arc<dyn Store>,
            Self::Postgres(store) => Arc::clone(store) as Arc<dyn Store>,
        }
    }

    pub(crate) async fn describe(&self) -> Result<FoundStore, StoreError> {
        match self {
            Self::Sqlite(store) => store.describe().await,
            Self::Postgres(store) => store.describe().await,
        }
    }

    pub(crate) async fn declare_new(
        &self,
        instead_of: Option<StoreId>,
    ) -> Result<StoreId, StoreError> {
        match self {
            Self::Sqlite(store) => store.declare_new(instead_of).await,
            Self::Postgres(store) => store.declare_new(instead_of).await,
        }
    }

    /// Where nodes of the store were reached.
    async fn known_urls(&self) -> Result<Vec<String>, StoreError> {
        match self {
            // A file has one node.
            Self::Sqlite(_) => Ok(Vec::new()),
            Self::Postgres(store) => store.known_urls().await,
        }
    }

    /// Refuses another store than the one that this node knows. True where the store is empty and unknown.
    pub(crate) async fn meet(&self, memory: &StoreMemory, state: &Path) -> Result<bool, Failure> {
        let found = self.describe().await.map_err(unopened)?;
        match meet(memory.store(), &found) {
            Meeting::Another(known) => {
                let (known, here, state) = (known.0, found.id.0, state.display());
                let why = format!(
                    "{state} remembers the store {known} and this one is {here}: {DECLARE}"
                );
                return Err(Failure::new("this is another store", why));
            }
            Meeting::Declared => {
                memory.met(found.id);
                memory.get_acquainted();
            }
            Meeting::Known | Meeting::First => memory.met(found.id),
        }
        Ok(found.is_empty && !memory.is_acquainted())
    }

    /// Asks the other nodes of the store which server they work on. After a newer one was heard of, the store must be
    /// reached there.
    pub(crate) async fn compare_with_peers(
        &self,
        memory: &StoreMemory,
        peers: &dyn Peers,
        own_url: &str,
    ) -> Result<(), Failure> {
        let mut urls = memory.peers();
        urls.extend(self.known_urls().await.map_err(unopened)?);
        urls.sort_unstable();
        urls.dedup();
        let others = urls.iter().filter(|url| *url != own_url);
        let asked = others.map(|url| peers.ask_store(url, ASK_LIMIT));
        let mut is_left = false;
        for other in join_all(asked).await.into_iter().flatten().flatten() {
            is_left |= memory.heard(&other);
            if memory.is_vouched(&other) {
                memory.get_acquainted();
            }
        }
        if is_left {
            self.describe().await.map_err(unopened)?;
        }
        Ok(())
    }
}

/// An empty store that this node does not know must not be used for signers that have sent transactions before: what was
/// accepted and paid is in another store. Where the chain does not answer now, lanes are compared with it later.
pub(crate) async fn refuse_used_signers(chain: &dyn Chain, lanes: &Lanes) -> Result<(), Failure> {
    let is_unset = |lane: &&NewSeat| matches!(lane.start, Start::Unset(_));
    let unset: Vec<Lane> = lanes.iter().filter(is_unset).map(|new| new.lane).collect();
    let began = Instant::now();
    for few in unset.chunks(COUNTS_AT_ONCE) {
        let counts = few.iter().map(|lane| chain.count(*lane, CountMode::Latest));
        for (lane, count) in few.iter().zip(join_all(counts).await) {
            let Ok(count) = count else { continue };
            let sent = count.highest.get();
            if sent > 0 {
                let (signer, chain) = (lane.signer, lane.chain);
                let why = format!(
                    "the store is empty and unknown to this node, but signer {signer} has sent {sent} transactions on chain {chain}: {DECLARE}, or set [[signer]] start"
                );
                return Err(Failure::new("this may be the wrong store", why));
            }
        }
        // The rest is compared while the node runs.
        if began.elapsed() > COUNTS_LIMIT {
            break;
        }
    }
    Ok(())
}

pub(crate) fn unopened(error: StoreError) -> Failure {
    Failure::new("the store cannot be opened", error)
}
