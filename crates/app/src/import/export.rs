//! A lane as a file tells it: what [`Node::import`] takes.

use std::collections::HashMap;

use fencepost_domain::attempt::{self, Attempt};
use fencepost_domain::ids::{Lane, TxId};
use fencepost_domain::state::State;
use fencepost_domain::{B256, Bytes};

use super::{OpenNonce, OpenState};
use crate::node::Node;
use crate::ports::{IMPORT_MAX, LaneView, READ_LIMIT_MAX, Record, StoreError};

/// A lane as a file tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Export {
    /// The lane.
    pub view: LaneView,
    /// Its open nonces, lowest first; none where there are more than an import takes.
    pub open: Option<Vec<OpenNonce>>,
}

impl Node {
    /// The lane's cursor and open nonces, as [`Node::import`] takes them.
    pub async fn export(&self, lane: Lane) -> Result<Option<Export>, StoreError> {
        let Some(view) = self.store.lane(lane).await? else {
            return Ok(None);
        };
        let rows = self.store.unfinished(view.id, None, READ_LIMIT_MAX).await?;
        // What was given after the cursor was read belongs to a later export.
        let given = |row: &Record| {
            row.state
                .nonce()
                .is_some_and(|nonce| nonce < view.next_nonce)
        };
        let rows: Vec<Record> = rows.into_iter().filter(given).collect();
        let is_whole = match rows.last().and_then(|row| row.state.nonce()) {
            Some(last) if rows.len() >= IMPORT_MAX => {
                let more = self.store.unfinished(view.id, Some(last), 1).await?;
                more.is_empty()
            }
            Some(_) | None => true,
        };
        if !is_whole {
            return Ok(Some(Export { view, open: None }));
        }
        let ids: Vec<TxId> = rows.iter().map(|row| row.tx).collect();
        let mut attempts: HashMap<TxId, Vec<Attempt>> = HashMap::new();
        for stored in self.store.attempts(&ids).await? {
            let of_tx = attempts.entry(stored.tx).or_default();
            of_tx.push(stored.attempt);
        }
        let none = Vec::new();
        let open = rows.iter().filter_map(|row| {
            let attempts = attempts.get(&row.tx).unwrap_or(&none);
            exported(row, attempts)
        });
        let open = Some(open.collect());
        Ok(Some(Export { view, open }))
    }
}

/// An unfinished row as a file tells it, with its attempts from the oldest to the newest. Signed bytes may have been
/// sent, whatever was heard of them.
fn exported(row: &Record, attempts: &[Attempt]) -> Option<OpenNonce> {
    let mined = row.state.inclusion().map(|at| at.hash);
    let (state, hash, raw) = match &row.state {
        State::Submitted(submitted) => (
            OpenState::Submitted,
            Some(mined.unwrap_or(submitted.hash)),
            None,
        ),
        State::Reserved(_) => (OpenState::Reserved, None, None),
        State::Allocated(_) | State::Tracking(_) | State::Stuck(_) => signed(mined, attempts),
        State::Queued(_)
        | State::Confirmed(_)
        | State::Failed(_)
        | State::Used(_)
        | State::Recyclable(_) => return None,
    };
    Some(OpenNonce {
        nonce: row.state.nonce()?,
        request_id: row.request_id.clone(),
        hash,
        raw,
        state,
        ttl: None,
    })
}

/// A transaction of ours. Its bytes go out only where they are its payload and nothing else was ever signed for the
/// nonce: then they are mined, or something foreign is. An importer takes bytes for the payment itself. Of several
/// attempts it would call the payment lost when another one is mined, and a cancel it would call a payment that was
/// made. As SUBMITTED, any hash uses the nonce, and the importer says nothing about the payment.
fn signed(mined: Option<B256>, attempts: &[Attempt]) -> (OpenState, Option<B256>, Option<Bytes>) {
    match attempts {
        [] => (OpenState::Reserved, None, None),
        [only] if only.kind == attempt::Kind::Original && !only.raw.is_empty() => {
            (OpenState::Tracking, Some(only.hash), Some(only.raw.clone()))
        }
        [.., newest] => {
            let hash = mined.unwrap_or(newest.hash);
            (OpenState::Submitted, Some(hash), None)
        }
    }
}
