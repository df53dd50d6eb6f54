//! The limit: plain UNNEST statements on the store's own tables and indexes, without fence, cursor or guard,
//! over the wire and prepared, by as many writers as the store's benchmark has.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use fencepost_domain::request::{Ceilings, Draft, Payload};
use fencepost_testkit::postgres::connect;
use tokio_postgres::{Client, Statement};
use uuid::Uuid;

use crate::figures::{many, share};
use crate::window::{LEAD, Window};

/// Writers at work at once; one lane has one writer.
const WRITERS: usize = 2;
/// The batch at which **L** is taken. The store's own statements are not larger on average at any load that
/// was seen, and the limit grows little beyond it.
pub(crate) const BATCH: usize = 256;
/// So many stored rows are updated again and again.
const UPDATED: usize = 4_096;
/// What a receiver looks like; nobody has its key.
pub(crate) const RECEIVER: &str = "0x0707070707070707070707070707070707070707";

const INSERT: &str = include_str!("../sql/plain_insert.sql");
const UPDATE: &str = include_str!("../sql/plain_update.sql");

/// The same session settings as the store's writers.
const SESSION: &str =
    "SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off; SET jit = off";

/// One lane of a writer: its id, its next nonce, and the next number of its events.
#[derive(Debug, Clone, Copy)]
struct PlainLane {
    id: i64,
    nonce: i64,
}

/// A connection that writes without any care, with its lanes.
struct Writer {
    client: Client,
    insert: Statement,
    update: Statement,
    lanes: Vec<PlainLane>,
    turn: usize,
    moved: Vec<(i64, Uuid)>,
    moved_seq: i64,
}

/// Writers over a database that has the schema.
pub(crate) struct Plain {
    writers: Vec<Writer>,
    payload: Vec<u8>,
    hash: Vec<u8>,
}

/// Rows to insert, as arrays.
#[derive(Default)]
struct Rows {
    lane: Vec<i64>,
    tx: Vec<Uuid>,
    request: Vec<String>,
    nonce: Vec<i64>,
}

impl Plain {
    /// With so many lanes, and so much data in each payload.
    pub(crate) async fn new(database: &str, lanes: usize, data_bytes: usize) -> Result<Self> {
        let writers_count = WRITERS.min(lanes);
        let mut writers = Vec::new();
        for number in 0..writers_count {
            let own = (1..=lanes).filter(|lane| lane % writers_count == number);
            let own = own.map(|lane| {
                Ok(PlainLane {
                    id: i64::try_from(lane)?,
                    nonce: 0,
                })
            });
            writers.push(Writer::new(database, own.collect::<Result<_>>()?).await?);
        }
        let (payload, hash) = payload(data_bytes)?;
        Ok(Self {
            writers,
            payload,
            hash,
        })
    }

    /// Rows per second that are inserted in batches of this size.
    pub(crate) async fn inserts(&mut self, batch: usize, time: Duration) -> Result<f64> {
        let (payload, hash) = (&self.payload, &self.hash);
        let window = Window::after(LEAD, time);
        let work = self.writers.iter_mut().map(|writer| {
            rows_in(window, batch, async move || {
                writer.insert(batch, payload, hash).await?;
                Ok(())
            })
        });
        let stored: f64 = futures::future::try_join_all(work).await?.into_iter().sum();
        Ok(share(stored, time.as_secs_f64()))
    }

    /// How long each commit takes of one connection that inserts one row at a time, and does nothing else. Those of the
    /// [`LEAD`] are not told.
    pub(crate) async fn commits(&mut self, time: Duration) -> Result<Vec<Duration>> {
        let window = Window::after(LEAD, time);
        let mut took = Vec::new();
        let Some(writer) = self.writers.first_mut() else {
            bail!("no writer");
        };
        while !window.is_over() {
            let sent = Instant::now();
            writer.insert(1, &self.payload, &self.hash).await?;
            if sent >= window.from {
                took.push(sent.elapsed());
            }
        }
        Ok(took)
    }

