//! The pages about the API: its description, its UI, its problems, its meters.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::counting::{Counting, Says};
use super::world::{World, payment};

fn document() -> Value {
    serde_json::from_str(&fencepost_http::openapi_json()).unwrap()
}

#[tokio::test(start_paused = true)]
async fn the_node_serves_its_own_description_and_a_page_that_reads_it() {
    let server = World::new().server().await;
    let reply = server.get("/openapi.json").await;
    assert_eq!((reply.status, reply.json()), (200, document()));
    assert_eq!(document()["openapi"], "3.1.0");
    assert_eq!(server.get("/docs").await.header("location"), Some("/docs/"));
    let page = server.get("/docs/").await;
    assert_eq!(page.status, 200);
    assert!(page.text().contains("swagger-ui"));
    // Everything that the page loads comes from this node.
    for asset in [
        "swagger-ui.css",
        "swagger-ui-bundle.js",
        "swagger-initializer.js",
    ] {
        let reply = server.get(&format!("/docs/{asset}")).await;
        assert_eq!(reply.status, 200, "{asset}");
        assert!(page.text().contains(asset), "{asset}");
    }
    assert!(!page.text().contains("https://"));
}

#[tokio::test(start_paused = true)]
async fn the_page_about_problems_is_where_they_point() {
    let server = World::new().server().await;
    let problem = server.get("/nowhere").await.json();
    let (page, code) = problem["type"].as_str().unwrap().split_once('#').unwrap();
    let reply = server.get(page).await;
    assert_eq!(
        reply.header("content-type"),
        Some("text/markdown; charset=utf-8")
    );
    assert!(reply.text().contains(&format!("\n## {code}\n")));
}

#[tokio::test(start_paused = true)]
async fn meters_are_shown_as_open_metrics() {
    let server = World::new().server().await;
    server.create(&payment(1)).await;
    let reply = server.get("/metrics").await;
    let expected = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    assert_eq!(reply.header("content-type"), Some(expected));
    let text = reply.text();
    assert!(
        text.contains("fencepost_tx_create_total{result=\"new\"} 1\n"),
        "{text}"
    );
    assert!(text.ends_with("# EOF\n"));
}

