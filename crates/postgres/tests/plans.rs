//! The plans of hot statements on tables of a million rows: every table row is found by an index.
//!
//! Method: a server of its own logs the plan of every statement (`auto_explain`); the store does
//! each hot operation for real, so plans are those of its own sessions, prepared and generic.

#[path = "../examples/bench/prefill.rs"]
mod prefill;

use std::time::Duration;

use anyhow::{Context, Result};
use fencepost_app::ports::{
    Acquired, Action, Acts, Bid, Body, CursorMove, Decided, Decision, Held, Holder, Key, LaneBatch,
    LaneCreated, LaneMoves, LanePromotion, Move, NewRemedy, NewTx, PageQuery, READ_LIMIT_MAX,
    Record, Retire, Stage, Store, Terms,
};
use fencepost_domain::B256;
use fencepost_domain::attempt::Kind::Original;
use fencepost_domain::ids::{FeedSeq, Height, LaneSeq, NodeId, Nonce, RequestId, TxId};
use fencepost_domain::state::Wait;
use fencepost_domain::transition::Input;
use fencepost_postgres::{PostgresStore, Settings};
use fencepost_store_tests::builders::{accepted, attempt, audit, lane, mined, payload, sign};
use fencepost_testkit::postgres::{Cluster, Options, connect};
use uuid::Uuid;

const ROWS: u64 = 1_000_000;

/// Tables that grow. The others hold one row, or one for each node.
const TABLES: [&str; 10] = [
    "managed_tx",
    "tx_event",
    "tx_attempt",
    "due_work",
    "lane_queue",
    "free_nonce",
    "tx_completion",
    "signer_lease",
    "remedy",
    "lane_floor",
];

/// Scans in logged plans that read a growing table from end to end, with their statements.
fn whole_scans(log: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in log.split("Query Text:").skip(1) {
        let text: String = entry
            .split_whitespace()
            .take(40)
            .collect::<Vec<_>>()
            .join(" ");
        let lines: Vec<&str> = entry.lines().collect();
        for (n, line) in lines.iter().enumerate() {
            let details = lines[n + 1..]
                .iter()
                .take_while(|line| !line.contains("->"));
            if is_whole(line, details.copied()) {
                found.push(format!("{} IN {text}", line.trim()));
            }
        }
    }
    found
}

/// Whether a line of a plan, with the lines about it, reads a growing table without a bound.
fn is_whole<'a>(line: &str, mut details: impl Iterator<Item = &'a str>) -> bool {
    let table = |table: &str| line.contains(&format!(" on {table} "));
    let node = line.trim_start().trim_start_matches("->").trim_start();
    let by_index = node.contains("Index") || node.contains("Bitmap Heap");
    TABLES.iter().any(|each| table(each))
        && (node.contains("Seq Scan")
            || (by_index && !details.any(|line| line.contains(" Cond: "))))
}

/// Runs an operation and returns the plans that the server logged meanwhile.
async fn plans_of<T>(cluster: &Cluster, work: impl Future<Output = T>) -> (T, String) {
    let before = cluster.log().len();
    let answer = work.await;
    (answer, cluster.log().split_off(before))
}

async fn fill(url: &str) -> Result<()> {
    prefill::prefill(url, ROWS).await?;
    let client = connect(url).await?;
    client
        .batch_execute(
            "INSERT INTO signer_lease (chain_id, signer)
             SELECT 9, substr(sha256(n::text::bytea), 1, 20) FROM generate_series(1, 20000) n;
             INSERT INTO lane_floor (lane_id, nonce) SELECT lane_id, 1 FROM signer_lease WHERE chain_id = 9;
             INSERT INTO due_work (tx_id, lane_id, due_at)
             SELECT tx_id, lane_id, now() + interval '1 day' FROM managed_tx WHERE lane_id >= 1000000 LIMIT 100000;
             INSERT INTO signer_lease (lane_id, chain_id, signer) OVERRIDING SYSTEM VALUE
             SELECT lane_id, 9, substr(sha256(('of ' || lane_id)::bytea), 1, 20) FROM due_work WHERE lane_id >= 1000000 GROUP BY lane_id;
             INSERT INTO tx_attempt (tx_id, n, chain_id, kind, tx_hash, raw, fencing_token)
             SELECT tx_id, 1, 9, 'ORIGINAL', tx_hash, '\\x01', 1 FROM managed_tx WHERE lane_id >= 1000000 LIMIT 100000;
             INSERT INTO tx_completion (seq, tx_id, lane_id, state)
             SELECT (SELECT last_seq FROM feed_head) + row_number() OVER (), tx_id,
                    (SELECT min(lane_id) FROM signer_lease), 'CONFIRMED' FROM managed_tx WHERE lane_id >= 1000000 LIMIT 100000;
             UPDATE feed_head SET last_seq = last_seq + 100000;
             INSERT INTO free_nonce (lane_id, nonce)
             SELECT lane_id, nonce FROM managed_tx WHERE lane_id >= 1000000 LIMIT 100000;
             INSERT INTO remedy (lane_id, tx_id, round, action, asked_by, reason, state, closed_at)
             SELECT lane_id, tx_id, 1, 'CANCEL', 'x', 'x', CASE nonce % 2 WHEN 0 THEN 'DONE' ELSE 'ASKED' END,
                    CASE nonce % 2 WHEN 0 THEN now() END
               FROM managed_tx WHERE lane_id >= 1000000 LIMIT 100000;
             INSERT INTO remedy (lane_id, action, asked_by, reason, state, closed_at)
             SELECT lane_id, 'PAUSE', 'x', 'x', 'DONE', now() FROM signer_lease, generate_series(1, 5);
             INSERT INTO lane_queue (lane_id, tx_id)
             SELECT lane_id, tx_id FROM managed_tx WHERE lane_id >= 1000000 LIMIT 50000;",
        )
        .await?;
    client.batch_execute("VACUUM ANALYZE").await?;
    Ok(())
}

