//! How an input is read as one call of the API:
//!
//! - a letter, `A` and on: which route;
//! - a letter, `@` and on: which of six lines follow, a bit each ([`LINES`]);
//! - these lines, and then the body.
//!
//! Ids are minted anew in each world, so that inputs name them by words: `$TX`, `$LENT`, `$LOCK`.

use axum::body::Body;
use axum::http::{HeaderValue, Method, Request};

use crate::world::{ALICE, BOB, World};

/// A method and a path, of which `*` is replaced by what the input says, else by what stands behind.
type Route = (Method, &'static str, &'static str);

/// Routes that change something. The last two are the door for other nodes.
pub const WRITES: [Route; 16] = [
    (Method::POST, "/api/v1/tx", ""),
    (Method::POST, "/api/v1/tx/batch", ""),
    (Method::POST, "/api/v1/tx/*/remedy", "$TX"),
    (Method::POST, "/api/v1/signers/*/pause", ALICE),
    (Method::POST, "/api/v1/signers/*/resume", ALICE),
    (Method::POST, "/api/v1/signers/*/reconcile", ALICE),
    (Method::POST, "/api/v1/signers/*/placeholder", ALICE),
    (Method::POST, "/api/v1/nonces/reserve", ""),
    (Method::POST, "/api/v1/nonces/*/submitted", "$LENT"),
    (Method::POST, "/api/v1/nonces/*/recycle", "$LENT"),
    (Method::POST, "/api/v1/nonces/*/extend", "$LENT"),
    (Method::POST, "/api/v1/signers/*/pause", BOB),
    (Method::PUT, "/api/v1/tx", ""),
    (Method::POST, "/*", ""),
    (Method::POST, "/internal/v1/tx", ""),
    (Method::POST, "/internal/v1/nudge", ""),
];

/// Routes that only read.
pub const READS: [Route; 19] = [
    (Method::GET, "/api/v1/tx", ""),
    (Method::GET, "/api/v1/tx/completions", ""),
    (Method::GET, "/api/v1/signers/*/audit", ALICE),
    (Method::GET, "/api/v1/tx/by-request", ""),
    (Method::GET, "/api/v1/tx/by-nonce", ""),
    (Method::GET, "/api/v1/tx/by-hash/*", "0x00"),
    (Method::GET, "/api/v1/tx/*", "$TX"),
    (Method::GET, "/api/v1/tx/*/history", "$TX"),
    (Method::GET, "/api/v1/tx/*/attempts", "$TX"),
    (Method::GET, "/api/v1/tx/*/confirmations", "$TX"),
    (Method::GET, "/api/v1/tx/*/remedies", "$TX"),
    (Method::GET, "/api/v1/signers", ""),
    (Method::GET, "/api/v1/signers/*", ALICE),
    (Method::GET, "/api/v1/nonces/*", "$LENT"),
    (Method::GET, "/readyz", ""),
    (Method::GET, "/metrics", ""),
    (Method::GET, "/docs/*", "problems"),
    (Method::HEAD, "/api/v1/tx", ""),
    (Method::GET, "/*", "openapi.json"),
];

/// What the lines before the body are, each there when its bit is set.
enum Line {
    Query,
    Segment,
    Header(&'static str),
}

const LINES: [Line; 6] = [
    Line::Query,
    Line::Segment,
    Line::Header("idempotency-key"),
    Line::Header("content-type"),
    Line::Header("host"),
    Line::Header("x-fencepost-signature"),
];

/// The call that an input describes; none where that is no HTTP.
pub fn read(input: &[u8], routes: &[Route], world: &World) -> Option<Request<Body>> {
    let [route, lines, rest @ ..] = input else {
        return None;
    };
    let route = usize::from(route.wrapping_sub(b'A')) % routes.len();
    let (method, template, usual) = &routes[route];
    let (mut query, mut segment) = (String::new(), filled(usual, world));
    let mut request = Request::builder().method(method);
    let mut has_type = false;
    let mut rest = rest;
    for (bit, line) in LINES.iter().enumerate() {
        if lines >> bit & 1 == 0 {
            continue;
        }
        let (text, behind) = first_line(rest);
        rest = behind;
        match line {
            Line::Query => query = filled(std::str::from_utf8(text).ok()?, world),
            Line::Segment => segment = filled(std::str::from_utf8(text).ok()?, world),
            Line::Header(name) => {
                has_type |= *name == "content-type";
                request = request.header(*name, HeaderValue::from_bytes(text).ok()?);
            }
        }
    }
    if !has_type {
        request = request.header("content-type", "application/json");
    }
    let path = template.replace('*', &segment);
    let mark = if query.is_empty() { "" } else { "?" };
    let request = request.uri(format!("{path}{mark}{query}"));
    let body = match std::str::from_utf8(rest) {
        Ok(text) => filled(text, world).into_bytes(),
        Err(_) => rest.to_vec(),
    };
    request.body(Body::from(body)).ok()
}

fn first_line(text: &[u8]) -> (&[u8], &[u8]) {
    match text.iter().position(|byte| *byte == b'\n') {
        Some(end) => (&text[..end], &text[end + 1..]),
        None => (text, &[]),
    }
}

fn filled(text: &str, world: &World) -> String {
    let (lent, lock) = &world.lent;
    text.replace("$TX", &world.tx)
        .replace("$LENT", lent)
        .replace("$LOCK", lock)
}
