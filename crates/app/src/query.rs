//! What is asked of a node beside transactions: what its chains say, and what readers are told of blocks.

use fencepost_domain::confirmation::{List, Listed};
use fencepost_domain::ids::{Lane, Nonce, TxId};
use fencepost_domain::nonce::{Beginning, ChainCount, begin};
use fencepost_domain::request::Payload;
use jiff::Timestamp;

use crate::causes::Causes;
use crate::node::Node;
use crate::ports::{ChainHealth, CountMode, Estimate, LaneView, StoreError};

/// How far a chain says that an account is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// In blocks.
    pub latest: Option<ChainCount>,
    /// With what waits in the pools.
    pub pending: Option<ChainCount>,
}

/// Why a lane that has given no nonce cannot begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unbegun {
    /// Nobody can be asked where the account stands.
    Unreachable,
    /// Endpoints give different counts.
    Disagreed(ChainCount),
    /// The chain has used the configured first nonce.
    Used {
        /// The configured one.
        start: Nonce,
        /// How many the chain has in blocks.
        latest: Nonce,
    },
}

impl Node {
    /// The blocks on top of the one that a transaction is in, lowest first, where they are published, and
    /// when each was.
    pub async fn confirmations(&self, tx: TxId) -> Result<Vec<Listed<Timestamp>>, StoreError> {
        let mut list = List::empty();
        for stored in self.store.listing(&[tx]).await? {
            list.read(&stored.event, stored.at);
        }
        Ok(list.into_blocks())
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
            latest: latest.ok(),
            pending: pending.ok(),
        }
    }

    /// Why a lane waits with its first nonce, by what its chain says now. Every node comes to the same answer
    /// as the lane's leader, so that whoever is asked can say it.
    #[must_use]
    pub fn unbegun(&self, view: &LaneView, counts: Counts) -> Option<Unbegun> {
        let seat = self.directory.seat(view.lane)?;
        self.settings.chain_query?;
        if self.chain.is_none() || view.next_nonce > Nonce::ZERO {
            return None;
        }
        let count = match seat.start.mode() {
            CountMode::Latest => counts.latest,
            CountMode::Pending => counts.pending,
        };
        let Some(count) = count else {
            return Some(Unbegun::Unreachable);
        };
        match begin(seat.start.at(), count) {
            Beginning::At(_) => None,
            Beginning::Disagreed(count) => Some(Unbegun::Disagreed(count)),
            Beginning::Used { start, latest } => Some(Unbegun::Used { start, latest }),
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
