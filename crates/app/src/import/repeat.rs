//! A file that was imported before. Its answer has the lock tokens, and the answer may have been lost: the same file is
//! answered with what is there, and nothing is written.

use std::collections::HashMap;

use fencepost_domain::attempt::Attempt;
use fencepost_domain::flat::Name;
use fencepost_domain::ids::{LaneSeq, TxId};
use fencepost_domain::state::Kind;

use super::{OpenState, TakenOver};
use crate::node::Node;
use crate::ports::{Import, LaneView, OpenBody, OpenTx, Record, StoreError, Unimportable};

impl Node {
    /// What is there of an import that the store refused, if all of it is what an earlier import of the same file has
    /// written: the cursor stands where the file says, and every item is held by a row that was made from it.
    pub(super) async fn known_already(
        &self,
        view: &LaneView,
        import: &Import,
        clashes: &[(usize, Unimportable)],
    ) -> Result<Option<Vec<TakenOver>>, StoreError> {
        if clashes.len() != import.open.len() || view.next_nonce != import.next_nonce {
            return Ok(None);
        }
        let mut holders = Vec::new();
        for (_, why) in clashes {
            let Unimportable::NonceHeld(tx) = why else {
                return Ok(None);
            };
            holders.push(*tx);
        }
        let rows = self.store.find_many(&holders).await?;
        let rows: HashMap<TxId, Record> = rows.into_iter().map(|row| (row.tx, row)).collect();
        let mut first: HashMap<TxId, Attempt> = HashMap::new();
        for stored in self.store.attempts(&holders).await? {
            first.entry(stored.tx).or_insert(stored.attempt);
        }
        let mut taken = Vec::new();
        for (open, tx) in import.open.iter().zip(&holders) {
            let Some(row) = rows.get(tx) else {
                return Ok(None);
            };
            if !is_same(open, row, first.get(tx)) || !self.was_imported(*tx).await? {
                return Ok(None);
            }
            taken.push(TakenOver {
                tx: *tx,
                nonce: open.nonce,
                request_id: row.request_id.clone(),
                lock: row.reservation.map(|terms| terms.lock),
                state: match (row.reservation, row.state.name()) {
                    (None, _) => OpenState::Tracking,
                    (Some(_), Name::Reserved) => OpenState::Reserved,
                    (Some(_), _) => OpenState::Submitted,
                },
                hash: row.state.hash(),
            });
        }
        Ok(Some(taken))
    }

    /// Whether a row was made by an import. A nonce that was lent here and is open elsewhere too is a conflict, and its
    /// lock token belongs to the holder here.
    async fn was_imported(&self, tx: TxId) -> Result<bool, StoreError> {
        let history = self.store.history(tx, LaneSeq::default(), 1).await?;
        let first = history.first().and_then(|told| told.event.note.as_deref());
        Ok(first == Some(OpenTx::NOTE))
    }
}

/// Whether an item says of a row what it was made from, with the row's first attempt. What became of it since does not
/// matter: its holder may have named a hash.
fn is_same(open: &OpenTx, row: &Record, first: Option<&Attempt>) -> bool {
    if row.request_id != open.request_id || row.state.nonce() != Some(open.nonce) {
        return false;
    }
    match &open.body {
        OpenBody::Reserved(_) => row.kind == Kind::Reserved,
        OpenBody::Submitted(_, hash) => {
            row.kind == Kind::Reserved && first.is_some_and(|first| first.hash == *hash)
        }
        OpenBody::Tracking(_, attempt) => {
            row.kind == Kind::Managed && first.is_some_and(|first| first.raw == attempt.raw)
        }
    }
}
