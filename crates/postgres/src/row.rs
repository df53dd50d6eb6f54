//! Rows to records. Reading re-checks what we wrote.

use fencepost_app::ports::{Record, Reservation, StoreError};
use fencepost_domain::flat::Flat;
use fencepost_domain::ids::{
    ChainId, Corrupt, Lane, LaneId, LockToken, RequestId, Token, TxId, Version,
};
use fencepost_domain::request::{Meta, Payload};
use fencepost_domain::seal::Proof;
use fencepost_domain::state::{Kind, State};
use fencepost_domain::{Address, B256};
use tokio_postgres::Row;
use tokio_postgres::types::FromSql;

/// The columns of a record, of `managed_tx m` and its `signer_lease l`.
pub(crate) const RECORD: &str = "
m.tx_id, m.lane_id, l.chain_id, l.signer, m.kind, m.request_id, m.payload, m.payload_hash, m.seal,
m.state, m.sub_state,
m.nonce, m.nonce_given_back, m.tx_hash, m.block_number, m.block_hash, m.mined_hash, m.mined_by,
m.mined_status, m.foreign_hash, m.attempts, m.submit_attempts, m.last_error, m.first_submit_at,
m.last_submit_at, m.receipt, m.confirmed_at, m.not_after, m.meta, m.created_by, m.lock_token,
m.reserve_expires_at, m.fencing_token, m.version, m.created_at, m.updated_at";

/// A column, or [`StoreError::Corrupt`] where its type is not what the schema says.
pub(crate) fn column<'a, T: FromSql<'a>>(
    row: &'a Row,
    name: &'static str,
) -> Result<T, StoreError> {
    row.try_get(name)
        .map_err(|_| StoreError::Corrupt(Corrupt { column: name }))
}

pub(crate) fn corrupt(column: &'static str) -> StoreError {
    StoreError::Corrupt(Corrupt { column })
}

pub(crate) fn lane(row: &Row) -> Result<Lane, StoreError> {
    let signer: &[u8] = column(row, "signer")?;
    Ok(Lane {
        chain: ChainId::from_column(column(row, "chain_id")?)?,
        signer: Address::try_from(signer).map_err(|_| corrupt("signer"))?,
    })
}

pub(crate) fn hash(row: &Row, name: &'static str) -> Result<Option<B256>, StoreError> {
    let bytes: Option<&[u8]> = column(row, name)?;
    bytes
        .map(|bytes| B256::try_from(bytes).map_err(|_| corrupt(name)))
        .transpose()
}

pub(crate) fn request_id(row: &Row) -> Result<Option<RequestId>, StoreError> {
    let text: Option<String> = column(row, "request_id")?;
    text.map(RequestId::new)
        .transpose()
        .map_err(|_| corrupt("request_id"))
}

pub(crate) fn small(row: &Row, name: &'static str) -> Result<u32, StoreError> {
    let value: i32 = column(row, name)?;
    u32::try_from(value).map_err(|_| corrupt(name))
}

pub(crate) fn record(row: &Row) -> Result<Record, StoreError> {
    let payload: Option<&[u8]> = column(row, "payload")?;
    let accepted = hash(row, "payload_hash")?;
    let retired = accepted.filter(|_| payload.is_some_and(<[u8]>::is_empty));
    let seal: Option<&[u8]> = column(row, "seal")?;
    let meta: Option<String> = column(row, "meta")?;
    let lock: Option<uuid::Uuid> = column(row, "lock_token")?;
    let expires_at = column(row, "reserve_expires_at")?;
    let reservation = lock.zip(expires_at);
    let kind = Kind::from_word(column(row, "kind")?)?;
    let state = State::from_flat(&flat(row)?)?;
    if !state.fits(kind) {
        return Err(corrupt("kind"));
    }
    Ok(Record {
        tx: TxId(column(row, "tx_id")?),
        lane_id: LaneId(column(row, "lane_id")?),
        lane: lane(row)?,
        kind,
        request_id: request_id(row)?,
        // What is no payload is told apart before it is signed: a lane must be readable to say so.
        payload: payload.and_then(|bytes| Payload::from_canonical(bytes).ok()),
        proof: Proof {
            hash: accepted,
            seal: seal.map(seal_of),
        },
        retired,
        state,
        attempts: small(row, "attempts")?,
        submit_attempts: small(row, "submit_attempts")?,
        last_error: column(row, "last_error")?,
        first_submit_at: column(row, "first_submit_at")?,
        last_submit_at: column(row, "last_submit_at")?,
        receipt: column(row, "receipt")?,
        confirmed_at: column(row, "confirmed_at")?,
        not_after: column(row, "not_after")?,
        meta: meta
            .map(Meta::new)
            .transpose()
            .map_err(|_| corrupt("meta"))?,
        created_by: column::<Option<&str>>(row, "created_by")?.map(Into::into),
        reservation: reservation.map(|(lock, expires_at)| Reservation {
            lock: LockToken(lock),
            expires_at,
        }),
        token: Token::from_column(column(row, "fencing_token")?)?,
        version: Version::from_column(column(row, "version")?)?,
        created_at: column(row, "created_at")?,
        updated_at: column(row, "updated_at")?,
    })
}

/// A column of another length is no seal of anything: it fails like a wrong one.
fn seal_of(bytes: &[u8]) -> B256 {
    B256::try_from(bytes).unwrap_or_default()
}

fn flat(row: &Row) -> Result<Flat, StoreError> {
    Ok(Flat {
        state: column(row, "state")?,
        sub_state: column(row, "sub_state")?,
        nonce: column(row, "nonce")?,
        nonce_given_back: column(row, "nonce_given_back")?,
        tx_hash: column(row, "tx_hash")?,
        block_number: column(row, "block_number")?,
        block_hash: column(row, "block_hash")?,
        mined_hash: column(row, "mined_hash")?,
        mined_by: column(row, "mined_by")?,
        mined_status: column(row, "mined_status")?,
        foreign_hash: column(row, "foreign_hash")?,
    })
}
