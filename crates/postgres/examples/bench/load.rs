//! The measured work: batches spread over lanes, on a few connections, for a slice of time.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use fencepost_app::ports::{
    Acquired, Bid, Body, Held, Holder, LaneBatch, LaneCreated, LaneMoved, LaneMoves, Move, NewTx,
    Record, Store, Stored,
};
use fencepost_domain::attempt::Outcome;
use fencepost_domain::ids::{ChainId, Lane, NodeId, Nonce, RequestId, TxId};
use fencepost_domain::request::{Ceilings, Draft, Payload};
use fencepost_domain::state::State;
use fencepost_domain::{Address, B256};
use fencepost_postgres::{PostgresStore, Settings};
use fencepost_testkit::postgres::connect;
use uuid::Uuid;

use crate::plain::{Plain, Rows};

/// Writers at work at once; one lane has one writer.
pub(crate) const CONNECTIONS: usize = 2;
/// Transactions of each lane set that the update slices move again and again.
const MOVED: usize = 4096;
/// Of a hundred creates, so many repeat one that is stored.
const DUPLICATES: usize = 10;

/// A lane of the fenced store, with what its worker remembers.
struct Track {
    held: Held,
    cursor: Nonce,
    /// An older request of the lane, to be repeated.
    old: Option<NewTx>,
}

/// A transaction that is moved again and again.
struct Moving {
    track: usize,
    record: Record,
}

pub(crate) struct Load {
    store: PostgresStore,
    /// Repeated requests have a handle of their own: one that met them looks ahead for a while, and
    /// that must not count against creates without any.
    repeating: PostgresStore,
    holder: Holder,
    url: String,
    plain: Vec<Plain>,
    /// By number of lanes: for each writer its lanes.
    tracks: HashMap<usize, Vec<Vec<Track>>>,
    moving: HashMap<usize, Vec<Vec<Moving>>>,
    /// By number of lanes: those that the plain inserts use, and their cursors. Their ids alternate
    /// with those of the fenced ones and a further lane has the highest: an index is quicker at its
    /// right end, and neither side may have that for itself.
    plain_lanes: HashMap<usize, Vec<(i64, i64)>>,
    plain_seq: i64,
    payload: Payload,
    counter: u64,
}

impl Load {
    pub(crate) async fn new(settings: Settings, url: &str) -> Result<Self> {
        let store = PostgresStore::open(settings.clone()).await?;
        let repeating = PostgresStore::open(settings).await?;
        let node = NodeId::new("bench")?;
        let incarnation = store.join(&node, "http://bench").await?;
        let mut plain = Vec::new();
        for _ in 0..CONNECTIONS {
            plain.push(Plain::new(url).await?);
        }
        let draft = Draft {
            to: Some(Address::repeat_byte(7).to_string()),
            value: Some("1000000000000000".to_owned()),
            data: Some(format!("0x{}", "ab".repeat(68))),
            ..Draft::default()
        };
        let ceilings = Ceilings {
            max_fee: 1,
            max_priority_fee: 1,
        };
        let Ok(payload) = Payload::parse(&draft, ceilings) else {
            bail!("the benchmark's own payload is refused");
        };
        Ok(Self {
            store,
            repeating,
            holder: Holder { node, incarnation },
            url: url.to_owned(),
            plain,
            tracks: HashMap::new(),
            moving: HashMap::new(),
            plain_lanes: HashMap::new(),
            plain_seq: 1 << 40,
            payload,
            counter: 0,
        })
    }

    /// One slice of each kind: L, create, create with duplicates, plain update, fenced update.
    pub(crate) async fn slices(
        &mut self,
        lanes: usize,
        batch: usize,
        slice: Duration,
    ) -> Result<[f64; 5]> {
        self.prepare(lanes).await?;
        Ok([
            self.limit(lanes, batch, slice).await?,
            self.create(lanes, batch, slice, 0).await?,
            self.create(lanes, batch, slice, DUPLICATES).await?,
            self.plain_update(lanes, batch, slice).await?,
            self.update(lanes, batch, slice).await?,
        ])
    }

