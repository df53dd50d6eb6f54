//! What every answer has, on routes that exist and on those that do not.

use axum::body::Body;
use axum::http::{Method, Request};

use super::world::{World, payment};

#[tokio::test(start_paused = true)]
async fn unknown_routes_and_methods_are_problems() {
    let server = World::new().server().await;
    for path in [
        "/",
        "/api",
        "/api/v1/tx/",
        "/api/v2/tx",
        "/api/v1/tx/x/y/z",
        "/docs/nothing.js",
        "/internal/v1/tx/x",
    ] {
        let reply = server.get(path).await;
        assert_eq!(
            (reply.status, reply.code().as_str()),
            (404, "not_found"),
            "{path}"
        );
    }
    for (method, path, allow) in [
        (Method::DELETE, "/api/v1/tx", "GET,HEAD,POST"),
        (Method::GET, "/api/v1/tx/batch", "POST"),
        (Method::PUT, "/api/v1/signers", "GET,HEAD"),
        (Method::POST, "/metrics", "GET,HEAD"),
        (Method::POST, "/openapi.json", "GET,HEAD"),
    ] {
        let reply = server.call(method.clone(), path, Body::empty()).await;
        assert_eq!(
            (reply.status, reply.code().as_str()),
            (405, "method_not_allowed"),
            "{path}"
        );
        let mut allowed: Vec<_> = reply.header("allow").unwrap().split(',').collect();
        allowed.sort_unstable();
        assert_eq!(allowed.join(","), allow, "{method} {path}");
    }
    let reply = server.call(Method::HEAD, "/livez", Body::empty()).await;
    assert_eq!((reply.status, reply.body.len()), (200, 0));
}

#[tokio::test(start_paused = true)]
async fn a_request_keeps_its_own_id_where_that_can_stand_in_a_log() {
    let server = World::new().server().await;
    let ask = async |id: &[u8]| {
        let request = Request::get("/livez")
            .header("x-request-id", id)
            .body(Body::empty());
        let reply = server.send(request.unwrap()).await;
        reply.header("x-request-id").unwrap().to_owned()
    };
    for kept in ["a", "Trace-1_2.3", &"x".repeat(128)] {
        assert_eq!(ask(kept.as_bytes()).await, kept);
    }
    for replaced in [
        &b""[..],
        b"a b",
        b"a\"b",
        b"\xc3\xa9",
        b"${jndi}",
        "x".repeat(129).as_bytes(),
    ] {
        let id = ask(replaced).await;
        assert_eq!(id.len(), 36, "{replaced:?} became {id}");
    }
    let (first, second) = (server.get("/livez").await, server.get("/livez").await);
    assert_ne!(first.header("x-request-id"), second.header("x-request-id"));
}

#[tokio::test(start_paused = true)]
async fn calls_between_nodes_are_not_for_clients() {
    let server = World::new().server().await;
    let reply = server.post("/internal/v1/tx", &payment(1)).await;
    assert_eq!(reply.code(), "not_found");
    assert!(!fencepost_http::openapi_json().contains("internal/"));
}
