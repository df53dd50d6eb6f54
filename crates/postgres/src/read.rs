//! Reads. Each finds its rows by an index and returns a bounded number of them.

use fencepost_app::ports::{
    Completion, Feed, Key, PageQuery, Record, StoreError, StoredAttempt, StoredEvent,
};
use fencepost_domain::Bytes;
use fencepost_domain::attempt::{self, Attempt, Outcome, SignedFees};
use fencepost_domain::confirmation::Stretch;
use fencepost_domain::event::{self, Event};
use fencepost_domain::flat::Name;
use fencepost_domain::ids::{FeedSeq, Height, LaneId, LaneSeq, NodeId, Nonce, Token, TxId};
use fencepost_domain::state::{Block, Kind};
use tokio_postgres::Row;
use uuid::Uuid;

use crate::row::{RECORD, column, corrupt, hash, lane, record, request_id, small};
use crate::{PostgresStore, rows};

impl PostgresStore {
    pub(crate) async fn records(
        &self,
        tail: &str,
        params: crate::statement::Params<'_>,
    ) -> Result<Vec<Record>, StoreError> {
        let sql = format!("SELECT {RECORD} {tail}");
        self.connections
            .read(&sql, params)
            .await?
            .iter()
            .map(record)
            .collect()
    }

    pub(crate) async fn find_by(&self, key: &Key) -> Result<Option<Record>, StoreError> {
        const FROM: &str = "FROM managed_tx m JOIN signer_lease l ON l.lane_id = m.lane_id WHERE";
        const LANE: &str = "l.chain_id = $1 AND l.signer = $2";
        let mut found = match key {
            Key::Id(tx) => {
                self.records(&format!("{FROM} m.tx_id = $1"), &[&tx.0])
                    .await?
            }
            Key::Request(lane, request) => {
                let tail = format!("{FROM} {LANE} AND m.request_id = $3");
                let (chain, signer) = (lane.chain.column(), lane.signer.as_slice());
                self.records(&tail, &[&chain, &signer, &request.as_str()])
                    .await?
            }
            Key::Hash(chain, hash) => {
                let tail = format!(
                    "{FROM} m.tx_id = (SELECT tx_id FROM tx_attempt WHERE chain_id = $1 AND tx_hash = $2)"
                );
                self.records(&tail, &[&chain.column(), &hash.as_slice()])
                    .await?
            }
            Key::Nonce(lane, nonce) => {
                let tail = format!("{FROM} {LANE} AND m.nonce = $3");
                let (chain, signer) = (lane.chain.column(), lane.signer.as_slice());
                self.records(&tail, &[&chain, &signer, &nonce.column()])
                    .await?
            }
        };
        Ok(found.pop())
    }

    pub(crate) async fn find_by_ids(&self, ids: &[TxId]) -> Result<Vec<Record>, StoreError> {
        if ids.is_empty() {
            return Ok(vec![]);
        }
        let ids: Vec<Uuid> = ids.iter().map(|tx| tx.0).collect();
        let tail = "FROM managed_tx m JOIN signer_lease l ON l.lane_id = m.lane_id
                    WHERE m.tx_id = ANY($1)";
        self.records(tail, &[&ids]).await
    }

    pub(crate) async fn page_before(&self, query: &PageQuery) -> Result<Vec<Record>, StoreError> {
        let before = query.before.map_or(Uuid::max(), |tx| tx.0);
        let state = query.state.map(Name::word);
        let limit = rows(query.limit);
        let Some(lane) = query.lane else {
            let tail = "FROM managed_tx m JOIN signer_lease l ON l.lane_id = m.lane_id
                        WHERE m.tx_id < $1 AND ($2::text IS NULL OR m.state = $2)
                        ORDER BY m.tx_id DESC LIMIT $3";
            return self.records(tail, &[&before, &state, &limit]).await;
        };
        let tail = "FROM managed_tx m JOIN signer_lease l ON l.lane_id = m.lane_id
                    WHERE m.lane_id = (SELECT lane_id FROM signer_lease WHERE chain_id = $4 AND signer = $5)
                      AND m.tx_id < $1 AND ($2::text IS NULL OR m.state = $2)
                    ORDER BY m.tx_id DESC LIMIT $3";
        let (chain, signer) = (lane.chain.column(), lane.signer.as_slice());
        self.records(tail, &[&before, &state, &limit, &chain, &signer])
            .await
    }