/// A node that leads one lane of a large store.
struct Desk {
    cluster: Cluster,
    url: String,
    store: PostgresStore,
    holder: Holder,
    held: Held,
    cursor: Nonce,
}

impl Desk {
    async fn new() -> Result<Self> {
        let settings = [
            ("session_preload_libraries", "auto_explain"),
            ("auto_explain.log_min_duration", "0"),
            ("autovacuum", "off"),
        ]
        .map(|(key, value)| (key.to_owned(), value.to_owned()));
        let cluster = Cluster::start(Options {
            settings: settings.into(),
        })
        .await?;
        let url = cluster.create_database().await?.url();
        let settings = Settings {
            statement_timeout: Duration::from_secs(60),
            terms: Terms {
                duration: Duration::from_hours(1),
                skew: Duration::from_secs(1),
            },
            ..Settings::new(&url)
        };
        // Plans are made now, while the tables are empty, and must still be right afterwards.
        let store = PostgresStore::open(settings).await?;
        let node = NodeId::new("a")?;
        let incarnation = store.join(&node, "http://a").await?;
        let holder = Holder { node, incarnation };
        let lane = store.open_lanes(&[lane(1)]).await?[0];
        let bid = Bid { lane, fresh: false };
        let Acquired::Leading(lead) = store.acquire(&holder, "http://a", &[bid]).await?.remove(0)
        else {
            anyhow::bail!("the lane is not ours");
        };
        let held = Held {
            lane,
            token: lead.token,
        };
        Ok(Self {
            cluster,
            url,
            store,
            holder,
            held,
            cursor: lead.next_nonce,
        })
    }

    fn tx(n: u64) -> NewTx {
        NewTx {
            tx: TxId(Uuid::now_v7()),
            seal: None,
            request_id: RequestId::new(format!("r{n}")).ok(),
            body: Body::Managed(payload(n)),
            not_after: None,
            meta: None,
            created_by: None,
        }
    }

    async fn create(&mut self, from: u64) -> Result<Vec<TxId>> {
        let txs: Vec<NewTx> = (from..from + 20).map(Self::tx).collect();
        let ids = txs.iter().map(|tx| tx.tx).collect();
        let batch = LaneBatch {
            held: self.held,
            cursor: self.cursor,
            free: vec![],
            txs,
        };
        match self.store.create(&self.holder, &[batch]).await?.remove(0) {
            LaneCreated::Done { next_nonce, .. } => self.cursor = next_nonce,
            LaneCreated::Refused(why) => anyhow::bail!("refused: {why:?}"),
        }
        Ok(ids)
    }

    async fn records(&self, ids: &[TxId]) -> Result<Vec<Record>> {
        Ok(self.store.find_many(ids).await?)
    }

    async fn moves(&self, ids: &[TxId], input: impl Fn(u64) -> Input) -> Result<Vec<LaneMoves>> {
        let mut moves = Vec::new();
        for record in &self.records(ids).await? {
            let n = record.state.nonce().context("a nonce")?.get();
            let input = input(n);
            let bytes = matches!(input, Input::Sign(..)).then(|| attempt(Original, n));
            let step = Move::of(record, record.state.clone().apply(input)?);
            moves.push(Move {
                attempt: bytes,
                ..step
            });
        }
        Ok(vec![LaneMoves {
            held: self.held,
            moves,
        }])
    }

    /// The life of a batch of transactions, and every read of it.
    async fn day(&mut self, from: u64) -> Result<()> {
        let ids = self.create(from).await?;
        let again = self.create(from).await?;
        assert!(
            self.records(&again).await?.is_empty(),
            "duplicates were stored"
        );
        let (store, holder, held) = (&self.store, &self.holder, self.held);
        store.apply(holder, &self.moves(&ids, sign).await?).await?;
        store
            .apply(holder, &self.moves(&ids, |_| accepted()).await?)
            .await?;
        store
            .apply(holder, &self.moves(&ids, |n| mined(n, n)).await?)
            .await?;
        store
            .complete(holder, &self.moves(&ids, |_| Input::Final).await?)
            .await?;
        store.renew(holder, &[held]).await?;
        let waiting = Self::tx(from + 100);
        let id = waiting.tx;
        store
            .enqueue(&[(held.lane, waiting)], Wait::Leader, 100)
            .await?;
        store.queued(held.lane, 10).await?;
        store.queued_lanes(None, 10).await?;
        let promotion = LanePromotion {
            held,
            cursor: self.cursor,
            free: vec![],
            txs: vec![id],
        };
        match store.promote(holder, &[promotion]).await?.remove(0) {
            LaneCreated::Done { next_nonce, .. } => self.cursor = next_nonce,
            LaneCreated::Refused(why) => anyhow::bail!("refused: {why:?}"),
        }
        let claimed = self
            .store
            .claim_due(&self.holder, &[held], 1_000, 10)
            .await?;
        assert!(!claimed.records.is_empty());
        self.remedy(id).await?;
        self.reads(id, &ids, from).await
    }

