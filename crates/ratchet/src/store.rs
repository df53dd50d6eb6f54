//! How many statements, rows and bytes of the write-ahead log PostgreSQL has of a transaction: fixed batches through the
//! store's port. Ids, payloads and hashes are the same in every run, so that pages and indexes fill in the same way.

use std::collections::HashMap;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use fencepost_app::ports::{
    Acquired, Bid, Held, Holder, LaneBatch, LaneCreated, LaneMoved, LaneMoves, Record, Store, Terms,
};
use fencepost_domain::ids::{LaneId, NodeId, Nonce};
use fencepost_domain::transition::Input;
use fencepost_postgres::{PostgresStore, Settings};
use fencepost_store_tests::bench::moved;
use fencepost_store_tests::builders::{accepted, lane, mined, request, sign};
use fencepost_testkit::postgres::{Cluster, Database, Options};
use fencepost_testkit::wait::until;
use tokio_postgres::Client;

use crate::figures::{Figures, per};

const LANES: u8 = 16;
/// Transactions of one statement.
const BATCH: u64 = 256;
/// Statements of each kind that count.
const ROUNDS: u64 = 8;
/// Sessions of the store, as the server's log names them.
const SESSIONS: &str = "ratchet";
/// What differs from the testkit's settings. Nothing may write to the log but the statements: no vacuum, and no
/// checkpoint, after which the first change of each page is logged with the whole page. The server names each
/// statement that it executes.
const SETTINGS: [(&str, &str); 7] = [
    ("autovacuum", "off"),
    ("checkpoint_timeout", "1h"),
    ("max_wal_size", "4GB"),
    ("log_statement", "all"),
    ("log_min_messages", "warning"),
    ("log_parameter_max_length", "0"),
    ("log_line_prefix", "<%a> "),
];

/// Rows that a database has had written, and how many of them so that indexes were written too.
#[derive(Debug, Clone, Copy)]
struct Rows {
    inserted: u64,
    updated: u64,
    deleted: u64,
    updated_cold: u64,
    transactions: u64,
}

const ROWS: &str = "SELECT sum(n_tup_ins)::bigint, sum(n_tup_upd)::bigint, sum(n_tup_del)::bigint,
       sum(n_tup_upd - n_tup_hot_upd)::bigint,
       sum(n_tup_ins) FILTER (WHERE relname = 'managed_tx')::bigint
  FROM pg_stat_user_tables";
const WAL_END: &str = "SELECT (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::bigint";
/// A session has told what it wrote when it is gone.
const SESSIONS_LEFT: &str =
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
   AND backend_type = 'client backend' AND pid <> pg_backend_pid()";

/// What was written in some statements.
#[derive(Debug, Clone, Copy, Default)]
struct Written {
    statements: u64,
    wal_bytes: u64,
}

/// Figures of a create alone, and of a transaction from its create to CONFIRMED.
pub(crate) async fn measure() -> Result<[(&'static str, Figures); 2]> {
    let pair = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
    let settings = SETTINGS.map(pair).into();
    let cluster = Cluster::start(Options { settings }).await?;
    Ok([
        ("store-create", database(&cluster, false).await?),
        ("store-life", database(&cluster, true).await?),
    ])
}

async fn database(cluster: &Cluster, whole: bool) -> Result<Figures> {
    let database = cluster.create_database().await?;
    let watcher = database.connect().await?;
    let lanes = open(&database).await?;
    alone(&watcher).await?;
    let before = rows(&watcher).await?;
    let store = PostgresStore::attach(settings(&database)).await?;
    let mut load = Load {
        cluster,
        watcher: &watcher,
        store: &store,
        lanes,
        made: 0,
        written: Written::default(),
    };
    // The first fills caches, prepares statements and touches pages that a checkpoint has seen.
    load.round(whole).await?;
    load.written = Written::default();
    for _ in 0..ROUNDS {
        load.round(whole).await?;
    }
    let (written, made) = (load.written, load.made);
    drop(store);
    alone(&watcher).await?;
    let rows = until("the server counts all rows", async || {
        let rows = rows(&watcher).await?;
        Ok((rows.transactions == made).then_some(rows))
    });
    let rows = rows.await?;
    let all = rows.inserted + rows.updated + rows.deleted;
    let all = all - before.inserted - before.updated - before.deleted;
    let counted = ROUNDS * BATCH;
    Ok([
        ("statements".to_owned(), per(written.statements, counted)?),
        ("wal_bytes".to_owned(), per(written.wal_bytes, counted)?),
        ("rows".to_owned(), per(all, made)?),
        (
            "cold_updates".to_owned(),
            per(rows.updated_cold - before.updated_cold, made)?,
        ),
    ]
    .into())
}

fn settings(database: &Database) -> Settings {
    Settings {
        // Longer than a run: nobody renews.
        terms: Terms {
            duration: Duration::from_hours(1),
            skew: Duration::from_secs(1),
        },
        statement_timeout: Duration::from_secs(30),
        application_name: SESSIONS.to_owned(),
        ..Settings::new(database.url())
    }
}

/// Who leads the lanes.
struct Lanes {
    holder: Holder,
    held: Vec<(Held, Nonce)>,
}

async fn open(database: &Database) -> Result<Lanes> {
    let store = PostgresStore::open(settings(database)).await?;
    let node = NodeId::new("ratchet")?;
    let incarnation = store.join(&node, "http://ratchet").await?;
    let holder = Holder { node, incarnation };
    let named: Vec<_> = (1..=LANES).map(lane).collect();
    let ids = store.open_lanes(&named).await?;
    let bid = |lane: &LaneId| Bid {
        lane: *lane,
        fresh: false,
    };
    let bids: Vec<Bid> = ids.iter().map(bid).collect();
    let answers = store.acquire(&holder, "http://ratchet", &bids).await?;
    let mut held = Vec::new();
    for (lane, answer) in ids.into_iter().zip(answers) {
        let Acquired::Leading(lead) = answer else {
            bail!("lane {lane:?} is not ours: {answer:?}");
        };
        let token = lead.token;
        held.push((Held { lane, token }, lead.next_nonce));
    }
    Ok(Lanes { holder, held })
}

async fn alone(watcher: &Client) -> Result<()> {
    until("the sessions of the store are gone", async || {
        let left: i64 = watcher.query_one(SESSIONS_LEFT, &[]).await?.get(0);
        Ok((left == 0).then_some(()))
    })
    .await
}

async fn rows(watcher: &Client) -> Result<Rows> {
    let row = watcher.query_one(ROWS, &[]).await?;
    let count = |n: usize| u64::try_from(row.get::<_, Option<i64>>(n).unwrap_or_default());
    Ok(Rows {
        inserted: count(0)?,
        updated: count(1)?,
        deleted: count(2)?,
        updated_cold: count(3)?,
        transactions: count(4)?,
    })
}

/// The measured work.
struct Load<'a> {
    cluster: &'a Cluster,
    watcher: &'a Client,
    store: &'a PostgresStore,
    lanes: Lanes,
    made: u64,
    written: Written,
}

