//! A full disk stores nothing by halves, says so, and is over when there is room again.

use fencepost_app::ports::{Store, StoreError};
use fencepost_domain::request::Meta;

use super::{Home, given, lane, lead, tx};
use crate::SqliteStore;

/// Bounds the file at this many pages more than it has.
async fn bound(store: &SqliteStore, more: i64) {
    store
        .write(move |db| {
            let conn = db.connection();
            let pages: i64 = conn.query_row("PRAGMA page_count", [], |row| row.get(0))?;
            let sql = format!("PRAGMA max_page_count = {}", pages + more);
            conn.query_row(&sql, [], |_| Ok(()))?;
            Ok(())
        })
        .await
        .unwrap();
}

#[tokio::test]
async fn a_full_disk_stores_nothing_by_halves_and_passes() {
    let home = Home::new();
    let store = home.open().unwrap();
    let leading = lead(&store).await;
    let many = || -> Vec<_> {
        (0..50)
            .map(|_| {
                let mut new = tx();
                new.meta = Some(Meta::new("x".repeat(10_000)).unwrap());
                new
            })
            .collect()
    };
    given(leading.create(&store, 0, vec![tx()]).await.unwrap());
    let before = store.lane(lane(1)).await.unwrap().unwrap();
    bound(&store, 10).await;

    let full = leading.create(&store, 1, many()).await;
    assert!(matches!(full, Err(StoreError::Full(_))), "{full:?}");
    // Not one of the fifty, not the cursor, not an event.
    assert_eq!(store.lane(lane(1)).await.unwrap().unwrap(), before);

    bound(&store, 1_000_000).await;
    let nonces = given(leading.create(&store, 1, many()).await.unwrap());
    assert_eq!(nonces, (1..51).collect::<Vec<_>>());
    let after = store.lane(lane(1)).await.unwrap().unwrap();
    assert_eq!((after.next_nonce.get(), after.lane_seq.get()), (51, 51));
}

/// The same, with other operations in the same group: they are stored, or told that they are not.
#[tokio::test(flavor = "multi_thread")]
async fn whoever_shared_the_group_with_a_full_disk_is_stored_or_told() {
    let home = Home::new();
    let store = home.open().unwrap();
    let leading = lead(&store).await;
    bound(&store, 10).await;
    let mut new = tx();
    new.meta = Some(Meta::new("x".repeat(16_000)).unwrap());
    let batch = vec![new; 1];
    let heavy = async {
        let mut cursor = 0;
        loop {
            let mut txs = batch.clone();
            txs[0].tx = tx().tx;
            match leading.create(&store, cursor, txs).await {
                Ok(created) => cursor = given(created)[0] + 1,
                Err(error) => return (cursor, error),
            }
        }
    };
    let light = async {
        let mut answers = Vec::new();
        for n in 2..40 {
            answers.push((n, store.open_lanes(&[lane(n)]).await));
        }
        answers
    };
    let ((cursor, error), light) = futures::future::join(heavy, light).await;
    assert!(matches!(error, StoreError::Full(_)), "{error:?}");
    let view = store.lane(lane(1)).await.unwrap().unwrap();
    assert_eq!(view.next_nonce.get(), cursor);
    for (n, answer) in light {
        let is_there = store.lane(lane(n)).await.unwrap().is_some();
        assert_eq!(is_there, answer.is_ok(), "lane {n}: {answer:?}");
    }
}