    async fn prepare(&mut self, lanes: usize) -> Result<()> {
        if self.tracks.contains_key(&lanes) {
            return Ok(());
        }
        let chain = ChainId::new(u64::try_from(lanes)?)?;
        let named = |n: usize| {
            let mut bytes = [0; 20];
            bytes[12..].copy_from_slice(&n.to_be_bytes());
            Lane {
                chain,
                signer: Address::from(bytes),
            }
        };
        let named: Vec<Lane> = (0..=2 * lanes).map(named).collect();
        let mut opened = self.store.open_lanes(&named).await?;
        opened.sort();
        let mut ids = Vec::new();
        let mut plain = Vec::new();
        for pair in opened.chunks(2) {
            if let [first, second] = pair {
                plain.push((first.0, 0));
                ids.push(*second);
            } else {
                let mut edge = [(pair[0].0, 0)];
                self.plain[0]
                    .insert(&rows(&mut edge, &mut 0, 1, &self.payload))
                    .await?;
            }
        }
        self.plain_lanes.insert(lanes, plain);
        let bids: Vec<Bid> = ids
            .iter()
            .map(|lane| Bid {
                lane: *lane,
                fresh: false,
            })
            .collect();
        let writers = CONNECTIONS.min(lanes);
        let mut tracks: Vec<Vec<Track>> = (0..writers).map(|_| vec![]).collect();
        let answers = self
            .store
            .acquire(&self.holder, "http://bench", &bids)
            .await?;
        for (n, (lane, answer)) in ids.into_iter().zip(answers).enumerate() {
            let Acquired::Leading(lead) = answer else {
                bail!("lane {lane:?} is not ours: {answer:?}");
            };
            let held = Held {
                lane,
                token: lead.token,
            };
            tracks[n % writers].push(Track {
                held,
                cursor: lead.next_nonce,
                old: None,
            });
        }
        self.tracks.insert(lanes, tracks);
        self.make_moving(lanes).await
    }

    /// Stored transactions for the update slices, put on their way by hand.
    async fn make_moving(&mut self, lanes: usize) -> Result<()> {
        let per_writer = MOVED / CONNECTIONS;
        let mut tracks = self.tracks.remove(&lanes).unwrap_or_default();
        let mut all = Vec::new();
        for writer in &mut tracks {
            let mut ids = Vec::new();
            let batches = batches(writer, per_writer, 0, &mut self.counter, &self.payload);
            for (track, batch) in &batches {
                ids.extend(batch.txs.iter().map(|tx| (*track, tx.tx)));
            }
            create(&self.store, &self.holder, writer, batches).await?;
            all.push(ids);
        }
        let client = connect(&self.url).await?;
        let hash = B256::repeat_byte(9);
        client
            .execute(
                "UPDATE managed_tx SET state = 'TRACKING', sub_state = 'BROADCAST', tx_hash = $1
                  WHERE state = 'ALLOCATED' AND lane_id IN (SELECT lane_id FROM signer_lease WHERE chain_id = $2)",
                &[&hash.as_slice(), &i64::try_from(lanes)?],
            )
            .await?;
        client.batch_execute("VACUUM ANALYZE").await?;
        let mut moving = Vec::new();
        for ids in all {
            let mut records = HashMap::new();
            let wanted: Vec<TxId> = ids.iter().map(|(_, tx)| *tx).collect();
            for chunk in wanted.chunks(1_000) {
                let found = self.store.find_many(chunk).await?;
                records.extend(found.into_iter().map(|record| (record.tx, record)));
            }
            let of = |(track, tx)| records.remove(&tx).map(|record| Moving { track, record });
            moving.push(ids.into_iter().filter_map(of).collect());
        }
        self.tracks.insert(lanes, tracks);
        self.moving.insert(lanes, moving);
        Ok(())
    }

    async fn limit(&mut self, lanes: usize, batch: usize, slice: Duration) -> Result<f64> {
        let writers = CONNECTIONS.min(lanes);
        let (plain, payload) = (&self.plain, &self.payload);
        let mut shares: Vec<Vec<(i64, i64)>> = vec![vec![]; writers];
        let own = self.plain_lanes.remove(&lanes).unwrap_or_default();
        for (n, lane) in own.into_iter().enumerate() {
            shares[n % writers].push(lane);
        }
        let started = Instant::now();
        let work = shares
            .iter_mut()
            .zip(plain)
            .map(|(share, plain)| async move {
                let (mut turn, mut stored) = (0, 0);
                while started.elapsed() < slice {
                    plain
                        .insert(&rows(share, &mut turn, batch, payload))
                        .await?;
                    stored += batch;
                }
                anyhow::Ok(stored)
            });
        let stored: usize = futures::future::try_join_all(work).await?.into_iter().sum();
        let rate = stored as f64 / started.elapsed().as_secs_f64();
        self.plain_lanes
            .insert(lanes, shares.into_iter().flatten().collect());
        Ok(rate)
    }

