//! Goal: what holds for every state that can be reached, over a small world of hashes, blocks and
//! nonces. Method: from the states in which rows are created, everything is applied until nothing
//! new appears; then each state is looked at, and each of its columns is broken.

mod samples;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use fencepost_domain::B256;
use fencepost_domain::attempt;
use fencepost_domain::event;
use fencepost_domain::flat::{Flat, Name};
use fencepost_domain::ids::{Height, Nonce};
use fencepost_domain::point::Point;
use fencepost_domain::state::{
    Allocated, Block, Execution, Inclusion, Kind, Queued, Reserved, Signing, State, Wait, Why,
};
use fencepost_domain::transition::{Input, Refusal};

use samples::{inputs, label, states};

const NONCES: [u64; 2] = [7, 8];
const HEIGHTS: [u64; 2] = [100, 101];
const HASHES: [u8; 2] = [0x11, 0x22];

/// Every state that can be reached, by all that it says.
static REACHED: LazyLock<BTreeMap<String, State>> = LazyLock::new(|| {
    let world = world();
    let mut reached = BTreeMap::new();
    let mut fresh = created();
    while let Some(state) = fresh.pop() {
        if reached
            .insert(format!("{state:?}"), state.clone())
            .is_some()
        {
            continue;
        }
        for input in &world {
            let moved = state.clone().apply(input.clone());
            fresh.extend(moved.map(|moved| moved.to));
        }
    }
    reached
});

fn nonces() -> impl Iterator<Item = Nonce> {
    NONCES.iter().map(|&n| Nonce::new(n).expect("small"))
}

fn block_hash(height: u64) -> B256 {
    B256::left_padding_from(&height.to_be_bytes())
}

/// The states in which rows are created.
fn created() -> Vec<State> {
    let mut all: Vec<State> = Wait::ALL
        .iter()
        .map(|&wait| State::Queued(Queued { wait }))
        .collect();
    for nonce in nonces() {
        let bytes = Signing::Unsigned;
        all.push(State::Allocated(Allocated { nonce, bytes }));
        all.push(State::Reserved(Reserved { nonce }));
    }
    all
}

/// The samples' inputs, and all combinations of blocks, hashes and nonces with them.
fn world() -> Vec<Input> {
    let mut all: Vec<Input> = inputs().into_iter().map(|(_, input)| input).collect();
    all.extend(nonces().map(Input::Allocate));
    for hash in HASHES.map(B256::repeat_byte) {
        all.push(Input::Taken(Some(hash)));
        all.push(Input::TakenFinal(Some(hash)));
        for &by in attempt::Kind::ALL {
            for &execution in Execution::ALL {
                all.extend(blocks().into_iter().map(|block| {
                    Input::Mined(Inclusion {
                        block,
                        hash,
                        by,
                        execution,
                    })
                }));
            }
        }
    }
    all
}

fn blocks() -> Vec<Block> {
    let height = |number| Height::new(number).expect("small");
    HEIGHTS
        .iter()
        .flat_map(|&number| HEIGHTS.map(|other| (number, other)))
        .map(|(number, other)| Block {
            number: height(number),
            hash: block_hash(other),
        })
        .collect()
}

#[test]
fn every_sample_can_be_reached() {
    let labels: Vec<_> = REACHED.values().map(label).collect();
    for sample in states() {
        assert!(labels.contains(&label(&sample)), "{}", label(&sample));
    }
}

#[test]
fn every_state_survives_its_columns() {
    for state in REACHED.values() {
        assert_eq!(State::from_flat(&state.flat()).as_ref(), Ok(state));
    }
}

#[test]
fn the_feed_tells_of_four_states() {
    for state in REACHED.values() {
        let told = match state.name() {
            Name::Confirmed | Name::Failed | Name::Stuck | Name::Used => true,
            Name::Queued
            | Name::Allocated
            | Name::Tracking
            | Name::Reserved
            | Name::Submitted
            | Name::Recyclable => false,
        };
        assert_eq!(state.is_told(), told, "{state:?}");
    }
}