    /// Rows per second that are updated in batches of this size, with an event for each.
    pub(crate) async fn updates(&mut self, batch: usize, time: Duration) -> Result<f64> {
        let (payload, hash) = (&self.payload, &self.hash);
        for writer in &mut self.writers {
            while writer.moved.len() < UPDATED {
                let made = writer.insert(BATCH, payload, hash).await?;
                writer.moved.extend(made.lane.into_iter().zip(made.tx));
            }
        }
        let window = Window::after(LEAD, time);
        let work = self.writers.iter_mut().map(|writer| {
            let mut turn = 0;
            rows_in(window, batch, async move || {
                writer.update(turn, batch, hash).await?;
                turn += batch;
                Ok(())
            })
        });
        let moved: f64 = futures::future::try_join_all(work).await?.into_iter().sum();
        Ok(share(moved, time.as_secs_f64()))
    }
}

/// Writes until the window is over; returns how many rows fell into it.
async fn rows_in(
    window: Window,
    batch: usize,
    mut write: impl AsyncFnMut() -> Result<()>,
) -> Result<f64> {
    let mut rows = 0.0;
    while !window.is_over() {
        let sent = Instant::now();
        write().await?;
        rows += many(batch) * window.part(sent, Instant::now());
    }
    Ok(rows)
}

impl Writer {
    async fn new(database: &str, lanes: Vec<PlainLane>) -> Result<Self> {
        let client = connect(database).await?;
        client.batch_execute(SESSION).await?;
        let insert = client.prepare(INSERT).await?;
        let update = client.prepare(UPDATE).await?;
        Ok(Self {
            client,
            insert,
            update,
            lanes,
            turn: 0,
            moved: vec![],
            // Above all that inserts tell.
            moved_seq: 1 << 40,
        })
    }

    /// New rows over its lanes in turn.
    async fn insert(&mut self, batch: usize, payload: &[u8], hash: &[u8]) -> Result<Rows> {
        let mut rows = Rows::default();
        for _ in 0..batch {
            self.turn = (self.turn + 1) % self.lanes.len();
            let lane = &mut self.lanes[self.turn];
            let tx = Uuid::now_v7();
            rows.lane.push(lane.id);
            rows.tx.push(tx);
            rows.request.push(tx.to_string());
            rows.nonce.push(lane.nonce);
            lane.nonce += 1;
        }
        let (payloads, hashes) = (vec![payload; batch], vec![hash; batch]);
        let Rows {
            lane,
            tx,
            request,
            nonce,
        } = &rows;
        self.client
            .execute(
                &self.insert,
                &[lane, tx, request, &payloads, &hashes, nonce],
            )
            .await?;
        Ok(rows)
    }

    /// The rows that follow in a circle.
    async fn update(&mut self, turn: usize, batch: usize, hash: &[u8]) -> Result<()> {
        let picked = || (0..batch).map(|k| self.moved[(turn + k) % self.moved.len()]);
        let lanes: Vec<i64> = picked().map(|(lane, _)| lane).collect();
        let txs: Vec<Uuid> = picked().map(|(_, tx)| tx).collect();
        let seqs: Vec<i64> = (self.moved_seq..).take(batch).collect();
        let hashes = vec![hash; batch];
        self.client
            .execute(&self.update, &[&lanes, &txs, &seqs, &hashes])
            .await?;
        self.moved_seq += i64::try_from(batch)?;
        Ok(())
    }
}

/// So many bytes as hex, always the same, that no compression makes less of: the database compresses rows.
pub(crate) fn data(bytes: usize) -> String {
    let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        format!("{:02x}", seed >> 56)
    };
    (0..bytes).map(|_| next()).collect()
}

/// What the store writes for a request with so much data, and its hash.
fn payload(data_bytes: usize) -> Result<(Vec<u8>, Vec<u8>)> {
    let draft = Draft {
        to: Some(RECEIVER.to_owned()),
        value: Some("1".to_owned()),
        data: Some(format!("0x{}", data(data_bytes))),
        ..Draft::default()
    };
    let ceilings = Ceilings {
        max_fee: 1,
        max_priority_fee: 1,
    };
    let Ok(payload) = Payload::parse(&draft, ceilings) else {
        bail!("the bench's own payload is refused");
    };
    Ok((payload.canonical().to_vec(), payload.hash().to_vec()))
}