    async fn create(
        &mut self,
        lanes: usize,
        batch: usize,
        slice: Duration,
        duplicates: usize,
    ) -> Result<f64> {
        let mut tracks = self.tracks.remove(&lanes).unwrap_or_default();
        let store = if duplicates == 0 {
            &self.store
        } else {
            &self.repeating
        };
        let (holder, payload) = (&self.holder, &self.payload);
        let started = Instant::now();
        let work = tracks.iter_mut().enumerate().map(|(n, writer)| async move {
            let mut counter = u64::try_from(n)?;
            let mut rows = 0;
            while started.elapsed() < slice {
                let made = batches(writer, batch, duplicates, &mut counter, payload);
                create(store, holder, writer, made).await?;
                rows += batch;
            }
            anyhow::Ok(rows)
        });
        let rows: usize = futures::future::try_join_all(work).await?.into_iter().sum();
        let rate = rows as f64 / started.elapsed().as_secs_f64();
        self.tracks.insert(lanes, tracks);
        Ok(rate)
    }

    async fn plain_update(&mut self, lanes: usize, batch: usize, slice: Duration) -> Result<f64> {
        let base = self.plain_seq;
        let moving = self
            .moving
            .get(&lanes)
            .map(Vec::as_slice)
            .unwrap_or_default();
        let hash = B256::repeat_byte(9).to_vec();
        let started = Instant::now();
        let work = moving
            .iter()
            .zip(&self.plain)
            .enumerate()
            .map(|(n, (share, plain))| {
                let hash = &hash;
                async move {
                    let (mut turn, mut rows) = (0, 0);
                    let mut seq = base + (i64::try_from(n)? << 36);
                    while started.elapsed() < slice {
                        let picked = || (0..batch).map(|k| &share[(turn + k) % share.len()].record);
                        // Lane ids far from real ones: these events belong to nobody.
                        let lanes: Vec<i64> = picked().map(|r| -r.lane_id.0).collect();
                        let txs: Vec<Uuid> = picked().map(|r| r.tx.0).collect();
                        let seqs: Vec<i64> = (seq..).take(batch).collect();
                        plain
                            .update(&lanes, &txs, &seqs, &vec![hash.clone(); batch])
                            .await?;
                        seq += i64::try_from(batch)?;
                        turn = (turn + batch) % share.len();
                        rows += batch;
                    }
                    anyhow::Ok((rows, seq))
                }
            });
        let done = futures::future::try_join_all(work).await?;
        let rows: usize = done.iter().map(|(rows, _)| rows).sum();
        let rate = rows as f64 / started.elapsed().as_secs_f64();
        self.plain_seq += 1 << 38;
        self.reread(lanes).await?;
        Ok(rate)
    }

    /// The plain updates moved the versions; the fenced ones must know them.
    async fn reread(&mut self, lanes: usize) -> Result<()> {
        for share in self.moving.get_mut(&lanes).into_iter().flatten() {
            let ids: Vec<TxId> = share.iter().map(|moving| moving.record.tx).collect();
            let mut versions = HashMap::new();
            for chunk in ids.chunks(1_000) {
                let found = self.store.find_many(chunk).await?;
                versions.extend(found.into_iter().map(|record| (record.tx, record.version)));
            }
            for moving in share {
                moving.record.version = versions[&moving.record.tx];
            }
        }
        Ok(())
    }

