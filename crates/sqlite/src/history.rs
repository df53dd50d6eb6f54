//! What was told and what was signed: events and attempts, appended and never changed.

use fencepost_app::ports::check::clean;
use fencepost_app::ports::{StoredAttempt, StoredEvent};
use fencepost_domain::attempt::{self, Attempt, Outcome, SignedFees};
use fencepost_domain::confirmation::Stretch;
use fencepost_domain::event::{self, Event};
use fencepost_domain::ids::{ChainId, Corrupt, Height, LaneId, LaneSeq, NodeId, Token, TxId};
use fencepost_domain::state::{Block, State};
use fencepost_domain::{B256, Bytes};
use rusqlite::{Row, params};

use crate::db::Db;
use crate::error::Answer;
use crate::row::{Cells, hash, key, node};

/// Who writes: the lane's leader, or the holder of a reservation, who has no node.
#[derive(Clone, Copy)]
pub(crate) struct Author<'a> {
    pub(crate) node: Option<&'a NodeId>,
    pub(crate) token: Token,
}

/// State and sub-state before, as the history tells it.
pub(crate) type Before = Option<(&'static str, Option<&'static str>)>;

/// The words of a state, for the event that leaves it.
pub(crate) fn words(state: &State) -> Before {
    Some((state.name().word(), state.sub()))
}

/// The lane's place for each next event. Written back when the lane's row is.
pub(crate) struct Teller<'a> {
    pub(crate) lane: LaneId,
    pub(crate) seq: LaneSeq,
    pub(crate) author: Author<'a>,
}

impl Teller<'_> {
    pub(crate) fn tell(
        &mut self,
        db: &Db<'_>,
        tx: TxId,
        event: &Event,
        from: Before,
        to: &State,
    ) -> Answer<()> {
        self.seq = self.seq.plus(1)?;
        db.run_one(
            "INSERT INTO tx_event (lane_id, lane_seq, tx_id, kind, tx_hash, block_number,
                block_hash, new_fork, note, from_state, from_sub, to_state, to_sub, node_id,
                fencing_token, at, confirmations)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17)",
            params![
                self.lane.0,
                self.seq.column(),
                key(tx),
                event.kind.word(),
                event.hash.as_ref().map(B256::as_slice),
                event.block.map(|block| block.number.column()),
                event.block.as_ref().map(|block| block.hash.as_slice()),
                event.new_fork,
                event.note.as_deref().map(clean),
                from.map(|(state, _)| state),
                from.and_then(|(_, sub)| sub),
                to.name().word(),
                to.sub(),
                self.author.node.map(NodeId::as_str),
                self.author.token.column(),
                db.now,
                event.confirmations.as_ref().map(Stretch::column),
            ],
        )
    }
}

pub(crate) fn history(
    db: &Db<'_>,
    tx: TxId,
    after: LaneSeq,
    limit: usize,
) -> Answer<Vec<StoredEvent>> {
    db.all(
        "SELECT lane_seq, tx_id, kind, tx_hash, block_number, block_hash, new_fork, note, confirmations,
            from_state, from_sub, to_state, to_sub, node_id, fencing_token, at
         FROM tx_event WHERE tx_id = ?1 AND lane_seq > ?2 ORDER BY lane_seq LIMIT ?3",
        params![key(tx), after.column(), limit],
        read_event,
    )
}

/// From the last event on that begins a list: those before it say nothing about the list.
pub(crate) fn listing(db: &Db<'_>, txs: &[TxId]) -> Answer<Vec<StoredEvent>> {
    let mut txs = txs.to_vec();
    txs.sort_unstable();
    txs.dedup();
    let mut found = Vec::new();
    for tx in txs {
        found.extend(db.all(
            "SELECT lane_seq, tx_id, kind, tx_hash, block_number, block_hash, new_fork, note, confirmations,
                from_state, from_sub, to_state, to_sub, node_id, fencing_token, at
             FROM tx_event
             WHERE tx_id = ?1 AND (kind IN ('receipt', 'confirmations') OR new_fork)
               AND lane_seq >= coalesce((SELECT max(lane_seq) FROM tx_event
                    WHERE tx_id = ?1 AND (kind = 'receipt' OR new_fork)), 0)
             ORDER BY lane_seq",
            [key(tx)],
            read_event,
        )?);
    }
    Ok(found)
}