/// Every reference leads somewhere: a validator would refuse the document otherwise.
#[test]
fn the_description_refers_to_nothing_that_is_missing() {
    fn collect(value: &Value, found: &mut BTreeSet<String>) {
        match value {
            Value::Object(fields) => {
                if let Some(Value::String(to)) = fields.get("$ref") {
                    found.insert(to.clone());
                }
                fields.values().for_each(|value| collect(value, found));
            }
            Value::Array(items) => items.iter().for_each(|value| collect(value, found)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    let document = document();
    let mut references = BTreeSet::new();
    collect(&document, &mut references);
    for reference in references {
        let path = reference.strip_prefix('#').unwrap();
        assert!(document.pointer(path).is_some(), "{reference}");
    }
}

/// The description and the reading of a body are two lists of fields; this keeps them one.
#[tokio::test(start_paused = true)]
async fn every_described_field_is_read_and_no_other() {
    let server = World::new().server().await;
    let schemas = &document()["components"]["schemas"];
    let (signer, tx) = (
        "/api/v1/signers/0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed",
        "01890a5d-ac96-774b-bcce-b302099a8057",
    );
    let lists = [
        ("CreateRequest", "/api/v1/tx".to_owned(), None),
        ("PayloadRequest", "/api/v1/tx".to_owned(), Some("payload")),
        ("BatchRequest", "/api/v1/tx/batch".to_owned(), None),
        ("RemedyRequest", format!("/api/v1/tx/{tx}/remedy"), None),
        (
            "FeesRequest",
            format!("/api/v1/tx/{tx}/remedy"),
            Some("fees"),
        ),
        ("PauseRequest", format!("{signer}/pause"), None),
        ("ReconcileRequest", format!("{signer}/reconcile"), None),
        ("PlaceholderRequest", format!("{signer}/placeholder"), None),
        ("CursorRequest", format!("{signer}/cursor"), None),
        ("ImportRequest", format!("{signer}/import"), None),
        ("ReserveRequest", "/api/v1/nonces/reserve".to_owned(), None),
        (
            "SubmittedRequest",
            format!("/api/v1/nonces/{tx}/submitted"),
            None,
        ),
        (
            "RecycleRequest",
            format!("/api/v1/nonces/{tx}/recycle"),
            None,
        ),
        ("ExtendRequest", format!("/api/v1/nonces/{tx}/extend"), None),
    ];
    // An entry of an access list is looked at by name elsewhere.
    let mut known: BTreeSet<&str> = lists.iter().map(|(schema, ..)| *schema).collect();
    known.insert("AccessRequest");
    let described = schemas.as_object().unwrap().keys();
    let requests: BTreeSet<&str> = described
        .map(|name| &**name)
        .filter(|name| name.ends_with("Request"))
        .collect();
    assert_eq!(requests, known);
    for (schema, path, within) in &lists {
        let within = *within;
        assert_eq!(
            schemas[schema]["additionalProperties"],
            json!(false),
            "{schema}"
        );
        for field in schemas[schema]["properties"].as_object().unwrap().keys() {
            // Nothing but these takes a boolean, and nothing takes a field of another name.
            let takes = ["meta", "dryRun"].contains(&&**field);
            let wrong = format!("{field}X");
            let inner = json!({ field: true, &wrong: true });
            let body = within.map_or(inner.clone(), |within| json!({ within: inner }));
            let place =
                |field: &str| within.map_or(field.to_owned(), |within| format!("{within}.{field}"));
            let fields = server.post(path, &body).await.fields();
            assert_eq!(
                fields.contains(&place(field)),
                !takes,
                "{schema}.{field}: {fields:?}"
            );
            assert!(
                fields.contains(&place(&wrong)),
                "{schema}.{wrong}: {fields:?}"
            );
        }
    }
}

/// What a transaction holds is what its schema says, and all of it is there.
#[tokio::test(start_paused = true)]
async fn objects_have_exactly_the_described_fields() {
    let mut world = World::new();
    world.chain = Some(Counting::that(Says::Counts(0, 0)));
    let server = world.server().await;
    let schemas = &document()["components"]["schemas"];
    let check = |schema: &str, object: &Value| {
        let described: BTreeSet<_> = schemas[schema]["properties"]
            .as_object()
            .unwrap()
            .keys()
            .collect();
        let required = schemas[schema]["required"].as_array().unwrap();
        let given: BTreeSet<_> = object.as_object().unwrap().keys().collect();
        assert_eq!(given, described, "{schema}");
        assert_eq!(required.len(), described.len(), "{schema}");
    };
    let told = server.create(&payment(1)).await;
    check("Transaction", &told);
    server.reject(super::chain_steps::id(&told)).await;
    check(
        "Completion",
        &server.get("/api/v1/tx/completions").await.json()["completions"][0],
    );
    check(
        "Completions",
        &server.get("/api/v1/tx/completions").await.json(),
    );
    server.create(&payment(1)).await;
    check(
        "Signer",
        &server.get("/api/v1/signers").await.json()["signers"][0],
    );
    let path = format!("/api/v1/tx/{}/history", told["txId"].as_str().unwrap());
    check("Event", &server.get(&path).await.json()["events"][0]);
    let reconcile = "/api/v1/signers/0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed/reconcile";
    let reply = server.post(reconcile, &json!({ "reason": "x" })).await;
    check("Reconciliation", &reply.json());
    let body = json!({ "signer": super::world::ALICE });
    let mut told = server.post("/api/v1/nonces/reserve", &body).await.json();
    let lock = told.as_object_mut().unwrap().remove("lockToken");
    assert!(lock.is_some());
    // Whoever only reads is not told the lock, so it is the one field that is not required.
    let properties = &schemas["Reservation"]["properties"];
    let described: BTreeSet<_> = properties.as_object().unwrap().keys().collect();
    let mut given: BTreeSet<_> = told.as_object().unwrap().keys().collect();
    let required = schemas["Reservation"]["required"].as_array().unwrap();
    assert_eq!(required.len(), given.len());
    let lock = "lockToken".to_owned();
    given.insert(&lock);
    assert_eq!(given, described);
}