    pub(crate) async fn unfinished_after(
        &self,
        lane: LaneId,
        after: Option<Nonce>,
        limit: usize,
    ) -> Result<Vec<Record>, StoreError> {
        let after = after.map_or(-1, Nonce::column);
        let tail = "FROM due_work d
                    JOIN managed_tx m ON m.tx_id = d.tx_id
                    JOIN signer_lease l ON l.lane_id = m.lane_id
                    WHERE d.lane_id = $1 AND m.nonce > $2 ORDER BY m.nonce LIMIT $3";
        self.records(tail, &[&lane.0, &after, &rows(limit)]).await
    }

    pub(crate) async fn events_after(
        &self,
        tx: TxId,
        after: LaneSeq,
        limit: usize,
    ) -> Result<Vec<StoredEvent>, StoreError> {
        let sql = format!(
            "SELECT {EVENT} FROM tx_event WHERE tx_id = $1 AND lane_seq > $2 ORDER BY lane_seq LIMIT $3"
        );
        let found = self
            .connections
            .read(&sql, &[&tx.0, &after.column(), &rows(limit)])
            .await?;
        found.iter().map(stored_event).collect()
    }

    /// From the last event on that begins a list: those before it say nothing about the list.
    pub(crate) async fn listing_events(
        &self,
        txs: &[TxId],
    ) -> Result<Vec<StoredEvent>, StoreError> {
        if txs.is_empty() {
            return Ok(vec![]);
        }
        let ids: Vec<Uuid> = txs.iter().map(|tx| tx.0).collect();
        let sql = format!(
            "SELECT e.* FROM unnest($1::uuid[]) AS i(id) CROSS JOIN LATERAL (
                   SELECT {EVENT} FROM tx_event
                    WHERE tx_id = i.id AND (kind IN ('receipt', 'confirmations') OR new_fork)
                      AND lane_seq >= coalesce((SELECT max(b.lane_seq) FROM tx_event b
                           WHERE b.tx_id = i.id AND (b.kind = 'receipt' OR b.new_fork)), 0)) e
             ORDER BY e.tx_id, e.lane_seq"
        );
        let found = self.connections.read(&sql, &[&ids]).await?;
        found.iter().map(stored_event).collect()
    }

    pub(crate) async fn attempts_of(&self, txs: &[TxId]) -> Result<Vec<StoredAttempt>, StoreError> {
        if txs.is_empty() {
            return Ok(vec![]);
        }
        let ids: Vec<Uuid> = txs.iter().map(|tx| tx.0).collect();
        let sql = "SELECT tx_id, n, kind, tx_hash, raw, max_fee::text AS max_fee,
                          max_priority_fee::text AS max_priority_fee, fencing_token, outcome, created_at
                     FROM tx_attempt WHERE tx_id = ANY($1) ORDER BY tx_id, n";
        self.connections
            .read(sql, &[&ids])
            .await?
            .iter()
            .map(stored_attempt)
            .collect()
    }

    /// Head, floor and rows come from one snapshot: rows are there from exactly that floor to exactly that
    /// head. Whoever has not seen what was retired gets none: it must not read on as if it had. The limits keep
    /// the planner from reading all lanes for a page of completions.
    pub(crate) async fn feed_after(
        &self,
        after: FeedSeq,
        limit: usize,
    ) -> Result<Feed, StoreError> {
        let sql = "
            SELECT h.last_seq, h.epoch, s.feed_waits, r.deleted_seq, c.seq, c.tx_id, m.kind, l.chain_id, l.signer, m.request_id,
                   c.nonce, c.state, c.sub_state, c.tx_hash, c.block_number, c.at, c.corrects
              FROM feed_head h CROSS JOIN retention r CROSS JOIN store_identity s
              LEFT JOIN LATERAL (
                   SELECT * FROM tx_completion WHERE seq > $1 AND $1 >= r.deleted_seq
                    ORDER BY seq LIMIT $2) c ON true
              LEFT JOIN LATERAL (
                   SELECT kind, request_id FROM managed_tx t WHERE t.tx_id = c.tx_id LIMIT 1) m ON true
              LEFT JOIN LATERAL (
                   SELECT chain_id, signer FROM signer_lease t WHERE t.lane_id = c.lane_id LIMIT 1) l ON true
             ORDER BY c.seq";
        let params: crate::statement::Params<'_> = &[&after.column(), &rows(limit)];
        let (found, server) = self.connections.read_from(sql, params).await?;
        let first = found.first().ok_or_else(|| corrupt("feed_head"))?;
        let memory = &self.connections.memory;
        if column(first, "feed_waits")? {
            memory.set_feed_waits(true);
            let why = "the database was failed over: nodes still compare what readers were told";
            return Err(StoreError::Unavailable(why.into()));
        }
        let head = FeedSeq::from_column(column(first, "last_seq")?)?;
        memory.feeds(server, head.column())?;
        let floor = FeedSeq::from_column(column(first, "deleted_seq")?)?;
        let epoch: i64 = column(first, "epoch")?;
        let mut completions = Vec::with_capacity(found.len());
        for row in &found {
            if column::<Option<i64>>(row, "seq")?.is_some() {
                completions.push(completion(row)?);
            }
        }
        let epoch = u64::try_from(epoch).map_err(|_| corrupt("epoch"))?;
        Ok(Feed {
            completions,
            head,
            floor,
            epoch,
        })
    }
}