fn read_event(row: &Row<'_>) -> Answer<StoredEvent> {
    let mut cells = Cells::of(row);
    let seq = LaneSeq::from_column(cells.next()?)?;
    let tx = cells.tx()?;
    let mut event = Event {
        kind: event::Kind::from_word(&cells.next::<String>()?)?,
        hash: cells.maybe_hash("tx_hash")?,
        block: read_block(&mut cells)?,
        new_fork: cells.next()?,
        note: cells.next()?,
        confirmations: None,
    };
    if let Some(column) = cells.next::<Option<Vec<u8>>>()? {
        event.confirmations = Some(Stretch::from_column(&column, event.block)?);
    }
    let from: Option<String> = cells.next()?;
    let from_sub = cells.next()?;
    let to = (cells.next()?, cells.next()?);
    let author: Option<String> = cells.next()?;
    Ok(StoredEvent {
        seq,
        tx,
        event,
        from: from.map(|state| (state, from_sub)),
        to,
        node: author.map(node).transpose()?,
        token: Token::from_column(cells.next()?)?,
        at: cells.time()?,
    })
}

fn read_block(cells: &mut Cells<'_>) -> Answer<Option<Block>> {
    let number: Option<i64> = cells.next()?;
    let hash = cells.maybe_hash("block_hash")?;
    Ok(match (number, hash) {
        (Some(number), Some(hash)) => {
            let number = Height::from_column(number)?;
            Some(Block { number, hash })
        }
        (None, None) => None,
        (Some(_), None) | (None, Some(_)) => {
            let column = "block_hash";
            return Err(Corrupt { column }.into());
        }
    })
}

/// Stores bytes under their number. From here on they may have been sent.
pub(crate) fn store_attempt(
    db: &Db<'_>,
    tx: TxId,
    n: u32,
    chain: ChainId,
    attempt: &Attempt,
    token: Token,
) -> Answer<()> {
    let fees = attempt.fees;
    db.run_one(
        "INSERT INTO tx_attempt (tx_id, n, chain_id, kind, tx_hash, raw, max_fee,
            max_priority_fee, fencing_token, created_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
        params![
            key(tx),
            n,
            chain.column(),
            attempt.kind.word(),
            attempt.hash.as_slice(),
            attempt.raw.as_ref(),
            fees.map(|fees| fees.max_fee.to_string()),
            fees.and_then(|fees| fees.max_priority_fee)
                .map(|tip| tip.to_string()),
            token.column(),
            db.now,
        ],
    )
}

/// Whose attempt has this hash on the chain.
pub(crate) fn holder_of(db: &Db<'_>, chain: ChainId, hash: B256) -> Answer<Option<TxId>> {
    db.one(
        "SELECT tx_id FROM tx_attempt WHERE chain_id = ?1 AND tx_hash = ?2",
        params![chain.column(), hash.as_slice()],
        |row| Cells::of(row).tx(),
    )
}

pub(crate) fn attempts(db: &Db<'_>, txs: &[TxId]) -> Answer<Vec<StoredAttempt>> {
    let mut txs = txs.to_vec();
    txs.sort_unstable();
    txs.dedup();
    let mut found = Vec::new();
    for tx in txs {
        found.extend(db.all(
            "SELECT tx_id, n, kind, tx_hash, raw, max_fee, max_priority_fee, outcome,
                fencing_token, created_at
             FROM tx_attempt WHERE tx_id = ?1 ORDER BY n",
            [key(tx)],
            read_attempt,
        )?);
    }
    Ok(found)
}

fn read_attempt(row: &Row<'_>) -> Answer<StoredAttempt> {
    let mut cells = Cells::of(row);
    let tx = cells.tx()?;
    let n = cells.next()?;
    let kind = attempt::Kind::from_word(&cells.next::<String>()?)?;
    let hash = hash(&cells.next::<Vec<u8>>()?, "tx_hash")?;
    let raw = Bytes::from(cells.next::<Vec<u8>>()?);
    let fees = fees(&mut cells)?;
    let outcome: Option<String> = cells.next()?;
    Ok(StoredAttempt {
        tx,
        n,
        attempt: Attempt {
            kind,
            hash,
            raw,
            fees,
        },
        outcome: outcome.map(|word| Outcome::from_word(&word)).transpose()?,
        token: Token::from_column(cells.next()?)?,
        at: cells.time()?,
    })
}

/// Wei as decimal text, in two columns.
pub(crate) fn fees(cells: &mut Cells<'_>) -> Answer<Option<SignedFees>> {
    let read = |text: Option<String>| {
        let corrupt = Corrupt { column: "max_fee" };
        text.map(|text| text.parse::<u128>().map_err(|_| corrupt))
            .transpose()
    };
    let max_fee = read(cells.next()?)?;
    let max_priority_fee = read(cells.next()?)?;
    Ok(max_fee.map(|max_fee| SignedFees {
        max_fee,
        max_priority_fee,
    }))
}
