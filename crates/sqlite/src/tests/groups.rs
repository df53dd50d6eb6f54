//! Group commit: nobody is answered before the commit, and nobody pays for another's mistake.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fencepost_app::ports::{Store, StoreError};
use futures::future::{join, join3};
use tokio::time::timeout;

use super::{Home, lane};
use crate::SqliteStore;
use crate::db::Db;
use crate::error::{Answer, broken};
use crate::lanes;

/// An operation that says when it runs and goes on when it is told.
struct Gate {
    runs: Receiver<()>,
    go: Sender<()>,
}

fn gate() -> (Gate, impl FnOnce(&Db<'_>) -> Answer<()> + Send + 'static) {
    let (say, runs) = channel();
    let (go, wait) = channel();
    let op = move |_: &Db<'_>| {
        say.send(()).unwrap();
        wait.recv().unwrap();
        Ok(())
    };
    (Gate { runs, go }, op)
}

/// Blocks the writer, so that what is asked meanwhile becomes one group.
async fn hold(store: &Arc<SqliteStore>) -> Gate {
    let (gate, op) = gate();
    let store = Arc::clone(store);
    tokio::spawn(async move { store.write(op).await });
    tokio::task::block_in_place(|| gate.runs.recv().unwrap());
    gate
}

fn shared(home: &Home) -> Arc<SqliteStore> {
    Arc::new(home.open().unwrap())
}

