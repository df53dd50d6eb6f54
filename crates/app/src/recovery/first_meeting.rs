//! A node that meets its store for the first time cannot know whether the store lacks something: an old primary that came
//! back and an old backup look like any other store. The chain knows. So every lane is compared with it, and one that the
//! chain is ahead of is paused, because its store does not know transactions that were sent from its account.

use fencepost_domain::ids::{LaneId, Nonce};
use fencepost_domain::nonce::{Alignment, align};
use futures::future::join_all;

use crate::causes::Causes;
use crate::directory::{Seat, Start};
use crate::node::Node;
use crate::ports::{Audit, CountMode, LaneView, PauseChange, PauseReason, StoreError};

/// How many lanes are read at once.
const PAGE: usize = 256;
/// How many lanes are compared at once. More asks endpoints faster than some allow; fewer makes a start with many lanes
/// last longer.
const AT_ONCE: usize = 16;

/// What a comparison came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Compared {
    Yes,
    /// No endpoint answered, or they disagree.
    NotYet,
}

impl Node {
    /// Compares every lane that is configured here and that the store knows. True when all were compared.
    pub(crate) async fn compare_lanes(&self) -> Result<bool, StoreError> {
        let mut after: Option<LaneId> = None;
        let mut all = true;
        loop {
            let page = self.store.lanes(after, PAGE).await?;
            after = page.last().map(|view| view.id);
            let is_last = page.len() < PAGE;
            for few in page.chunks(AT_ONCE) {
                let mut looks = Vec::with_capacity(few.len());
                for view in few {
                    if let Some(seat) = self.directory.seat(view.lane) {
                        looks.push(self.compare_lane(seat, view));
                    }
                }
                for compared in join_all(looks).await {
                    all &= compared? == Compared::Yes;
                }
            }
            if is_last {
                return Ok(all);
            }
        }
    }

    async fn compare_lane(&self, seat: Seat, view: &LaneView) -> Result<Compared, StoreError> {
        let Some(mode) = self.first_mode(seat, view.next_nonce) else {
            return Ok(Compared::Yes);
        };
        let Some(chain) = &self.chain else {
            return Ok(Compared::Yes);
        };
        let count = match chain.count(seat.lane, mode).await {
            Ok(count) => count,
            Err(error) => {
                let error = Causes(&error);
                tracing::debug!(%error, lane = seat.id.0, "a lane cannot be compared with the chain yet");
                return Ok(Compared::NotYet);
            }
        };
        if align(view.next_nonce, count, 0) == Alignment::Keep {
            return Ok(Compared::Yes);
        }
        // Its leader may have given and sent nonces since the lane was read. What the chain had then was in the store before.
        let Some(view) = self.store.lane(seat.lane).await? else {
            return Ok(Compared::NotYet);
        };
        match align(view.next_nonce, count, 0) {
            Alignment::Keep | Alignment::Raise { .. } => Ok(Compared::Yes),
            Alignment::Doubt => Ok(Compared::NotYet),
            Alignment::Jump { to } => {
                self.pause_unknown(seat, &view, to).await?;
                Ok(Compared::Yes)
            }
        }
    }

    /// How the chain is asked about a lane that is compared for the first time. None for a lane that has given no nonce
    /// and of which the operator has said where it begins.
    pub(crate) fn first_mode(&self, seat: Seat, cursor: Nonce) -> Option<CountMode> {
        let mode = self.settings.chain_query?;
        match seat.start {
            Start::Unset(_) => Some(mode),
            Start::Chain(_) | Start::At(_) if cursor > Nonce::ZERO => Some(mode),
            Start::Chain(_) | Start::At(_) => None,
        }
    }

    async fn pause_unknown(
        &self,
        seat: Seat,
        view: &LaneView,
        chain: Nonce,
    ) -> Result<(), StoreError> {
        let (node_id, signer) = (self.holder.node.as_str(), seat.lane.signer);
        tracing::error!(
            node_id, lane = seat.id.0, %signer, token = %view.token, nonce = %view.next_nonce, %chain,
            "this node meets its store for the first time, and the chain has transactions of this signer that the store does not know: the lane is paused. Check that store.url leads to the newest primary; if the store is right, `signers reconcile` and `signers resume` go on from the chain's count"
        );
        if view.paused.is_some() {
            return Ok(());
        }
        let audit = Audit {
            by: format!("node {node_id}"),
            reason: "the chain has transactions that the store does not know".to_owned(),
            details: None,
            node: Some(self.holder.node.clone()),
        };
        let change = PauseChange::Pause(PauseReason::CursorJump);
        self.store.pause(seat.id, change, &audit).await?;
        Ok(())
    }

    /// Asks one other node which server of the store it works on. A newer one leaves the server of this node behind:
    /// its sessions are closed and it is used no more. One that knows the same server from before spares this node the
    /// comparison with the chain.
    pub(crate) async fn compare_servers(&self, url: &str) {
        let within = self.settings.forward_deadline;
        let other = match self.peers.ask_store(url, within).await {
            Ok(Some(other)) => other,
            Ok(None) | Err(_) => return,
        };
        if self.store_memory.heard(&other) {
            let node_id = self.holder.node.as_str();
            let timeline = other.server.map(|server| server.timeline);
            tracing::error!(
                node_id,
                peer = url,
                timeline,
                code = "stale_primary",
                "another node works on a newer server of this store: this node uses the old primary no more and looks for the new one among the hosts of store.url"
            );
        } else if self.store_memory.is_vouched(&other) {
            self.store_memory.get_acquainted();
        }
    }
}
