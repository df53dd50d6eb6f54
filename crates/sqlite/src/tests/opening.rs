//! One process for each file, the promised settings, and everything there again after a restart.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use fencepost_app::ports::{
    Acts, Key, PauseChange, PauseReason, RemedyId, Store, StoreError, Terms,
};
use fencepost_domain::ids::TxId;
use rusqlite::Connection;

use super::{Home, TestClock, audit, given, lane, lead, open, tx};
use crate::SqliteStore;

/// Names the file to a child process of these tests.
const FILE: &str = "FENCEPOST_SQLITE_TEST_FILE";

/// Runs one test of this program in a process of its own, on this file.
fn child(test: &str, home: &Home) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(FILE, home.file())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

fn assert_in_use(opened: Result<SqliteStore, StoreError>) {
    let Err(StoreError::InUse(why)) = opened else {
        panic!("it was opened twice");
    };
    assert!(
        why.contains("store.db") && why.contains("store.db.lock"),
        "{why}"
    );
    assert!(why.contains("Stop that process"), "{why}");
}

#[test]
fn a_second_open_in_the_same_process_is_refused_until_the_first_is_dropped() {
    let home = Home::new();
    let first = home.open().unwrap();
    assert_in_use(home.open());
    drop(first);
    drop(home.open().unwrap());
}

#[cfg(unix)]
#[test]
fn another_name_of_the_same_file_meets_the_same_lock() {
    let home = Home::new();
    let _first = home.open().unwrap();
    let link = home.0.join("link.db");
    std::os::unix::fs::symlink(home.file(), &link).unwrap();
    assert_in_use(open(&link));
    assert_in_use(open(
        &home
            .0
            .join("../")
            .join(home.0.file_name().unwrap())
            .join("store.db"),
    ));
}

/// The parent holds the file; the same test in a child process must be refused.
#[test]
fn a_second_process_is_refused() {
    if let Ok(file) = std::env::var(FILE) {
        assert_in_use(open(file.as_ref()));
        println!("\nREFUSED");
        return;
    }
    let home = Home::new();
    let _store = home.open().unwrap();
    let child = child("tests::opening::a_second_process_is_refused", &home);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    assert!(
        String::from_utf8(output.stdout)
            .unwrap()
            .contains("REFUSED")
    );
}

/// A child process creates transactions and prints the id of each when it is answered. It is killed
/// in the middle; all that it printed must be there, and the file must be free.
#[tokio::test]
async fn what_a_killed_process_acknowledged_is_stored_and_its_lock_is_gone() {
    if let Ok(file) = std::env::var(FILE) {
        let store = open(file.as_ref()).unwrap();
        let leading = lead(&store).await;
        println!();
        for cursor in 0.. {
            let new = tx();
            let id = new.tx;
            given(leading.create(&store, cursor, vec![new]).await.unwrap());
            println!("acked {id}");
        }
    }
    let home = Home::new();
    let name = "tests::opening::what_a_killed_process_acknowledged_is_stored_and_its_lock_is_gone";
    let mut child = child(name, &home);
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let acked = lines
        .map(Result::unwrap)
        .filter_map(|line| line.strip_prefix("acked ").map(str::to_owned));
    let acked: Vec<String> = acked.take(50).collect();
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(acked.len(), 50);
    let store = home.open().unwrap();
    for id in acked {
        let id = TxId(id.parse().unwrap());
        assert!(store.find(&Key::Id(id)).await.unwrap().is_some(), "{id}");
    }
}

#[tokio::test]
async fn reopening_finds_everything() {
    let home = Home::new();
    let store = home.open().unwrap();
    let leading = lead(&store).await;
    let new = tx();
    assert_eq!(
        given(leading.create(&store, 0, vec![new.clone()]).await.unwrap()),
        [0]
    );
    let before = store.lane(lane(1)).await.unwrap().unwrap();
    drop(store);
    let store = home.open().unwrap();
    assert_eq!(store.lane(lane(1)).await.unwrap().unwrap(), before);
    let record = store.find(&Key::Id(new.tx)).await.unwrap().unwrap();
    assert!(new.matches(before.id, &record));
    // The same start of the same node goes on under its token.
    assert_eq!(
        given(leading.create(&store, 1, vec![tx()]).await.unwrap()),
        [1]
    );
}

#[tokio::test]
async fn the_log_is_written_ahead_and_synced_at_each_commit() {
    let home = Home::new();
    let store = home.open().unwrap();
    let read = |name: &'static str| {
        store.write(move |db| {
            let value = db
                .connection()
                .query_row(&format!("PRAGMA {name}"), [], |row| {
                    row.get::<_, rusqlite::types::Value>(0)
                });
            Ok(format!("{:?}", value?))
        })
    };
    assert_eq!(read("journal_mode").await.unwrap(), r#"Text("wal")"#);
    assert_eq!(read("synchronous").await.unwrap(), "Integer(2)");
    assert_eq!(read("cache_size").await.unwrap(), "Integer(-65536)");
    assert_eq!(read("wal_autocheckpoint").await.unwrap(), "Integer(4000)");
    assert_eq!(read("foreign_keys").await.unwrap(), "Integer(1)");
    assert_eq!(read("busy_timeout").await.unwrap(), "Integer(5000)");
}

