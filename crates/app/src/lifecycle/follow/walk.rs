//! Walking from a new head down to the blocks that we know.

use fencepost_domain::ids::Height;

use super::window::{Joint, Window};
use super::{Follower, TORN};
use crate::ports::{BlockBody, ChainUnavailable, Tip};

/// What is new of a chain.
pub(super) enum Branch {
    Nothing,
    /// Lowest first; it stands on our window.
    Linked(Vec<BlockBody>),
    /// It cannot be linked.
    Apart(BlockBody),
}

impl Follower {
    /// The blocks that are new, lowest first.
    pub(super) async fn branch(&mut self, tip: Tip) -> Result<Branch, ChainUnavailable> {
        let source = tip.source;
        let head = tip.head.clone();
        // Newest first, while it grows downwards.
        let mut branch = vec![tip.head];
        loop {
            let Some(lowest) = branch.last() else {
                return Ok(Branch::Nothing);
            };
            let (from, to) = match self.window.joint(lowest) {
                // An endpoint that is behind, or has nothing new.
                Joint::Has => {
                    branch.pop();
                    branch.reverse();
                    return Ok(if branch.is_empty() {
                        Branch::Nothing
                    } else {
                        Branch::Linked(branch)
                    });
                }
                Joint::Links => {
                    branch.reverse();
                    return Ok(Branch::Linked(branch));
                }
                Joint::Needs(from, to) => (from, to),
                Joint::TooDeep => return Ok(Branch::Apart(head)),
            };
            let missing = to.get() - from.get() + 1;
            let walked = u64::try_from(branch.len()).unwrap_or(u64::MAX);
            let most = u64::try_from(self.node.settings.max_walk).unwrap_or(u64::MAX);
            if walked.saturating_add(missing) > most {
                return Ok(Branch::Apart(head));
            }
            let heights: Vec<Height> = (from.get()..=to.get())
                .rev()
                .filter_map(|n| Height::new(n).ok())
                .collect();
            let bodies = self
                .chain
                .blocks(self.settings.id, source, &heights)
                .await?;
            if !grow(&mut branch, bodies, &self.window) {
                return Err(ChainUnavailable(TORN.into()));
            }
        }
    }
}

/// Adds blocks below a branch, newest first, as far as they are needed. False if they do not fit.
fn grow(branch: &mut Vec<BlockBody>, below: Vec<Option<BlockBody>>, window: &Window) -> bool {
    for body in below {
        let (Some(body), Some(above)) = (body, branch.last()) else {
            return false;
        };
        if body.block.hash != above.parent {
            return false;
        }
        if window.at(body.block.number) == Some(body.block.hash) {
            return true;
        }
        branch.push(body);
    }
    true
}
