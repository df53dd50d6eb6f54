//! The schema's own guards: what no statement may do, whoever writes it. Each row of the tables
//! below is a mistake in this program, or a hand at the sqlite3 prompt.

use fencepost_app::ports::{Key, Store, StoreError};
use fencepost_domain::seal::{Content, Secrets, Tampered};

use super::plans::everything;
use super::{TestClock, given, in_memory, lead, payload, tx};
use crate::SqliteStore;

async fn is_stopped(store: &SqliteStore, sql: &'static str, by: &str) {
    let answer = store
        .write(move |db| Ok(db.connection().execute(sql, []).map(drop)?))
        .await;
    let Err(StoreError::Constraint(why)) = answer else {
        panic!("not stopped: {sql}: {answer:?}");
    };
    assert!(why.to_string().contains(by), "{sql}: {why}");
}

async fn is_allowed(store: &SqliteStore, sql: &'static str) {
    let write = store.write(move |db| Ok(db.connection().execute(sql, [])?));
    assert!(write.await.unwrap() > 0, "{sql}");
}

#[tokio::test]
async fn what_was_stored_cannot_be_unsaid() {
    let store = in_memory(&TestClock::new());
    everything(&store).await;
    is_allowed(
        &store,
        "INSERT INTO remedy (lane_id, tx_id, round, action, state, asked_by, reason, asked_at)
         SELECT lane_id, tx_id, 9, 'RESUBMIT', 'ASKED', 'x', 'x', 0 FROM managed_tx LIMIT 1",
    )
    .await;
    for (sql, by) in [
        ("DELETE FROM tx_attempt", "an attempt is never deleted"),
        (
            "UPDATE tx_attempt SET raw = x'00'",
            "stored bytes never change",
        ),
        (
            "UPDATE tx_attempt SET fencing_token = 9",
            "stored bytes never change",
        ),
        (
            "UPDATE tx_attempt SET outcome = 'REFUSED' WHERE outcome = 'ACCEPTED'",
            "never unlearned",
        ),
        ("DELETE FROM tx_event", "stays told"),
        ("UPDATE tx_event SET note = 'x'", "stays told"),
        ("DELETE FROM tx_completion", "never loses"),
        ("UPDATE tx_completion SET at = 0", "never changes"),
        ("UPDATE feed_head SET seq = seq - 1", "never goes back"),
        ("UPDATE feed_head SET epoch = epoch - 1", "never goes back"),
        ("DELETE FROM managed_tx", "never deleted"),
        (
            "UPDATE managed_tx SET version = version + 1, payload = x'00'",
            "what was asked for",
        ),
        ("UPDATE managed_tx SET last_error = 'x'", "is counted"),
        ("DELETE FROM signer_lease", "never deleted"),
        ("DELETE FROM remedy", "never deleted"),
        (
            "UPDATE remedy SET state = 'ASKED', closed_at = NULL WHERE state = 'DONE'",
            "stays closed",
        ),
        (
            "UPDATE remedy SET action = 'CANCEL' WHERE closed_at IS NULL",
            "stays decided",
        ),
    ] {
        is_stopped(&store, sql, by).await;
    }
}

/// What retires rows may do so to what has ended, and no further than it says.
#[tokio::test]
async fn only_what_is_retired_goes() {
    let store = in_memory(&TestClock::new());
    everything(&store).await;
    for sql in [
        "INSERT INTO lane_floor SELECT lane_id, next_nonce, lane_seq FROM signer_lease",
        "UPDATE retention SET deleted_seq = 1",
        "UPDATE managed_tx SET version = version + 1, payload = x''
         WHERE tx_id = (SELECT tx_id FROM managed_tx WHERE state = 'CONFIRMED' LIMIT 1)",
    ] {
        is_allowed(&store, sql).await;
    }
    for (sql, by) in [
        ("DELETE FROM tx_attempt", "never deleted"),
        ("DELETE FROM tx_event", "stays told"),
        ("DELETE FROM tx_completion", "never loses"),
        ("DELETE FROM managed_tx", "never deleted"),
        (
            "UPDATE lane_floor SET nonce = nonce - 1 WHERE nonce > 0",
            "stays used",
        ),
        ("UPDATE retention SET deleted_seq = 0", "stays retired"),
        (
            "UPDATE retention SET deleted_seq = 1000000",
            "stays retired",
        ),
        (
            "UPDATE managed_tx SET version = version + 1, payload = x''
             WHERE kind = 'managed' AND state NOT IN ('CONFIRMED', 'FAILED_FINAL')",
            "before it has ended",
        ),
        (
            "UPDATE managed_tx SET version = version + 1, state = 'STUCK' WHERE payload = x''",
            "has ended",
        ),
    ] {
        is_stopped(&store, sql, by).await;
    }
}

