//! What is final: deep enough, and the same block for every endpoint that has one there.

use fencepost_domain::B256;
use fencepost_domain::finality::{Agreement, Heads, Rule, agreement};
use fencepost_domain::ids::Height;

use super::board::Hit;
use super::cover::Above;
use super::{Follower, Sight};
use crate::causes::Causes;
use crate::ports::{ChainUnavailable, Source};
use crate::writes::lane_error;

/// How many heights are checked for finality in one pass; more wait for the next.
const DECIDED_MAX: usize = 64;

impl Follower {
    /// Tells what is final: deep enough, and the same block for every endpoint that has one there.
    pub(super) async fn decide(
        &mut self,
        source: Source,
        heads: Heads,
    ) -> Result<(), ChainUnavailable> {
        let rule = self.settings.finality;
        let linked = self.linked();
        let is_deep = |height| rule.is_deep(height, heads) && linked(height);
        let heights = self.board.undecided(self.decide_from, is_deep, DECIDED_MAX);
        self.decide_from = Height::default();
        if heights.is_empty() {
            return Ok(());
        }
        let witnesses = self.chain.witnesses(self.settings.id, &heights).await?;
        let mut read = 0;
        for (height, hashes) in heights.into_iter().zip(witnesses) {
            let hits = self.board.untold_at(height);
            let agreed =
                |hit: &Hit| agreement(hit.block.hash, hashes.iter().copied()) == Agreement::Agreed;
            let ends = hits.iter().any(agreed);
            let chain = match ends {
                true => self.readable_above(source, height, &mut read).await,
                false => Above::Unpublished,
            };
            if matches!(chain, Above::Unread) {
                continue;
            }
            for hit in hits {
                match agreement(hit.block.hash, hashes.iter().copied()) {
                    Agreement::Agreed => {
                        self.board.tell(&hit);
                        self.tell(hit.whose, Sight::Final(hit.block, chain.known()));
                    }
                    Agreement::Unknown => {}
                    Agreement::Disputed => self.disputed(&hit, &hashes),
                }
            }
        }
        Ok(())
    }

    /// The chain on top of a height. One that cannot be read holds up no other: nothing more is read in this pass, so that it
    /// takes no longer than one failure, and the next pass begins above it.
    async fn readable_above(&mut self, source: Source, height: Height, read: &mut u64) -> Above {
        match self.above(source, height, read).await {
            Ok(above) => above,
            Err(error) => {
                let chain = self.settings.name.as_str();
                tracing::warn!(chain, %height, error = %Causes(&error), "the blocks on top of a final one cannot be read: what is in it ends later");
                *read = u64::MAX;
                self.decide_from = height.plus(1).unwrap_or_default();
                Above::Unread
            }
        }
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
        let (chain, whose) = (self.settings.name.as_str(), hit.whose);
        let held = self.node.last_held(whose.lane);
        lane_error!(self.node, held, tx_id = %whose.tx, nonce = %whose.nonce, chain, height = %hit.block.number, "endpoints disagree about a block that would be final: nothing in it is, until they agree");
    }
}
