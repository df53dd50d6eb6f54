//! A sound story keeps every promise; a story that is broken in one place breaks the promises that are about
//! it. Facts are made by hand: no node that works would ever give the broken ones.

use std::collections::BTreeSet;
use std::time::Duration;

use fencepost_domain::Address;

use super::*;
use crate::demo::facts::{
    Answer, Completion, Crash, Created, Mined, Reorg, Signer, Stored, is_final,
};
use crate::demo::request::{Request, lower};

const REQUESTS: usize = 10;
/// The number of the request that reverts.
const REVERTED: usize = 7;

fn id(number: usize) -> String {
    format!("tx-{number}")
}

fn hash(number: usize) -> String {
    format!("0x{number:064x}")
}

fn small(number: usize) -> u64 {
    u64::try_from(number).unwrap()
}

/// Ten requests of two signers, each posted twice, all well.
fn sound() -> Facts {
    let signers = [Address::repeat_byte(1), Address::repeat_byte(2)];
    let mut facts = Facts {
        misuses: vec![409, 409],
        ..Facts::default()
    };
    for (number, request) in Request::all(REQUESTS, &signers).into_iter().enumerate() {
        let nonce = small(number / 2);
        let (state, sub_state) = match &request.reverts {
            Some(_) => ("FAILED_FINAL".to_owned(), Some("REVERTED".to_owned())),
            None => ("CONFIRMED".to_owned(), None),
        };
        for (status, nonce) in [(202, None), (200, Some(nonce))] {
            facts.answers.push(Answer {
                request: number,
                status,
                created: Some(Created {
                    tx_id: id(number),
                    nonce,
                }),
            });
        }
        facts.stored.push(Stored {
            tx_id: id(number),
            // The API writes addresses with capitals as a checksum.
            signer: signers[number % 2].to_string(),
            request_id: Some(request.id.clone()),
            nonce: Some(nonce),
            state: state.clone(),
            sub_state: sub_state.clone(),
            tx_hash: Some(hash(number)),
            last_error: request.reverts.clone(),
            block_number: Some(small(number)),
            block_hash: Some(format!("block {number}")),
        });
        facts.feed.push(Completion {
            seq: small(number) + 1,
            tx_id: id(number),
            state,
            sub_state,
            nonce: Some(nonce),
            tx_hash: Some(hash(number)),
            block_number: Some(small(number)),
            at: "2026-01-01T00:00:00Z".to_owned(),
            corrects: None,
        });
        facts.mined.push(Mined {
            payload: request.payload.clone(),
            nonce,
            hash: hash(number),
            block_number: small(number),
            block_hash: format!("block {number}"),
            is_success: request.reverts.is_none(),
        });
        facts.sent.insert(hash(number));
        facts.known.insert(hash(number), id(number));
        facts.requests.push(request);
    }
    facts.feed_again = facts.feed.clone();
    facts.signers = signers.map(|it| signer(it, 2)).to_vec();
    facts.reorg = Some(undone());
    facts.crash = Some(crashed(&signers));
    facts
}

fn signer(address: Address, token: u64) -> Signer {
    Signer {
        signer: lower(address),
        next_nonce: small(REQUESTS / 2),
        token,
    }
}

fn undone() -> Reorg {
    let gone = BTreeSet::from([hash(2), hash(3)]);
    Reorg {
        depth: 2,
        told: BTreeSet::new(),
        noticed: gone.clone(),
        sent_again: gone.clone(),
        gone,
        back_after: Some(Duration::from_secs(1)),
    }
}

fn crashed(signers: &[Address]) -> Crash {
    Crash {
        pids: (100, 101),
        signal: Some(9),
        open: BTreeSet::from([id(4), id(5)]),
        tokens: signers.iter().map(|it| (lower(*it), 1)).collect(),
        retries: 0,
        ready_after: Duration::from_secs(1),
        told_after: Some(Duration::from_secs(2)),
    }
}

/// Breaks a sound story and compares which promises that breaks.
fn check(what: &str, broken: &[&str], change: impl FnOnce(&mut Facts)) {
    let mut facts = sound();
    change(&mut facts);
    let judged = judge(&facts).into_iter().filter(|it| !it.kept);
    let judged: Vec<&str> = judged.map(|it| it.name).collect();
    assert_eq!(judged, broken, "{what}");
}

