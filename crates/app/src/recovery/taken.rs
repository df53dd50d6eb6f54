//! A nonce of ours was used by a transaction that is not. That is believed only of what was seen twice, in
//! a block with others on top, and ends a transaction only when that block is final.

use fencepost_domain::ids::{LaneId, Nonce, TxId};
use fencepost_domain::mutant::Mutant;
use fencepost_domain::state::Block;
use fencepost_domain::transition::{Input, Refusal};

use crate::lane::entry::Taken;
use crate::lane::moves::Then;
use crate::lane::worker::Worker;
use crate::lifecycle::follow::board::{Hit, Whose};
use crate::ports::Consumer;

impl Worker {
    /// Nonces below the chain's count for which none of our hashes has a receipt, as of this head.
    pub(crate) async fn consumed(
        &mut self,
        lane: LaneId,
        latest: Nonce,
        head: Option<Block>,
        consumed: Vec<(Nonce, TxId, Option<Consumer>)>,
    ) {
        if let Some(track) = self.tracks.get_mut(&lane) {
            // A count that went back takes first sights with it.
            for (nonce, entry) in track.iter_mut() {
                if nonce >= latest && entry.taken.is_some_and(|taken| !taken.sure) {
                    entry.taken = None;
                }
            }
        }
        for (nonce, tx, by) in consumed {
            self.consumed_one(Whose { lane, nonce, tx }, by, head).await;
        }
    }

    async fn consumed_one(&mut self, whose: Whose, by: Option<Consumer>, head: Option<Block>) {
        let Some(track) = self.tracks.get_mut(&whose.lane) else {
            return;
        };
        let chain = track.seat.lane.chain;
        let entry = track.get_mut(whose.nonce);
        let entry = entry.filter(|entry| entry.tx == whose.tx && entry.inclusion().is_none());
        let Some(entry) = entry else {
            return;
        };
        let lent = entry.is_lent();
        let named = by.filter(|by| by.hash.is_some());
        // A missing receipt and a count prove nothing: only another hash in a block does. A lent nonce is used
        // by whatever its holder has sent, and at the latest in the block that was the newest when it was
        // first seen to be used.
        let by = match (named, lent) {
            (Some(by), _) => by,
            (None, false) if Mutant::MissingReceiptIsFailed.is_on() => match head {
                Some(block) => Consumer { block, hash: None },
                None => return,
            },
            (None, false) => return,
            (None, true) => {
                let first = entry.taken.map(|taken| taken.by);
                let at_latest = head.map(|block| Consumer { block, hash: None });
                match by.or(first).or(at_latest) {
                    Some(by) => by,
                    None => return,
                }
            }
        };
        let again = entry.taken.is_some_and(|taken| taken.by == by)
            || Mutant::MissingReceiptIsFailed.is_on();
        entry.taken = Some(Taken { by, sure: again });
        if !again {
            // The second sight makes it sure.
            track.suspect = true;
            return;
        }
        // From here on the follower tells whether that block becomes final, or goes away.
        if let Some(board) = self.node.board(chain) {
            board.put(Hit {
                block: by.block,
                whose,
                told: false,
            });
        }
        // What its holder has used is told when it is final.
        if !lent {
            self.tell_taken(whose, by).await;
        }
    }

    pub(crate) async fn tell_taken(&mut self, whose: Whose, by: Consumer) {
        let by_hash = by
            .hash
            .map_or_else(|| "another transaction".to_owned(), |hash| hash.to_string());
        let text = format!("{by_hash} in block {} has used its nonce", by.block.number);
        let (lane, nonce) = (whose.lane, whose.nonce);
        let told = self
            .plan(lane, nonce, Input::Taken(by.hash), Then::Nothing, |step| {
                step.error(text.clone())
            })
            .await;
        match told {
            Ok(()) | Err(Refusal::Unchanged) => {}
            Err(refusal) => {
                tracing::warn!(tx_id = %whose.tx, %refusal, "a used nonce does not fit what is stored");
            }
        }
    }

    /// The block in which another transaction had used a nonce is gone: the nonce is ours again.
    pub(crate) async fn given_back(&mut self, whose: Whose) {
        let track = self.tracks.get_mut(&whose.lane);
        let Some(entry) = track.and_then(|track| track.get_mut(whose.nonce)) else {
            return;
        };
        entry.taken = None;
        if entry.is_lent() {
            return;
        }
        tracing::warn!(tx_id = %whose.tx, "the block in which its nonce was used was replaced; it is sent again");
        let (lane, nonce) = (whose.lane, whose.nonce);
        // Refused only when it is not stuck for that any more.
        let _ = self
            .plan(lane, nonce, Input::Clear, Then::Reorged, |step| {
                step.due_in(std::time::Duration::ZERO)
            })
            .await;
    }
}
