//! What is left of a transaction that ended long ago, and where the feed begins then.

use std::time::Duration;

use fencepost_app::ports::{Retire, Stage, Store};
use fencepost_domain::ids::{ChainId, Height};
use serde_json::json;

use super::chain_steps::id;
use super::world::{Server, World, named, payment};

async fn retire(server: &Server, stage: Stage) -> usize {
    let batch = Retire {
        stage,
        older_than: Duration::ZERO,
        limit: 100,
        beneath: vec![(ChainId::new(1).unwrap(), Height::MAX)],
    };
    server.store.retire(&batch).await.unwrap().retired
}

#[tokio::test(start_paused = true)]
async fn a_retired_transaction_is_known_by_its_names_and_end() {
    let server = World::new().server().await;
    let tx = id(&server.create(&named("a", 1)).await);
    server.confirm(tx, 7).await;
    let whole = server.get(&format!("/api/v1/tx/{tx}")).await.json();
    assert_eq!(retire(&server, Stage::Thin).await, 1);
    let mut expected = whole.clone();
    for gone in ["payload", "receipt", "meta"] {
        expected[gone] = json!(null);
    }
    assert_eq!(
        server.get(&format!("/api/v1/tx/{tx}")).await.json(),
        expected
    );
    for (list, name) in [("history", "events"), ("attempts", "attempts")] {
        let reply = server.get(&format!("/api/v1/tx/{tx}/{list}")).await;
        assert_eq!(reply.json()[name], json!([]), "{list}");
    }
    // The same request again is known, another one under its name is refused.
    let again = server.post("/api/v1/tx", &named("a", 1)).await;
    assert_eq!((again.status, again.json()), (200, expected));
    let other = server.post("/api/v1/tx", &named("a", 2)).await;
    assert_eq!(
        (other.status, other.code().as_str()),
        (409, "idempotency_conflict")
    );

    assert_eq!(retire(&server, Stage::Delete).await, 1);
    let gone = server.get(&format!("/api/v1/tx/{tx}")).await;
    assert_eq!((gone.status, gone.code().as_str()), (404, "not_found"));
}

#[tokio::test(start_paused = true)]
async fn a_reader_behind_the_feed_hears_where_it_begins() {
    let server = World::new().server().await;
    for n in 1..=3 {
        let tx = id(&server.create(&payment(n)).await);
        server.reject(tx).await;
        if n == 2 {
            assert_eq!(retire(&server, Stage::Delete).await, 2);
        }
    }
    for behind in ["", "?after=1&wait=30"] {
        let reply = server.get(&format!("/api/v1/tx/completions{behind}")).await;
        assert_eq!((reply.status, reply.code().as_str()), (410, "feed_reset"));
        assert_eq!(reply.json()["beginsAfter"], 2);
        let detail = "Completions up to 2 were retired: the feed begins after them.";
        assert_eq!(reply.json()["detail"], detail);
    }
    let rest = server.get("/api/v1/tx/completions?after=2").await.json();
    assert_eq!(
        (&rest["completions"][0]["seq"], &rest["next"]),
        (&json!(3), &json!(3))
    );
}
