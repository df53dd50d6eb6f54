//! What is asked of a node beside transactions: what its chains say, and what readers are told of blocks.

use fencepost_domain::event::Kind;
use fencepost_domain::ids::{Lane, LaneSeq, Nonce, TxId};
use fencepost_domain::request::Payload;
use fencepost_domain::state::Block;
use jiff::Timestamp;

use crate::causes::Causes;
use crate::node::Node;
use crate::ports::{ChainHealth, CountMode, Estimate, READ_LIMIT_MAX, StoreError, StoredEvent};

/// How many pages of a history are read for its confirmations; no transaction has more.
const PAGES_MAX: usize = 100;

/// A block on top of a transaction's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Confirmation {
    /// The block.
    pub block: Block,
    /// When it was told.
    pub at: Timestamp,
}

/// How far a chain says that an account is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// In blocks.
    pub latest: Option<Nonce>,
    /// With what waits in the pools.
    pub pending: Option<Nonce>,
}

impl Node {
    /// The blocks on top of the one that a transaction is in, lowest first, where they are published. A
    /// new fork begins a new list.
    pub async fn confirmations(&self, tx: TxId) -> Result<Vec<Confirmation>, StoreError> {
        let mut list = Vec::new();
        let mut after = LaneSeq::default();
        for _ in 0..PAGES_MAX {
            let page = self.store.history(tx, after, READ_LIMIT_MAX).await?;
            let full = page.len() == READ_LIMIT_MAX;
            for event in page {
                after = event.seq;
                confirm(&mut list, &event);
            }
            if !full {
                break;
            }
        }
        Ok(list)
    }

    /// What the lane's chain says, as far as it can be asked.
    pub async fn counts(&self, lane: Lane) -> Counts {
        let Some(chain) = &self.chain else {
            return Counts::default();
        };
        let (latest, pending) = tokio::join!(
            chain.count(lane, CountMode::Latest),
            chain.count(lane, CountMode::Pending)
        );
        Counts {
            latest: latest.ok().map(|count| count.highest),
            pending: pending.ok().map(|count| count.highest),
        }
    }

    /// How the chains' endpoints are.
    #[must_use]
    pub fn chain_health(&self) -> Vec<ChainHealth> {
        self.chain
            .as_ref()
            .map(|chain| chain.health())
            .unwrap_or_default()
    }

    /// Why a payload without a gas limit would be reverted now, if it is to be looked at before it is
    /// accepted. A chain that cannot be asked stops nobody.
    pub async fn preflight(&self, lane: Lane, payload: &Payload) -> Result<(), String> {
        let Some(chain) = self.chain.as_ref().filter(|_| self.settings.preflight) else {
            return Ok(());
        };
        if payload.gas().is_some() {
            return Ok(());
        }
        match chain.estimate(lane, payload).await {
            Ok(Estimate::Gas(_) | Estimate::NoFunds(_) | Estimate::Refused(_)) => Ok(()),
            Ok(Estimate::Reverted(why)) => {
                Err(why.unwrap_or_else(|| "execution reverted".to_owned()))
            }
            Err(error) => {
                tracing::warn!(error = %Causes(&error), "a request is accepted without a preflight");
                Ok(())
            }
        }
    }
}

fn confirm(list: &mut Vec<Confirmation>, event: &StoredEvent) {
    let told = &event.event;
    match told.kind {
        // Seen in a block, perhaps in another one: what was on top of the first is void.
        Kind::Receipt => list.clear(),
        Kind::Confirmations if told.new_fork => list.clear(),
        Kind::Confirmations => list.extend(told.block.map(|block| Confirmation {
            block,
            at: event.at,
        })),
        Kind::Accepted
        | Kind::Signed
        | Kind::Submitted
        | Kind::Confirmed
        | Kind::Failed
        | Kind::Stuck
        | Kind::Remedied
        | Kind::Resumed
        | Kind::Recycled
        | Kind::Used => {}
    }
}
