//! Moves: one statement takes the lane rows, moves the transactions, stores attempts, events, due
//! times and completions, and commits all of it or nothing.

mod call;

use std::collections::HashMap;
use std::sync::OnceLock;

use fencepost_app::ports::{Holder, LaneMoved, LaneMoves, Record, StoreError};
use fencepost_domain::ids::{FeedSeq, TxId};
use tokio_postgres::Row;

pub(crate) use self::call::{Call, Parts};
use crate::PostgresStore;
use crate::broken;
use crate::fault::{Fault, Unique, after_write, refused};
use crate::parts::needed;
use crate::row::{column, corrupt};
use crate::statement::Written;

const MOVES: &str = include_str!("../sql/moves.sql");

const FENCE: &str =
    "l.owner_node = $5 AND l.owner_incarnation = $6::bigint AND l.fencing_token = i.token
       AND l.expires_at > clock_timestamp()
       AND (NOT i.signs OR (l.paused IS NULL AND NOT l.held))";

/// The lock token of a reservation is its own fence; the leader's lease is not ours to renew.
const NO_FENCE: &str = "($6::bigint, $7::bigint) IS NOT NULL";

const RENEW: &str = ", expires_at = clock_timestamp() + $7::bigint * interval '1 microsecond'";

const FEED: &str = "), head AS (
    -- The last of all locks: completions are numbered in the order in which they commit.
    UPDATE feed_head SET last_seq = last_seq + (SELECT count(*) FROM moved)
     WHERE EXISTS (SELECT FROM moved)
    RETURNING last_seq
), listed AS (
    INSERT INTO tx_completion (seq, tx_id, lane_id, nonce, state, sub_state, tx_hash, block_number, corrects)
    SELECT head.last_seq - (SELECT count(*) FROM moved) + row_number() OVER (ORDER BY i.place),
           i.tx_id, (SELECT ids FROM led)[i.k], i.nonce, i.state, i.sub_state,
           coalesce(i.mined_hash, i.tx_hash), i.block_number,
           (SELECT max(c.seq) FROM tx_completion c
             WHERE c.tx_id = i.tx_id AND c.state IN ('CONFIRMED', 'FAILED_FINAL', 'USED'))
      FROM unnest($8::integer[], $9::uuid[], $13::bigint[], $11::text[], $12::text[], $15::bytea[],
                  $16::bigint[], $18::bytea[]) WITH ORDINALITY
           AS i(k, tx_id, nonce, state, sub_state, tx_hash, block_number, mined_hash, place)
     CROSS JOIN head
     WHERE (SELECT ids FROM led)[i.k] IS NOT NULL
    RETURNING seq, lane_id
";
const SEQS: &str =
    "(SELECT array_agg(seq ORDER BY seq) FROM listed WHERE listed.lane_id = lane.lane_id)";

const NO_SEQS: &str = "NULL::bigint[]";

/// One of the statements that `moves.sql` makes, in a form for each choice of its parts.
pub(crate) struct Form {
    /// How it takes the lanes' rows, as `moves.sql` names it.
    taking: &'static str,
    marks: [(&'static str, &'static str); 8],
    texts: [OnceLock<String>; Parts::CHOICES],
}

static APPLY: Form = Form::new("counted", FENCED, "", NO_SEQS);
/// Over lanes of several workers: a lane whose row is held is skipped and goes alone.
static COMPLETE: Form = Form::new("locked", FENCED, FEED, SEQS);
static COMPLETE_ALONE: Form = Form::new("counted", FENCED, FEED, SEQS);
pub(crate) static SETTLE: Form = Form::new("counted", SETTLED, "", NO_SEQS);

/// Under the fence a row carries the leader's token, and storing bytes counts as a try to send them.
const FENCED: [(&str, &str); 5] = [
    ("/*fence*/", FENCE),
    ("/*renew*/", RENEW),
    ("/*token*/", "(SELECT tokens FROM led)[i.k]"),
    ("/*tries*/", "i.signs IS TRUE"),
    ("/*ack*/", "lane.token"),
];
const SETTLED: [(&str, &str); 5] = [
    ("/*fence*/", NO_FENCE),
    ("/*renew*/", ""),
    ("/*token*/", "m.fencing_token"),
    ("/*tries*/", "false"),
    // Whoever says it need not lead the lane.
    ("/*ack*/", "NULL::bigint"),
];

impl Form {
    const fn new(
        taking: &'static str,
        whose: [(&'static str, &'static str); 5],
        feed: &'static str,
        seqs: &'static str,
    ) -> Self {
        let [fence, renew, token, tries, ack] = whose;
        let skip = ("/*skip*/", "SKIP LOCKED");
        let (feed, seqs) = (("/*feed*/", feed), ("/*seqs*/", seqs));
        Self {
            taking,
            marks: [fence, renew, token, tries, ack, skip, feed, seqs],
            texts: [const { OnceLock::new() }; Parts::CHOICES],
        }
    }

    /// The statement with the parts that a call needs and no others: a batch pays for what it does.
    pub(crate) fn sql(&self, parts: Parts) -> &str {
        self.texts[parts.choice()].get_or_init(|| {
            let taking = broken::taking(self.taking);
            let kept = needed(MOVES, |name| name == taking || parts.has(name));
            let marks = self.marks.iter();
            let sql = marks.fold(kept, |sql, (mark, text)| sql.replace(mark, text));
            broken::moves(sql)
        })
    }
}

/// Which moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// Those that the feed does not tell.
    Apply,
    /// Those that it does.
    Complete,
}

