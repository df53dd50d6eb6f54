//! One call that may change something, of the real API of a real node on a store in memory: whatever
//! it is, no panic, no error that is not documented, what is refused has changed nothing, and what is
//! acknowledged is stored. `src/call.rs` says how an input is read.

#![no_main]

use std::cell::RefCell;

use fencepost_fuzz::call::{self, WRITES};
use fencepost_fuzz::mutate::mutate;
use fencepost_fuzz::reply::Reply;
use fencepost_fuzz::world::{Stored, World};
use libfuzzer_sys::{fuzz_mutator, fuzz_target};
use serde_json::Value;

thread_local! {
    /// Kept from input to input while nothing in it has changed.
    static WORLD: RefCell<Option<World>> = const { RefCell::new(None) };
}

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    mutate(data, size, max_size, seed)
});

fuzz_target!(|input: &[u8]| {
    WORLD.with_borrow_mut(|kept| {
        let world = kept.get_or_insert_with(|| World::new(None));
        let Some(request) = call::read(input, &WRITES, world) else {
            return;
        };
        let reply = world.send(request);
        let after = world.stored();
        check(&reply, &world.before, &after);
        if after != world.before || world.is_old() {
            *kept = None;
        }
    });
});

fn check(reply: &Reply, before: &Stored, after: &Stored) {
    let (what, body) = (&reply.what, &reply.body);
    if reply.is_refusal() {
        assert!(before == after, "{what}: refused, and yet changed: {body}");
        return;
    }
    let transactions = body["results"].as_array().into_iter().flatten();
    let transactions = transactions.map(|result| &result["transaction"]);
    let lent = body["reservations"].as_array().into_iter().flatten();
    for told in transactions.chain(lent).chain([body]) {
        for id in ["txId", "reservationId"] {
            if let Some(id) = told.get(id).and_then(Value::as_str) {
                assert!(after.has(id), "{what}: acknowledged, not stored: {body}");
            }
        }
    }
}
