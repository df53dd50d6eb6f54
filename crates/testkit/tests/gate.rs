//! The gate: that it stops the chosen session inside its statement, and nobody else.

use anyhow::Result;
use fencepost_testkit::gate::{Gate, Level, Place, backend_pid, is_session, wait_until_blocked};
use fencepost_testkit::postgres::{Database, shared};

async fn database() -> Result<Database> {
    let database = shared().await?.create_database().await?;
    let schema =
        "CREATE TABLE note (n int PRIMARY KEY, text text); INSERT INTO note VALUES (1, 'a')";
    database.connect().await?.batch_execute(schema).await?;
    Ok(database)
}

async fn run(
    database: &Database,
    sql: &'static str,
) -> Result<tokio::task::JoinHandle<Result<u64>>> {
    let client = database.connect().await?;
    Ok(tokio::spawn(
        async move { Ok(client.execute(sql, &[]).await?) },
    ))
}

#[tokio::test]
async fn a_closed_gate_stops_the_chosen_session_and_lets_others_overtake() -> Result<()> {
    let database = database().await?;
    let when = is_session("it's slow");
    let place = Place {
        table: "note",
        timing: "BEFORE INSERT OR UPDATE",
        level: Level::Row,
        when: Some(&when),
    };
    let mut gate = Gate::install(&database.url(), place).await?;
    gate.close().await?;

    let slow = database.connect().await?;
    slow.batch_execute("SET application_name = 'it''s slow'")
        .await?;
    let slow_pid = backend_pid(&slow).await?;
    let slow = tokio::spawn(async move {
        slow.execute("INSERT INTO note VALUES (2, 'slow')", &[])
            .await
    });
    assert_eq!(gate.wait_for_waiter().await?, slow_pid);

    let fast = database.connect().await?;
    assert_eq!(
        fast.execute("INSERT INTO note VALUES (2, 'fast')", &[])
            .await?,
        1
    );
    assert!(!slow.is_finished());
    gate.open().await?;
    assert!(slow.await?.is_err(), "the key was taken while it waited");
    Ok(())
}

#[tokio::test]
async fn the_condition_may_look_at_the_row() -> Result<()> {
    let database = database().await?;
    let place = Place {
        table: "note",
        timing: "BEFORE INSERT",
        level: Level::Row,
        when: Some("NEW.n > 10"),
    };
    let mut gate = Gate::install(&database.url(), place).await?;
    gate.close().await?;
    let stopped = run(&database, "INSERT INTO note VALUES (11, '')").await?;
    gate.wait_for_waiter().await?;
    assert_eq!(
        run(&database, "INSERT INTO note VALUES (10, '')")
            .await?
            .await??,
        1
    );
    gate.open().await?;
    assert_eq!(stopped.await??, 1);
    Ok(())
}

#[tokio::test]
async fn a_gate_per_statement_stops_deletes_of_nothing_too_and_can_be_closed_again() -> Result<()> {
    let database = database().await?;
    let place = Place {
        table: "note",
        timing: "AFTER DELETE",
        level: Level::Statement,
        when: None,
    };
    let mut gate = Gate::install(&database.url(), place).await?;
    for _ in 0..2 {
        gate.close().await?;
        assert!(gate.close().await.is_err());
        let both = [
            run(&database, "DELETE FROM note WHERE n = 99").await?,
            run(&database, "DELETE FROM note WHERE n = 98").await?,
        ];
        assert_eq!(gate.wait_for_waiters(2).await?.len(), 2);
        gate.open().await?;
        assert!(gate.open().await.is_err());
        for delete in both {
            assert_eq!(delete.await??, 0);
        }
    }
    Ok(())
}

/// A row that is deleted behind a gate must be gone: `BEFORE DELETE` skips rows when it returns NULL.
#[tokio::test]
async fn a_gate_changes_nothing_about_the_statement() -> Result<()> {
    let database = database().await?;
    let place = Place {
        table: "note",
        timing: "BEFORE INSERT OR UPDATE OR DELETE",
        level: Level::Row,
        when: None,
    };
    let _gate = Gate::install(&database.url(), place).await?;
    for sql in [
        "INSERT INTO note VALUES (2, 'b')",
        "UPDATE note SET text = 'c' WHERE n = 2",
        "DELETE FROM note WHERE text = 'c'",
    ] {
        assert_eq!(run(&database, sql).await?.await??, 1, "{sql}");
    }
    Ok(())
}

#[tokio::test]
async fn a_dropped_gate_is_open() -> Result<()> {
    let database = database().await?;
    let place = Place {
        table: "note",
        timing: "BEFORE DELETE",
        level: Level::Row,
        when: None,
    };
    let mut gate = Gate::install(&database.url(), place).await?;
    gate.close().await?;
    let delete = run(&database, "DELETE FROM note").await?;
    gate.wait_for_waiter().await?;
    drop(gate);
    assert_eq!(delete.await??, 1);
    Ok(())
}

#[tokio::test]
async fn a_session_that_waits_for_a_row_is_seen_as_blocked() -> Result<()> {
    let database = database().await?;
    let (holder, waiter) = (database.connect().await?, database.connect().await?);
    let pid = backend_pid(&waiter).await?;
    holder
        .batch_execute("BEGIN; UPDATE note SET text = 'b'")
        .await?;
    let update =
        tokio::spawn(async move { waiter.execute("UPDATE note SET text = 'c'", &[]).await });
    wait_until_blocked(&holder, pid).await?;
    holder.batch_execute("COMMIT").await?;
    assert_eq!(update.await??, 1);
    Ok(())
}
