//! The server crashes, sessions are ended and the network breaks, between calls and under load. The
//! store comes back by itself; nothing acknowledged is lost, nothing is stored twice, no nonce is left
//! out, and every error says what it is.

use std::sync::Arc;

use anyhow::Result;
use fencepost_app::ports::{Store, StoreError};
use fencepost_postgres::{PostgresStore, Settings};
use fencepost_store_tests::bench::{done, new_nonce, only};
use fencepost_store_tests::builders::txs;
use fencepost_testkit::gate::{Gate, Level, Place};
use fencepost_testkit::postgres::{Cluster, Options, Stop, shared};
use fencepost_testkit::proxy::Proxy;

use super::load::Load;
use super::post::{LONG, Post, direct, settings, sit};

/// How often the sessions or the network break in one run.
const BREAKS: usize = 20;

fn many(name: &str, url: String) -> Settings {
    Settings {
        write_connections: 4,
        ..settings(name, url, LONG)
    }
}

#[tokio::test]
async fn a_restart_between_calls_is_not_noticed() -> Result<()> {
    let cluster = Cluster::start(Options::default()).await?;
    let store: Arc<dyn Store> = direct(&cluster.create_database().await?).await?;
    let seat = sit(&store, "a", 1).await?;
    for n in 0..3 {
        assert_eq!(seat.accept(txs([n])).await, [n]);
        cluster.restart_immediate().await?;
    }
    cluster.stop(Stop::Fast).await?;
    let error = store.ping().await.unwrap_err();
    assert!(matches!(error, StoreError::Unavailable(_)), "{error:?}");
    cluster.start_again().await?;
    assert_eq!(seat.accept(txs([3])).await, [3]);
    Ok(())
}

#[tokio::test]
async fn crashes_of_the_server_lose_and_double_nothing() -> Result<()> {
    let cluster = Cluster::start(Options::default()).await?;
    let store: Arc<dyn Store> = direct(&cluster.create_database().await?).await?;
    let load = Load::start(&store).await?;
    for _ in 0..3 {
        load.wait_for_more(40).await?;
        cluster.restart_immediate().await?;
    }
    load.wait_for_more(40).await?;
    load.verify(&*store).await
}

#[tokio::test]
async fn sessions_that_are_ended_lose_and_double_nothing() -> Result<()> {
    let database = shared().await?.create_database().await?;
    let open = PostgresStore::open(many("load", database.url()));
    let store: Arc<dyn Store> = Arc::new(open.await?);
    let admin = database.connect().await?;
    let load = Load::start(&store).await?;
    for _ in 0..BREAKS {
        load.wait_for_more(10).await?;
        let all = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                   WHERE datname = current_database() AND pid <> pg_backend_pid()";
        admin.query(all, &[]).await?;
    }
    load.wait_for_more(10).await?;
    load.verify(&*store).await
}

#[tokio::test]
async fn a_network_that_breaks_loses_and_doubles_nothing() -> Result<()> {
    let database = shared().await?.create_database().await?;
    let proxy = Proxy::start(database.server().addr()?).await?;
    let open = PostgresStore::open(many("load", database.url_through(proxy.addr())));
    let store: Arc<dyn Store> = Arc::new(open.await?);
    let load = Load::start(&store).await?;
    for n in 0..BREAKS {
        load.wait_for_more(10).await?;
        // The server hears of it or does not: then statements go on without their client.
        if n % 2 == 0 {
            proxy.cut();
        } else {
            proxy.forsake();
        }
    }
    load.wait_for_more(10).await?;
    load.verify(&*direct(&database).await?).await
}

/// An outage must not be told as a server that can never be used. Method: a table lock stops the
/// inspection of a new connection, which then breaks.
#[tokio::test]
async fn a_connection_that_breaks_while_it_is_inspected_says_nothing_about_the_server() -> Result<()>
{
    let post = Post::new(LONG).await?;
    post.proxy.cut();
    post.proxy.wait_until_idle().await?;
    // A session of its own: within its transaction it would see the sessions of its first look only.
    let holder = post.database.connect().await?;
    holder
        .batch_execute("BEGIN; LOCK TABLE store_identity")
        .await?;
    let row = holder.query_one("SELECT pg_backend_pid()", &[]);
    let locker: i32 = row.await?.get(0);
    let node = post.node.clone();
    let call = tokio::spawn(async move { node.ping().await });
    post.wait_until_blocks(locker).await?;
    post.proxy.cut();
    let answer = call.await?;
    assert!(
        matches!(answer, Err(StoreError::Unavailable(_))),
        "{answer:?}"
    );
    holder.batch_execute("ROLLBACK").await?;
    post.node.ping().await?;
    Ok(())
}

/// Method: a gate stops the statement at the fiftieth of its hundred rows, and its backend is ended.
#[tokio::test]
async fn a_batch_that_is_broken_half_way_leaves_nothing_and_is_then_stored_whole() -> Result<()> {
    let post = Post::new(LONG).await?;
    let place = Place {
        table: "managed_tx",
        timing: "BEFORE INSERT",
        level: Level::Row,
        when: Some("NEW.nonce = 50"),
    };
    let mut gate = Gate::install(&post.database.url(), place).await?;
    gate.close().await?;
    let batch = post.seat.batch(txs(0..100)).await;
    let before = post.dump().await;
    let (node, me) = (post.node.clone(), post.seat.holder.clone());
    let call = tokio::spawn(async move { node.create(&me, &[batch]).await });
    let backend = gate.wait_for_waiter().await?;
    post.database.server().kill_backend(backend).await?;
    post.dump().await.assert_same(&before, "half a batch");
    gate.open().await?;
    let (stored, ..) = done(only(call.await??));
    let nonces: Vec<u64> = stored.iter().map(new_nonce).collect();
    assert_eq!(nonces, (0..100).collect::<Vec<_>>());
    post.dump().await.assert_sound();
    Ok(())
}
