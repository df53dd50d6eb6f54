//! The way to other nodes: a request is handed to the one that leads its lane, sealed with the
//! cluster's secret, once, within a deadline.

pub(crate) mod seal;
pub(crate) mod heard;
pub(crate) mod wire;
mod line;
mod nudge;
mod call;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use fencepost_app::directory::{Seat, Start};
use fencepost_app::lifecycle::accept::{Verdict, stored, waiting, with_nonce};
use fencepost_app::ports::{Key, NewTx, Peers, Record, Store, Unforwarded};
use fencepost_app::store_memory::StoreInUse;
use fencepost_domain::ids::{Lane, LaneId, Nonce, Token, TxId};
use fencepost_domain::state::Wait;
use serde_json::value::to_raw_value;
use tokio::time::Instant;

use crate::secret::ClusterSecret;
use call::Caller;
use line::Lines;
use nudge::Nudges;
use wire::{Handed, Told};

pub(crate) use call::{NUDGE_PATH, PATH, STORE_PATH};

/// Hands requests to the nodes that lead their lanes.
pub struct Forwarder {
    lines: Arc<Lines>,
    nudges: Arc<Nudges>,
    caller: Arc<Caller>,
    store: Arc<dyn Store>,
}

impl Forwarder {
    /// Without a secret nothing is handed on. Rows that the leader only names are read from the store.
    #[must_use]
    pub fn new(secret: Option<ClusterSecret>, store: Arc<dyn Store>) -> Self {
        let caller = Arc::new(Caller::new(secret));
        Self {
            lines: Arc::new(Lines::new(Arc::clone(&caller))),
            nudges: Arc::new(Nudges::new(Arc::clone(&caller))),
            caller,
            store,
        }
    }

    /// The answer of the leader as the application knows it.
    async fn verdict(&self, told: Told, lane: Lane, tx: &NewTx) -> Result<Verdict, Unforwarded> {
        Ok(match told {
            Told::New(row) => {
                let record = rebuilt(&row, lane, tx);
                Verdict::New(Box::new(record.ok_or_else(|| strange("its row"))?))
            }
            Told::Stored => Verdict::New(self.read(tx.tx).await?),
            Told::Known { tx_id } => Verdict::Known(self.read(TxId(tx_id)).await?),
            Told::Conflict { tx_id } => Verdict::Conflict(self.read(TxId(tx_id)).await?),
            Told::NotLeader => Verdict::NotLeader(None),
            Told::Paused { reason } => {
                let reason = fencepost_app::ports::PauseReason::from_word(&reason);
                Verdict::Paused(reason.ok_or_else(|| strange("why it is paused"))?)
            }
            Told::Overloaded => Verdict::Overloaded,
            Told::InFlightLimit => Verdict::InFlightLimit,
            Told::ChainUnavailable => Verdict::ChainUnavailable,
            Told::Exhausted => Verdict::Exhausted,
            Told::NotOpen => Verdict::NotOpen,
            Told::Unavailable => Verdict::Unavailable,
            Told::Unknown => Verdict::Unknown,
        })
    }

    async fn read(&self, tx: TxId) -> Result<Box<Record>, Unforwarded> {
        match self.store.find(&Key::Id(tx)).await {
            Ok(Some(record)) => Ok(Box::new(record)),
            Ok(None) => Err(strange("a row that is not there")),
            Err(error) => Err(Unforwarded::Unanswered(error.into())),
        }
    }
}

#[async_trait]
impl Peers for Forwarder {
    async fn forward(
        &self,
        url: &str,
        lane: Lane,
        tx: &NewTx,
        within: Duration,
    ) -> Result<Verdict, Unforwarded> {
        let handed = to_raw_value(&Handed::of(tx)).expect("texts and numbers are JSON");
        let deadline = Instant::now() + within;
        let told = self.lines.carry(url, lane, handed, deadline).await?;
        self.verdict(told, lane, tx).await
    }

    async fn nudge(&self, url: &str, lane: Lane, within: Duration) -> Result<(), Unforwarded> {
        Ok(self.nudges.tell(url, lane, within).await?)
    }

    async fn ask_store(
        &self,
        url: &str,
        within: Duration,
    ) -> Result<Option<StoreInUse>, Unforwarded> {
        let asked = self.caller.ask_store(url, Instant::now() + within).await?;
        Ok(asked.map(|works_on| works_on.read()))
    }
}

fn strange(what: &str) -> Unforwarded {
    Unforwarded::Unanswered(format!("its answer tells {what}").into())
}

/// The row that the leader has stored, from its few words and from what we know.
fn rebuilt(row: &wire::Row, lane: Lane, tx: &NewTx) -> Option<Record> {
    let seat = Seat {
        id: LaneId(row.lane_id),
        lane,
        max_in_flight: None,
        signs: true,
        start: Start::default(),
    };
    let state = match (row.nonce, &row.wait) {
        (Some(nonce), None) => with_nonce(tx, Nonce::new(nonce).ok()?),
        (None, Some(word)) => waiting(Wait::from_word(word).ok()?),
        (Some(_), Some(_)) | (None, None) => return None,
    };
    let at = row.at.parse().ok()?;
    Some(stored(seat, tx, state, Token::new(row.token).ok()?, at))
}
