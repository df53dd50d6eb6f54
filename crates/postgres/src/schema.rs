//! The schema that holds all our tables, functions and the history of migrations. Other owners may have
//! tables of the same names in other schemas of the database, and so may another installation.

use fencepost_app::ports::StoreError;
use tokio_postgres::Client;

use crate::fault::refused;

/// Where PostgreSQL puts what is given no place.
pub(crate) const USUAL: &str = "public";

/// PostgreSQL cuts longer names, and two of them could become one.
const LENGTH_MAX: usize = 63;

/// Any number that no other program uses for the same database will do.
const LOCK: i64 = 0x6665_6e63_6570_6f73;

/// What is wrong with a schema's name, as the rest of a sentence.
pub fn check_schema(name: &str) -> Result<(), String> {
    let first = name.bytes().next();
    let is_letter = |byte: u8| byte.is_ascii_lowercase() || byte == b'_';
    let is_sound = first.is_some_and(is_letter)
        && name
            .bytes()
            .all(|byte| is_letter(byte) || byte.is_ascii_digit());
    if !is_sound {
        return Err(format!(
            "{name:?} must be a name of a-z, 0-9 and _ that begins with no digit"
        ));
    }
    if name.len() > LENGTH_MAX {
        return Err(format!("{name:?} is longer than {LENGTH_MAX} letters"));
    }
    // Temporary tables stand behind our schema in the path, and the catalogue before it.
    if name.starts_with("pg_") || name == "information_schema" {
        return Err(format!(
            "{name:?} is a name that PostgreSQL keeps for itself"
        ));
    }
    Ok(())
}

/// Waits for other nodes that migrate the same schema. In `public` it is the lock of all versions.
pub(crate) async fn lock(client: &Client, schema: &str) -> Result<(), StoreError> {
    let sql =
        "SELECT pg_advisory_lock($1 # CASE $2 WHEN $3 THEN 0 ELSE hashtextextended($2, 0) END)";
    client
        .execute(sql, &[&LOCK, &schema, &USUAL])
        .await
        .map_err(|error| StoreError::Unavailable(error.into()))?;
    Ok(())
}

/// Makes the schema where it is missing. Under the lock: nodes that start together make it once.
pub(crate) async fn prepare(client: &Client, schema: &str) -> Result<(), StoreError> {
    let sql =
        "SELECT n.oid IS NOT NULL,
                coalesce(has_schema_privilege(n.oid, 'USAGE') AND has_schema_privilege(n.oid, 'CREATE'), false),
                coalesce(has_schema_privilege(n.oid, 'USAGE'), false), current_user::text,
                EXISTS (SELECT FROM pg_class c
                         WHERE c.relnamespace = n.oid AND c.relname = 'store_identity')
           FROM (SELECT) one LEFT JOIN pg_namespace n ON n.nspname = $1";
    let row = client.query_one(sql, &[&schema]).await.map_err(refused)?;
    let (exists, allowed, usable): (bool, bool, bool) = (row.get(0), row.get(1), row.get(2));
    let (role, migrated): (String, bool) = (row.get(3), row.get(4));
    if exists && (allowed || (migrated && usable)) {
        return Ok(());
    }
    let unfit = |why: &str, grant: &str| {
        Err(StoreError::Unfit(format!(
            "the role {role} may not {why}: run {grant}, or set store.schema to another one"
        )))
    };
    if migrated {
        let grant = format!("GRANT USAGE ON SCHEMA \"{schema}\" TO \"{role}\"");
        return unfit(&format!("use the schema {schema}"), &grant);
    }
    if exists {
        let grant = format!("GRANT USAGE, CREATE ON SCHEMA \"{schema}\" TO \"{role}\"");
        return unfit(&format!("make tables in the schema {schema}"), &grant);
    }
    let made = client
        .batch_execute(&format!("CREATE SCHEMA \"{schema}\""))
        .await;
    match made {
        Ok(()) => {
            tracing::info!(schema, "made the schema");
            Ok(())
        }
        Err(error) if error.code().is_some_and(|code| code.code() == "42501") => {
            let grant = format!("CREATE SCHEMA \"{schema}\" AUTHORIZATION \"{role}\"");
            unfit(
                &format!("make the schema {schema}, which is missing"),
                &grant,
            )
        }
        Err(error) => Err(refused(error)),
    }
}

/// Versions without `store.schema` put their tables where the role's own path led. They must not be
/// passed over for an empty `public`: everything that was accepted would seem lost.
pub(crate) async fn refuse_to_pass_over(client: &Client, schema: &str) -> Result<(), StoreError> {
    if schema != USUAL {
        return Ok(());
    }
    // What the path was before this session set its own.
    let sql = "SELECT schema.name
                 FROM pg_settings s,
                      string_to_table(s.reset_val, ',') WITH ORDINALITY AS part(raw, n),
                      LATERAL (SELECT CASE btrim(raw, ' \"') WHEN '$user' THEN current_user::text
                                      ELSE btrim(raw, ' \"') END) AS schema(name)
                WHERE s.name = 'search_path' AND to_regclass('store_identity') IS NULL
                  AND 2 = (SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
                            WHERE n.nspname = schema.name
                              AND c.relname IN ('store_identity', 'signer_lease'))
                ORDER BY part.n LIMIT 1";
    let found = client.query_opt(sql, &[]).await.map_err(refused)?;
    let Some(found) = found else { return Ok(()) };
    let there: String = found.get(0);
    Err(StoreError::Unfit(format!(
        "the tables of this database are in the schema {there}, where the role's search_path leads, and \
         not in {USUAL}: set store.schema = \"{there}\""
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_names_are_schemas() {
        for name in ["public", "fencepost", "_f1", &"a".repeat(63)] {
            assert_eq!(check_schema(name), Ok(()));
        }
        for name in ["", "1a", "Fence", "a b", "a\"b", "a'b", "a,b", "a\\b", "é"] {
            let why = check_schema(name).expect_err(name);
            assert!(why.contains("must be a name"), "{why}");
        }
        for name in ["pg_temp", "pg_catalog", "information_schema"] {
            assert!(check_schema(name).is_err(), "{name}");
        }
        assert!(check_schema(&"a".repeat(64)).is_err());
    }
}
