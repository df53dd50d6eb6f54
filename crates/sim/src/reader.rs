//! Readers of the feed: what they saw stays, and nothing new ever comes before it.

use std::sync::Arc;
use std::time::Duration;

use fencepost_domain::ids::FeedSeq;
use tokio::time::sleep;

use crate::rng::Rng;
use crate::sometimes::Rare;
use crate::world::World;

/// Reads from any node, without end.
pub(crate) struct Reader {
    world: Arc<World>,
    luck: Rng,
}

impl Reader {
    pub(crate) fn new(world: &Arc<World>) -> Self {
        Self {
            luck: world.rng("reader"),
            world: Arc::clone(world),
        }
    }

    pub(crate) async fn run(mut self) {
        let mut after = FeedSeq::ZERO;
        loop {
            sleep(self.luck.millis(100, 2_000)).await;
            let Some(member) = self.world.someone(&mut self.luck) else {
                continue;
            };
            let limit = 1 + self.luck.place(40);
            let wait = Duration::from_millis(self.luck.below(2) * 500);
            let feed = tokio::select! {
                biased;
                () = member.gate.died() => continue,
                feed = member.node.completions(after, limit, wait) => feed,
            };
            let Ok(feed) = feed else {
                continue;
            };
            for row in feed.completions {
                let next = after.get() + 1;
                if row.seq.get() != next {
                    let facts = format!("{next} was next, and {} was read", row.seq);
                    self.world.violate("I11 the feed has no holes", facts);
                }
                if row.corrects.is_some() {
                    self.world.saw(Rare::Corrected);
                }
                after = row.seq;
                self.world.ledger().feed.push(row);
            }
        }
    }
}
