//! Nodes that start at the same moment on an empty database: all come up, as one.

use anyhow::Result;
use fencepost_testkit::postgres::shared;
use serde_json::json;

use super::process::{Home, SIGNER};

#[tokio::test]
async fn nodes_that_start_together_on_an_empty_database_all_come_up() -> Result<()> {
    let server = shared().await?;
    let database = server.create_database().await?;
    let homes = [
        Home::on(&database.url())?,
        Home::on(&database.url())?,
        Home::on(&database.url())?,
    ];
    for (n, home) in homes.iter().enumerate() {
        home.add(&format!("node.id = \"n{n}\""))?;
    }
    let [a, b, c] = &homes;
    let (a, b, c) = tokio::try_join!(a.serve(), b.serve(), c.serve())?;
    let request = json!({
        "signer": SIGNER, "requestId": "one", "payload": { "to": SIGNER, "value": "1" },
    });
    let stored = a.post(&request).await?;
    for node in [&b, &c] {
        let found = format!("/api/v1/tx/by-request?signer={SIGNER}&requestId=one");
        assert_eq!(node.get(&found).await?["txId"], stored["txId"]);
    }
    Ok(())
}
