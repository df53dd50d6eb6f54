//! Decisions: what a policy has said takes the place of the question that was claimed for it.

use fencepost_app::ports::{Action, Decided, Decision, Held, Holder, StoreError};
use fencepost_domain::decision::{After, Severity};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use crate::PostgresStore;
use crate::fault::{after_write, refused};
use crate::remedy::NOOP;
use crate::row::column;
use crate::statement::Written;

const DECIDE: &str = include_str!("../sql/decide.sql");

/// Whether a remedy stands just as we decided it, whoever has claimed it since.
const STANDS: &str = "
SELECT FROM remedy
 WHERE remedy_id = $1 AND lane_id = $2
   AND (action, max_fee, max_priority_fee, asked_by, reason, details, raw, severity, then_state)
       IS NOT DISTINCT FROM ($3, $4::text::numeric, $5::text::numeric, $6, $7, $8, $9, $10, $11)";

impl PostgresStore {
    pub(crate) async fn decide(
        &self,
        holder: &Holder,
        held: Held,
        decided: &Decided,
    ) -> Result<Decision, StoreError> {
        let (node, incarnation) = (holder.node.as_str(), holder.incarnation.column());
        let (token, lease) = (held.token.column(), self.lease_micros());
        let action = decided.action.map_or(NOOP, Action::word);
        let max_fee = decided.fees.map(|fees| fees.max_fee.to_string());
        let tip = decided.fees.and_then(|fees| fees.max_priority_fee);
        let tip = tip.map(|tip| tip.to_string());
        let (remedy, audit) = (decided.remedy.0, &decided.audit);
        let raw = decided.raw.as_ref().map(|raw| raw.as_ref());
        let severity = decided.severity.map(Severity::word);
        let after = decided.after.map(After::word);
        let said: [&(dyn ToSql + Sync); 9] = [
            &action,
            &max_fee,
            &tip,
            &audit.by,
            &audit.reason,
            &audit.details,
            &raw,
            &severity,
            &after,
        ];
        let mut params: Vec<&(dyn ToSql + Sync)> =
            vec![&held.lane.0, &node, &incarnation, &token, &lease, &remedy];
        params.extend(said);
        match self.connections.write(DECIDE, &params).await? {
            Written::Rows { rows, again: false } => answer(rows.first()),
            Written::Rows { rows, again: true } => {
                let answer = answer(rows.first())?;
                if answer == Decision::Written {
                    return Ok(answer);
                }
                let mut params: Vec<&(dyn ToSql + Sync)> = vec![&remedy, &held.lane.0];
                params.extend(said);
                self.decided_before(holder, held, answer, &params)
                    .await
                    .map_err(after_write)
            }
            Written::Refused {
                error, again: true, ..
            } => Err(StoreError::OutcomeUnknown(error.into())),
            Written::Refused { error, .. } => Err(refused(error)),
        }
    }

    /// This try found nothing to decide, but a lost one before it may have decided it, or may still.
    async fn decided_before(
        &self,
        holder: &Holder,
        held: Held,
        answer: Decision,
        stands: &[&(dyn ToSql + Sync)],
    ) -> Result<Decision, StoreError> {
        // The token is read before the row: what is not decided after it was passed never will be.
        let lanes = self.lane_states(holder, &[held.lane.0]).await?;
        let past = lanes
            .get(&held.lane.0)
            .is_none_or(|lane| lane.is_past(held.token));
        if !self.connections.read(STANDS, stands).await?.is_empty() {
            return Ok(Decision::Written);
        }
        match answer {
            // A remedy never becomes a question of the same token again, so no try can still apply.
            Decision::Gone | Decision::Written => Ok(answer),
            Decision::Fenced if past => Ok(answer),
            Decision::Fenced => Err(StoreError::OutcomeUnknown(
                "the lost try may still run".into(),
            )),
        }
    }
}

fn answer(row: Option<&Row>) -> Result<Decision, StoreError> {
    Ok(match row {
        None => Decision::Fenced,
        Some(row) if column(row, "written")? => Decision::Written,
        Some(_) => Decision::Gone,
    })
}
