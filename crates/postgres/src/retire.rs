//! Retiring what ended long ago: one statement for each small batch (`sql/thin.sql`, `delete.sql`, `sweep.sql`). It takes no lane and waits
//! for no row, so that nothing waits for long behind it; the feed, walked by two positions, needs no index for it.

use fencepost_app::ports::{Retire, Retired, Stage, StoreError};

use crate::row::{column, corrupt};
use crate::{PostgresStore, micros, rows};

/// What nothing but a reorg moves any more.
const FINAL: &str = "'CONFIRMED', 'FAILED_FINAL', 'USED', 'RECYCLABLE'";
/// What ended by this time is old enough.
const BY: &str = "clock_timestamp() - $2::bigint * interval '1 microsecond'";
/// Ended, long enough ago, and in no block, or in one that is deep enough on a chain that is named.
const RIPE: &str = "(m.state IN (/*final*/) AND m.updated_at <= /*by*/
       AND (m.block_number IS NULL OR m.block_number < coalesce((
            SELECT d.height FROM unnest($3::bigint[], $4::bigint[]) AS d(chain_id, height)
             WHERE d.chain_id = l.chain_id), 0)))";

fn sql(stage: Stage) -> String {
    let text = match stage {
        Stage::Thin => include_str!("../sql/thin.sql"),
        Stage::Delete => include_str!("../sql/delete.sql"),
        Stage::Sweep => include_str!("../sql/sweep.sql"),
    };
    text.replace("/*ripe*/", RIPE)
        .replace("/*final*/", FINAL)
        .replace("/*by*/", BY)
}

impl PostgresStore {
    /// Sent again it takes the next batch: nothing is lost with a reply but its count.
    pub(crate) async fn retire_batch(&self, retire: &Retire) -> Result<Retired, StoreError> {
        let (chains, heights): (Vec<i64>, Vec<i64>) = retire
            .beneath
            .iter()
            .map(|(chain, height)| (chain.column(), height.column()))
            .unzip();
        let (limit, age) = (rows(retire.limit), micros(retire.older_than));
        let answer = self
            .connections
            .write_plain(&sql(retire.stage), &[&limit, &age, &chains, &heights])
            .await?;
        let row = answer.first().ok_or_else(|| corrupt("retention"))?;
        let count = |name: &'static str| -> Result<usize, StoreError> {
            let count: i64 = column(row, name)?;
            usize::try_from(count).map_err(|_| corrupt(name))
        };
        Ok(Retired {
            passed: count("passed")?,
            retired: count("retired")?,
        })
    }
}