    /// A question is asked, claimed and answered, and the audit read.
    async fn remedy(&self, tx: TxId) -> Result<()> {
        let (store, holder, held) = (&self.store, &self.holder, self.held);
        let question = NewRemedy {
            tx,
            round: 1,
            action: Action::Decide,
            fees: None,
            audit: audit(),
        };
        store.ask_remedy(&question).await?;
        let mut claimed = store.claim_remedies(holder, &[held], 10).await?.remedies;
        let decided = Decided {
            remedy: claimed.pop().context("a question")?.id,
            action: None,
            fees: None,
            raw: None,
            severity: None,
            after: None,
            audit: audit(),
        };
        let answer = store.decide_remedy(holder, held, &decided).await?;
        assert_eq!(answer, Decision::Written);
        let raise = CursorMove::Raise {
            holder: holder.clone(),
            held,
            to: Nonce::ZERO,
        };
        store.move_cursor(held.lane, &raise, &audit()).await?;
        store.remedy_lanes(None, 10).await?;
        store.acts(Acts::Lane(held.lane), None, 10).await?;
        let acts = store.acts(Acts::Tx(tx), None, 10).await?;
        assert_eq!(acts.len(), 1);
        Ok(())
    }

    async fn reads(&self, id: TxId, ids: &[TxId], from: u64) -> Result<()> {
        let (store, held) = (&self.store, self.held);
        store.find(&Key::Id(id)).await?.context("by id")?;
        store
            .find(&Key::Request(lane(1), RequestId::new(format!("r{from}"))?))
            .await?
            .context("r")?;
        store
            .find(&Key::Nonce(lane(1), Nonce::ZERO))
            .await?
            .context("by nonce")?;
        store.find(&Key::Hash(lane(1).chain, B256::ZERO)).await?;
        store
            .page(&PageQuery {
                lane: Some(lane(1)),
                limit: 10,
                ..PageQuery::default()
            })
            .await?;
        store
            .page(&PageQuery {
                limit: 10,
                ..PageQuery::default()
            })
            .await?;
        store.unfinished(held.lane, None, 10).await?;
        store.history(id, LaneSeq::default(), 10).await?;
        store.attempts(ids).await?;
        store.completions(FeedSeq::new(99_990)?, 10).await?;
        store.lane(lane(1)).await?.context("the lane")?;
        store.gaps(held.lane, Nonce::ZERO, 10).await?;
        for after in [None, Some(id)] {
            store.backlog(after, READ_LIMIT_MAX).await?;
        }
        for stage in [Stage::Thin, Stage::Delete, Stage::Sweep] {
            let batch = Retire {
                stage,
                older_than: Duration::from_hours(1),
                limit: 10,
                beneath: vec![(lane(1).chain, Height::MAX)],
            };
            store.retire(&batch).await?;
        }
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn hot_statements_find_their_rows_by_index_among_a_million() -> Result<()> {
    let mut desk = Desk::new().await?;
    desk.day(0).await?;
    fill(&desk.url).await?;
    let log = desk.cluster.log().len();
    desk.day(1_000).await?;
    let plans = desk.cluster.log().split_off(log);
    let count = plans.matches("Query Text").count();
    assert!(count > 30, "{count} plans were logged");
    assert_eq!(whole_scans(&plans), Vec::<String>::new());
    // A page from the end of the primary key has a bound, too, and may read all there is to fill it.
    for index in ["remedy_open", "remedy_acts_of_tx", "remedy_acts_on_lane"] {
        assert!(plans.contains(index), "{index} is not used");
    }

    // A page of what has not ended reads no more than a page, which a bound on ids alone does not say.
    let (page, plans) = plans_of(&desk.cluster, desk.store.backlog(None, READ_LIMIT_MAX)).await;
    assert!(!page?.is_empty());
    for index in [
        "due_work_pkey on due_work",
        "lane_queue_tx_id_key on lane_queue",
    ] {
        let line = format!("Index Scan using {index}");
        assert!(plans.contains(&line), "{line} is not in {plans}");
    }

    // The eye sees what it should: a statement without an index for it.
    let client = connect(&desk.url).await?;
    let blind = "SELECT count(*) FROM managed_tx WHERE last_error = 'x'";
    let (answer, plans) = plans_of(&desk.cluster, client.query(blind, &[])).await;
    answer?;
    assert!(!whole_scans(&plans).is_empty(), "{plans}");
    Ok(())
}