fn open_lane(n: u8) -> impl FnOnce(&Db<'_>) -> Answer<()> + Send + 'static {
    move |db| lanes::open(db, &[lane(n)]).map(drop)
}

/// Two operations are queued behind a held writer, so they form one group. When the first has run
/// and the second has not, nothing is committed: the first must not be answered.
#[tokio::test(flavor = "multi_thread")]
async fn an_operation_is_answered_only_when_its_group_is_committed() {
    let home = Home::new();
    let store = shared(&home);
    let held = hold(&store).await;
    let (second, op) = gate();
    let mut first = {
        let store = Arc::clone(&store);
        tokio::spawn(async move { store.write(open_lane(1)).await })
    };
    wait_for_queued(&store, 1).await;
    let last = {
        let store = Arc::clone(&store);
        tokio::spawn(async move { store.write(op).await })
    };
    wait_for_queued(&store, 2).await;
    held.go.send(()).unwrap();
    tokio::task::block_in_place(|| second.runs.recv().unwrap());
    // The first has run and is not committed: no other connection sees it, and nobody was told.
    assert!(
        timeout(Duration::from_millis(50), &mut first)
            .await
            .is_err()
    );
    assert_eq!(store.lane(lane(1)).await.unwrap(), None);
    second.go.send(()).unwrap();
    first.await.unwrap().unwrap();
    last.await.unwrap().unwrap();
    assert!(store.lane(lane(1)).await.unwrap().is_some());
}

/// The writer is held, so the queue's length is what was asked since.
async fn wait_for_queued(store: &SqliteStore, n: usize) {
    while store.queue().1 < n {
        tokio::task::yield_now().await;
    }
}

/// Lets the writer go on when so many wait for it, which become one group.
async fn let_go(store: &SqliteStore, held: Gate, n: usize) {
    wait_for_queued(store, n).await;
    held.go.send(()).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_poisoned_operation_takes_back_only_what_it_wrote_itself() {
    let home = Home::new();
    let store = shared(&home);
    let held = hold(&store).await;
    let before = store.write(open_lane(1));
    let poisoned = store.write(|db| {
        lanes::open(db, &[lane(2)])?;
        Err::<(), _>(broken("poison"))
    });
    let after = store.write(open_lane(3));
    let release = let_go(&store, held, 3);
    let ((before, poisoned, after), ()) = join(join3(before, poisoned, after), release).await;
    before.unwrap();
    after.unwrap();
    assert!(matches!(poisoned, Err(StoreError::Constraint(_))));
    assert!(store.lane(lane(1)).await.unwrap().is_some());
    assert!(store.lane(lane(2)).await.unwrap().is_none());
    assert!(store.lane(lane(3)).await.unwrap().is_some());
}

/// It has no savepoint: the transaction is undone, and another one is begun for those behind it.
#[tokio::test(flavor = "multi_thread")]
async fn the_first_of_a_group_takes_back_only_what_it_wrote_itself() {
    let home = Home::new();
    let store = shared(&home);
    let held = hold(&store).await;
    let poisoned = store.write(|db| {
        lanes::open(db, &[lane(1)])?;
        Err::<(), _>(broken("poison"))
    });
    let after = store.write(open_lane(2));
    let release = let_go(&store, held, 2);
    let ((poisoned, after), ()) = join(join(poisoned, after), release).await;
    assert!(matches!(poisoned, Err(StoreError::Constraint(_))));
    after.unwrap();
    assert!(store.lane(lane(1)).await.unwrap().is_none());
    assert!(store.lane(lane(2)).await.unwrap().is_some());
}

/// It does not notice that SQLite has ended the transaction. What it wrote before is gone, so it is not told that it
/// is stored, and those behind it have a transaction of their own.
#[tokio::test(flavor = "multi_thread")]
async fn the_first_that_goes_on_without_its_transaction_is_told_so() {
    let home = Home::new();
    let store = shared(&home);
    let held = hold(&store).await;
    let ends = store.write(|db| {
        lanes::open(db, &[lane(1)])?;
        Ok(db.connection().execute_batch("ROLLBACK")?)
    });
    let after = store.write(open_lane(2));
    let release = let_go(&store, held, 2);
    let ((ends, after), ()) = join(join(ends, after), release).await;
    assert!(matches!(ends, Err(StoreError::Unavailable(_))), "{ends:?}");
    after.unwrap();
    assert!(store.lane(lane(1)).await.unwrap().is_none());
    assert!(store.lane(lane(2)).await.unwrap().is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_fails_alone_and_the_writer_lives_on() {
    let home = Home::new();
    let store = shared(&home);
    let held = hold(&store).await;
    let before = store.write(open_lane(1));
    let panics = store.write(|db| -> Answer<()> {
        lanes::open(db, &[lane(2)])?;
        panic!("on purpose")
    });
    let release = let_go(&store, held, 2);
    let ((before, panicked), ()) = join(join(before, panics), release).await;
    before.unwrap();
    assert!(matches!(panicked, Err(StoreError::Unavailable(_))));
    assert!(store.lane(lane(2)).await.unwrap().is_none());
    store.open_lanes(&[lane(2)]).await.unwrap();
}

/// A foreign key that is checked late makes COMMIT itself fail.
#[tokio::test(flavor = "multi_thread")]
async fn when_the_commit_fails_all_are_told_and_nothing_is_stored() {
    let home = Home::new();
    let store = shared(&home);
    let held = hold(&store).await;
    let innocent = store.write(open_lane(1));
    let late = store.write(|db| {
        db.connection()
            .pragma_update(None, "defer_foreign_keys", true)?;
        let sql = "INSERT INTO free_nonce (lane_id, nonce) VALUES (999, 0)";
        Ok(db.connection().execute(sql, [])?)
    });
    let release = let_go(&store, held, 2);
    let ((innocent, late), ()) = join(join(innocent, late), release).await;
    assert!(
        matches!(innocent, Err(StoreError::Constraint(_))),
        "{innocent:?}"
    );
    assert!(matches!(late, Err(StoreError::Constraint(_))), "{late:?}");
    assert!(store.lane(lane(1)).await.unwrap().is_none());
    // The failed transaction is gone: the next one is stored.
    store.open_lanes(&[lane(1)]).await.unwrap();
    assert!(store.lane(lane(1)).await.unwrap().is_some());
}

/// SQLite ends a transaction by itself after some errors, as this operation does by hand. What ran
/// before it in the group is lost and must be told so; what comes after it is stored.
#[tokio::test(flavor = "multi_thread")]
async fn when_sqlite_ends_the_transaction_those_before_are_told_and_those_after_are_stored() {
    let home = Home::new();
    let store = shared(&home);
    let held = hold(&store).await;
    let before = store.write(open_lane(1));
    let ends = store.write(|db| {
        db.connection().execute_batch("ROLLBACK")?;
        Err::<(), _>(broken("the disk is gone"))
    });
    let after = store.write(open_lane(3));
    let release = let_go(&store, held, 3);
    let ((before, ends, after), ()) = join(join3(before, ends, after), release).await;
    assert!(
        matches!(before, Err(StoreError::Unavailable(_))),
        "{before:?}"
    );
    assert!(matches!(ends, Err(StoreError::Constraint(_))), "{ends:?}");
    after.unwrap();
    assert!(store.lane(lane(1)).await.unwrap().is_none());
    assert!(store.lane(lane(3)).await.unwrap().is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_stopped_waiting_before_its_turn_costs_nothing() {
    let home = Home::new();
    let store = shared(&home);
    let held = hold(&store).await;
    let given_up = {
        let store = Arc::clone(&store);
        tokio::spawn(async move { store.write(open_lane(1)).await })
    };
    wait_for_queued(&store, 1).await;
    given_up.abort();
    given_up.await.unwrap_err();
    held.go.send(()).unwrap();
    store.open_lanes(&[lane(2)]).await.unwrap();
    assert!(store.lane(lane(1)).await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_queue_answers_busy_after_a_bounded_wait() {
    let home = Home::new();
    let store = shared(&home);
    let held = hold(&store).await;
    let mut waiting = Vec::new();
    while store.queue().0 > 0 {
        let store = Arc::clone(&store);
        let before = store.queue().0;
        waiting.push(tokio::spawn({
            let store = Arc::clone(&store);
            async move { store.write(|_| Ok(())).await }
        }));
        while store.queue().0 == before {
            tokio::task::yield_now().await;
        }
    }
    let refused = store.open_lanes(&[lane(1)]).await;
    assert!(matches!(refused, Err(StoreError::Busy(_))), "{refused:?}");
    held.go.send(()).unwrap();
    for answer in waiting {
        answer.await.unwrap().unwrap();
    }
    assert!(store.lane(lane(1)).await.unwrap().is_none());
}

/// Many callers at once; every answer must be a row of its own.
#[tokio::test(flavor = "multi_thread")]
async fn many_callers_at_once_are_all_stored() {
    let home = Home::new();
    let store = shared(&home);
    let order = Arc::new(Mutex::new(Vec::new()));
    let mut callers = Vec::new();
    for n in 0..200 {
        let (store, order) = (Arc::clone(&store), Arc::clone(&order));
        callers.push(tokio::spawn(async move {
            let id = store.open_lanes(&[lane(n)]).await.unwrap()[0];
            order.lock().unwrap().push(id);
        }));
    }
    for caller in callers {
        caller.await.unwrap();
    }
    let mut ids = order.lock().unwrap().clone();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 200);
    assert_eq!(store.lanes(None, 1_000).await.unwrap().len(), 200);
}
