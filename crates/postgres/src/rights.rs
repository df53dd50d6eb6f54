//! What the role may do. Rights on the tables are needed, and one that is missing is named at the start. Rights
//! beyond the schema are not: what is missing is named once, with what it costs.

use fencepost_app::ports::StoreError;

use crate::PostgresStore;
use crate::row::column;

const RIGHTS: &str = "
SELECT current_user::text AS role, pg_has_role('pg_signal_backend', 'USAGE') AS signals,
       pg_has_role('pg_read_all_stats', 'USAGE') AS reads";

/// Rights that are missing on the store's tables: those of the owner of `store_identity`. Other owners may have
/// tables in the same schema.
const ON_TABLES: &str = "
SELECT current_user::text AS role, string_agg(format('%s on %s', m.rights, m.name), ', ' ORDER BY m.name) AS missing
  FROM (SELECT c.relname AS name, string_agg(p.name, ', ' ORDER BY p.place) AS rights
          FROM pg_class s
          JOIN pg_class c ON c.relnamespace = s.relnamespace AND c.relowner = s.relowner
                         AND c.relkind = 'r' AND c.relname <> 'refinery_schema_history'
          JOIN (VALUES (1, 'SELECT'), (2, 'INSERT'), (3, 'UPDATE'), (4, 'DELETE')) p(place, name)
            ON NOT has_table_privilege(c.oid, p.name)
         WHERE s.oid = to_regclass('store_identity')
         GROUP BY c.relname) m
HAVING count(*) > 0";

/// The role may not do something to the store's tables.
pub(crate) fn missing_on_tables(role: &str, schema: &str, missing: &str) -> StoreError {
    StoreError::Unfit(format!(
        "the role {role} lacks rights on the store's tables ({missing}): run GRANT SELECT, INSERT, UPDATE, DELETE \
         ON ALL TABLES IN SCHEMA \"{schema}\" TO \"{role}\" as their owner"
    ))
}

const BLOCKED: &str = "a session of another role that blocks a takeover cannot be ended";
const UNSEEN: &str = "how old the snapshots of other roles are is not known";
const BOTH: &str = "a session of another role that blocks a takeover cannot be ended, and how old the \
                    snapshots of other roles are is not known";

impl PostgresStore {
    /// At the start, in one line: later it would be one statement here and there that fails.
    pub(crate) async fn refuse_missing_rights(&self) -> Result<(), StoreError> {
        let rows = self.connections.read(ON_TABLES, &[]).await?;
        let Some(row) = rows.first() else {
            return Ok(());
        };
        let (role, missing): (String, String) = (column(row, "role")?, column(row, "missing")?);
        Err(missing_on_tables(&role, &self.settings.schema, &missing))
    }

    /// One line about everything that works less well.
    pub(crate) async fn report_missing_rights(&self) -> Result<(), StoreError> {
        let rows = self.connections.read(RIGHTS, &[]).await?;
        let Some(row) = rows.first() else {
            return Ok(());
        };
        let role: String = column(row, "role")?;
        let (signals, reads): (bool, bool) = (column(row, "signals")?, column(row, "reads")?);
        let (missing, cost) = match (signals, reads) {
            (true, true) => return Ok(()),
            (false, true) => ("pg_signal_backend", BLOCKED),
            (true, false) => ("pg_read_all_stats", UNSEEN),
            (false, false) => ("pg_signal_backend, pg_read_all_stats", BOTH),
        };
        tracing::warn!(
            role,
            missing,
            "the role works with less: {cost} (GRANT {missing} TO \"{role}\")"
        );
        Ok(())
    }
}