fn reorg(facts: &mut Facts) -> &mut Reorg {
    facts.reorg.as_mut().unwrap()
}

fn crash(facts: &mut Facts) -> &mut Crash {
    facts.crash.as_mut().unwrap()
}

#[test]
fn a_sound_story_keeps_every_promise() {
    check("as it is", &[], |_| {});
    assert_eq!(judge(&sound()).len(), 11);
}

#[test]
fn no_promise_is_kept_by_a_story_in_which_nothing_was_asked() {
    assert!(judge(&Facts::default()).iter().all(|it| !it.kept));
}

#[test]
fn a_lost_request_is_found() {
    check(
        "acked, not stored",
        &["stored", "ended_once", "chain_and_api", "write_ahead"],
        |facts| {
            facts.stored.remove(0);
        },
    );
    check("never answered", &["stored", "duplicates"], |facts| {
        facts.answers.retain(|answer| answer.request != 3);
    });
    check(
        "stored for another",
        &["stored", "chain_and_api"],
        |facts| {
            facts.stored[0].request_id = Some("another".to_owned());
        },
    );
    check(
        "stored twice",
        &["stored", "ended_once", "chain_and_api", "feed"],
        |facts| {
            let mut twice = facts.stored[0].clone();
            twice.tx_id = id(99);
            facts.stored.push(twice);
        },
    );
}

#[test]
fn what_never_ends_or_ends_twice_is_found() {
    check(
        "still tracked",
        &["ended_once", "chain_and_api", "feed"],
        |facts| {
            facts.stored[4].state = "TRACKING".to_owned();
            facts.crash.as_mut().unwrap().open.remove(&id(4));
        },
    );
    check("told twice", &["ended_once"], |facts| {
        let mut again = facts.feed[0].clone();
        again.seq = small(REQUESTS) + 1;
        facts.feed.push(again);
        facts.feed_again = facts.feed.clone();
    });
    check("told of nobody", &["ended_once"], |facts| {
        let mut strange = facts.feed[0].clone();
        (strange.seq, strange.tx_id) = (small(REQUESTS) + 1, id(99));
        facts.feed.push(strange);
        facts.feed_again = facts.feed.clone();
    });
}

#[test]
fn a_duplicate_that_costs_something_is_found() {
    let second = |facts: &mut Facts| facts.answers[1].created.clone().unwrap();
    check("another transaction", &["stored", "duplicates"], |facts| {
        let created = second(facts);
        facts.answers[1].created = Some(Created {
            tx_id: id(99),
            ..created
        });
    });
    check("another nonce", &["duplicates"], |facts| {
        let created = second(facts);
        facts.answers[0].created = Some(Created {
            nonce: Some(77),
            ..created
        });
    });
    check("new twice", &["duplicates"], |facts| {
        facts.answers[1].status = 202
    });
    check("posted once only", &["duplicates"], |facts| {
        drop(facts.answers.remove(1))
    });
    check("a nonce more", &["duplicates"], |facts| {
        facts.signers[0].next_nonce += 1
    });
    check("an id misused", &["duplicates"], |facts| {
        facts.misuses[1] = 202
    });
    check("none misused", &["duplicates"], |facts| {
        facts.misuses.clear()
    });
}

#[test]
fn a_wrong_nonce_on_the_chain_is_found() {
    check("twice", &["nonces", "chain_and_api"], |facts| {
        facts.mined[2].nonce = 0
    });
    check("skipped", &["nonces", "chain_and_api"], |facts| {
        facts.mined[8].nonce = 5
    });
    let all = ["nonces", "executed_once", "chain_and_api", "write_ahead"];
    check("never mined", &all, |facts| drop(facts.mined.pop()));
}

#[test]
fn a_payload_that_is_executed_twice_or_never_is_found() {
    check(
        "twice",
        &["nonces", "executed_once", "chain_and_api", "write_ahead"],
        |facts| {
            let mut again = facts.mined[0].clone();
            (again.nonce, again.hash) = (5, hash(99));
            facts.mined.push(again);
        },
    );
    check(
        "another one's",
        &["executed_once", "chain_and_api"],
        |facts| {
            facts.mined[0].payload.value += 1;
        },
    );
}

