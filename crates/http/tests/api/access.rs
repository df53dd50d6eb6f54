//! Who may ask for what, and that nobody learns more from a refusal.

use axum::body::Body;
use axum::http::Request;
use fencepost_http::Access;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::chain_steps::{hash, id};
use super::world::{ALICE, BOB, Reply, Server, TO, World, named, payment};

/// The keys of these tests: the secret of each is `secret of <name>`.
pub(crate) struct Keys(&'static [(&'static str, &'static str, &'static str)]);

pub(crate) const KEYS: Keys = Keys(&[
    ("all", r#"["submit", "read", "operate"]"#, ""),
    ("submit", r#"["submit"]"#, ""),
    ("read", r#"["read"]"#, ""),
    ("operate", r#"["operate"]"#, ""),
    (
        "alice",
        r#"["submit", "read", "operate"]"#,
        "signers = [\"0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed\"]",
    ),
    ("slow", r#"["submit", "read"]"#, "rate_per_second = 2"),
]);

impl Keys {
    pub(crate) fn access(&self) -> Access {
        let mut text = String::new();
        for (name, scopes, more) in self.0 {
            let digest = Sha256::digest(secret(name));
            let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
            text += &format!(
                "[[key]]\nname = \"{name}\"\nsha256 = \"{hex}\"\nscopes = {scopes}\n{more}\n"
            );
        }
        Access::from_toml(&text).unwrap()
    }
}

fn secret(name: &str) -> String {
    format!("secret of {name}")
}

pub(crate) async fn as_key(
    server: &Server,
    name: &str,
    method: &str,
    path: &str,
    body: &str,
) -> Reply {
    shown(
        server,
        &format!("Bearer {}", secret(name)),
        method,
        path,
        body,
    )
    .await
}

async fn shown(
    server: &Server,
    authorization: &str,
    method: &str,
    path: &str,
    body: &str,
) -> Reply {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("Authorization", authorization)
        .body(Body::from(body.to_owned()));
    server.send(request.unwrap()).await
}

async fn guarded() -> Server {
    let mut world = World::new();
    world.access = KEYS.access();
    world.server().await
}

/// Every route that clients know, from its description: method, path, scope.
fn described() -> Vec<(String, String, Option<String>)> {
    let document: Value = serde_json::from_str(&fencepost_http::openapi_json()).unwrap();
    let mut routes = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let scope = operation["security"][0]["key"][0].as_str();
            let path = path
                .replace("{txId}", "01890a5d-ac96-774b-bcce-b302099a8057")
                .replace("{id}", "01890a5d-ac96-774b-bcce-b302099a8057")
                .replace("{hash}", &hash(1).to_string())
                .replace("{signer}", ALICE);
            routes.push((method.to_uppercase(), path, scope.map(str::to_owned)));
        }
    }
    routes
}

#[tokio::test(start_paused = true)]
async fn every_route_needs_the_key_and_the_scope_that_it_says() {
    let server = guarded().await;
    let routes = described();
    assert_eq!(routes.len(), 33);
    let mut open = Vec::new();
    for (method, path, scope) in &routes {
        let bare = server
            .call(method.parse().unwrap(), path, Body::empty())
            .await;
        let Some(scope) = scope else {
            assert_eq!(bare.status, 200, "{path}");
            open.push(path.as_str());
            continue;
        };
        assert_eq!(bare.code(), "unauthorized", "{method} {path}");
        assert_eq!(bare.header("www-authenticate"), Some("Bearer"));
        for key in ["submit", "read", "operate"] {
            let reply = as_key(&server, key, method, path, "{}").await;
            let is_refused = reply.status == 403;
            assert_eq!(
                is_refused,
                key != scope,
                "{key} {method} {path}: {}",
                reply.text()
            );
        }
    }
    assert_eq!(open, ["/docs/problems", "/livez", "/metrics", "/readyz"]);
    assert!(server.rows().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_wrong_key_is_told_nothing() {
    let server = guarded().await;
    let good = secret("all");
    let expected = server.get("/api/v1/tx").await;
    assert_eq!(
        (expected.status, expected.code().as_str()),
        (401, "unauthorized")
    );
    for authorization in [
        "Bearer".to_owned(),
        "Bearer ".to_owned(),
        format!("Basic {good}"),
        good.clone(),
        format!("Bearer  {good}"),
        format!("Bearer {good} "),
        format!("Bearer {}", &good[1..]),
        format!("Bearer {}", good.to_uppercase()),
        "Bearer 5e884898da28047151d0e56f8dc6292773603d0d6aabbdd62a11ef721d1542d8".to_owned(),
    ] {
        let reply = shown(&server, &authorization, "GET", "/api/v1/tx", "").await;
        assert_eq!(
            (reply.status, &reply.body),
            (401, &expected.body),
            "{authorization:?}"
        );
    }
    assert_eq!(
        shown(&server, &format!("bearer {good}"), "GET", "/api/v1/tx", "")
            .await
            .status,
        200
    );
    let twice = Request::get("/api/v1/tx")
        .header("Authorization", format!("Bearer {good}"))
        .header("Authorization", format!("Bearer {good}"))
        .body(Body::empty());
    assert_eq!(server.send(twice.unwrap()).await.status, 401);
}

#[tokio::test(start_paused = true)]
async fn a_key_of_some_signers_sends_for_them_only() {
    let server = guarded().await;
    let post = async |body: &Value| {
        as_key(&server, "alice", "POST", "/api/v1/tx", &body.to_string()).await
    };
    assert_eq!(post(&payment(1)).await.status, 202);
    let mut bob = payment(1);
    bob["signer"] = json!(BOB);
    let refused = post(&bob).await;
    assert_eq!(
        (refused.status, refused.code().as_str()),
        (403, "forbidden")
    );
    // Whether a signer exists is not told either.
    let mut nobody = payment(1);
    nobody["signer"] = json!(TO);
    assert_eq!(post(&nobody).await.body, refused.body);
    let batch = json!({ "requests": [payment(1), bob, payment(2)] });
    let reply = as_key(
        &server,
        "alice",
        "POST",
        "/api/v1/tx/batch",
        &batch.to_string(),
    )
    .await;
    let results = reply.json()["results"].clone();
    let statuses: Vec<_> = (0..3).map(|n| results[n]["status"].clone()).collect();
    assert_eq!(statuses, [202, 403, 202]);
    assert_eq!(server.rows().await.len(), 3);
    for act in ["pause", "resume"] {
        let path = format!("/api/v1/signers/{BOB}/{act}");
        let reply = as_key(&server, "alice", "POST", &path, r#"{"reason":"x"}"#).await;
        assert_eq!(reply.code(), "forbidden");
    }
}

#[tokio::test(start_paused = true)]
async fn a_key_of_some_signers_sees_theirs_only() {
    let server = guarded().await;
    let mut bob = named("b", 1);
    bob["signer"] = json!(BOB);
    let reply = as_key(&server, "all", "POST", "/api/v1/tx", &bob.to_string()).await;
    let tx = id(&reply.json());
    server.confirm(tx, 7).await;
    let read = async |path: &str| as_key(&server, "alice", "GET", path, "").await;
    let missing = read("/api/v1/tx/01890a5d-ac96-774b-bcce-b302099a8057").await;
    assert_eq!(
        (missing.status, missing.code().as_str()),
        (404, "not_found")
    );
    for path in [
        format!("{tx}"),
        format!("{tx}/history"),
        format!("{tx}/attempts"),
        format!("by-hash/{}", hash(7)),
    ] {
        let reply = read(&format!("/api/v1/tx/{path}")).await;
        assert_eq!((reply.status, &reply.body), (404, &missing.body), "{path}");
    }
    for path in [
        format!("/api/v1/tx/by-request?signer={BOB}&requestId=b"),
        format!("/api/v1/tx/by-nonce?signer={BOB}&nonce=0"),
        format!("/api/v1/tx?signer={BOB}"),
        format!("/api/v1/signers/{BOB}"),
    ] {
        assert_eq!(read(&path).await.code(), "forbidden", "{path}");
    }
    assert_eq!(read("/api/v1/tx").await.fields(), ["signer"]);
    assert_eq!(
        read(&format!("/api/v1/tx?signer={ALICE}")).await.status,
        200
    );
    let signers = read("/api/v1/signers").await.json();
    let shown: Vec<_> = signers["signers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|s| s["signer"].clone())
        .collect();
    assert_eq!(shown, [ALICE]);
}

#[tokio::test(start_paused = true)]
async fn a_key_that_asks_too_often_waits() {
    let server = guarded().await;
    let read = async || as_key(&server, "slow", "GET", "/api/v1/signers", "").await;
    assert_eq!((read().await.status, read().await.status), (200, 200));
    let reply = read().await;
    assert_eq!((reply.status, reply.code().as_str()), (429, "rate_limited"));
    assert_eq!(reply.header("retry-after"), Some("1"));
    // Others are not concerned.
    assert_eq!(
        as_key(&server, "read", "GET", "/api/v1/signers", "")
            .await
            .status,
        200
    );
    tokio::time::advance(std::time::Duration::from_secs(1)).await;
    // A batch counts as many times as it has requests.
    let batch = json!({ "requests": vec![payment(1); 9] }).to_string();
    let reply = as_key(&server, "slow", "POST", "/api/v1/tx/batch", &batch).await;
    assert_eq!(reply.status, 200);
    let reply = read().await;
    assert_eq!(
        (reply.status, reply.header("retry-after")),
        (429, Some("4"))
    );
    tokio::time::advance(std::time::Duration::from_secs(4)).await;
    assert_eq!(read().await.status, 200);
    // One request is left of this second: a batch of more is not let in, and nothing of it stored.
    let before = server.rows().await.len();
    let reply = as_key(&server, "slow", "POST", "/api/v1/tx/batch", &batch).await;
    assert_eq!(reply.code(), "rate_limited");
    assert_eq!(server.rows().await.len(), before);
}

/// Any web page can have a browser send a form, or a body without a type.
#[tokio::test(start_paused = true)]
async fn a_body_must_be_declared_as_json() {
    let server = World::new().server().await;
    let pause = format!("/api/v1/signers/{ALICE}/pause");
    let post = async |path: &str, kind: Option<&str>| {
        let mut request = Request::post(path);
        if let Some(kind) = kind {
            request = request.header("content-type", kind);
        }
        let body = Body::from(payment(1).to_string());
        server.send_bare(request.body(body).unwrap()).await
    };
    for path in ["/api/v1/tx", "/api/v1/tx/batch", &pause] {
        for kind in [
            None,
            Some("text/plain"),
            Some("application/x-www-form-urlencoded"),
            Some("multipart/form-data; boundary=x"),
            Some("application/problem+json"),
            Some("text/plain; application/json"),
            Some("application/jsonx"),
        ] {
            let reply = post(path, kind).await;
            let told = (reply.status, reply.code());
            assert_eq!(told, (415, "unsupported_media_type".to_owned()), "{kind:?}");
        }
    }
    assert!(server.rows().await.is_empty());
    for kind in [
        "application/json",
        "Application/JSON",
        "application/json; charset=utf-8",
        "application/json ;x=y",
    ] {
        assert_eq!(post("/api/v1/tx", Some(kind)).await.status, 202, "{kind}");
    }
}

/// A page that someone opens on the node's machine, under its own name or under the machine's.
#[tokio::test(start_paused = true)]
async fn a_node_without_keys_is_asked_by_its_own_machine_only() {
    let mut world = World::new();
    let open = world.server().await;
    let ask = async |server: &Server, method: &str, host: &str, origin: Option<&str>| {
        let mut request = Request::builder().method(method).uri("/api/v1/tx");
        request = request.header("host", host);
        if let Some(origin) = origin {
            request = request.header("origin", origin);
        }
        let key = format!("Bearer {}", secret("all"));
        let request = request.header("authorization", key);
        let body = Body::from(payment(1).to_string());
        server.send(request.body(body).unwrap()).await.status
    };
    for method in ["GET", "POST"] {
        for (host, origin) in [
            ("evil.example", None),
            ("evil.example", Some("http://evil.example")),
            ("127.0.0.1:8700", Some("https://evil.example")),
            ("127.0.0.1:8700", Some("null")),
        ] {
            assert_eq!(ask(&open, method, host, origin).await, 403, "{host}");
        }
    }
    assert!(open.rows().await.is_empty());
    let own = Some("http://127.0.0.1:8700");
    assert_eq!(ask(&open, "POST", "127.0.0.1:8700", own).await, 202);
    assert_eq!(ask(&open, "POST", "localhost:8700", None).await, 202);
    // With keys the key says who asks.
    world.access = KEYS.access();
    let guarded = world.server_at("n2", "http://127.0.0.1:2").await;
    let page = Some("https://ops.example");
    assert_eq!(ask(&guarded, "GET", "fencepost.example", page).await, 200);
}

#[tokio::test(start_paused = true)]
async fn what_stands_behind_the_question_mark_of_a_post_is_refused() {
    let server = World::new().server().await;
    let tx = "01890a5d-ac96-774b-bcce-b302099a8057";
    for path in [
        "/api/v1/tx?dryRun=1",
        "/api/v1/tx/batch?dryRun=1",
        "/api/v1/nonces/reserve?dryRun=1",
        &format!("/api/v1/tx/{tx}/remedy?dryRun=1"),
        &format!("/api/v1/nonces/{tx}/submitted?dryRun=1"),
        &format!("/api/v1/nonces/{tx}/recycle?dryRun=1"),
        &format!("/api/v1/nonces/{tx}/extend?dryRun=1"),
    ] {
        let reply = server.post(path, &payment(1)).await;
        assert_eq!(reply.fields(), ["dryRun"], "{path}");
    }
    for verb in ["pause", "resume", "reconcile", "placeholder"] {
        let path = format!("/api/v1/signers/{ALICE}/{verb}?chain=main");
        let reply = server.post(&path, &json!({ "reason": "x" })).await;
        assert_eq!(reply.fields(), ["chain"], "{path}");
    }
    assert!(server.rows().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_general_rate_holds_for_everyone_without_a_key() {
    let mut world = World::new();
    world.limits.rate_per_second = 1;
    let server = world.server().await;
    assert_eq!(server.get("/api/v1/signers").await.status, 200);
    assert_eq!(server.get("/api/v1/signers").await.code(), "rate_limited");
    assert_eq!(server.get("/livez").await.status, 200);
}