#[tokio::test]
async fn readers_cannot_write() {
    let home = Home::new();
    let store = home.open().unwrap();
    let wrote = store.read(|db| {
        let sql = "UPDATE feed_head SET epoch = epoch + 1";
        Ok(db.connection().execute(sql, [])?)
    });
    wrote.await.unwrap_err();
}

#[tokio::test]
async fn migrating_twice_changes_nothing() {
    let home = Home::new();
    let schema = || -> Vec<String> {
        let conn = Connection::open(home.file()).unwrap();
        let mut rows = conn
            .prepare("SELECT sql FROM sqlite_schema ORDER BY name")
            .unwrap();
        let rows = rows
            .query_map([], |row| row.get::<_, Option<String>>(0))
            .unwrap();
        rows.filter_map(Result::unwrap).collect()
    };
    drop(home.open().unwrap());
    let first = schema();
    assert!(
        first
            .iter()
            .any(|sql| sql.contains("CREATE VIEW signer_nonce_cursor"))
    );
    let store = home.open().unwrap();
    store.ping().await.unwrap();
    assert_eq!(schema(), first);
}

/// A file that the version before policies has written: its audit is there, ids and all, a remedy that
/// was asked for is claimed, and the next one gets the next id.
#[tokio::test]
async fn an_older_files_remedies_survive_the_new_table() {
    let home = Home::new();
    let old = Connection::open(home.file()).unwrap();
    old.execute_batch(include_str!("../../migrations/0001_tables.sql"))
        .unwrap();
    old.execute_batch(include_str!("../../migrations/0002_guards.sql"))
        .unwrap();
    old.execute_batch(
        "INSERT INTO signer_lease (lane_id, chain_id, signer, fencing_token, expires_at, next_nonce,
            lane_seq, held, updated_at)
         VALUES (1, 1, unhex(replace(hex(zeroblob(20)), '00', '01')), 0, 0, 1, 0, 0, 0);
         INSERT INTO managed_tx (tx_id, lane_id, kind, state, nonce, attempts, submit_attempts,
            fencing_token, version, created_at, updated_at)
         VALUES (zeroblob(16), 1, 'placeholder', 'ALLOCATED', 0, 0, 0, 0, 1, 0, 0);
         INSERT INTO due_work (tx_id, lane_id, nonce, due_at) VALUES (zeroblob(16), 1, 0, 0);
         INSERT INTO remedy (remedy_id, lane_id, action, state, asked_by, reason, before, after,
            asked_at, closed_at)
         VALUES (5, 1, 'PAUSE', 'DONE', 'x', 'y', 'paused=none', 'paused=OPERATOR', 7, 7);
         INSERT INTO remedy (remedy_id, lane_id, tx_id, round, action, state, asked_by, reason, asked_at)
         VALUES (8, 1, zeroblob(16), 1, 'CANCEL', 'ASKED', 'x', 'y', 9);",
    )
    .unwrap();
    old.pragma_update(None, "application_id", 0x464e_4350)
        .unwrap();
    old.pragma_update(None, "user_version", 2).unwrap();
    drop(old);

    let store = home.open().unwrap();
    let leading = lead(&store).await;
    let of = Acts::Lane(leading.held.lane);
    let acts = store.acts(of, None, 10).await.unwrap();
    let changed = acts[0].before_after.as_deref();
    assert_eq!(changed, Some("paused=none -> paused=OPERATOR"));
    assert_eq!((acts.len(), acts[0].id), (1, RemedyId(5)));
    let held = [leading.held];
    let claimed = store.claim_remedies(&leading.holder, &held, 10).await;
    let claimed = claimed.unwrap().remedies;
    assert_eq!((claimed.len(), claimed[0].id), (1, RemedyId(8)));
    let pause = PauseChange::Pause(PauseReason::Operator);
    store
        .pause(leading.held.lane, pause, &audit())
        .await
        .unwrap();
    let acts = store.acts(of, None, 1).await.unwrap();
    assert_eq!(acts[0].id, RemedyId(9));
}

#[tokio::test]
async fn a_schema_from_the_future_is_refused() {
    let home = Home::new();
    let store = home.open().unwrap();
    Connection::open(home.file())
        .unwrap()
        .pragma_update(None, "user_version", 99)
        .unwrap();
    assert!(matches!(store.ping().await, Err(StoreError::Unfit(_))));
    drop(store);
    let Err(StoreError::Unfit(why)) = home.open() else {
        panic!("it was opened");
    };
    assert!(why.contains("version 99"), "{why}");
}

#[test]
fn a_file_that_is_not_ours_is_refused_and_left_alone() {
    let home = Home::new();
    let theirs = Connection::open(home.file()).unwrap();
    theirs.execute_batch("CREATE TABLE theirs (a)").unwrap();
    drop(theirs);
    assert!(matches!(home.open(), Err(StoreError::Unfit(_))));
    let theirs = Connection::open(home.file()).unwrap();
    let tables: i64 = theirs
        .query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
        .unwrap();
    assert_eq!(tables, 1);

    std::fs::write(
        home.file(),
        "these bytes are no database, however long they are",
    )
    .unwrap();
    assert!(matches!(home.open(), Err(StoreError::Unfit(_))));
    let nowhere = home.0.join("missing").join("store.db");
    let opened = SqliteStore::open(nowhere, Terms::default(), TestClock::new());
    assert!(matches!(opened, Err(StoreError::Unfit(_))));
}