#[tokio::test]
async fn numbers_have_no_holes_and_never_go_back() {
    let store = in_memory(&TestClock::new());
    everything(&store).await;
    for (sql, by) in [
        ("UPDATE signer_lease SET fencing_token = fencing_token - 1", "never goes back"),
        ("UPDATE signer_lease SET owner_node = 'thief' WHERE owner_node IS NOT NULL", "new token"),
        ("UPDATE signer_lease SET next_nonce = next_nonce - 1 WHERE next_nonce > 0", "paused lane only"),
        ("UPDATE signer_lease SET lane_seq = lane_seq - 1 WHERE lane_seq > 0", "never untells"),
        ("UPDATE node SET incarnation = incarnation - 1", "never goes back"),
        (
            "INSERT INTO tx_event SELECT lane_id, max(lane_seq) + 2, tx_id, kind, tx_hash, block_number,
                block_hash, new_fork, note, from_state, from_sub, to_state, to_sub, node_id,
                fencing_token, at, confirmations FROM tx_event GROUP BY lane_id LIMIT 1",
            "without holes",
        ),
        (
            "INSERT INTO tx_completion SELECT max(seq) + 2, tx_id, lane_id, kind, request_id, nonce,
                state, sub_state, tx_hash, block_number, at, corrects FROM tx_completion",
            "no holes",
        ),
        (
            "INSERT INTO tx_attempt SELECT tx_id, max(n) + 2, chain_id, kind, randomblob(32), raw, max_fee,
                max_priority_fee, fencing_token, outcome, created_at FROM tx_attempt
             GROUP BY tx_id LIMIT 1",
            "without holes",
        ),
    ] {
        is_stopped(&store, sql, by).await;
    }
    is_allowed(
        &store,
        "UPDATE signer_lease SET paused = 'OPERATOR' WHERE next_nonce > 0",
    )
    .await;
    is_allowed(
        &store,
        "UPDATE signer_lease SET next_nonce = next_nonce - 1 WHERE next_nonce > 0",
    )
    .await;
}

#[tokio::test]
async fn a_row_has_what_its_state_has_and_nothing_else() {
    let store = in_memory(&TestClock::new());
    everything(&store).await;
    let no = "CHECK constraint";
    for (sql, by) in [
        (
            "UPDATE managed_tx SET version = version + 1, state = 'NONSENSE'",
            no,
        ),
        (
            "UPDATE managed_tx SET version = version + 1, sub_state = NULL WHERE state = 'TRACKING'",
            no,
        ),
        (
            "UPDATE managed_tx SET version = version + 1, block_number = NULL WHERE state = 'CONFIRMED'",
            no,
        ),
        (
            "UPDATE managed_tx SET version = version + 1, nonce = NULL, nonce_given_back = nonce,
                state = 'FAILED_FINAL', sub_state = 'REJECTED', tx_hash = NULL
             WHERE state = 'STUCK' AND attempts > 0",
            no,
        ),
        (
            "UPDATE managed_tx SET version = version + 1, nonce = nonce + 1000 WHERE nonce IS NOT NULL",
            "is kept",
        ),
        (
            "UPDATE managed_tx SET version = version + 1, nonce = 77, nonce_given_back = NULL
          WHERE nonce_given_back IS NOT NULL",
            "does not return",
        ),
        (
            "UPDATE managed_tx SET version = version + 1, nonce = 5 WHERE state = 'QUEUED'",
            no,
        ),
        (
            "UPDATE managed_tx SET version = version + 1, attempts = attempts - 1 WHERE attempts > 0",
            "never forgotten",
        ),
        (
            "UPDATE managed_tx SET version = version + 1, receipt = '{}' WHERE state = 'QUEUED'",
            no,
        ),
        (
            "UPDATE signer_lease SET owner_url = NULL WHERE owner_node IS NOT NULL",
            no,
        ),
        (
            "INSERT INTO remedy (lane_id, tx_id, round, action, state, asked_by, reason, asked_at)
             SELECT lane_id, tx_id, 9, 'NOOP', 'ASKED', 'x', 'x', 0 FROM managed_tx LIMIT 1",
            no,
        ),
        (
            "INSERT INTO remedy (lane_id, tx_id, round, action, state, asked_by, reason, asked_at)
             SELECT lane_id, tx_id, 9, 'NONSENSE', 'ASKED', 'x', 'x', 0 FROM managed_tx LIMIT 1",
            no,
        ),
    ] {
        is_stopped(&store, sql, by).await;
    }
}

/// The disk flips a bit, or someone edits the file: what is read must not become another transfer.
#[tokio::test]
async fn a_payload_that_changed_on_disk_is_read_and_does_not_pass_the_check() {
    let store = in_memory(&TestClock::new());
    let leading = lead(&store).await;
    let new = tx();
    given(leading.create(&store, 0, vec![new.clone()]).await.unwrap());
    let other = payload(1_000_000_000).canonical().to_vec();
    for (bytes, why) in [(other, Tampered::Hash), (vec![7], Tampered::Unreadable)] {
        let swap = store.write(move |db| {
            let conn = db.connection();
            conn.execute_batch("DROP TRIGGER IF EXISTS managed_tx_payload")?;
            let sql = "UPDATE managed_tx SET payload = ?1, version = version + 1";
            Ok(conn.execute(sql, [bytes])?)
        });
        assert_eq!(swap.await.unwrap(), 1);
        let read = store.find(&Key::Id(new.tx)).await.unwrap().unwrap();
        let content = Content {
            tx: read.tx,
            lane: read.lane,
            kind: read.kind,
            payload: read.payload.as_ref(),
        };
        let checked = Secrets::default().check(&content, read.proof);
        assert_eq!(checked, Err(why));
    }
}
