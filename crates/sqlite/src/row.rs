//! Rows and records. Reading re-checks what we wrote: columns that no state lays out, or a state that does not fit its kind,
//! are corruption.

use fencepost_app::ports::{Record, Reservation};
use fencepost_domain::flat::Flat;
use fencepost_domain::ids::{
    ChainId, Corrupt, Lane, LaneId, LockToken, NodeId, RequestId, Token, TxId, Version,
};
use fencepost_domain::request::{Meta, Payload};
use fencepost_domain::seal::Proof;
use fencepost_domain::state::{Kind, State};
use fencepost_domain::{Address, B256};
use jiff::Timestamp;
use rusqlite::Row;
use rusqlite::types::FromSql;
use uuid::Uuid;

use crate::db::Micros;
use crate::error::Answer;

/// A query for records, read by [`record`]: the rest of the statement joins, filters and orders.
macro_rules! select_record {
    ($rest:literal) => {
        concat!(
            "SELECT t.tx_id, t.lane_id, l.chain_id, l.signer, t.kind, t.request_id, t.payload, ",
            "t.payload_hash, t.seal, t.state, t.sub_state, t.nonce, t.nonce_given_back, t.tx_hash, ",
            "t.block_number, t.block_hash, t.mined_hash, t.mined_by, t.mined_status, ",
            "t.foreign_hash, t.attempts, t.submit_attempts, t.last_error, t.first_submit_at, ",
            "t.last_submit_at, t.receipt, t.confirmed_at, t.not_after, t.meta, t.created_by, t.lock_token, ",
            "t.reserve_expires_at, t.fencing_token, t.version, t.created_at, t.updated_at ",
            $rest
        )
    };
}
pub(crate) use select_record;

/// The columns of a row, one after the other.
pub(crate) struct Cells<'a> {
    row: &'a Row<'a>,
    at: usize,
}

impl<'a> Cells<'a> {
    pub(crate) fn of(row: &'a Row<'a>) -> Self {
        Self { row, at: 0 }
    }

    pub(crate) fn next<T: FromSql>(&mut self) -> Answer<T> {
        self.at += 1;
        Ok(self.row.get(self.at - 1)?)
    }

    pub(crate) fn tx(&mut self) -> Answer<TxId> {
        Ok(TxId(uuid(&self.next::<Vec<u8>>()?, "tx_id")?))
    }

    pub(crate) fn maybe_tx(&mut self) -> Answer<Option<TxId>> {
        let bytes: Option<Vec<u8>> = self.next()?;
        let read = |bytes: Vec<u8>| uuid(&bytes, "tx_id").map(TxId);
        Ok(bytes.map(read).transpose()?)
    }

    pub(crate) fn lane(&mut self) -> Answer<Lane> {
        let chain = ChainId::from_column(self.next()?)?;
        let signer: Vec<u8> = self.next()?;
        let signer = Address::try_from(&signer[..]).map_err(|_| Corrupt { column: "signer" })?;
        Ok(Lane { chain, signer })
    }

    pub(crate) fn time(&mut self) -> Answer<Timestamp> {
        Ok(time(self.next()?)?)
    }

    pub(crate) fn maybe_time(&mut self) -> Answer<Option<Timestamp>> {
        let micros: Option<Micros> = self.next()?;
        Ok(micros.map(time).transpose()?)
    }

    pub(crate) fn maybe_hash(&mut self, column: &'static str) -> Answer<Option<B256>> {
        let bytes: Option<Vec<u8>> = self.next()?;
        Ok(bytes.map(|bytes| hash(&bytes, column)).transpose()?)
    }

    pub(crate) fn request_id(&mut self) -> Answer<Option<RequestId>> {
        let text: Option<String> = self.next()?;
        let column = "request_id";
        let read = |text| RequestId::new(text).map_err(|_| Corrupt { column });
        Ok(text.map(read).transpose()?)
    }