#[test]
fn moves_keep_their_promises() {
    let world = world();
    for state in REACHED.values() {
        for input in &world {
            let Ok(moved) = state.clone().apply(input.clone()) else {
                continue;
            };
            let place = format!("{state:?} + {input:?} = {moved:?}");
            // Only a replaced block undoes an end.
            if state.is_final() && moved.to.name() != state.name() {
                assert_eq!(*input, Input::Reorged, "{place}");
            }
            // A row stays of its kind.
            for &kind in Kind::ALL {
                assert_eq!(state.fits(kind), moved.to.fits(kind), "{place}");
            }
            // The feed is told of each arrival and of each new reason, and of nothing else.
            let arrived = moved.to.is_told()
                && (moved.to.name(), moved.to.sub()) != (state.name(), state.sub());
            let told = moved.event.kind.is_told();
            assert!(told || !arrived, "{place}");
            assert!(moved.to.is_told() || !told, "{place}");
            // Bytes that were stored are never as if they had not been.
            assert!(
                moved.to.hash().is_some() || state.hash().is_none(),
                "{place}"
            );
            // A move says something new, or records that something was tried.
            let tried = moved.event.kind == event::Kind::Submitted;
            let covered = matches!(input, Input::Covered(_));
            assert!(moved.to != *state || tried || covered, "{place}");
        }
    }
}

/// Whatever has happened to it: what was signed and is seen in a block that becomes final, ends.
#[test]
fn a_final_block_ends_whatever_was_signed() {
    let waiting = |state: &&State| !state.is_final() && state.hash().is_some();
    for state in REACHED.values().filter(waiting) {
        for input in world() {
            let Input::Mined(at) = input else { continue };
            let lent = at.by == attempt::Kind::External;
            let mined = match state.clone().apply(input) {
                Ok(moved) => moved.to,
                Err(Refusal::Unchanged) => state.clone(),
                Err(refusal) => {
                    let foreign = state.fits(Kind::Reserved) != lent;
                    assert!(foreign, "{state:?} + {at:?}: {refusal}");
                    continue;
                }
            };
            let ended = mined.apply(Input::Final).expect("it is in a block").to;
            assert!(ended.is_final(), "{ended:?}");
            assert_eq!(ended.inclusion(), Some(at));
        }
    }
}

/// One broken column: either nobody wrote that, or it is another state that can be reached.
#[test]
fn a_broken_column_is_refused_or_is_another_state() {
    let mut refused = 0_usize;
    for state in REACHED.values() {
        let good = state.flat();
        for bad in broken(&good) {
            let Ok(read) = State::from_flat(&bad) else {
                refused += 1;
                continue;
            };
            assert_ne!(read, *state, "{bad:?}");
            assert_eq!(read.flat(), bad);
            let known = REACHED.contains_key(&format!("{read:?}"));
            assert!(known, "{bad:?} was read as {read:?}, made of {state:?}");
        }
    }
    assert!(refused > REACHED.len());
}

/// Each column by itself, with every other value that it could have and some that it could not.
fn broken(good: &Flat) -> Vec<Flat> {
    let mut all = Vec::new();
    let mut with = |change: &dyn Fn(&mut Flat)| {
        let mut bad = good.clone();
        change(&mut bad);
        if bad != *good {
            all.push(bad);
        }
    };
    for word in words() {
        with(&|flat| word.unwrap_or_default().clone_into(&mut flat.state));
        with(&|flat| flat.sub_state = word.map(str::to_owned));
        with(&|flat| flat.mined_by = word.map(str::to_owned));
        with(&|flat| flat.mined_status = word.map(str::to_owned));
    }
    for number in [None, Some(-1), Some(7), Some(8), Some(100), Some(101)] {
        let nonce = number.filter(|n| *n < 100);
        with(&|flat| flat.nonce = nonce);
        with(&|flat| flat.nonce_given_back = nonce);
        with(&|flat| flat.block_number = number.filter(|n| !(0..100).contains(n)));
    }
    let short = Some(vec![0x11; 31]);
    for hash in [None, short.clone(), byte(0x11), byte(0x22)] {
        with(&|flat| flat.tx_hash.clone_from(&hash));
        with(&|flat| flat.mined_hash.clone_from(&hash));
        with(&|flat| flat.foreign_hash.clone_from(&hash));
    }
    for hash in [byte(0xf0), byte(0xf1)] {
        with(&|flat| flat.foreign_hash.clone_from(&hash));
    }
    let hashes = HEIGHTS.map(|height| Some(block_hash(height).to_vec()));
    for hash in hashes.into_iter().chain([None, short]) {
        with(&|flat| flat.block_hash.clone_from(&hash));
    }
    all
}