#[test]
fn an_api_that_tells_something_else_than_the_chain_is_found() {
    let wrong = ["chain_and_api", "feed"];
    check("hash", &wrong, |facts| {
        facts.stored[0].tx_hash = Some(hash(1))
    });
    check("nonce", &wrong, |facts| facts.stored[0].nonce = Some(3));
    check("block", &wrong, |facts| {
        facts.stored[0].block_number = Some(9)
    });
    check("fork", &["chain_and_api"], |facts| {
        facts.stored[0].block_hash = Some("block 0 of another fork".to_owned());
    });
    check("status", &["chain_and_api"], |facts| {
        facts.mined[0].is_success = false
    });
}

#[test]
fn what_is_sent_and_not_stored_is_found() {
    check("sent", &["write_ahead"], |facts| {
        facts.sent.insert(hash(99));
    });
    check("mined", &["write_ahead"], |facts| {
        drop(facts.known.remove(&hash(0)))
    });
    check("another's", &["write_ahead"], |facts| {
        facts.known.insert(hash(0), id(99));
    });
}

#[test]
fn a_hole_or_a_change_in_the_feed_is_found() {
    check("a hole", &["feed"], |facts| {
        for row in facts.feed[5..].iter_mut() {
            row.seq += 1;
        }
        facts.feed_again = facts.feed.clone();
    });
    check("a row that came late", &["feed"], |facts| {
        drop(facts.feed.remove(3))
    });
    check("a row that changed", &["feed"], |facts| {
        facts.feed[3].at.push('!')
    });
    check("a row that is gone", &["ended_once", "feed"], |facts| {
        drop(facts.feed_again.pop())
    });
    check("a correction", &["feed"], |facts| {
        facts.feed[9].corrects = Some(1);
        facts.feed_again = facts.feed.clone();
    });
    check("not as it ended", &["feed"], |facts| {
        facts.feed[0].state = "FAILED_FINAL".to_owned();
        facts.feed_again = facts.feed.clone();
        assert!(is_final(&facts.feed[0].state));
    });
}

#[test]
fn a_failure_without_its_reason_or_without_a_cause_is_found() {
    check("no reason", &["failures"], |facts| {
        facts.stored[REVERTED].last_error = None
    });
    check("another reason", &["failures"], |facts| {
        facts.stored[REVERTED].last_error = Some("out of gas".to_owned());
    });
    check(
        "called done",
        &["chain_and_api", "feed", "failures"],
        |facts| {
            facts.stored[REVERTED].state = "CONFIRMED".to_owned();
            facts.stored[REVERTED].sub_state = None;
        },
    );
    check("nothing reverted", &["failures"], |facts| {
        facts.requests[REVERTED].reverts = None;
    });
    check(
        "failed for nothing",
        &["chain_and_api", "feed", "failures"],
        |facts| {
            facts.stored[0].state = "FAILED_FINAL".to_owned();
        },
    );
}

#[test]
fn a_reorg_that_loses_something_is_found() {
    check("none", &["reorg"], |facts| facts.reorg = None);
    check("nothing undone", &["reorg"], |facts| {
        reorg(facts).gone.clear()
    });
    check("not back", &["reorg"], |facts| {
        reorg(facts).gone.insert(hash(99));
    });
    check("not noticed", &["reorg"], |facts| {
        reorg(facts).noticed.clear()
    });
    check("not sent again", &["reorg"], |facts| {
        reorg(facts).sent_again.clear()
    });
    check("called final", &["reorg"], |facts| {
        reorg(facts).told.insert(hash(2));
    });
}

#[test]
fn a_crash_that_loses_something_is_found() {
    check("none", &["crash"], |facts| facts.crash = None);
    check("the same process", &["crash"], |facts| {
        crash(facts).pids.1 = 100
    });
    check("it ended well", &["crash"], |facts| {
        crash(facts).signal = None
    });
    check("nothing at stake", &["crash"], |facts| {
        crash(facts).open.clear()
    });
    check("one lost", &["crash"], |facts| {
        crash(facts).open.insert(id(99));
    });
    check("an old token", &["crash"], |facts| {
        facts.signers[1].token = 1
    });
    check("never told again", &["crash"], |facts| {
        crash(facts).told_after = None
    });
}
