//! A holder names the hash of what it has sent. Before that ends its reservation, the chain is asked whether
//! the transaction is the signer's and has the nonce: a wrong hash would hide a gap for ever.

use std::sync::Arc;

use crate::causes::Causes;
use crate::lane::entry::Vouch;
use crate::lane::report::Report;
use crate::lane::worker::Worker;
use crate::lifecycle::follow::board::Whose;
use crate::ports::{ChainUnavailable, Held, Receipt};
use crate::writes::lane_error;

/// A receipt of a hash that a holder has named.
#[derive(Debug)]
pub(crate) struct Named {
    pub(crate) whose: Whose,
    pub(crate) receipt: Receipt,
}

impl Worker {
    /// Asks, in a task of its own.
    pub(crate) fn vouch(&mut self, named: Named) {
        let whose = named.whose;
        let Some(chain) = self.node.chain.clone() else {
            return;
        };
        let Some(track) = self.tracks.get_mut(&whose.lane) else {
            return;
        };
        let (held, lane) = (track.held, track.seat.lane);
        let entry = track.get_mut(whose.nonce);
        let Some(entry) = entry.filter(|entry| entry.vouch == Vouch::Unasked) else {
            return;
        };
        entry.vouch = Vouch::Asking;
        let node = Arc::clone(&self.node);
        self.node.hand(async move {
            let answer = chain.is_of(lane, whose.nonce, named.receipt.hash).await;
            node.report(Report::Vouched {
                held,
                named,
                answer,
            })
            .await;
        });
    }

    /// The chain has said whose it is. An endpoint that has the receipt but not the transaction proves nothing
    /// against it.
    pub(crate) async fn vouched(
        &mut self,
        held: Held,
        named: Named,
        answer: Result<Option<bool>, ChainUnavailable>,
    ) {
        let whose = named.whose;
        let track = self.tracks.get_mut(&whose.lane);
        let Some(track) = track.filter(|track| track.held == held) else {
            return;
        };
        let entry = track.get_mut(whose.nonce);
        let Some(entry) = entry.filter(|entry| entry.tx == whose.tx) else {
            return;
        };
        match answer {
            Ok(Some(true) | None) => {
                entry.vouch = Vouch::Given;
                // As if it had been asked for: while the chain was asked, the board may have told that the
                // block is final, or that it is gone, and nobody was there to hear it.
                self.mined(whose.lane, whose, named.receipt, false).await;
            }
            Ok(Some(false)) => {
                entry.vouch = Vouch::Unasked;
                let hash = named.receipt.hash;
                entry.attempts.retain(|known| known.hash != hash);
                // What has used the nonce, if anything has, is looked for.
                track.suspect = true;
                lane_error!(self.node, held, tx_id = %whose.tx, nonce = %whose.nonce, %hash, "the hash that a holder has named is not of its nonce: it is not followed any more");
            }
            Err(error) => {
                // It is asked for again with the next receipts.
                entry.vouch = Vouch::Unasked;
                tracing::debug!(error = %Causes(&error), tx_id = %whose.tx, "nobody can say whose a hash is");
            }
        }
    }
}
