//! What is final: deep enough, and the same block for every endpoint that has one there.

use fencepost_domain::B256;
use fencepost_domain::finality::{Agreement, Heads, Rule, agreement};
use fencepost_domain::ids::Height;

use super::board::Hit;
use super::{Follower, Sight};
use crate::ports::ChainUnavailable;

/// How many heights are checked for finality in one pass; more wait for the next.
const DECIDED_MAX: usize = 64;

impl Follower {
    /// Tells what is final: deep enough, and the same block for every endpoint that has one there.
    pub(super) async fn decide(&mut self, heads: Heads) -> Result<(), ChainUnavailable> {
        let rule = self.settings.finality;
        let linked = self.linked();
        let is_deep = |height| rule.is_deep(height, heads) && linked(height);
        let heights = self.board.undecided(is_deep, DECIDED_MAX);
        if heights.is_empty() {
            return Ok(());
        }
        let witnesses = self.chain.witnesses(self.settings.id, &heights).await?;
        for (height, hashes) in heights.into_iter().zip(witnesses) {
            for hit in self.board.untold_at(height) {
                match agreement(hit.block.hash, hashes.iter().copied()) {
                    Agreement::Agreed => {
                        self.board.tell(&hit);
                        self.tell(hit.whose, Sight::Final(hit.block));
                    }
                    Agreement::Unknown => {}
                    Agreement::Disputed => self.disputed(&hit, &hashes),
                }
            }
        }
        Ok(())
    }

    /// Whether as many blocks as the rule asks for are linked on top of a height, or stand above a window
    /// that is as long: what is below it is deeper still.
    fn linked(&self) -> impl Fn(Height) -> bool + use<> {
        let base = self.window.base();
        let length = match (self.window.head(), base) {
            (Some(head), Some(base)) => head.number.get() - base.get(),
            (Some(_) | None, _) => 0,
        };
        let needed = match self.settings.finality {
            Rule::Confirmations(n) => n,
            Rule::Safe | Rule::Finalized => 0,
        };
        move |height| base.is_some_and(|base| height >= base) || length >= needed
    }

    /// Someone has another block there. If all have, and our window does not say otherwise, ours is gone:
    /// it was below the window, or was never part of it.
    fn disputed(&mut self, hit: &Hit, hashes: &[Option<B256>]) {
        let gone = hashes.iter().flatten().all(|hash| *hash != hit.block.hash);
        if gone && self.window.at(hit.block.number) != Some(hit.block.hash) {
            self.board.take(hit);
            self.tell(hit.whose, Sight::Reorged(hit.block));
            return;
        }
        self.node.meters.disputed();
        let chain = self.settings.name.as_str();
        tracing::error!(chain, height = %hit.block.number, tx_id = %hit.whose.tx, "endpoints disagree about a block that would be final: nothing in it is, until they agree");
    }
}
