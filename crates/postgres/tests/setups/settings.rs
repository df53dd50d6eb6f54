//! Settings of a role that would break a promise are overruled in every session of ours, or refused by name.

use anyhow::Result;
use fencepost_app::ports::{Renewed, Store};
use fencepost_postgres::PostgresStore;
use fencepost_testkit::postgres::{Database, shared};
use tokio_postgres::Client;

use super::node::{in_schema, refusal, settings, works};

/// A role of its own that owns the schema `ours`.
async fn role(kind: &str) -> Result<(Database, Client, String)> {
    let database = shared().await?.create_database().await?;
    let client = database.connect().await?;
    let role = format!("set_{}", database.name());
    let sql = format!("CREATE ROLE {role} LOGIN {kind}; CREATE SCHEMA ours AUTHORIZATION {role}");
    client.batch_execute(&sql).await?;
    Ok((database, client, role))
}

fn url_as(database: &Database, role: &str) -> String {
    database
        .url()
        .replacen("fencepost@", &format!("{role}@"), 1)
}

const HOSTILE: &[(&str, &str)] = &[
    ("default_transaction_isolation", "'serializable'"),
    ("default_transaction_read_only", "on"),
    ("default_transaction_deferrable", "on"),
    ("TimeZone", "'Asia/Kathmandu'"),
    ("search_path", "nowhere, pg_catalog"),
    ("standard_conforming_strings", "off"),
    ("transform_null_equals", "on"),
    ("synchronous_commit", "off"),
    ("client_encoding", "'LATIN1'"),
    ("DateStyle", "'German, DMY'"),
    ("IntervalStyle", "'iso_8601'"),
    ("bytea_output", "'escape'"),
    ("statement_timeout", "'40ms'"),
    ("lock_timeout", "'1ms'"),
    ("idle_in_transaction_session_timeout", "'1ms'"),
    ("idle_session_timeout", "'1s'"),
    ("plan_cache_mode", "'force_custom_plan'"),
    ("enable_indexscan", "off"),
    ("work_mem", "'64kB'"),
];

/// What every session that writes must have in effect, whatever role and database say.
const IN_EFFECT: &[(&str, &str)] = &[
    ("default_transaction_isolation", "read committed"),
    ("default_transaction_read_only", "off"),
    ("TimeZone", "UTC"),
    ("search_path", "\"ours\", pg_temp"),
    ("standard_conforming_strings", "on"),
    ("transform_null_equals", "off"),
    ("synchronous_commit", "on"),
    ("client_encoding", "UTF8"),
    ("DateStyle", "ISO, MDY"),
    ("IntervalStyle", "postgres"),
    ("bytea_output", "hex"),
    ("statement_timeout", "20s"),
    ("lock_timeout", "10s"),
    ("idle_in_transaction_session_timeout", "20s"),
    ("idle_session_timeout", "0"),
    ("plan_cache_mode", "force_generic_plan"),
    ("work_mem", "16MB"),
];

/// From now on, each statement that updates a lane's row writes down what its session has in effect. No other session can
/// read that.
async fn watch(client: &Client) -> Result<()> {
    let names: Vec<String> = IN_EFFECT.iter().map(|(n, _)| format!("'{n}'")).collect();
    let sql = format!(
        "CREATE TABLE public.seen (name text, value text);
         GRANT ALL ON public.seen TO PUBLIC;
         GRANT USAGE ON SCHEMA public TO PUBLIC;
         CREATE FUNCTION public.see() RETURNS trigger LANGUAGE plpgsql AS $$
         BEGIN
             INSERT INTO public.seen
             SELECT n, pg_catalog.current_setting(n) FROM unnest(ARRAY[{}]) AS s(n);
             RETURN NULL;
         END $$;
         CREATE TRIGGER see AFTER UPDATE ON ours.signer_lease
         FOR EACH STATEMENT EXECUTE FUNCTION public.see()",
        names.join(", ")
    );
    Ok(client.batch_execute(&sql).await?)
}

/// What was written down since the last time.
async fn assert_in_effect(client: &Client, whose: &str) -> Result<()> {
    let sql = "WITH gone AS (DELETE FROM public.seen RETURNING name, value)
               SELECT DISTINCT name, value FROM gone";
    let rows = client.query(sql, &[]).await?;
    let seen: Vec<(String, String)> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
    for (name, value) in IN_EFFECT {
        let values: Vec<&String> = seen
            .iter()
            .filter(|(of, _)| of == name)
            .map(|(_, value)| value)
            .collect();
        assert_eq!(values, [value], "{name}, set by the {whose}");
    }
    Ok(())
}

/// Goal: settings of the role and of the database are overruled. Method: a trigger of the test reads them inside of our
/// own statements, for the store would work with many of the wrong ones.
#[tokio::test]
async fn settings_of_the_role_and_of_the_database_are_overruled() -> Result<()> {
    let (database, client, role) = role("NOSUPERUSER").await?;
    let node = || in_schema(url_as(&database, &role), "ours");
    let first = works(node()).await?;
    watch(&client).await?;
    let name = database.name();
    for (whose, of) in [
        ("role", format!("ROLE {role}")),
        ("database", format!("DATABASE {name}")),
        (
            "role in the database",
            format!("ROLE {role} IN DATABASE {name}"),
        ),
    ] {
        for (name, value) in HOSTILE {
            let sql = format!("ALTER {of} SET {name} = {value}");
            client.batch_execute(&sql).await?;
        }
        let store = PostgresStore::attach(node()).await?;
        let renewed = store.renew(&first.holder, &[first.held]).await?;
        assert_eq!(renewed, [Renewed::Kept], "{whose}");
        assert_in_effect(&client, whose).await?;
        client
            .batch_execute(&format!("ALTER {of} RESET ALL"))
            .await?;
    }
    Ok(())
}

/// Each of them alone, so that none is overruled only because another is.
#[tokio::test]
async fn each_setting_of_the_role_alone_is_overruled() -> Result<()> {
    let (database, client, role) = role("NOSUPERUSER").await?;
    let node = || in_schema(url_as(&database, &role), "ours");
    let first = works(node()).await?;
    watch(&client).await?;
    for (name, value) in HOSTILE {
        let sql = format!("ALTER ROLE {role} RESET ALL; ALTER ROLE {role} SET {name} = {value}");
        client.batch_execute(&sql).await?;
        let store = PostgresStore::attach(node()).await?;
        store.renew(&first.holder, &[first.held]).await?;
        assert_in_effect(&client, name).await?;
    }
    Ok(())
}

/// Guards of the tables are triggers, which this setting switches off. Only a superuser can set it back.
#[tokio::test]
async fn a_setting_that_the_role_cannot_change_is_refused_by_name() -> Result<()> {
    let (database, client, role) = role("NOSUPERUSER").await?;
    let sql = format!("ALTER ROLE {role} SET session_replication_role = replica");
    client.batch_execute(&sql).await?;
    let why = refusal(in_schema(url_as(&database, &role), "ours")).await?;
    assert!(why.contains("session_replication_role"), "{why}");
    client
        .batch_execute(&format!("ALTER ROLE {role} SUPERUSER"))
        .await?;
    works(in_schema(url_as(&database, &role), "ours")).await?;
    Ok(())
}

/// A URL may bring options too.
#[tokio::test]
async fn options_of_the_url_are_overruled() -> Result<()> {
    let (database, ..) = role("NOSUPERUSER").await?;
    let options =
        "?options=-c%20default_transaction_read_only%3Don%20-c%20synchronous_commit%3Doff";
    works(settings(format!("{}{options}", database.url()))).await?;
    Ok(())
}
