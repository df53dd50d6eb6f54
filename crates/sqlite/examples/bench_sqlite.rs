//! How many creates a second the embedded store takes, at the same batches as the PostgreSQL
//! benchmark, with `synchronous=FULL`.
//!
//! `cargo run --release -p fencepost-sqlite --example bench_sqlite -- [--seconds S]`

#![allow(clippy::cast_precision_loss)] // Rates are for reading.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use fencepost_app::ports::{
    Acquired, Bid, Body, Held, Holder, LaneBatch, LaneCreated, NewTx, Store, Terms,
};
use fencepost_domain::Address;
use fencepost_domain::ids::{ChainId, Lane, NodeId, Nonce, RequestId, TxId};
use fencepost_domain::request::{Ceilings, Draft, Payload};
use fencepost_sqlite::{SqliteStore, SystemClock};
use uuid::Uuid;

const BATCHES: [usize; 4] = [1, 64, 256, 1024];
const LANES: [usize; 3] = [1, 16, 1000];
/// Callers at work at once; the writer commits together what they have sent.
const CALLERS: usize = 2;

/// A lane and its cursor.
struct Track {
    held: Held,
    cursor: Nonce,
}

#[tokio::main]
async fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let seconds: f64 = match (args.next().as_deref(), args.next()) {
        (None, _) => 2.0,
        (Some("--seconds"), Some(value)) => value.parse()?,
        (Some(other), _) => bail!("unknown option {other}: --seconds S"),
    };
    let directory = std::env::temp_dir().join(format!("fencepost-bench-{}", std::process::id()));
    std::fs::create_dir_all(&directory)?;
    let done = run(&directory, Duration::from_secs_f64(seconds)).await;
    std::fs::remove_dir_all(&directory)?;
    done
}

async fn run(directory: &std::path::Path, time: Duration) -> Result<()> {
    let terms = Terms {
        duration: Duration::from_hours(1),
        skew: Duration::from_secs(1),
    };
    let path = directory.join("bench.db");
    let store: Arc<dyn Store> = Arc::new(SqliteStore::open(path, terms, Arc::new(SystemClock))?);
    let node = NodeId::new("bench")?;
    let incarnation = store.join(&node, "http://bench").await?;
    let holder = Holder { node, incarnation };
    println!("SQLite, journal_mode=WAL synchronous=FULL, {CALLERS} callers");
    println!("{:>5} {:>5} | {:>9}", "batch", "lanes", "creates/s");
    for lanes in LANES {
        let mut tracks = open(&*store, &holder, lanes).await?;
        for batch in BATCHES {
            let started = Instant::now();
            let work = tracks
                .iter_mut()
                .map(|share| caller(&*store, &holder, share, batch, time));
            let rows: usize = futures::future::try_join_all(work).await?.into_iter().sum();
            let rate = rows as f64 / started.elapsed().as_secs_f64();
            println!("{batch:>5} {lanes:>5} | {rate:>9.0}");
        }
    }
    Ok(())
}

/// The lanes, dealt out to the callers; one lane has one caller.
async fn open(store: &dyn Store, holder: &Holder, lanes: usize) -> Result<Vec<Vec<Track>>> {
    let chain = ChainId::new(u64::try_from(lanes)?)?;
    let signer = |n: usize| {
        let mut bytes = [0; 20];
        bytes[12..].copy_from_slice(&n.to_be_bytes());
        Address::from(bytes)
    };
    let named: Vec<Lane> = (0..lanes)
        .map(|n| Lane {
            chain,
            signer: signer(n),
        })
        .collect();
    let ids = store.open_lanes(&named).await?;
    let bids: Vec<Bid> = ids
        .iter()
        .map(|lane| Bid {
            lane: *lane,
            fresh: false,
        })
        .collect();
    let callers = CALLERS.min(lanes);
    let mut tracks: Vec<Vec<Track>> = (0..callers).map(|_| vec![]).collect();
    let answers = store.acquire(holder, "http://bench", &bids).await?;
    for (n, (lane, answer)) in ids.into_iter().zip(answers).enumerate() {
        let Acquired::Leading(lead) = answer else {
            bail!("a lane is not ours: {answer:?}");
        };
        let held = Held {
            lane,
            token: lead.token,
        };
        tracks[n % callers].push(Track {
            held,
            cursor: lead.next_nonce,
        });
    }
    Ok(tracks)
}

async fn caller(
    store: &dyn Store,
    holder: &Holder,
    share: &mut [Track],
    batch: usize,
    time: Duration,
) -> Result<usize> {
    let draft = Draft {
        to: Some(Address::repeat_byte(7).to_string()),
        data: Some(format!("0x{}", "ab".repeat(68))),
        ..Draft::default()
    };
    let ceilings = Ceilings {
        max_fee: 1,
        max_priority_fee: 1,
    };
    let payload = Payload::parse(&draft, ceilings)
        .ok()
        .context("the payload is refused")?;
    let started = Instant::now();
    let (mut rows, mut from) = (0, 0);
    while started.elapsed() < time {
        let width = share.len().min(batch);
        let places: Vec<usize> = (0..width).map(|n| (from + n) % share.len()).collect();
        let mut batches: Vec<LaneBatch> = Vec::with_capacity(width);
        for &place in &places {
            let (held, cursor) = (share[place].held, share[place].cursor);
            batches.push(LaneBatch {
                held,
                cursor,
                free: vec![],
                txs: vec![],
            });
        }
        for n in 0..batch {
            let tx = Uuid::now_v7();
            batches[n % width].txs.push(NewTx {
                tx: TxId(tx),
                seal: None,
                request_id: RequestId::new(tx.to_string()).ok(),
                body: Body::Managed(payload.clone()),
                not_after: None,
                meta: None,
                created_by: None,
            });
        }
        for (place, answer) in places
            .into_iter()
            .zip(store.create(holder, &batches).await?)
        {
            let LaneCreated::Done { next_nonce, .. } = answer else {
                bail!("a create was refused: {answer:?}");
            };
            share[place].cursor = next_nonce;
        }
        rows += batch;
        from += width;
    }
    Ok(rows)
}
