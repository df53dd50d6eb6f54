//! The stage of a race: one database, a handle of its own for each session that takes part, gates in
//! their way, and a probe that sees who waits.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use fencepost_app::ports::{Acquired, Bid, Held, Holder, Lead, Leader, Store, Terms};
use fencepost_domain::ids::{Lane, NodeId, Token};
use fencepost_postgres::{PostgresStore, Settings};
use fencepost_store_tests::bench::{Seat, leading, only, url};
use fencepost_store_tests::dump::Dump;
use fencepost_testkit::gate::{Gate, Level, Place, is_session};
use fencepost_testkit::postgres::{Database, connect, shared};
use fencepost_testkit::wait;
use tokio::task::JoinHandle;
use tokio_postgres::Client;

/// Minutes: no lease may run out because the machine is slow. Takeovers that need an old lease ask
/// for it with [`Stage::clock_went_back`].
const TERMS: Terms = Terms {
    duration: Duration::from_mins(10),
    skew: Duration::from_mins(1),
};

/// Longer than any gate stays closed.
const STATEMENT_TIMEOUT: Duration = Duration::from_secs(20);

/// All that fenced writes may change but the lane's own row.
const TABLES: [&str; 9] = [
    "managed_tx",
    "lane_queue",
    "tx_attempt",
    "tx_event",
    "free_nonce",
    "due_work",
    "tx_completion",
    "feed_head",
    "remedy",
];

pub(crate) struct Stage {
    database: Database,
    terms: Terms,
    pub(crate) probe: Client,
}

/// What the lane's row says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LaneRow {
    pub(crate) token: i64,
    pub(crate) next_nonce: i64,
    pub(crate) lane_seq: i64,
}

impl Stage {
    pub(crate) async fn new() -> Result<Self> {
        Self::with(TERMS).await
    }

    pub(crate) async fn with(terms: Terms) -> Result<Self> {
        let database = shared().await?.create_database().await?;
        let probe = database.connect().await?;
        let stage = Self {
            database,
            terms,
            probe,
        };
        PostgresStore::open(stage.settings("setup")).await?;
        Ok(stage)
    }

    fn settings(&self, session: &str) -> Settings {
        Settings {
            terms: self.terms,
            write_connections: 4,
            read_connections: 2,
            statement_timeout: STATEMENT_TIMEOUT,
            application_name: session.to_owned(),
            ..Settings::new(self.database.url())
        }
    }

    /// A store whose sessions are called this.
    pub(crate) async fn handle(&self, session: &str) -> Result<Arc<PostgresStore>> {
        Ok(Arc::new(
            PostgresStore::attach(self.settings(session)).await?,
        ))
    }

    /// A plain session called this, for twins.
    pub(crate) async fn session(&self, name: &str) -> Result<Client> {
        connect(&format!("{}?application_name={name}", self.database.url())).await
    }

    /// A node that has just started and does not lead yet.
    pub(crate) async fn join(&self, session: &str, node: &str, lane: Lane) -> Result<Seat> {
        let store = self.handle(session).await?;
        let node = NodeId::new(node).context("a node id")?;
        let incarnation = store.join(&node, &url(node.as_str())).await?;
        let held = Held {
            lane: only(store.open_lanes(&[lane]).await?),
            token: Token::default(),
        };
        Ok(Seat {
            store,
            holder: Holder { node, incarnation },
            held,
            lane,
        })
    }

    /// A node that has just started and leads this lane; its session has its name.
    pub(crate) async fn seat(&self, node: &str, lane: Lane) -> Result<Seat> {
        let seat = self.join(node, node, lane).await?;
        let lead = leading(bid(seat.clone()).await?);
        Ok(seated(seat, &lead))
    }

    /// The leader of one lane takes another.
    pub(crate) async fn seat_of(&self, seat: &Seat, lane: Lane) -> Result<Seat> {
        let mut seat = seat.clone();
        seat.lane = lane;
        seat.held.lane = only(seat.store.open_lanes(&[lane]).await?);
        let lead = leading(bid(seat.clone()).await?);
        Ok(seated(seat, &lead))
    }

    /// The same leader under the same token, through a session of another name.
    pub(crate) async fn beside(&self, seat: &Seat, session: &str) -> Result<Seat> {
        Ok(Seat {
            store: self.handle(session).await?,
            ..seat.clone()
        })
    }

