//! What is on top of transactions, for those who publish confirmations. Workers compare it with what was
//! published: only they know that, and only they write.

use std::sync::Arc;

use fencepost_domain::confirmation::Stretch;
use fencepost_domain::ids::Height;
use fencepost_domain::state::Block;

use super::board::Hit;
use super::{Follower, Sight};
use crate::ports::{ChainUnavailable, Source};

/// How many blocks below the window are read in one pass. What needs more waits for the next pass; too many would
/// hold the newest blocks up.
const READ_MAX: u64 = 512;

/// What is known of the chain on top of a final block.
pub(super) enum Above {
    /// Nobody wants it.
    Unpublished,
    /// It was not read in this pass: what is in the block ends in a later one.
    Unread,
    /// These blocks.
    Known(Arc<Stretch>),
}

impl Above {
    pub(super) fn known(&self) -> Option<Arc<Stretch>> {
        match self {
            Self::Known(chain) => Some(Arc::clone(chain)),
            Self::Unpublished | Self::Unread => None,
        }
    }
}

impl Follower {
    /// Tells of the chain on top of transactions where it grew or was replaced. A worker that missed it, or that has
    /// read its lane anew, has put its transactions onto the board again and is told again.
    pub(super) fn cover(&mut self) {
        if !self.node.settings.publish_confirmations {
            return;
        }
        let Some((base, head)) = self.window.base().zip(self.window.head()) else {
            return;
        };
        let mut chain: Option<Arc<Stretch>> = None;
        for hit in self.board.hits_from(base) {
            let stands = self.window.at(hit.block.number) == Some(hit.block.hash);
            let top = self.top_of(&hit).filter(|top| *top > hit.block.number);
            let Some(number) = top.filter(|_| stands && !hit.told) else {
                continue;
            };
            let number = number.min(head.number);
            let top = self.window.at(number).map(|hash| Block { number, hash });
            if top.is_some_and(|top| top.number > hit.block.number && self.board.cover(&hit, top)) {
                chain = chain.or_else(|| self.window.stretch().map(Arc::new));
                if let Some(chain) = &chain {
                    self.tell(hit.whose, Sight::Covered(Arc::clone(chain)));
                }
            }
        }
    }

    /// The height of the highest block that is published on top of a transaction.
    fn top_of(&self, hit: &Hit) -> Option<Height> {
        let most = self.settings.finality.published();
        hit.block.number.plus(most).ok()
    }

    /// The chain that is told with the news that a block at this height is final. What was mined long before we looked
    /// is below the window; then the blocks on top of it are read.
    pub(super) async fn above(
        &self,
        source: Source,
        height: Height,
        read: &mut u64,
    ) -> Result<Above, ChainUnavailable> {
        let most = self.settings.finality.published();
        if !self.node.settings.publish_confirmations || most == 0 {
            return Ok(Above::Unpublished);
        }
        let in_window = self.window.base().is_some_and(|base| height >= base);
        if in_window {
            let chain = self.window.stretch().map(Arc::new);
            return Ok(chain.map_or(Above::Unread, Above::Known));
        }
        if *read >= READ_MAX {
            return Ok(Above::Unread);
        }
        *read = read.saturating_add(most);
        let Some(chain) = self.below(source, height, most).await? else {
            let chain = self.settings.name.as_str();
            tracing::warn!(chain, %height, "blocks on top of a final one do not fit together: nothing in it ends before they do");
            return Ok(Above::Unread);
        };
        Ok(Above::Known(Arc::new(chain)))
    }

    /// The block at a height below the window, and those on top that are published, linked by their parents.
    async fn below(
        &self,
        source: Source,
        height: Height,
        most: u64,
    ) -> Result<Option<Stretch>, ChainUnavailable> {
        let head = self.window.head().map_or(height, |head| head.number);
        let last = height.get().saturating_add(most).min(head.get());
        let heights = height.get()..=last;
        let heights: Vec<Height> = heights.filter_map(|n| Height::new(n).ok()).collect();
        let chain = self.settings.id;
        let bodies = self.chain.blocks(chain, source, &heights).await?;
        let mut parent = None;
        let mut hashes = Vec::new();
        for body in bodies {
            let Some(body) = body else {
                return Ok(None);
            };
            let fits = hashes.last().is_none_or(|below| *below == body.parent);
            let windowed = self.window.at(body.block.number);
            if !fits || windowed.is_some_and(|hash| hash != body.block.hash) {
                return Ok(None);
            }
            parent = parent.or(Some(body.parent));
            hashes.push(body.block.hash);
        }
        Ok(parent.and_then(|parent| Stretch::new(parent, height, hashes)))
    }
}
