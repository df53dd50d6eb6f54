//! Cursors and numbers that readers send: one that was given out goes on where it was, one that is
//! written in any other way is refused, and none changes or breaks anything.

use proptest::prelude::*;
use proptest::sample::Index;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use serde_json::{Value, json};

use super::chain_steps::id;
use super::world::{ALICE, Server, World, payment};

/// The first failing one can be found again with it.
const SEED: [u8; 32] = *b"a cursor is written in one way..";
const TRIES: usize = 1_500;

/// What may become of a cursor on the way.
#[derive(Debug, Clone)]
enum Change {
    Cut(Index),
    Put(Index, char),
    Replace(Index, char),
    Upper,
    Other(String),
}

fn change() -> impl Strategy<Value = Change> {
    let sign = prop::sample::select("0123456789abcdfgtsAF-+ .~_é".chars().collect::<Vec<_>>());
    prop_oneof![
        any::<Index>().prop_map(Change::Cut),
        (any::<Index>(), sign.clone()).prop_map(|(at, sign)| Change::Put(at, sign)),
        (any::<Index>(), sign).prop_map(|(at, sign)| Change::Replace(at, sign)),
        Just(Change::Upper),
        "(t1|a1-|s1-|)[0-9a-f-]{0,40}".prop_map(Change::Other),
        "(a1-|s1-|)[0-9]{1,25}".prop_map(Change::Other),
    ]
}

fn changed(cursor: &str, change: Change) -> String {
    let mut signs: Vec<char> = cursor.chars().collect();
    match change {
        Change::Cut(at) => drop(signs.remove(at.index(signs.len()))),
        Change::Put(at, sign) => signs.insert(at.index(signs.len() + 1), sign),
        Change::Replace(at, sign) => {
            let at = at.index(signs.len());
            signs[at] = sign;
        }
        Change::Upper => return cursor.to_uppercase(),
        Change::Other(text) => return text,
    }
    signs.into_iter().collect()
}

fn runner() -> TestRunner {
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &SEED);
    TestRunner::new_with_rng(Config::default(), rng)
}

/// Three of everything that is listed.
async fn used() -> Server {
    let server = World::new().server().await;
    for n in 0..3 {
        let tx = server.create(&payment(n)).await;
        server.reject(id(&tx)).await;
        let pause = format!("/api/v1/signers/{ALICE}/pause");
        server
            .post(&pause, &json!({ "reason": "to be read" }))
            .await;
        let resume = pause.replace("pause", "resume");
        server
            .post(&resume, &json!({ "reason": "to be read" }))
            .await;
    }
    server
}

/// How a route writes its cursors: the mark, and whether what follows is a number.
fn is_written_so(cursor: &str, mark: &str, is_number: bool) -> bool {
    let Some(digits) = cursor.strip_prefix(mark) else {
        return false;
    };
    if is_number {
        let number: Option<i64> = digits.parse().ok();
        return number.is_some_and(|n| n >= 0 && n.to_string() == digits);
    }
    let is_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    digits.len() == 32 && digits.bytes().all(is_hex)
}

#[tokio::test(start_paused = true)]
async fn a_cursor_is_written_as_it_was_given_out_or_refused() {
    let server = used().await;
    let before = server.rows().await;
    let audit = format!("/api/v1/signers/{ALICE}/audit");
    let routes = [
        ("/api/v1/tx", "t1", false),
        (&*audit, "a1-", true),
        ("/api/v1/signers", "s1-", true),
    ];
    let mut runner = runner();
    for (path, mark, is_number) in routes {
        let page = server.get(&format!("{path}?limit=1")).await.json();
        let given = page["nextCursor"].as_str().unwrap().to_owned();
        assert!(is_written_so(&given, mark, is_number), "{given}");
        let mut refused = 0;
        for _ in 0..TRIES {
            let change = change().new_tree(&mut runner).unwrap().current();
            let cursor = changed(&given, change);
            let query: String = [("limit", "2"), ("cursor", &cursor)]
                .iter()
                .fold(
                    form_urlencoded::Serializer::new(String::new()),
                    |mut to, (name, value)| {
                        to.append_pair(name, value);
                        to
                    },
                )
                .finish();
            let reply = server.get(&format!("{path}?{query}")).await;
            if is_written_so(&cursor, mark, is_number) {
                assert_eq!(reply.status, 200, "{cursor}: {}", reply.text());
            } else {
                assert_eq!(reply.fields(), ["cursor"], "{cursor}");
                refused += 1;
            }
        }
        assert!(
            refused > TRIES / 2,
            "{path}: most are no cursors: {refused}"
        );
    }
    assert_eq!(server.rows().await, before);
}

#[tokio::test(start_paused = true)]
async fn any_number_of_the_feed_is_read_from_or_beyond_it_or_refused() {
    let server = used().await;
    let mut runner = runner();
    let numbers = prop_oneof!["[0-4]", "[0-9]{1,25}", "-?[0-9]{1,3}[.]?[0-9]?", ".{0,5}"];
    for _ in 0..TRIES {
        let after = numbers.new_tree(&mut runner).unwrap().current();
        let mut query = form_urlencoded::Serializer::new(String::new());
        let query = query.append_pair("after", &after).finish();
        let reply = server.get(&format!("/api/v1/tx/completions?{query}")).await;
        let is_plain = !after.is_empty() && after.bytes().all(|byte| byte.is_ascii_digit());
        let number = after.parse::<i64>().ok().filter(|_| is_plain);
        match number {
            Some(seen @ 0..=3) => {
                let seqs: Vec<i64> = seqs(&reply.json());
                assert_eq!(seqs, (seen + 1..=3).collect::<Vec<_>>(), "{after}");
                assert_eq!(reply.json()["next"], 3, "{after}");
            }
            Some(_) => assert_eq!(reply.code(), "feed_reset", "{after}"),
            None => assert_eq!(reply.fields(), ["after"], "{after}"),
        }
    }
}

fn seqs(feed: &Value) -> Vec<i64> {
    let completions = feed["completions"].as_array().unwrap().iter();
    completions
        .map(|told| told["seq"].as_i64().unwrap())
        .collect()
}