/// By name: a statement that names all columns with a star fails on each connection that knew it before a
/// migration adds one.
const EVENT: &str = "lane_seq, tx_id, kind, from_state, from_sub, to_state, to_sub, tx_hash, block_number, \
    block_hash, new_fork, note, node, fencing_token, at, confirmations";

fn stored_event(row: &Row) -> Result<StoredEvent, StoreError> {
    let number: Option<i64> = column(row, "block_number")?;
    let block = match (number, hash(row, "block_hash")?) {
        (Some(number), Some(hash)) => Some(Block {
            number: Height::from_column(number)?,
            hash,
        }),
        (None, None) => None,
        (Some(_), None) | (None, Some(_)) => return Err(corrupt("block_hash")),
    };
    let from: Option<String> = column(row, "from_state")?;
    let from_sub: Option<String> = column(row, "from_sub")?;
    let node: Option<String> = column(row, "node")?;
    let confirmations: Option<&[u8]> = column(row, "confirmations")?;
    Ok(StoredEvent {
        seq: LaneSeq::from_column(column(row, "lane_seq")?)?,
        tx: TxId(column(row, "tx_id")?),
        event: Event {
            kind: event::Kind::from_word(column(row, "kind")?)?,
            hash: hash(row, "tx_hash")?,
            block,
            new_fork: column(row, "new_fork")?,
            confirmations: confirmations
                .map(|column| Stretch::from_column(column, block))
                .transpose()?,
            note: column(row, "note")?,
        },
        from: from.map(|from| (from, from_sub)),
        to: (column(row, "to_state")?, column(row, "to_sub")?),
        node: node
            .map(NodeId::new)
            .transpose()
            .map_err(|_| corrupt("node"))?,
        token: Token::from_column(column(row, "fencing_token")?)?,
        at: column(row, "at")?,
    })
}

/// Fees are decimal text on the wire: they may be wider than any integer column.
pub(crate) fn signed_fees(row: &Row) -> Result<Option<SignedFees>, StoreError> {
    let parse = |text: String| text.parse::<u128>().map_err(|_| corrupt("max_fee"));
    let max_fee: Option<String> = column(row, "max_fee")?;
    let tip: Option<String> = column(row, "max_priority_fee")?;
    let tip = tip.map(parse).transpose()?;
    let fees = max_fee.map(parse).transpose()?;
    Ok(fees.map(|max_fee| SignedFees {
        max_fee,
        max_priority_fee: tip,
    }))
}

fn stored_attempt(row: &Row) -> Result<StoredAttempt, StoreError> {
    let raw: Vec<u8> = column(row, "raw")?;
    let outcome: Option<&str> = column(row, "outcome")?;
    Ok(StoredAttempt {
        tx: TxId(column(row, "tx_id")?),
        n: small(row, "n")?,
        attempt: Attempt {
            kind: attempt::Kind::from_word(column(row, "kind")?)?,
            hash: hash(row, "tx_hash")?.ok_or_else(|| corrupt("tx_hash"))?,
            raw: Bytes::from(raw),
            fees: signed_fees(row)?,
        },
        outcome: outcome.map(Outcome::from_word).transpose()?,
        token: Token::from_column(column(row, "fencing_token")?)?,
        at: column(row, "created_at")?,
    })
}

fn completion(row: &Row) -> Result<Completion, StoreError> {
    let nonce: Option<i64> = column(row, "nonce")?;
    let block: Option<i64> = column(row, "block_number")?;
    let corrects: Option<i64> = column(row, "corrects")?;
    Ok(Completion {
        seq: FeedSeq::from_column(column(row, "seq")?)?,
        tx: TxId(column(row, "tx_id")?),
        kind: Kind::from_word(column(row, "kind")?)?,
        lane: lane(row)?,
        request_id: request_id(row)?,
        nonce: nonce.map(Nonce::from_column).transpose()?,
        state: Name::from_word(column(row, "state")?)?,
        sub_state: column(row, "sub_state")?,
        tx_hash: hash(row, "tx_hash")?,
        block_number: block.map(Height::from_column).transpose()?,
        at: column(row, "at")?,
        corrects: corrects.map(FeedSeq::from_column).transpose()?,
    })
}
