//! The end of the end: what ended long ago is made small, and after a further time deleted. One pass is one small
//! statement for each stage; between passes everyone else has the store. Any node may do it, and one at a time does.

use std::time::Duration;

use fencepost_domain::ids::{ChainId, Height};

use crate::node::Node;
use crate::ports::{Retire, Stage, StoreError};
use crate::settings::Retention;

/// How long nobody looks after a pass that found less than a batch. Longer makes bursts; shorter asks for nothing.
pub(crate) const IDLE: Duration = Duration::from_mins(1);

/// In the order of a pass; the walk for what is in no feed comes last.
pub(crate) const STAGES: [Stage; 3] = [Stage::Thin, Stage::Delete, Stage::Sweep];

impl Node {
    /// One batch of each of these stages. The answer: those that may have more at once.
    pub async fn retire(
        &self,
        retention: Retention,
        stages: &[Stage],
    ) -> Result<Vec<Stage>, StoreError> {
        let beneath = self.beneath();
        let mut more = Vec::new();
        for &stage in stages {
            let older_than = match stage {
                Stage::Thin => retention.keep,
                Stage::Delete | Stage::Sweep => retention.keep + retention.request_ids,
            };
            let batch = Retire {
                stage,
                older_than,
                limit: retention.batch,
                beneath: beneath.clone(),
            };
            let done = self.store.retire(&batch).await?;
            self.meters.retired(stage, done.retired);
            if done.passed == retention.batch {
                more.push(stage);
            }
        }
        Ok(more)
    }

    /// Below these heights no follower looks for reorgs. A chain of ours whose head we have not seen yet has
    /// nothing below.
    fn beneath(&self) -> Vec<(ChainId, Height)> {
        let height = |chain: ChainId| {
            let seen = self.board(chain).and_then(|board| board.settled());
            (chain, seen.unwrap_or_default())
        };
        self.chains.iter().map(|chain| height(chain.id)).collect()
    }
}
