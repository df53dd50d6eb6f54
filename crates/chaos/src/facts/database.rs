//! Reads everything out of the database, by plain SQL.

use std::collections::HashMap;

use alloy_consensus::{Transaction, TxEnvelope};
use alloy_eips::Decodable2718;
use anyhow::{Context, Result};
use tokio_postgres::{Client, Row};

use super::{AttemptRow, CompletionRow, LaneRow, Rows, ToldRow, TxRow};
use crate::load::sampler::by_name;
use crate::note::FeedRow;
use crate::world::World;

const LANES: &str = "SELECT l.lane_id, l.chain_id, encode(l.signer, 'hex'), l.fencing_token, \
    l.next_nonce, l.lane_seq, (SELECT count(*) FROM tx_event e WHERE e.lane_id = l.lane_id) \
    FROM signer_lease l ORDER BY 1";
const TXS: &str = "SELECT tx_id::text, lane_id, kind, request_id, encode(payload_hash, 'hex'), nonce, \
    nonce_given_back, state, sub_state, '0x' || encode(mined_hash, 'hex'), submit_attempts::bigint, \
    (extract(epoch FROM created_at) * 1000000)::bigint, \
    (extract(epoch FROM updated_at) * 1000000)::bigint FROM managed_tx ORDER BY tx_id";
const ATTEMPTS: &str = "SELECT tx_id::text, kind, '0x' || encode(tx_hash, 'hex'), raw FROM tx_attempt ORDER BY tx_id, n";
const COMPLETIONS: &str = "SELECT seq, tx_id::text, state, sub_state, '0x' || encode(tx_hash, 'hex'), \
    corrects, (extract(epoch FROM at) * 1000000)::bigint FROM tx_completion ORDER BY seq";
const GIVEN: &str = "SELECT lane_id, (extract(epoch FROM at) * 1000000)::bigint FROM tx_event \
    WHERE kind = 'accepted' ORDER BY 2";

const TOLD: &str = "SELECT tx_id::text, kind, '0x' || encode(block_hash, 'hex'), new_fork, \
    encode(confirmations, 'hex') FROM tx_event WHERE kind IN ('receipt', 'confirmations') OR new_fork \
    ORDER BY lane_id, lane_seq";
/// The digits of a hash.
const HASH_DIGITS: usize = 64;

/// A number that is never negative.
fn whole(row: &Row, column: usize) -> Result<u64> {
    let number: i64 = row.get(column);
    u64::try_from(number).with_context(|| format!("{number} in column {column}"))
}

fn maybe(row: &Row, column: usize) -> Result<Option<u64>> {
    let number: Option<i64> = row.get(column);
    Ok(number.map(u64::try_from).transpose()?)
}

/// All of it, of one moment.
pub(crate) async fn read(world: &World) -> Result<Rows> {
    let mut client = world.database.connect().await?;
    let moment = client
        .build_transaction()
        .isolation_level(tokio_postgres::IsolationLevel::RepeatableRead)
        .start()
        .await?;
    let names = by_name(world);
    let mut numbers = HashMap::new();
    let mut rows = Rows::default();
    for row in moment.query(LANES, &[]).await? {
        let lane = names.get(&(row.get(1), row.get(2)));
        let lane = *lane.context("a lane that is none of ours")?;
        numbers.insert(row.get::<_, i64>(0), lane);
        rows.lanes.push(LaneRow {
            lane,
            token: whole(&row, 3)?,
            cursor: whole(&row, 4)?,
            events_last: whole(&row, 5)?,
            events: whole(&row, 6)?,
        });
    }
    let client = moment.client();
    let lane = |id: i64| numbers.get(&id).copied().context("a row of no lane");
    for row in client.query(TXS, &[]).await? {
        rows.txs.push(tx(&row, lane(row.get(1))?)?);
    }
    for row in client.query(ATTEMPTS, &[]).await? {
        rows.attempts.push(attempt(&row)?);
    }
    for row in client.query(COMPLETIONS, &[]).await? {
        rows.completions.push(completion(&row)?);
    }
    let head = client.query_one("SELECT last_seq FROM feed_head", &[]);
    rows.feed_head = whole(&head.await?, 0)?;
    for row in client
        .query("SELECT lane_id, nonce FROM free_nonce", &[])
        .await?
    {
        rows.free.push((lane(row.get(0))?, whole(&row, 1)?));
    }
    for row in client.query(GIVEN, &[]).await? {
        rows.given.push((lane(row.get(0))?, whole(&row, 1)?));
    }
    for row in client.query(TOLD, &[]).await? {
        rows.told.push(told(&row)?);
    }
    Ok(rows)
}