impl Load<'_> {
    /// One batch of creates; if it is to live, signed, sent, mined and final, each step in one call.
    async fn round(&mut self, whole: bool) -> Result<()> {
        let mut records = self.create().await?;
        if !whole {
            return Ok(());
        }
        let steps: [fn(u64) -> Input; 4] =
            [sign, |_| accepted(), |n| mined(n, 100), |_| Input::Final];
        for step in steps {
            self.step(&mut records, step).await?;
        }
        Ok(())
    }

    /// Where the log ends, and how many statements were executed.
    async fn stand(&self) -> Result<Written> {
        let end: i64 = self.watcher.query_one(WAL_END, &[]).await?.get(0);
        let begins = format!("<{SESSIONS}> LOG: ");
        let log = self.cluster.log();
        let lines = log.lines().filter_map(|line| line.strip_prefix(&begins));
        let executed =
            |line: &&str| line.trim_start().starts_with("execute ") || line.contains("statement: ");
        Ok(Written {
            statements: u64::try_from(lines.filter(executed).count())?,
            wal_bytes: end.try_into()?,
        })
    }

    async fn count(&mut self, from: Written) -> Result<()> {
        let to = self.stand().await?;
        ensure!(to.statements > from.statements, "no statement is logged");
        self.written.statements += to.statements - from.statements;
        self.written.wal_bytes += to.wal_bytes - from.wal_bytes;
        Ok(())
    }

    /// Creates, spread over the lanes, and what they have become, with their numbers.
    async fn create(&mut self) -> Result<Vec<(u64, Record)>> {
        let batch = |(held, cursor): &(Held, Nonce)| LaneBatch {
            held: *held,
            cursor: *cursor,
            free: vec![],
            txs: vec![],
        };
        let mut batches: Vec<LaneBatch> = self.lanes.held.iter().map(batch).collect();
        let mut numbers = HashMap::new();
        for n in self.made..self.made + BATCH {
            let lane = usize::try_from(n % u64::from(LANES))?;
            let new = request(n, &format!("request-{n:08}"), n);
            numbers.insert(new.tx, n);
            batches[lane].txs.push(new);
        }
        let from = self.stand().await?;
        let answers = self.store.create(&self.lanes.holder, &batches).await?;
        self.count(from).await?;
        self.made += BATCH;
        for ((_, cursor), answer) in self.lanes.held.iter_mut().zip(answers) {
            let LaneCreated::Done { next_nonce, .. } = answer else {
                bail!("a create was refused: {answer:?}");
            };
            *cursor = next_nonce;
        }
        let ids: Vec<_> = numbers.keys().copied().collect();
        let found = self.store.find_many(&ids).await?;
        let number = |record: Record| Some((*numbers.get(&record.tx)?, record));
        let mut records: Vec<(u64, Record)> = found.into_iter().filter_map(number).collect();
        records.sort_by_key(|(n, _)| *n);
        Ok(records)
    }

    /// The same happens to all of them, in one call.
    async fn step(&mut self, records: &mut [(u64, Record)], input: fn(u64) -> Input) -> Result<()> {
        let empty = |(held, _): &(Held, Nonce)| LaneMoves {
            held: *held,
            moves: vec![],
        };
        let mut batches: Vec<LaneMoves> = self.lanes.held.iter().map(empty).collect();
        for (n, record) in records {
            let lane = batches
                .iter_mut()
                .find(|batch| batch.held.lane == record.lane_id);
            let input = input(*n);
            let signs = matches!(input, Input::Sign(..));
            let plan = moved(record, input).context("the domain says no")?;
            // As the store will have it, without asking: a read may tidy pages up, and that is logged.
            record.state = plan.to.clone();
            record.version = record.version.plus(1)?;
            record.attempts += u32::from(signs);
            lane.context("it is of another lane")?.moves.push(plan);
        }
        let holder = &self.lanes.holder;
        let ends = matches!(input(0), Input::Final);
        let from = self.stand().await?;
        let answers = if ends {
            self.store.complete(holder, &batches).await?
        } else {
            self.store.apply(holder, &batches).await?
        };
        self.count(from).await?;
        for answer in answers {
            if !matches!(answer, LaneMoved::Done(_)) {
                bail!("a move was refused: {answer:?}");
            }
        }
        Ok(())
    }
}
