//! Readers of the feed: those who go on from where they were, at one node after another, and one who reads
//! old pages again.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::Value;
use tokio::time::sleep;

use super::call::get;
use crate::dice::Dice;
use crate::note::{FeedRow, Note, now};
use crate::world::World;

pub(crate) struct Reader {
    pub(crate) world: Arc<World>,
    pub(crate) number: usize,
    pub(crate) dice: Dice,
    /// How far it has read, for those who wait for it.
    pub(crate) place: Arc<AtomicU64>,
}

fn rows(body: &Value) -> Option<Vec<FeedRow>> {
    let row = |told: &Value| {
        let text = |field: &str| told[field].as_str().map(str::to_owned);
        Some(FeedRow {
            seq: told["seq"].as_u64()?,
            tx: text("txId")?,
            state: text("state")?,
            sub: text("subState"),
            hash: text("txHash"),
            corrects: told["corrects"].as_u64(),
        })
    };
    body["completions"].as_array()?.iter().map(row).collect()
}

impl Reader {
    /// Reads on for ever. What cannot be read as a page of the feed was no answer.
    pub(crate) async fn go_on(mut self) {
        loop {
            let after = self.place.load(Ordering::Relaxed);
            let Some(found) = self.page(after, 3, true).await else {
                sleep(self.dice.millis(50, 300)).await;
                continue;
            };
            if let Some(last) = found {
                self.place.store(last, Ordering::Relaxed);
                self.world.completed.fetch_max(last, Ordering::Relaxed);
            }
        }
    }

    /// Reads pages again that were read before.
    pub(crate) async fn go_back(mut self) {
        loop {
            sleep(self.dice.millis(300, 900)).await;
            let known = self.world.completed.load(Ordering::Relaxed);
            let after = self.dice.below(known + 1);
            self.page(after, 0, false).await;
        }
    }

    /// Notes a page, and returns the last number on it.
    async fn page(&mut self, after: u64, wait: u64, goes_on: bool) -> Option<Option<u64>> {
        let node = self.dice.index(self.world.nodes.len());
        let limit = 20 + self.dice.below(300);
        let path = format!("/api/v1/tx/completions?after={after}&limit={limit}&wait={wait}");
        let heard = get(&self.world, node, &path).await;
        if heard.answer.status != Some(200) {
            // A feed that has lost what we have read already: the checker sees it in the next samples.
            return None;
        }
        let (rows, epoch) = (rows(&heard.body)?, heard.body["epoch"].as_u64()?);
        let last = rows.last().map(|row| row.seq);
        if last.is_some() {
            self.world.journal.note(&Note::Fed {
                at: now(),
                reader: self.number,
                node,
                after,
                epoch,
                goes_on,
                rows,
            });
        }
        Some(last)
    }
}
