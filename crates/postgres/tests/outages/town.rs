//! Two nodes, each with its own way to a primary that has a standby: what proofs about failovers begin with.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use fencepost_app::ports::{Acquired, Bid, Holder, PauseReason, Store, StoreError, Terms, Vouched};
use fencepost_domain::failover::Loss;
use fencepost_domain::ids::{FeedSeq, LaneId, NodeId};
use fencepost_domain::state::Wait;
use fencepost_postgres::{Failover, PostgresStore, Settings};
use fencepost_store_tests::bench::{Seat, only, url};
use fencepost_store_tests::builders::{lane, tx};
use fencepost_testkit::postgres::{Cluster, Database, Options, Standby, Stop};
use fencepost_testkit::proxy::Proxy;
use fencepost_testkit::wait;

use super::post::{LONG, settings, sit, take};

/// So short that a proof can wait for the end of a lease, and long enough for a busy machine.
pub(crate) const BRIEF: Terms = Terms {
    duration: Duration::from_secs(4),
    skew: Duration::from_millis(100),
};

/// For proofs that wait for the end of a lease and need it to outlive a promotion.
pub(crate) const SHORT_LEASE: Terms = Terms {
    duration: Duration::from_secs(10),
    skew: Duration::from_millis(100),
};

/// One node, as its process would be.
pub(crate) struct Node {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) proxy: Proxy,
    pub(crate) holder: Holder,
}

impl Node {
    pub(crate) async fn start(
        database: &Database,
        name: &str,
        terms: Terms,
        how: Failover,
    ) -> Result<Self> {
        let proxy = Proxy::start(database.server().addr()?).await?;
        let settings = Settings {
            terms,
            failover: how,
            ..settings(name, database.url_through(proxy.addr()), LONG)
        };
        let store: Arc<dyn Store> = Arc::new(PostgresStore::open(settings).await?);
        let holder = sit(&store, name, 100 + name.as_bytes()[0] % 50)
            .await?
            .holder;
        Ok(Self {
            store,
            proxy,
            holder,
        })
    }

    /// A node that starts on a server of the caller's choice and leads nothing.
    pub(crate) async fn join(
        database: &Database,
        server: SocketAddr,
        name: &str,
        terms: Terms,
    ) -> Result<Self> {
        let proxy = Proxy::start(server).await?;
        let settings = Settings {
            terms,
            failover: Failover::Witness,
            ..settings(name, database.url_through(proxy.addr()), LONG)
        };
        let store: Arc<dyn Store> = Arc::new(PostgresStore::open(settings).await?);
        let node = NodeId::new(name)?;
        let incarnation = store.join(&node, &url(name)).await?;
        Ok(Self {
            store,
            proxy,
            holder: Holder { node, incarnation },
        })
    }

    pub(crate) async fn lead(&self, n: u8) -> Result<Seat> {
        take(&self.store, self.holder.clone(), n).await
    }

    /// Another request waits in a lane that this node does not lead.
    pub(crate) async fn enqueue(&self, lane: LaneId, n: u64) -> Result<()> {
        self.store
            .enqueue(&[(lane, tx(n))], Wait::Leader, 100)
            .await?;
        Ok(())
    }

    /// Bids for a lane until a server answers.
    pub(crate) async fn bid(&self, lane: LaneId, fresh: bool) -> Result<Acquired> {
        let url = url(self.holder.node.as_str());
        let bids = [Bid { lane, fresh }];
        wait::until("a bid is answered", || async {
            let answer = self.store.acquire(&self.holder, &url, &bids).await;
            Ok(answer.ok().map(only))
        })
        .await
    }

    /// Says what it misses, without a look at the server before.
    pub(crate) async fn vouch_first(&self) -> Result<Vouched> {
        wait::until("the node reports", || async {
            match self.store.vouch(&self.holder).await {
                Ok(said) => Ok(Some(said)),
                Err(StoreError::Unavailable(_) | StoreError::OutcomeUnknown(_)) => Ok(None),
                Err(error) => Err(error.into()),
            }
        })
        .await
    }

    /// The node meets the server that it is led to now, and says what it misses.
    pub(crate) async fn vouch(&self) -> Result<Vouched> {
        wait::until("the node reaches the server", || async {
            Ok(self.store.ping().await.is_ok().then_some(()))
        })
        .await?;
        Ok(self.store.vouch(&self.holder).await?)
    }

    pub(crate) async fn paused(&self, n: u8) -> Result<Option<PauseReason>> {
        let view = self.store.lane(lane(n)).await?;
        Ok(view.and_then(|view| view.paused))
    }

    pub(crate) async fn epoch(&self) -> Result<u64> {
        Ok(self.store.completions(FeedSeq::default(), 10).await?.epoch)
    }
}

/// A primary with a standby, and two nodes.
pub(crate) struct Town {
    pub(crate) primary: Cluster,
    pub(crate) standby: Standby,
    pub(crate) database: Database,
    pub(crate) a: Node,
    pub(crate) b: Node,
}

pub(crate) async fn town(terms: Terms, how: Failover) -> Result<Town> {
    let primary = Cluster::start(Options::default()).await?;
    let standby = primary.standby().await?;
    let database = primary.create_database().await?;
    let a = Node::start(&database, "a", terms, how).await?;
    let b = Node::start(&database, "b", terms, how).await?;
    Ok(Town {
        primary,
        standby,
        database,
        a,
        b,
    })
}

/// The primary dies, the standby takes its place, and the nodes are led to it.
pub(crate) async fn fail_over(
    primary: &Cluster,
    standby: Standby,
    nodes: &[&Node],
) -> Result<Cluster> {
    primary.stop(Stop::Immediate).await?;
    let promoted = standby.promote().await?;
    for node in nodes {
        node.proxy.retarget(promoted.addr()?);
        node.proxy.cut();
    }
    Ok(promoted)
}

pub(crate) fn held() -> Option<PauseReason> {
    Some(PauseReason::Failover)
}

/// What a node reported of this lane.
pub(crate) fn loss(said: &Vouched, lane: LaneId) -> Option<&Loss> {
    let found = said.lost.iter().find(|(of, _)| *of == lane);
    found.map(|(_, loss)| loss)
}