impl PostgresStore {
    pub(crate) async fn move_many(
        &self,
        holder: &Holder,
        batches: &[LaneMoves],
        way: Way,
    ) -> Result<Vec<LaneMoved>, StoreError> {
        let mut answers: Vec<Option<LaneMoved>> = batches
            .iter()
            .map(|batch| batch.moves.is_empty().then(|| LaneMoved::Done(vec![])))
            .collect();
        let open = |answers: &[Option<LaneMoved>]| -> Vec<usize> {
            (0..batches.len())
                .filter(|index| answers[*index].is_none())
                .collect()
        };
        let all = open(&answers);
        let form = match way {
            Way::Apply => &APPLY,
            Way::Complete if all.len() > 1 => &COMPLETE,
            Way::Complete => &COMPLETE_ALONE,
        };
        self.move_lanes(holder, batches, &all, form, &mut answers)
            .await?;
        // What stopped the batch, or was held by another statement, goes lane by lane.
        let alone = match way {
            Way::Apply => &APPLY,
            Way::Complete => &COMPLETE_ALONE,
        };
        for index in open(&answers) {
            let moved = self
                .move_lanes(holder, batches, &[index], alone, &mut answers)
                .await;
            match moved {
                Ok(()) => {}
                // Lanes before this one may be written; that must not be told as nothing.
                Err(error) if answers.iter().any(Option::is_some) => {
                    return Err(StoreError::OutcomeUnknown(error.into()));
                }
                Err(error) => return Err(error),
            }
        }
        answers
            .into_iter()
            .map(|answer| answer.ok_or_else(|| corrupt("lane_id")))
            .collect()
    }

    /// One statement over these lanes. Lanes without an answer afterwards must go alone.
    async fn move_lanes(
        &self,
        holder: &Holder,
        batches: &[LaneMoves],
        lanes: &[usize],
        form: &Form,
        answers: &mut [Option<LaneMoved>],
    ) -> Result<(), StoreError> {
        if lanes.is_empty() {
            return Ok(());
        }
        let call = Call::new(
            self,
            Some(holder),
            lanes.iter().map(|index| &batches[*index]),
        );
        let sql = form.sql(call.parts());
        match self.connections.write(sql, &call.params()).await? {
            Written::Rows { rows, again } => {
                let moved = moved_lanes(&rows)?;
                let mut left = Vec::new();
                for &index in lanes {
                    match moved.get(&batches[index].held.lane.0) {
                        Some(seqs) => answers[index] = Some(LaneMoved::Done(seqs.clone())),
                        None => left.push(index),
                    }
                }
                let several = lanes.len() > 1;
                let explained = self.explain_left(holder, batches, &left, several, again, answers);
                if moved.is_empty() && !again {
                    explained.await
                } else {
                    explained.await.map_err(after_write)
                }
            }
            Written::Refused {
                again: true, error, ..
            } => {
                let found = self.find_moved(batches, lanes, answers).await;
                found.map_err(after_write)?;
                if lanes.iter().all(|index| answers[*index].is_some()) {
                    return Ok(());
                }
                Err(StoreError::OutcomeUnknown(error.into()))
            }
            Written::Refused { .. } if lanes.len() > 1 => Ok(()),
            Written::Refused { fault, error, .. } => {
                let index = lanes[0];
                answers[index] = Some(match fault {
                    Fault::Partial => self.stale(&batches[index]).await?,
                    Fault::Taken(Unique::Hash) => self.known_hash(&batches[index], &call).await?,
                    Fault::Held => LaneMoved::Busy,
                    Fault::Lost | Fault::Contended | Fault::Taken(_) | Fault::Refused => {
                        return Err(refused(error));
                    }
                });
                Ok(())
            }
        }
    }

    /// Why the statement left lanes out.
    async fn explain_left(
        &self,
        holder: &Holder,
        batches: &[LaneMoves],
        left: &[usize],
        several: bool,
        again: bool,
        answers: &mut [Option<LaneMoved>],
    ) -> Result<(), StoreError> {
        // The token is read before the rows: what is absent after it was passed stays absent.
        let lanes: Vec<i64> = left
            .iter()
            .map(|index| batches[*index].held.lane.0)
            .collect();
        let states = self.lane_states(holder, &lanes).await?;
        if again {
            self.find_moved(batches, left, answers).await?;
        }
        for &index in left
            .iter()
            .filter(|index| answers[**index].is_none())
            .collect::<Vec<_>>()
        {
            let batch = &batches[index];
            let token = batch.held.token;
            let state = states.get(&batch.held.lane.0);
            if again && !state.is_some_and(|state| state.is_past(token)) {
                return Err(StoreError::OutcomeUnknown(
                    "the lost try may still run".into(),
                ));
            }
            let signs = batch.moves.iter().any(|step| step.attempt.is_some());
            answers[index] = match state {
                None => Some(LaneMoved::UnknownLane),
                Some(state) if !state.is_led(token) => Some(LaneMoved::Fenced),
                Some(state) => match state.paused.filter(|_| signs) {
                    Some(reason) => Some(LaneMoved::Paused(reason)),
                    // Ours and free: it was skipped because another statement held its row.
                    None if several => None,
                    None => return Err(StoreError::Busy("the lane changed hands twice".into())),
                },
            };
        }
        Ok(())
    }

