//! Lists of transactions, page by page.

use serde_json::{Value, json};

use super::chain_steps::id;
use super::world::{ALICE, BOB, Server, World, payment};

async fn page(server: &Server, query: &str) -> (Vec<String>, Option<String>) {
    let reply = server.get(&format!("/api/v1/tx{query}")).await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    let page = reply.json();
    let ids = page["transactions"].as_array().unwrap().iter();
    let ids = ids
        .map(|tx| tx["txId"].as_str().unwrap().to_owned())
        .collect();
    (ids, page["nextCursor"].as_str().map(str::to_owned))
}

#[tokio::test(start_paused = true)]
async fn pages_go_from_the_newest_to_the_oldest_without_repeating_any() {
    let server = World::new().server().await;
    let mut made = Vec::new();
    for n in 0..7 {
        made.push(
            server.create(&payment(n)).await["txId"]
                .as_str()
                .unwrap()
                .to_owned(),
        );
    }
    made.reverse();
    let (mut seen, mut cursor) = page(&server, "?limit=3").await;
    // What comes later is on no later page.
    server.create(&payment(8)).await;
    while let Some(at) = cursor {
        let (more, next) = page(&server, &format!("?limit=3&cursor={at}")).await;
        seen.extend(more);
        cursor = next;
    }
    assert_eq!(seen, made);
    let (all, cursor) = page(&server, "").await;
    assert_eq!((all.len(), cursor), (8, None));
}

#[tokio::test(start_paused = true)]
async fn lists_are_filtered_by_signer_chain_and_state() {
    let mut world = World::new();
    world.chains = vec![("main", 1), ("side", 2)];
    let server = world.server().await;
    let mut made = Vec::new();
    for (signer, chain) in [(ALICE, "main"), (ALICE, "side"), (BOB, "main")] {
        let mut body = payment(1);
        (body["signer"], body["chain"]) = (json!(signer), json!(chain));
        made.push(server.create(&body).await);
    }
    server.reject(id(&made[0])).await;
    let check = async |query: &str, expected: &[usize]| {
        let ids: Vec<_> = expected
            .iter()
            .map(|n| made[*n]["txId"].as_str().unwrap())
            .collect();
        assert_eq!(page(&server, query).await.0, ids, "{query}");
    };
    check("", &[2, 1, 0]).await;
    check("?chain=main", &[2, 0]).await;
    check(&format!("?chain=main&signer={ALICE}"), &[0]).await;
    check(&format!("?chain=side&signer={BOB}"), &[]).await;
    check("?state=FAILED_FINAL", &[0]).await;
    check("?state=ALLOCATED&chain=side", &[1]).await;
    check(&format!("?state=ALLOCATED&chain=main&signer={ALICE}"), &[]).await;
    let reply = server.get(&format!("/api/v1/tx?signer={ALICE}")).await;
    assert_eq!(reply.fields(), ["chain"]);
    let reply = server.get("/api/v1/tx?chain=moon").await;
    assert_eq!(reply.code(), "unknown_chain");
}

#[tokio::test(start_paused = true)]
async fn parameters_out_of_range_are_refused() {
    let server = World::new().server().await;
    let cursor = |digits: &str| format!("?cursor={digits}");
    for (query, field) in [
        ("?limit=0".to_owned(), "limit"),
        ("?limit=1001".to_owned(), "limit"),
        ("?limit=ten".to_owned(), "limit"),
        ("?limit=%2B1".to_owned(), "limit"),
        ("?limit=".to_owned(), "limit"),
        ("?state=queued".to_owned(), "state"),
        ("?signer=alice".to_owned(), "signer"),
        (cursor("1"), "cursor"),
        (cursor(&format!("t1{}", "0".repeat(31))), "cursor"),
        (cursor(&format!("t1{}", "A".repeat(32))), "cursor"),
        (cursor("s1-1"), "cursor"),
        ("?page=2".to_owned(), "page"),
    ] {
        let reply = server.get(&format!("/api/v1/tx{query}")).await;
        assert_eq!(reply.fields(), [field], "{query}");
    }
    assert_eq!(
        server.get("/api/v1/tx?limit=1000").await.json()["nextCursor"],
        Value::Null
    );
}
