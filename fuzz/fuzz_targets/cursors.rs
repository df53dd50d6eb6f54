//! One call that only reads: cursors, numbers of the feed, filters, ids. Whatever stands in path and
//! query, no panic, no server error and nothing changed; and where a page is given, the next one
//! goes on where it ended. `src/call.rs` says how an input is read.

#![no_main]

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::time::Duration;

use axum::body::Body;
use axum::http::Request;
use fencepost_fuzz::call::{self, READS};
use fencepost_fuzz::mutate::mutate;
use fencepost_fuzz::reply::Reply;
use fencepost_fuzz::world::{ALICE, TO, World};
use libfuzzer_sys::{fuzz_mutator, fuzz_target};
use serde_json::{Value, json};
use url::form_urlencoded::{Serializer, parse};

thread_local! {
    static WORLD: RefCell<Option<World>> = const { RefCell::new(None) };
}

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    mutate(data, size, max_size, seed)
});

fuzz_target!(|input: &[u8]| {
    WORLD.with_borrow_mut(|kept| {
        let world = kept.get_or_insert_with(used);
        let Some(request) = call::read(input, &READS, world) else {
            return;
        };
        let uri = request.uri().clone();
        let reply = world.send(request);
        if reply.status == 200 && reply.body.is_object() {
            follow(world, uri.path(), uri.query().unwrap_or_default(), &reply);
        }
        let changed = world.stored() != world.before;
        assert!(!changed, "{}: a read has changed something", reply.what);
        if world.is_old() {
            *kept = None;
        }
    });
});

/// A world with several pages of each list: transactions, completions (of what expired while another
/// was in flight) and acts.
fn used() -> World {
    let mut world = World::new(Some(1));
    for value in ["1", "2", "3"] {
        let payload = json!({ "to": TO, "value": value });
        let not_after = world.in_seconds(2);
        let body = json!({ "signer": ALICE, "payload": payload, "notAfter": not_after });
        world.made("/api/v1/tx", &body);
    }
    for verb in ["pause", "resume"] {
        let body = json!({ "reason": "to be read" });
        world.made(&format!("/api/v1/signers/{ALICE}/{verb}"), &body);
    }
    world.wait(Duration::from_secs(60));
    world.before = world.stored();
    let feed = get(&world, "/api/v1/tx/completions", "");
    let told = feed.body["completions"].as_array().map(Vec::len);
    assert_eq!(told, Some(3), "what expired is told: {}", feed.body);
    world
}

fn get(world: &World, path: &str, query: &str) -> Reply {
    let request = Request::get(format!("{path}?{query}")).body(Body::empty());
    world.send(request.expect("a good request"))
}

/// Reads the page behind a page, where there is one.
fn follow(world: &World, path: &str, query: &str, reply: &Reply) {
    let (list, id, cursor) = match path {
        "/api/v1/tx" => ("transactions", "txId", "cursor"),
        "/api/v1/tx/completions" => ("completions", "seq", "after"),
        "/api/v1/signers" => ("signers", "signer", "cursor"),
        path if path.ends_with("/audit") => ("acts", "id", "cursor"),
        _ => return,
    };
    if let Some(given) = given(query, "cursor") {
        assert!(
            is_cursor(list, &given),
            "{}: nobody gave it out",
            reply.what
        );
    }
    let body = &reply.body;
    let limit = given(query, "limit").map_or(1_000, |limit| {
        limit.parse().expect("a limit that is not refused is one")
    });
    let first = ids(&body[list], id);
    assert!(first.len() <= limit, "{}: above the limit", reply.what);
    let next = match cursor {
        "after" => body["next"].as_u64().map(|next| next.to_string()),
        _ => body["nextCursor"].as_str().map(str::to_owned),
    };
    let Some(next) = next else { return };
    let rest = parse(query.as_bytes()).filter(|(name, _)| name != cursor && name != "wait");
    let query = Serializer::new(String::new())
        .extend_pairs(rest)
        .append_pair(cursor, &next)
        .finish();
    let more = get(world, path, &query);
    assert_eq!(more.status, 200, "{}: {}", more.what, more.body);
    let second = ids(&more.body[list], id);
    assert!(first.is_disjoint(&second), "{}: told twice", more.what);
}

fn given(query: &str, name: &str) -> Option<String> {
    let mut pairs = parse(query.as_bytes());
    let (_, value) = pairs.find(|(given, _)| given == name)?;
    Some(value.into_owned())
}

/// Whether it is written as we write them.
fn is_cursor(list: &str, text: &str) -> bool {
    let number = match list {
        "acts" => text.strip_prefix("a1-"),
        "signers" => text.strip_prefix("s1-"),
        _ => {
            let digits = text.strip_prefix("t1").unwrap_or_default();
            let plain = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
            return digits.len() == 32 && digits.bytes().all(plain);
        }
    };
    let number = number.and_then(|digits| Some((digits, digits.parse::<i64>().ok()?)));
    number.is_some_and(|(digits, number)| number >= 0 && number.to_string() == digits)
}

fn ids(list: &Value, id: &str) -> BTreeSet<String> {
    let rows = list.as_array().expect("a page has its list").iter();
    let all: BTreeSet<String> = rows.clone().map(|row| row[id].to_string()).collect();
    assert_eq!(all.len(), rows.len(), "one row twice on a page: {list}");
    all
}