    /// A closed gate for one session: at each row of the table, as in `CREATE TRIGGER`.
    pub(crate) async fn gate(&self, table: &str, timing: &str, session: &str) -> Result<Gate> {
        self.gate_when(table, timing, &is_session(session)).await
    }

    pub(crate) async fn gate_when(&self, table: &str, timing: &str, when: &str) -> Result<Gate> {
        let place = Place {
            table,
            timing,
            level: Level::Row,
            when: Some(when),
        };
        let mut gate = Gate::install(&self.database.url(), place).await?;
        gate.close().await?;
        Ok(gate)
    }

    /// A bid that waits for a lane has a session of its own.
    async fn is_blocked(&self, session: &str) -> Result<bool> {
        let sql = "SELECT count(*) > 0 FROM pg_stat_activity
                    WHERE datname = current_database() AND application_name IN ($1, 'takeover ' || $1)
                      AND cardinality(pg_blocking_pids(pid)) > 0";
        Ok(self.probe.query_one(sql, &[&session]).await?.get(0))
    }

    /// Returns when a statement of this session waits for another one.
    pub(crate) async fn blocked(&self, session: &str) -> Result<()> {
        wait::until(&format!("{session} is blocked"), || async {
            Ok(self.is_blocked(session).await?.then_some(()))
        })
        .await
    }

    /// Whether the session's task has to wait for another one, or comes to its end.
    pub(crate) async fn waits<T>(&self, session: &str, task: &JoinHandle<T>) -> Result<bool> {
        wait::until(&format!("{session} is blocked or done"), || async {
            if task.is_finished() {
                return Ok(Some(false));
            }
            Ok(self.is_blocked(session).await?.then_some(true))
        })
        .await
    }

    /// The server's clock was set back: the lease ends absurdly late, so that its leader may write and
    /// anyone may take over at the same moment.
    pub(crate) async fn clock_went_back(&self, seat: &Seat) -> Result<()> {
        let sql = "UPDATE signer_lease SET expires_at = clock_timestamp() + interval '1 year'
                    WHERE lane_id = $1";
        self.probe.execute(sql, &[&seat.held.lane.0]).await?;
        Ok(())
    }

    pub(crate) async fn lane_row(&self, seat: &Seat) -> Result<LaneRow> {
        let sql = "SELECT fencing_token, next_nonce, lane_seq FROM signer_lease WHERE lane_id = $1";
        let row = self.probe.query_one(sql, &[&seat.held.lane.0]).await?;
        Ok(LaneRow {
            token: row.get(0),
            next_nonce: row.get(1),
            lane_seq: row.get(2),
        })
    }

    /// Every row of every table but those of the lanes, as text.
    pub(crate) async fn contents(&self) -> Result<String> {
        let mut all = String::new();
        for table in TABLES {
            let sql = format!(
                "SELECT coalesce(string_agg(t::text, E'\\n' ORDER BY t::text), '') FROM {table} t"
            );
            let row = self.probe.query_one(&sql, &[]).await?;
            all += &format!("{table}:\n{}\n", row.get::<_, &str>(0));
        }
        Ok(all)
    }

    /// How often the server has ended a deadlock in this database.
    pub(crate) async fn deadlocks(&self) -> Result<i64> {
        let sql = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()";
        self.number(sql).await
    }

    /// One number.
    pub(crate) async fn number(&self, sql: &str) -> Result<i64> {
        Ok(self.probe.query_one(sql, &[]).await?.get(0))
    }
}

/// One bid for the seat's lane, whatever comes of it.
pub(crate) async fn bid(seat: Seat) -> Result<Acquired> {
    let bids = [Bid {
        lane: seat.held.lane,
        fresh: false,
    }];
    let url = url(seat.holder.node.as_str());
    Ok(only(seat.store.acquire(&seat.holder, &url, &bids).await?))
}

/// Who has the lane, of a bid that did not get it.
pub(crate) fn led_by(answer: Acquired) -> Holder {
    let Acquired::Led(Leader {
        node, incarnation, ..
    }) = answer
    else {
        panic!("not led by another: {answer:?}");
    };
    Holder { node, incarnation }
}

/// The seat after a bid that led.
pub(crate) fn seated(mut seat: Seat, lead: &Lead) -> Seat {
    seat.held.token = lead.token;
    seat
}

/// Fails unless history, nonces and feed are whole.
pub(crate) async fn assert_sound(seat: &Seat) {
    Dump::of(&*seat.store).await.assert_sound();
}
