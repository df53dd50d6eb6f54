//! The end of the end: what ended long ago is made small, and after a further time deleted. One pass is one small
//! statement for each stage; between passes everyone else has the store. Any node may do it, and one at a time does.

use std::time::Duration;

use fencepost_domain::ids::{ChainId, Height};

use crate::node::Node;
use crate::ports::{Retire, Stage, StoreError};
use crate::settings::Retention;

/// How long nobody looks after a pass that found less than a batch. Longer makes bursts; shorter asks for nothing.
pub(crate) const IDLE: Duration = Duration::from_mins(1);

impl Node {
    /// One batch of each stage. True when there may be more at once.
    pub async fn retire(&self, retention: Retention) -> Result<bool, StoreError> {
        let beneath = self.beneath();
        let forgotten = retention.keep + retention.request_ids;
        let stages = [
            (Stage::Thin, retention.keep),
            (Stage::Delete, forgotten),
            (Stage::Sweep, forgotten),
        ];
        let mut more = false;
        for (stage, older_than) in stages {
            let batch = Retire {
                stage,
                older_than,
                limit: retention.batch,
                beneath: beneath.clone(),
            };
            let done = self.store.retire(&batch).await?;
            self.meters.retired(stage, done.retired);
            more |= done.passed == retention.batch;
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