fn told(row: &Row) -> Result<ToldRow> {
    let hashes: Option<String> = row.get(4);
    let hashes = hashes.unwrap_or_default();
    let hashes = hashes.as_bytes().chunks(HASH_DIGITS).map(str::from_utf8);
    let hashes: Result<Vec<&str>, _> = hashes.collect();
    Ok(ToldRow {
        tx: row.get(0),
        kind: row.get(1),
        block: row.get(2),
        new_fork: row.get(3),
        confirmations: hashes?.iter().map(|hash| format!("0x{hash}")).collect(),
    })
}

fn tx(row: &Row, lane: usize) -> Result<TxRow> {
    Ok(TxRow {
        tx: row.get(0),
        lane,
        kind: row.get(2),
        request: row.get(3),
        payload_hash: row.get(4),
        nonce: maybe(row, 5)?,
        given_back: maybe(row, 6)?,
        state: row.get(7),
        sub: row.get(8),
        mined: row.get(9),
        sends: whole(row, 10)?,
        created: whole(row, 11)?,
        updated: whole(row, 12)?,
    })
}

fn attempt(row: &Row) -> Result<AttemptRow> {
    let raw: Vec<u8> = row.get(3);
    let signed = match raw.as_slice() {
        [] => None,
        bytes => Some(TxEnvelope::decode_2718_exact(bytes).context("bytes of an attempt")?),
    };
    let signed = signed.as_ref();
    let value = signed.map(|signed| u64::try_from(signed.value()));
    Ok(AttemptRow {
        tx: row.get(0),
        kind: row.get(1),
        hash: row.get(2),
        nonce: signed.map(Transaction::nonce),
        value: value.transpose().context("a value that nobody asked for")?,
    })
}

fn completion(row: &Row) -> Result<CompletionRow> {
    Ok(CompletionRow {
        row: FeedRow {
            seq: whole(row, 0)?,
            tx: row.get(1),
            state: row.get(2),
            sub: row.get(3),
            hash: row.get(4),
            corrects: maybe(row, 5)?,
        },
        at: whole(row, 6)?,
    })
}

/// What is not over: how many, how many of them stuck, how far the feed is, and how many nonces are free.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Left {
    pub(crate) unfinished: i64,
    pub(crate) feed: i64,
    pub(crate) free: i64,
    pub(crate) paused: i64,
}

/// States that nothing but a deep reorg ends.
const OVER: &str = "('CONFIRMED', 'FAILED_FINAL', 'USED', 'RECYCLABLE')";

pub(crate) async fn left(client: &Client) -> Result<Left> {
    let sql = format!(
        "SELECT (SELECT count(*) FROM managed_tx WHERE state NOT IN {OVER}), \
         (SELECT last_seq FROM feed_head), (SELECT count(*) FROM free_nonce), \
         (SELECT count(*) FROM signer_lease WHERE paused IS NOT NULL OR held)"
    );
    let row = client.query_one(&sql, &[]).await?;
    Ok(Left {
        unfinished: row.get(0),
        feed: row.get(1),
        free: row.get(2),
        paused: row.get(3),
    })
}

/// Transactions that are stuck, with their reasons.
pub(crate) async fn stuck(client: &Client) -> Result<Vec<(String, String)>> {
    let sql = "SELECT tx_id::text, sub_state FROM managed_tx WHERE state = 'STUCK' ORDER BY nonce";
    let rows = client.query(sql, &[]).await?;
    Ok(rows.iter().map(|row| (row.get(0), row.get(1))).collect())
}

/// Lanes in which a nonce is free while a higher one is held: each needs somebody to take it.
pub(crate) async fn gaps(world: &World, client: &Client) -> Result<Vec<(usize, i64)>> {
    let sql = "SELECT l.chain_id, encode(l.signer, 'hex'), count(*) FROM free_nonce f \
        JOIN signer_lease l USING (lane_id) WHERE EXISTS (SELECT FROM managed_tx m \
        WHERE m.lane_id = f.lane_id AND m.nonce > f.nonce) GROUP BY 1, 2";
    let names = by_name(world);
    let rows = client.query(sql, &[]).await?;
    let gap = |row: &Row| Some((*names.get(&(row.get(0), row.get(1)))?, row.get(2)));
    Ok(rows.iter().filter_map(gap).collect())
}

/// What is not over, for those who must look at it.
pub(crate) async fn unfinished(client: &Client) -> Result<Vec<String>> {
    let sql = format!(
        "SELECT tx_id::text || ' lane ' || lane_id || ' nonce ' || coalesce(nonce::text, '-') || ' ' \
         || kind || ' ' || state || '/' || coalesce(sub_state, '-') || ' ' || coalesce(last_error, '') \
         FROM managed_tx WHERE state NOT IN {OVER} ORDER BY lane_id, nonce LIMIT 40"
    );
    let rows = client.query(&sql, &[]).await?;
    Ok(rows.iter().map(|row| row.get(0)).collect())
}