    /// After a lost reply: lanes whose transactions stand just where we wanted them.
    async fn find_moved(
        &self,
        batches: &[LaneMoves],
        lanes: &[usize],
        answers: &mut [Option<LaneMoved>],
    ) -> Result<(), StoreError> {
        for &index in lanes {
            let batch = &batches[index];
            let ids: Vec<TxId> = batch.moves.iter().map(|step| step.tx).collect();
            let there = self.find_map(&ids).await?;
            let stands = |step: &fencepost_app::ports::Move| {
                there.get(&step.tx).is_some_and(|record: &Record| {
                    record.token == batch.held.token
                        && step.version.plus(1) == Ok(record.version)
                        && record.state == step.to
                })
            };
            if batch.moves.iter().all(stands) {
                let told = batch.moves.iter().any(|step| step.event.kind.is_told());
                let seqs = if told {
                    self.seqs_of(&ids).await?
                } else {
                    vec![]
                };
                self.see_events(&[batch.held.lane.0]).await?;
                answers[index] = Some(LaneMoved::Done(seqs));
            }
        }
        Ok(())
    }

    /// The newest numbers of these transactions in the feed, in their order.
    async fn seqs_of(&self, ids: &[TxId]) -> Result<Vec<FeedSeq>, StoreError> {
        let ids: Vec<uuid::Uuid> = ids.iter().map(|tx| tx.0).collect();
        let sql = "SELECT (SELECT max(seq) FROM tx_completion c WHERE c.tx_id = i.tx_id) AS seq
                     FROM unnest($1::uuid[]) WITH ORDINALITY AS i(tx_id, ord) ORDER BY i.ord";
        let rows = self.connections.read(sql, &[&ids]).await?;
        rows.iter()
            .map(|row| Ok(FeedSeq::from_column(column(row, "seq")?)?))
            .collect()
    }

    /// Which moves of a lane were decided on what is no longer so.
    pub(crate) async fn stale(&self, batch: &LaneMoves) -> Result<LaneMoved, StoreError> {
        let ids: Vec<TxId> = batch.moves.iter().map(|step| step.tx).collect();
        let there = self.find_map(&ids).await?;
        let moved_on = |step: &&fencepost_app::ports::Move| {
            there.get(&step.tx).is_none_or(|record| {
                record.lane_id != batch.held.lane || record.version != step.version
            })
        };
        let mut stale: Vec<TxId> = batch
            .moves
            .iter()
            .filter(moved_on)
            .map(|step| step.tx)
            .collect();
        if stale.is_empty() {
            // Then it is an attempt or a remedy that is not there.
            let extra = batch
                .moves
                .iter()
                .filter(|step| step.sent.is_some() || step.closes.is_some());
            stale = extra.map(|step| step.tx).collect();
        }
        Ok(LaneMoved::Stale(stale))
    }

    async fn known_hash(
        &self,
        batch: &LaneMoves,
        call: &Call<'_>,
    ) -> Result<LaneMoved, StoreError> {
        let sql =
            "SELECT a.tx_hash FROM tx_attempt a JOIN signer_lease l ON l.chain_id = a.chain_id
                    WHERE l.lane_id = $1 AND a.tx_hash = ANY($2)";
        let rows = self
            .connections
            .read(sql, &[&batch.held.lane.0, &call.hashes()])
            .await?;
        let known: Vec<&[u8]> = rows
            .iter()
            .map(|row| column(row, "tx_hash"))
            .collect::<Result<_, _>>()?;
        let mut seen = std::collections::HashSet::new();
        let repeats = |step: &&fencepost_app::ports::Move| {
            step.attempt.as_ref().is_some_and(|attempt| {
                known.contains(&attempt.hash.as_slice()) || !seen.insert(attempt.hash)
            })
        };
        let tx = batch.moves.iter().find(repeats).map(|step| step.tx);
        Ok(LaneMoved::KnownHash(tx.ok_or_else(|| corrupt("tx_hash"))?))
    }
}

fn moved_lanes(rows: &[Row]) -> Result<HashMap<i64, Vec<FeedSeq>>, StoreError> {
    let mut moved = HashMap::with_capacity(rows.len());
    for row in rows {
        let seqs: Option<Vec<i64>> = column(row, "seqs")?;
        let seqs = seqs
            .unwrap_or_default()
            .into_iter()
            .map(FeedSeq::from_column);
        moved.insert(column(row, "lane_id")?, seqs.collect::<Result<_, _>>()?);
    }
    Ok(moved)
}