    async fn update(&mut self, lanes: usize, batch: usize, slice: Duration) -> Result<f64> {
        let tracks = self
            .tracks
            .get(&lanes)
            .map(Vec::as_slice)
            .unwrap_or_default();
        let mut moving = self.moving.remove(&lanes).unwrap_or_default();
        let (store, holder) = (&self.store, &self.holder);
        let started = Instant::now();
        let work = moving
            .iter_mut()
            .zip(tracks)
            .map(|(share, tracks)| async move {
                let (mut turn, mut rows) = (0, 0);
                while started.elapsed() < slice {
                    let mut by_lane: HashMap<usize, Vec<Move>> = HashMap::new();
                    for k in 0..batch {
                        let n = (turn + k) % share.len();
                        let moving = &mut share[n];
                        by_lane
                            .entry(moving.track)
                            .or_default()
                            .push(step(&moving.record)?);
                        moving.record.version = moving.record.version.plus(1)?;
                    }
                    let batches: Vec<LaneMoves> = by_lane
                        .into_iter()
                        .map(|(track, moves)| LaneMoves {
                            held: tracks[track].held,
                            moves,
                        })
                        .collect();
                    for answer in store.apply(holder, &batches).await? {
                        if !matches!(answer, LaneMoved::Done(_)) {
                            bail!("a move was refused: {answer:?}");
                        }
                    }
                    turn = (turn + batch) % share.len();
                    rows += batch;
                }
                anyhow::Ok(rows)
            });
        let rows: usize = futures::future::try_join_all(work).await?.into_iter().sum();
        let rate = rows as f64 / started.elapsed().as_secs_f64();
        self.moving.insert(lanes, moving);
        Ok(rate)
    }
}

fn step(record: &Record) -> Result<Move> {
    let State::Tracking(tracking) = record.state.clone() else {
        bail!("{record:?} is not on its way");
    };
    Ok(Move::of(record, tracking.sent(Outcome::Ambiguous)))
}

/// New rows for the plain insert, spread over lanes as [`batches`] does it.
fn rows(share: &mut [(i64, i64)], turn: &mut usize, batch: usize, payload: &Payload) -> Rows {
    let mut made = Rows::default();
    let width = share.len().min(batch);
    for _ in 0..batch {
        let (lane, nonce) = &mut share[*turn];
        *turn = (*turn + 1) % width;
        let (payload, hash) = (payload.canonical().to_vec(), payload.hash());
        let tx = Uuid::now_v7();
        made.lane.push(*lane);
        made.tx.push(tx);
        made.request.push(tx.to_string());
        made.payload.push(payload);
        made.hash.push(hash.to_vec());
        made.nonce.push(*nonce);
        *nonce += 1;
    }
    made
}

/// `rows` new transactions over the writer's lanes, some of them repeated ones.
fn batches(
    writer: &mut [Track],
    rows: usize,
    duplicates: usize,
    counter: &mut u64,
    payload: &Payload,
) -> Vec<(usize, LaneBatch)> {
    let width = writer.len().min(rows);
    let mut made: Vec<(usize, LaneBatch)> = Vec::with_capacity(width);
    for (n, track) in writer.iter().take(width).enumerate() {
        let (held, cursor) = (track.held, track.cursor);
        made.push((
            n,
            LaneBatch {
                held,
                cursor,
                free: vec![],
                txs: vec![],
            },
        ));
    }
    for n in 0..rows {
        *counter += 1;
        let again = *counter % 100 < u64::try_from(duplicates).unwrap_or(0);
        let old = writer[n % width].old.clone().filter(|_| again);
        let fresh = || {
            let tx = Uuid::now_v7();
            NewTx {
                tx: TxId(tx),
                seal: None,
                request_id: RequestId::new(tx.to_string()).ok(),
                body: Body::Managed(payload.clone()),
                not_after: None,
                meta: None,
                created_by: None,
            }
        };
        let tx = old.map_or_else(fresh, |old| NewTx {
            tx: TxId(Uuid::now_v7()),
            ..old
        });
        made[n % width].1.txs.push(tx);
    }
    made
}

async fn create(
    store: &PostgresStore,
    holder: &Holder,
    writer: &mut [Track],
    made: Vec<(usize, LaneBatch)>,
) -> Result<()> {
    let (places, batches): (Vec<usize>, Vec<LaneBatch>) = made.into_iter().unzip();
    let answers = store.create(holder, &batches).await?;
    for ((place, batch), answer) in places.into_iter().zip(batches).zip(answers) {
        let LaneCreated::Done {
            next_nonce, txs, ..
        } = answer
        else {
            bail!("a create was refused: {answer:?}");
        };
        let track = &mut writer[place];
        track.cursor = next_nonce;
        let new = batch
            .txs
            .into_iter()
            .zip(txs)
            .find(|(_, s)| matches!(s, Stored::New { .. }));
        if let Some((tx, _)) = new {
            track.old = Some(tx);
        }
    }
    Ok(())
}
