//! The schema's own guard of a lane: no statement takes its token or its cursor back, whoever writes it.
//! Each row of the table is a mistake in this program, or a hand at the psql prompt.

use anyhow::{Context, Result};
use fencepost_store_tests::builders::{lane, txs};
use tokio_postgres::error::SqlState;

use super::stage::Stage;

/// That a statement is refused by the guard and has changed nothing.
async fn is_stopped(stage: &Stage, sql: &str) -> Result<()> {
    let before = stage.contents().await?;
    let answer = stage.probe.execute(sql, &[]).await;
    let error = answer
        .err()
        .with_context(|| format!("not stopped: {sql}"))?;
    let told = error.as_db_error().context("the database's own word")?;
    let violation = &SqlState::INTEGRITY_CONSTRAINT_VIOLATION;
    assert_eq!(told.code(), violation, "{sql}: {told}");
    assert!(told.message().contains("must not go back"), "{sql}: {told}");
    assert_eq!(stage.contents().await?, before, "{sql}");
    Ok(())
}

#[tokio::test]
async fn no_statement_takes_a_lane_back() -> Result<()> {
    let stage = Stage::new().await?;
    let seat = stage.seat("a", lane(1)).await?;
    seat.accept(txs([1, 2])).await;
    for sql in [
        "UPDATE signer_lease SET fencing_token = fencing_token - 1",
        "UPDATE signer_lease SET fencing_token = 0, expires_at = now()",
        "UPDATE signer_lease SET next_nonce = next_nonce - 1",
        "UPDATE signer_lease SET next_nonce = 0, fencing_token = fencing_token + 1",
        // The pause must have been there before.
        "UPDATE signer_lease SET next_nonce = 0, paused = 'OPERATOR'",
    ] {
        is_stopped(&stage, sql).await?;
    }
    // On a paused lane the cursor may, which is how an operator reconciles it; the token never may.
    let paused = "UPDATE signer_lease SET paused = 'OPERATOR'";
    assert_eq!(stage.probe.execute(paused, &[]).await?, 1);
    is_stopped(&stage, "UPDATE signer_lease SET fencing_token = 0").await?;
    let lower = "UPDATE signer_lease SET next_nonce = next_nonce - 1";
    assert_eq!(stage.probe.execute(lower, &[]).await?, 1);
    Ok(())
}
