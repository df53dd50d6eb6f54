//! The post that proofs stand at: a database, a node that reaches it through a proxy, and a second
//! handle that reaches it directly, for preparing and for looking.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use fencepost_app::ports::{Bid, Held, Holder, Store, Terms};
use fencepost_domain::ids::NodeId;
use fencepost_postgres::{Failover, PostgresStore, Settings};
use fencepost_store_tests::bench::{Seat, leading, only, url};
use fencepost_store_tests::builders::lane;
use fencepost_store_tests::dump::Dump;
use fencepost_testkit::gate::{Gate, Level, Place, is_session};
use fencepost_testkit::postgres::{Database, shared};
use fencepost_testkit::proxy::Proxy;
use fencepost_testkit::wait;
use tokio_postgres::Client;

/// No lease ends in the middle of a proof.
pub(crate) const TERMS: Terms = Terms {
    duration: Duration::from_mins(10),
    skew: Duration::from_mins(1),
};

/// A statement timeout so long that no proof meets it unless it wants to.
pub(crate) const LONG: Duration = Duration::from_secs(20);

/// One so short that a proof can wait for several of them, and long enough for a busy machine.
pub(crate) const SHORT: Duration = Duration::from_secs(1);

/// How long a call may take whose statements time out after [`SHORT`]: four times that, and once more
/// for a busy machine.
pub(crate) const BOUND: Duration = Duration::from_secs(5);

/// The message that ends a statement on the wire: without it nothing commits.
pub(crate) const SYNC: &[u8] = b"S\0\0\0\x04";

/// Where a proof stands.
pub(crate) struct Post {
    pub(crate) database: Database,
    pub(crate) proxy: Proxy,
    /// The node under proof, whose bytes go through the proxy.
    pub(crate) node: Arc<PostgresStore>,
    /// The seat of that node, seen through a sound handle.
    pub(crate) seat: Seat,
    /// A session that only looks.
    pub(crate) onlooker: Client,
}

/// One writer, so that "the writer's connection" is a name; its sessions are called `name`.
pub(crate) fn settings(name: &str, url: String, statement_timeout: Duration) -> Settings {
    Settings {
        terms: TERMS,
        write_connections: 1,
        read_connections: 2,
        statement_timeout,
        application_name: name.to_owned(),
        // What is proved here is what happens before anybody vouches for a lane.
        failover: Failover::Hold,
        ..Settings::new(url)
    }
}

/// A handle on a migrated database, past every proxy.
pub(crate) async fn direct(database: &Database) -> Result<Arc<PostgresStore>> {
    let settings = Settings {
        write_connections: 4,
        ..settings("direct", database.url(), LONG)
    };
    Ok(Arc::new(PostgresStore::open(settings).await?))
}

/// A node of this name joins and takes the n-th lane.
pub(crate) async fn sit(store: &Arc<dyn Store>, name: &str, n: u8) -> Result<Seat> {
    let node = NodeId::new(name)?;
    let incarnation = store.join(&node, &url(name)).await?;
    take(store, Holder { node, incarnation }, n).await
}

/// A node that has joined takes the n-th lane.
pub(crate) async fn take(store: &Arc<dyn Store>, holder: Holder, n: u8) -> Result<Seat> {
    let id = only(store.open_lanes(&[lane(n)]).await?);
    let bid = Bid {
        lane: id,
        fresh: false,
    };
    let lead = leading(only(
        store
            .acquire(&holder, &url(holder.node.as_str()), &[bid])
            .await?,
    ));
    Ok(Seat {
        store: Arc::clone(store),
        holder,
        held: Held {
            lane: id,
            token: lead.token,
        },
        lane: lane(n),
    })
}

impl Post {
    /// A node that leads lane 1 of a fresh database on the shared server.
    pub(crate) async fn new(statement_timeout: Duration) -> Result<Self> {
        Self::on(shared().await?.create_database().await?, statement_timeout).await
    }

    /// The same on a database of the caller's choice.
    pub(crate) async fn on(database: Database, statement_timeout: Duration) -> Result<Self> {
        let store: Arc<dyn Store> = direct(&database).await?;
        let seat = sit(&store, "a", 1).await?;
        let proxy = Proxy::start(database.server().addr()?).await?;
        let through = database.url_through(proxy.addr());
        let node = PostgresStore::attach(settings("node", through, statement_timeout)).await?;
        let onlooker = database.connect().await?;
        Ok(Self {
            database,
            proxy,
            node: Arc::new(node),
            seat,
            onlooker,
        })
    }

    /// The handle that goes past the proxy.
    pub(crate) fn direct(&self) -> &dyn Store {
        &*self.seat.store
    }

    /// Everything that can be read.
    pub(crate) async fn dump(&self) -> Dump {
        Dump::of(self.direct()).await
    }

    /// Ends the node's other sessions, so that a fault strikes the writer's connection and no other:
    /// whatever the node reads, it reads over new and sound ones. Returns the writer's backend.
    pub(crate) async fn only_the_writer(&self) -> Result<i32> {
        let others = "SELECT pg_terminate_backend(pid, 30000) FROM pg_stat_activity
                      WHERE datname = current_database() AND application_name = 'node'
                        AND query !~ 'INSERT INTO|UPDATE'";
        self.onlooker.query(others, &[]).await?;
        wait::until("only the writer is left", || async {
            Ok((self.proxy.connections() == 1).then_some(()))
        })
        .await?;
        let writer = "SELECT pid FROM pg_stat_activity
                      WHERE datname = current_database() AND application_name = 'node'";
        let row = self.onlooker.query_one(writer, &[]).await;
        Ok(row.context("one writer")?.get(0))
    }

    /// A gate at which the node's sessions stop, after rows of a table were written and before the
    /// commit.
    pub(crate) async fn gate(&self, table: &str, timing: &str) -> Result<Gate> {
        let when = is_session("node");
        let place = Place {
            table,
            timing,
            level: Level::Row,
            when: Some(&when),
        };
        Gate::install(&self.database.url(), place).await
    }

    /// Forgets all that the node has said so far, so that what it says next can be waited for.
    pub(crate) async fn forget_requests(&self) {
        let said = || tokio::time::timeout(Duration::ZERO, self.proxy.wait_for_request(SYNC));
        while said().await.is_ok() {}
    }

    /// Returns when the node has said something that is held back.
    pub(crate) async fn wait_for_held_request(&self) -> Result<()> {
        wait::until("a request is held", || async {
            Ok((self.proxy.held_bytes() > 0).then_some(()))
        })
        .await
    }

    /// Returns when some session waits for a lock that this backend holds.
    pub(crate) async fn wait_until_blocks(&self, pid: i32) -> Result<()> {
        wait::until("somebody waits for the backend", || async {
            let sql = "SELECT FROM pg_stat_activity WHERE $1 = ANY(pg_blocking_pids(pid))";
            let blocked = self.onlooker.query(sql, &[&pid]).await?;
            Ok((!blocked.is_empty()).then_some(()))
        })
        .await
    }

    /// Returns when the backend has ended: all that it was sent has been carried out or refused.
    pub(crate) async fn wait_until_gone(&self, pid: i32) -> Result<()> {
        wait::until("the backend ends", || async {
            let sql = "SELECT FROM pg_stat_activity WHERE pid = $1";
            let there = self.onlooker.query(sql, &[&pid]).await?;
            Ok(there.is_empty().then_some(()))
        })
        .await
    }
}