    /// The payload, what the row says about it, and the hash of one that was retired. Whether they fit is decided before
    /// anything is signed: a lane must be readable to say that they do not.
    fn payload(&mut self) -> Answer<(Option<Payload>, Proof, Option<B256>)> {
        let bytes: Option<Vec<u8>> = self.next()?;
        let hash = self.maybe_hash("payload_hash")?;
        let seal = self.maybe_hash("seal")?;
        let retired = hash.filter(|_| bytes.as_ref().is_some_and(Vec::is_empty));
        let payload = bytes.and_then(|bytes| Payload::from_canonical(&bytes).ok());
        Ok((payload, Proof { hash, seal }, retired))
    }

    fn state(&mut self, kind: Kind) -> Answer<State> {
        let state = State::from_flat(&Flat {
            state: self.next()?,
            sub_state: self.next()?,
            nonce: self.next()?,
            nonce_given_back: self.next()?,
            tx_hash: self.next()?,
            block_number: self.next()?,
            block_hash: self.next()?,
            mined_hash: self.next()?,
            mined_by: self.next()?,
            mined_status: self.next()?,
            foreign_hash: self.next()?,
        })?;
        if !state.fits(kind) {
            return Err(Corrupt { column: "kind" }.into());
        }
        Ok(state)
    }

    fn reservation(&mut self) -> Answer<Option<Reservation>> {
        let lock: Option<Vec<u8>> = self.next()?;
        let expires_at = self.maybe_time()?;
        Ok(match (lock, expires_at) {
            (Some(lock), Some(expires_at)) => {
                let lock = LockToken(uuid(&lock, "lock_token")?);
                Some(Reservation { lock, expires_at })
            }
            (None, None) => None,
            (Some(_), None) | (None, Some(_)) => {
                let column = "lock_token";
                return Err(Corrupt { column }.into());
            }
        })
    }
}

/// Reads one row of [`select_record`].
pub(crate) fn record(row: &Row<'_>) -> Answer<Record> {
    let mut cells = Cells::of(row);
    let tx = cells.tx()?;
    let lane_id = LaneId(cells.next()?);
    let lane = cells.lane()?;
    let kind = Kind::from_word(&cells.next::<String>()?)?;
    let request_id = cells.request_id()?;
    let (payload, proof, retired) = cells.payload()?;
    Ok(Record {
        tx,
        lane_id,
        lane,
        kind,
        request_id,
        payload,
        proof,
        retired,
        state: cells.state(kind)?,
        attempts: cells.next()?,
        submit_attempts: cells.next()?,
        last_error: cells.next()?,
        first_submit_at: cells.maybe_time()?,
        last_submit_at: cells.maybe_time()?,
        receipt: cells.next()?,
        confirmed_at: cells.maybe_time()?,
        not_after: cells.maybe_time()?,
        meta: meta(cells.next()?)?,
        created_by: cells.next::<Option<String>>()?.map(Into::into),
        reservation: cells.reservation()?,
        token: Token::from_column(cells.next()?)?,
        version: Version::from_column(cells.next()?)?,
        created_at: cells.time()?,
        updated_at: cells.time()?,
    })
}

fn meta(text: Option<String>) -> Result<Option<Meta>, Corrupt> {
    let read = |text| Meta::new(text).map_err(|_| Corrupt { column: "meta" });
    text.map(read).transpose()
}

pub(crate) fn time(micros: Micros) -> Result<Timestamp, Corrupt> {
    let column = "a time";
    Timestamp::from_microsecond(micros).map_err(|_| Corrupt { column })
}

pub(crate) fn hash(bytes: &[u8], column: &'static str) -> Result<B256, Corrupt> {
    B256::try_from(bytes).map_err(|_| Corrupt { column })
}

pub(crate) fn node(text: String) -> Result<NodeId, Corrupt> {
    NodeId::new(text).map_err(|_| Corrupt { column: "node_id" })
}

fn uuid(bytes: &[u8], column: &'static str) -> Result<Uuid, Corrupt> {
    Uuid::from_slice(bytes).map_err(|_| Corrupt { column })
}

/// A transaction's id as its column holds it.
pub(crate) fn key(tx: TxId) -> [u8; 16] {
    *tx.0.as_bytes()
}
