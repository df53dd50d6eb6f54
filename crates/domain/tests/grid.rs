//! Goal: every state's answer to every input is what the rules say. Method: `grid.txt` was written
//! from the rules, not from the code; here it is read, spread over all pairs, and compared.

mod samples;

use std::collections::{BTreeMap, HashSet};

use fencepost_domain::attempt;
use fencepost_domain::ids::Nonce;
use fencepost_domain::state::{Execution, Inclusion, Lent, Seen, State};
use fencepost_domain::transition::{Input, Outlook};

use samples::{inputs, label, states};

const GRID: &str = include_str!("grid.txt");

type Cells = BTreeMap<(String, String), String>;

/// The rule for each pair, and every pair that a second rule claims.
fn spread(grid: &str) -> (Cells, Vec<(String, String)>) {
    let states: Vec<String> = states().iter().map(label).collect();
    let inputs: Vec<String> = inputs().into_iter().map(|(name, _)| name).collect();
    let mut cells = Cells::new();
    let mut twice = Vec::new();
    let mut section: Vec<&String> = Vec::new();
    for line in grid.lines().map(str::trim) {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(names) = line.strip_prefix('[') {
            let names = names.strip_suffix(']').expect("a section ends with ]");
            section = names
                .split(", ")
                .flat_map(|pattern| select(&states, pattern, is_state))
                .collect();
            continue;
        }
        let (patterns, answer) = line.split_once("=>").expect("a rule has an answer");
        for input in patterns
            .split(',')
            .flat_map(|pattern| select(&inputs, pattern.trim(), is_input))
        {
            for state in &section {
                let pair = ((*state).clone(), input.clone());
                let answer = spell(answer.trim(), state, input);
                if cells.insert(pair.clone(), answer).is_some() {
                    twice.push(pair);
                }
            }
        }
    }
    (cells, twice)
}

/// A pattern that selects nothing is a spelling mistake.
fn select<'a>(
    names: &'a [String],
    pattern: &str,
    fits: impl Fn(&str, &str) -> bool,
) -> Vec<&'a String> {
    let found: Vec<_> = names.iter().filter(|name| fits(pattern, name)).collect();
    assert!(!found.is_empty(), "nothing is called {pattern:?}");
    found
}

fn is_state(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => name == pattern,
    }
}

fn is_input(pattern: &str, name: &str) -> bool {
    let words: Vec<_> = name.split(' ').collect();
    let choices: Vec<_> = pattern.split(' ').collect();
    let fits =
        |(choice, word): (&&str, &&str)| *choice == "*" || choice.split('|').any(|c| c == *word);
    choices.len() == words.len() && choices.iter().zip(&words).all(fits)
}

fn spell(answer: &str, state: &str, input: &str) -> String {
    let second = input.split(' ').nth(1).unwrap_or_default();
    let answer = answer.replace("$2", second);
    match answer.strip_prefix("same") {
        Some(rest) => format!("{state}{rest}"),
        None => answer,
    }
}

fn told(outlook: &Outlook) -> String {
    match outlook {
        Err(refusal) => format!("no {refusal:?}"),
        Ok(moved) => {
            let fork = if moved.event.new_fork { " fork" } else { "" };
            format!("{} : {}{fork}", label(&moved.to), moved.event.kind.word())
        }
    }
}

#[test]
fn samples_have_distinct_names() {
    let names: Vec<_> = states().iter().map(label).collect();
    let distinct: HashSet<_> = names.iter().collect();
    assert_eq!(distinct.len(), names.len(), "{names:?}");
    let names: Vec<_> = inputs().into_iter().map(|(name, _)| name).collect();
    let distinct: HashSet<_> = names.iter().collect();
    assert_eq!(distinct.len(), names.len(), "{names:?}");
}

