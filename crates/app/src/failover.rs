//! After the database was failed over to another server: lanes of which nothing is missing go on by their last leader's
//! word, the others stay held. The store compares and writes; this tells operators and wakes the lanes' workers.

use crate::node::Node;
use crate::ports::{StoreError, Vouched};

impl Node {
    /// One look. `silent` is whom lanes were waiting for at the last one, longer than a lease: each change of it is logged
    /// once.
    pub(crate) async fn vouch(&self, silent: &mut Vec<String>) -> Result<(), StoreError> {
        let vouched = self.store.vouch(&self.holder).await?;
        let node_id = self.holder.node.as_str();
        let signer = |lane| {
            let seat = self.directory.seat_by_id(lane);
            seat.map(|seat| tracing::field::display(seat.lane.signer))
        };
        for lane in &vouched.gone_on {
            let signer = signer(*lane);
            tracing::warn!(
                node_id,
                lane = lane.0,
                signer,
                "the database was failed over and nothing of this lane is missing: it goes on"
            );
            if let Some(seat) = self.directory.seat_by_id(*lane) {
                self.look_at(seat);
            }
        }
        for (lane, missing) in &vouched.lost {
            let signer = signer(*lane);
            tracing::error!(node_id, lane = lane.0, signer, %missing, code = "failover_loss", "the database was failed over and lost what was acknowledged: the lane is held until `signers reconcile --after-failover`");
        }
        for lane in &vouched.held_before {
            let signer = signer(*lane);
            tracing::error!(
                node_id,
                lane = lane.0,
                signer,
                code = "failover_held",
                "the database was failed over again before this lane was reconciled: it stays held until `signers reconcile --after-failover`"
            );
        }
        if vouched.feed_lost {
            tracing::error!(
                node_id,
                code = "failover_feed",
                "the database was failed over and readers may have been told completions that it lacks: the feed has a new epoch"
            );
        }
        self.tell_of_silent(&vouched, silent);
        self.meters.failed_over("went_on", vouched.gone_on.len());
        self.meters.failed_over("lost", vouched.lost.len());
        self.meters
            .failed_over("held_before", vouched.held_before.len());
        Ok(())
    }

    /// Nodes that have not reported: lanes go on without them, or wait for them.
    fn tell_of_silent(&self, vouched: &Vouched, silent: &mut Vec<String>) {
        let node_id = self.holder.node.as_str();
        if !vouched.unheard.is_empty() {
            let (lanes, nodes) = (vouched.gone_on.len(), vouched.unheard.join(", "));
            tracing::error!(
                node_id,
                lanes,
                nodes,
                code = "failover_unheard",
                "the database was failed over and these nodes have not reported within a lease: lanes go on without their report, and what they acknowledged there (queued requests, pauses, remedies, reservations) may be missing"
            );
        }
        let waits = vouched.overdue && vouched.waiting > 0;
        let waited_for = if waits { &vouched.silent[..] } else { &[] };
        if waited_for != silent.as_slice() {
            let (lanes, nodes) = (vouched.waiting, waited_for.join(", "));
            if waits {
                tracing::error!(
                    node_id,
                    lanes,
                    nodes,
                    code = "failover_waits",
                    "the database was failed over: lanes stay held until these nodes have said what they miss, or `signers reconcile --after-failover`"
                );
            }
            *silent = waited_for.to_vec();
        }
    }
}
