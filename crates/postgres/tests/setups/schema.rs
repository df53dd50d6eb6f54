//! `store.schema`: all that is ours is in one schema, and nothing outside of it disturbs us.

use anyhow::Result;
use fencepost_postgres::PostgresStore;
use fencepost_store_tests::builders::txs;
use fencepost_testkit::postgres::{Database, shared};
use fencepost_testkit::wait;
use futures::future::try_join_all;
use tokio_postgres::Client;

use super::node::{in_schema, refusal, settings, works};

/// Tables of other owners, which have our names and are nothing like ours.
const THEIRS: &str = "
CREATE TABLE public.managed_tx (theirs integer);
CREATE TABLE public.signer_lease (theirs integer);
CREATE TABLE public.tx_attempt (theirs integer);
CREATE TABLE public.node (theirs integer);
CREATE VIEW public.signer_nonce_cursor AS SELECT 1 AS theirs;
CREATE FUNCTION public.refuse_rewriting() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
INSERT INTO public.managed_tx VALUES (1);";

async fn tables(client: &Client) -> Result<Vec<String>> {
    let sql = "SELECT n.nspname || '.' || c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
                WHERE n.nspname NOT LIKE 'pg\\_%' AND n.nspname <> 'information_schema'
                UNION
               SELECT n.nspname || '.' || p.proname FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
                WHERE n.nspname NOT LIKE 'pg\\_%' AND n.nspname <> 'information_schema' ORDER BY 1";
    Ok(client
        .query(sql, &[])
        .await?
        .iter()
        .map(|row| row.get(0))
        .collect())
}

async fn fresh() -> Result<(Database, Client)> {
    let database = shared().await?.create_database().await?;
    let client = database.connect().await?;
    Ok((database, client))
}

#[tokio::test]
async fn tables_of_the_same_names_in_public_disturb_nobody() -> Result<()> {
    let (database, client) = fresh().await?;
    client.batch_execute(THEIRS).await?;
    let theirs = tables(&client).await?;
    works(in_schema(database.url(), "fencepost")).await?;
    let now = tables(&client).await?;
    let outside: Vec<_> = now
        .iter()
        .filter(|name| !name.starts_with("fencepost."))
        .collect();
    assert_eq!(outside, theirs.iter().collect::<Vec<_>>());
    assert!(now.contains(&"fencepost.refinery_schema_history".to_owned()));
    let kept = client
        .query_one("SELECT theirs FROM public.managed_tx", &[])
        .await?;
    assert_eq!(kept.get::<_, i32>(0), 1);
    Ok(())
}

/// The same when the database leads every session somewhere else.
#[tokio::test]
async fn a_path_of_the_databases_own_leads_nowhere_else() -> Result<()> {
    let (database, client) = fresh().await?;
    client.batch_execute(THEIRS).await?;
    client.batch_execute("CREATE SCHEMA elsewhere").await?;
    let path = "SET search_path = elsewhere, public, pg_catalog";
    let alter = format!("ALTER DATABASE {} {path}", database.name());
    client.batch_execute(&alter).await?;
    works(in_schema(database.url(), "fencepost")).await?;
    let now = tables(&client).await?;
    assert!(
        now.iter().all(|name| !name.starts_with("elsewhere.")),
        "{now:?}"
    );
    Ok(())
}

#[tokio::test]
async fn two_installations_in_one_database_do_not_meet() -> Result<()> {
    let (database, client) = fresh().await?;
    // A migration of one does not wait for the other's, which may take long.
    let lock = "SELECT pg_advisory_lock(x'66656e6365706f73'::bigint # hashtextextended('four', 0))";
    client.batch_execute(lock).await?;
    let open = ["one", "two", "public"].map(|schema| works(in_schema(database.url(), schema)));
    let seats = try_join_all(open).await?;
    assert_eq!(seats[0].accept(txs([4])).await, [3]);
    assert_eq!(seats[1].accept(txs([4, 5])).await, [3, 4]);
    assert_eq!(
        seats[2].accept(txs([4])).await,
        [3],
        "each has its own cursor"
    );
    let four = tokio::spawn(works(in_schema(database.url(), "four")));
    wait::until("the fourth waits for its lock", async || {
        let waiting = "SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted
                          AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";
        Ok(client.query_opt(waiting, &[]).await?)
    })
    .await?;
    assert!(!four.is_finished());
    drop(client);
    four.await??;
    Ok(())
}

/// Before there was `store.schema` the tables went where the role's path led.
#[tokio::test]
async fn tables_that_an_earlier_version_made_elsewhere_are_not_passed_over() -> Result<()> {
    let (database, client) = fresh().await?;
    let seat = works(in_schema(database.url(), "fencepost")).await?;
    // The role of the tests is called fencepost, so the usual path finds that schema first.
    let why = refusal(settings(database.url())).await?;
    assert!(why.contains("store.schema = \"fencepost\""), "{why}");
    let sql = "SELECT to_regclass('public.managed_tx') IS NULL";
    assert!(
        client.query_one(sql, &[]).await?.get::<_, bool>(0),
        "nothing was made"
    );
    assert_eq!(seat.accept(txs([4])).await, [3]);
    Ok(())
}

#[tokio::test]
async fn a_name_that_is_no_schema_is_refused() -> Result<()> {
    let (database, _client) = fresh().await?;
    let why = refusal(in_schema(database.url(), "a\", public; --")).await?;
    assert!(why.starts_with("store.schema: "), "{why}");
    assert!(
        PostgresStore::attach(in_schema(database.url(), "pg_temp"))
            .await
            .is_err()
    );
    Ok(())
}