#[test]
fn every_state_answers_every_input_as_the_rules_say() {
    let (cells, twice) = spread(GRID);
    let mut wrong: Vec<String> = twice
        .iter()
        .map(|(state, input)| format!("{state} + {input}: answered twice"))
        .collect();
    for state in states() {
        for (name, input) in inputs() {
            let pair = (label(&state), name);
            let code = told(&state.clone().apply(input));
            match cells.get(&pair) {
                None => wrong.push(format!("{} + {}: not answered", pair.0, pair.1)),
                Some(rule) if *rule == code => {}
                Some(rule) => wrong.push(format!(
                    "{} + {}: rule {rule:?}, code {code:?}",
                    pair.0, pair.1
                )),
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_rule_that_is_missing_or_given_twice_is_noticed() {
    let all = states().len() * inputs().len();
    let (whole, twice) = spread(GRID);
    assert_eq!((whole.len(), twice.len()), (all, 0));
    let holed: String = GRID
        .lines()
        .filter(|line| !line.starts_with("clear"))
        .map(|l| format!("{l}\n"))
        .collect();
    assert!(spread(&holed).0.len() < all);
    let doubled = format!("{GRID}\n[RECYCLABLE]\nclear => no Over\n");
    assert_eq!(
        spread(&doubled).1,
        [("RECYCLABLE".to_owned(), "clear".to_owned())]
    );
}

/// A nonce is kept, or given where there was none, or given back; the newest bytes change only by
/// new bytes, and are forgotten by nobody.
#[test]
fn a_move_keeps_the_nonce_and_the_bytes() {
    for state in states() {
        for (name, input) in inputs() {
            let (nonce, hash) = (state.nonce(), state.hash());
            let Ok(moved) = state.clone().apply(input.clone()) else {
                continue;
            };
            let place = format!("{} + {name}", label(&state));
            match (nonce, moved.to.nonce()) {
                (Some(before), None) => {
                    assert_eq!(moved.to.gave_back(), Some(before), "{place}");
                    assert_eq!(hash, None, "{place}");
                }
                (None, Some(given)) => assert_eq!(input, Input::Allocate(given), "{place}"),
                (before, after) => assert_eq!(before, after, "{place}"),
            }
            let newest = if let Input::Sign(_, new) | Input::Submit(new) = input {
                Some(new)
            } else {
                hash
            };
            assert_eq!(moved.to.hash(), newest, "{place}");
        }
    }
}

/// Which attempt is final decides how a transaction ends; how a cancel or a placeholder was
/// executed does not matter, and neither does what the holder of a loan executed.
#[test]
fn the_final_attempt_decides_the_end() {
    let check = |by, execution, ours: &str, lent: &str| {
        let ended = |name: &str| {
            let state = states().into_iter().find(|state| label(state) == name);
            told(&with(state.expect("a sample"), by, execution).apply(Input::Final))
        };
        assert_eq!(ended("TRACKING/MINED"), ours, "{by:?} {execution:?}");
        assert_eq!(ended("SUBMITTED/MINED"), lent, "{by:?} {execution:?}");
    };
    use Execution::{Reverted, Success};
    use attempt::Kind::{Cancel, External, Original, Placeholder, Replacement, Substitute};
    let used = "USED : used";
    check(Original, Success, "CONFIRMED : confirmed", used);
    check(Original, Reverted, "FAILED_FINAL/REVERTED : failed", used);
    check(Replacement, Success, "CONFIRMED : confirmed", used);
    check(
        Replacement,
        Reverted,
        "FAILED_FINAL/REVERTED : failed",
        used,
    );
    check(Cancel, Success, "FAILED_FINAL/CANCELLED : failed", used);
    check(Cancel, Reverted, "FAILED_FINAL/CANCELLED : failed", used);
    check(
        Placeholder,
        Success,
        "FAILED_FINAL/PLACEHOLDER : failed",
        used,
    );
    check(
        Placeholder,
        Reverted,
        "FAILED_FINAL/PLACEHOLDER : failed",
        used,
    );
    for execution in [Success, Reverted] {
        check(
            Substitute,
            execution,
            "FAILED_FINAL/SUBSTITUTED : failed",
            used,
        );
    }
    // It can be written down, but `mined` has refused it before.
    check(External, Success, "no NotLent", used);
    check(External, Reverted, "no NotLent", used);
}

/// The same state, mined by another attempt.
fn with(state: State, by: attempt::Kind, execution: Execution) -> State {
    let change = |at: Inclusion| Inclusion {
        by,
        execution,
        ..at
    };
    if let State::Tracking(mut state) = state {
        if let Seen::Mined(at) = state.seen {
            state.seen = Seen::Mined(change(at));
        }
        State::Tracking(state)
    } else if let State::Submitted(mut state) = state {
        if let Lent::Mined(at) = state.seen {
            state.seen = Lent::Mined(change(at));
        }
        State::Submitted(state)
    } else {
        state
    }
}

/// Several moves in a row, each named with where it leads.
#[test]
fn stories_end_as_they_should() {
    let check = |start: &str, steps: &[(&str, &str)]| {
        let mut state = states()
            .into_iter()
            .find(|state| label(state) == start)
            .expect("a sample");
        let inputs: BTreeMap<_, _> = inputs().into_iter().collect();
        for (input, expected) in steps {
            let moved = state.apply(inputs[*input].clone()).expect("a legal move");
            state = moved.to;
            assert_eq!(label(&state), *expected, "{start}: {input}");
        }
    };
    // Final, undone, final again: the second end corrects the first, whichever it is.
    let undone = ("reorged", "STUCK/REORG_AFTER_FINAL");
    check(
        "CONFIRMED",
        &[
            undone,
            ("sent ACCEPTED", "STUCK/REORG_AFTER_FINAL"),
            ("mined ORIGINAL elsewhere", "TRACKING/MINED"),
            ("final", "CONFIRMED"),
        ],
    );
    check(
        "CONFIRMED",
        &[
            undone,
            ("sign CANCEL new", "STUCK/REORG_AFTER_FINAL"),
            ("mined CANCEL elsewhere", "TRACKING/MINED"),
            ("final", "FAILED_FINAL/CANCELLED"),
        ],
    );
    check(
        "CONFIRMED",
        &[
            undone,
            ("taken foreign", "STUCK/NONCE_TAKEN known"),
            ("takenfinal unknown", "FAILED_FINAL/NONCE_TAKEN known"),
            undone,
            ("clear", "TRACKING/AMBIGUOUS"),
        ],
    );
    // Taken, then free again on chain: nothing was signed, so it can still be given back.
    check(
        "ALLOCATED",
        &[
            ("taken unknown", "STUCK/NONCE_TAKEN unsigned"),
            ("clear", "ALLOCATED"),
            ("reject", "FAILED_FINAL/REJECTED"),
        ],
    );
    // A holder that was away names its bytes after the chain has used the nonce.
    check(
        "RESERVED",
        &[
            ("takenfinal foreign", "USED unnamed"),
            ("submit same", "USED by another"),
            ("reorged", "SUBMITTED/REORGED"),
            ("mined EXTERNAL here", "SUBMITTED/MINED"),
            ("final", "USED"),
        ],
    );
    // Named late, and it is what was seen: then it is not another's.
    check(
        "RESERVED",
        &[
            ("takenfinal own", "USED unnamed"),
            ("submit same", "USED by another"),
        ],
    );
}

#[test]
fn a_named_hash_is_no_longer_foreign() {
    let inputs: BTreeMap<_, _> = inputs().into_iter().collect();
    let reserved = states()
        .into_iter()
        .find(|state| label(state) == "RESERVED")
        .expect("a sample");
    assert_eq!(reserved.nonce(), Some(Nonce::new(7).unwrap()));
    let used = reserved.apply(inputs["takenfinal own"].clone()).unwrap().to;
    assert!(used.flat().foreign_hash.is_some());
    let named = used.apply(inputs["submit same"].clone()).unwrap().to;
    assert_eq!(named.flat().foreign_hash, None);
}