fn byte(byte: u8) -> Option<Vec<u8>> {
    Some(vec![byte; 32])
}

/// Every word that any column can hold, nothing, and nonsense.
fn words() -> Vec<Option<&'static str>> {
    let mut all = vec![None, Some(""), Some("NONSENSE"), Some("mined")];
    all.extend(Name::ALL.iter().map(|name| Some(name.word())));
    all.extend(Wait::ALL.iter().map(|wait| Some(wait.word())));
    all.extend(Why::ALL.iter().map(|why| Some(why.word())));
    all.extend(attempt::Kind::ALL.iter().map(|kind| Some(kind.word())));
    all.extend(
        Execution::ALL
            .iter()
            .map(|execution| Some(execution.word())),
    );
    all.extend(["SIGNED", "BROADCAST", "AMBIGUOUS", "MINED", "REORGED"].map(Some));
    all.extend(["CANCELLED", "EXPIRED", "REJECTED"].map(Some));
    all
}

/// Goal: each wait ends where it should. Method: for every sample state the furthest point is written down by
/// hand; every point up to it is reached, and none beyond it.
#[test]
fn a_state_has_reached_its_own_point_and_all_before_it_and_none_beyond() {
    let table: BTreeMap<&str, Option<Point>> = BTreeMap::from([
        ("QUEUED/WAITING_LEADER", None),
        ("QUEUED/WAITING_WINDOW", None),
        ("ALLOCATED", Some(Point::Allocated)),
        ("ALLOCATED/SIGNED", Some(Point::Signed)),
        ("ALLOCATED/REFUSED", Some(Point::Signed)),
        ("TRACKING/BROADCAST", Some(Point::Submitted)),
        ("TRACKING/AMBIGUOUS", Some(Point::Submitted)),
        ("TRACKING/MINED", Some(Point::Mined)),
        ("TRACKING/REORGED", Some(Point::Submitted)),
        ("CONFIRMED", Some(Point::Final)),
        ("FAILED_FINAL", Some(Point::Final)),
        ("STUCK", Some(Point::Final)),
        ("RESERVED", Some(Point::Allocated)),
        ("SUBMITTED", Some(Point::Submitted)),
        ("SUBMITTED/MINED", Some(Point::Mined)),
        ("SUBMITTED/REORGED", Some(Point::Submitted)),
        ("USED", Some(Point::Final)),
        ("RECYCLABLE", Some(Point::Final)),
    ]);
    let mut seen = BTreeSet::new();
    for state in states().iter().chain(REACHED.values()) {
        let words = match state.sub() {
            // However it ended, and whatever it is stuck for.
            Some(_) if state.is_final() || state.name() == Name::Stuck => {
                state.name().word().to_owned()
            }
            Some(sub) => format!("{}/{sub}", state.name().word()),
            None => state.name().word().to_owned(),
        };
        let furthest = table
            .get(words.as_str())
            .unwrap_or_else(|| panic!("{words} is not in the table"));
        for point in Point::ALL {
            let expected = furthest.is_some_and(|furthest| *point <= furthest);
            assert_eq!(state.has_reached(*point), expected, "{words} {point:?}");
        }
        seen.insert(words);
    }
    assert_eq!(seen.len(), table.len(), "only {seen:?} were seen");
}
