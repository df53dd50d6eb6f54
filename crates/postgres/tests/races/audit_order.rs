//! Reading the audit while others write it: ids are given before statements commit, so a later id may be there before
//! an earlier one. A reader that went past the earlier one would never see it.

use anyhow::{Context, Result};
use fencepost_app::ports::{Acts, RemedyId, Store};
use fencepost_store_tests::builders::audit;

use super::stage::Stage;

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_of_the_audit_never_passes_an_entry_that_is_not_committed_yet() -> Result<()> {
    let stage = Stage::new().await?;
    let store = stage.handle("reader").await?;
    let read = async |after: i64| -> Result<Vec<i64>> {
        let acts = store.acts(Acts::After(RemedyId(after)), None, 10).await?;
        Ok(acts.iter().map(|act| act.id.0).collect())
    };
    store.record_refusal(&audit(), "403 forbidden").await?;
    assert_eq!(read(0).await?, [1]);
    // This one has its id, and is not committed.
    let mut slow = stage.session("slow").await?;
    let slow = slow.transaction().await?;
    let late = "INSERT INTO remedy (action, asked_by, reason, state, closed_at)
                VALUES ('CALL', 'slow', 'x', 'REFUSED', clock_timestamp()) RETURNING remedy_id";
    let id: i64 = slow.query_one(late, &[]).await?.get(0);
    assert_eq!(id, 2);
    store.record_refusal(&audit(), "403 forbidden").await?;
    assert_eq!(read(1).await?, [] as [i64; 0], "3 is there, and 2 may come");
    assert_eq!(read(0).await?, [1]);
    slow.commit().await.context("the slow one")?;
    assert_eq!(read(1).await?, [2, 3]);

    // An id that was given and never stored holds the reader up for a while only.
    let gone = stage.session("gone").await?;
    gone.batch_execute(&format!(
        "BEGIN; {}; ROLLBACK",
        late.replace(" RETURNING remedy_id", "")
    ))
    .await?;
    store.record_refusal(&audit(), "403 forbidden").await?;
    assert_eq!(read(3).await?, [] as [i64; 0]);
    let age = "UPDATE remedy SET asked_at = asked_at - interval '61 s' WHERE remedy_id = 5";
    stage.probe.batch_execute(age).await?;
    assert_eq!(read(3).await?, [5]);
    Ok(())
}
