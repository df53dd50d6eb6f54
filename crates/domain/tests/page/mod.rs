//! The page about states, generated from what `State::apply` answers.

mod answers;
mod words;

use std::collections::BTreeSet;
use std::fmt::Write as _;

use fencepost_domain::flat::Name;
use fencepost_domain::state::{Kind, State};
use fencepost_domain::transition::Input;

use super::samples::{inputs, label, states};
use answers::{Answer, answer, answers};
use words::{ENDS, HEAD, QUALIFIERS, happening, meaning};

pub(crate) fn page() -> String {
    let mut page = HEAD.to_owned();
    page += "\n## What they mean\n\n";
    page += &meanings();
    page += "\n## What leads where\n\nTransactions that we sign:\n\n";
    page += &diagram(Kind::Managed);
    page += "\nReservations, whose holders sign:\n\n";
    page += &diagram(Kind::Reserved);
    page += "\n## What can happen\n\n";
    page += &happenings();
    page += "\n## How a final block ends a transaction\n\n";
    page += ENDS;
    page += &ends();
    page += "\n## Each state\n\n";
    page += QUALIFIERS;
    for &name in Name::ALL {
        page += &section(name);
    }
    page
}

fn row(page: &mut String, cells: &[&str]) {
    writeln!(page, "| {} |", cells.join(" | ")).expect("a string takes every line");
}

fn head(page: &mut String, cells: &[&str]) {
    row(page, cells);
    writeln!(page, "|{}", "---|".repeat(cells.len())).expect("a string takes every line");
}

fn meanings() -> String {
    let mut text = String::new();
    head(&mut text, &["state", "sub-state", "meaning"]);
    let mut seen = BTreeSet::new();
    for state in states() {
        let words = (state.name().word(), state.sub().unwrap_or("—"));
        if seen.insert(words) {
            row(&mut text, &[words.0, words.1, meaning(&state)]);
        }
    }
    text
}

fn happenings() -> String {
    let mut text = String::new();
    head(&mut text, &["word", "meaning"]);
    let mut seen = BTreeSet::new();
    for (_, input) in inputs() {
        let (word, meaning) = happening(&input);
        if seen.insert(word) {
            row(&mut text, &[word, meaning]);
        }
    }
    text
}

/// Moves from one state to another; those within a state are in its table.
fn diagram(kind: Kind) -> String {
    let mut all: Vec<State> = states().into_iter().filter(|s| s.fits(kind)).collect();
    // One step further there are also blocks with each kind of attempt.
    let next = |state: &State| {
        let moved = |(_, input)| state.clone().apply(input).ok();
        inputs().into_iter().filter_map(moved).collect::<Vec<_>>()
    };
    let further: Vec<State> = all.iter().flat_map(next).map(|moved| moved.to).collect();
    all.extend(further);
    let mut text = "```mermaid\nstateDiagram-v2\n".to_owned();
    for from in Name::ALL {
        for to in Name::ALL.iter().filter(|to| *to != from) {
            let mut why: Vec<&str> = Vec::new();
            for (_, input) in inputs() {
                let (word, _) = happening(&input);
                let leads = |state: &State| {
                    let moved = state.clone().apply(input.clone());
                    moved.is_ok_and(|moved| moved.to.name() == *to)
                };
                let mut starts = all.iter().filter(|state| state.name() == *from);
                if !why.contains(&word) && starts.any(leads) {
                    why.push(word);
                }
            }
            if !why.is_empty() {
                let (from, to, why) = (from.word(), to.word(), why.join(", "));
                writeln!(text, "    {from} --> {to}: {why}").expect("a string takes every line");
            }
        }
    }
    text + "```\n"
}

/// Each attempt and status in a final block, with the end it makes.
fn ends() -> String {
    let mut text = String::new();
    let sent = states()
        .into_iter()
        .find(|s| label(s) == "TRACKING/BROADCAST");
    let sent = sent.expect("a sample");
    head(&mut text, &["in the block", "status", "becomes", "event"]);
    for (name, input) in inputs()
        .iter()
        .filter(|(name, _)| !name.ends_with("elsewhere"))
    {
        let Input::Mined(at) = input else { continue };
        // What our transactions never have in a block was refused before.
        let Ok(mined) = sent.clone().apply(input.clone()) else {
            continue;
        };
        let Answer::Moves { to, event } = answer(&mined.to, &Input::Final) else {
            panic!("{name} does not end it");
        };
        row(&mut text, &[at.by.word(), at.execution.word(), &to, &event]);
    }
    text
}

/// One answer: to what, and in which states.
struct Rule {
    happening: String,
    states: Vec<String>,
    answer: Answer,
}

fn section(name: Name) -> String {
    let members: Vec<State> = states()
        .into_iter()
        .filter(|state| state.name() == name && !label(state).ends_with(" known"))
        .collect();
    let mut rules: Vec<Rule> = Vec::new();
    for state in &members {
        for (happening, answer) in answers(state) {
            let same = |rule: &&mut Rule| rule.happening == happening && rule.answer == answer;
            match rules.iter_mut().find(same) {
                Some(rule) => rule.states.push(within(state)),
                None => rules.push(Rule {
                    happening,
                    states: vec![within(state)],
                    answer,
                }),
            }
        }
    }
    let everywhere: Vec<String> = members.iter().map(within).collect();
    let mut text = format!("\n### {}\n\n", name.word());
    text += &moves(&rules, &everywhere);
    text += "\n";
    text += &refusals(&rules, &everywhere);
    text
}

fn moves(rules: &[Rule], everywhere: &[String]) -> String {
    let mut text = String::new();
    for rule in rules {
        if let Answer::Moves { to, event } = &rule.answer {
            if text.is_empty() {
                head(&mut text, &["what happens", "in", "becomes", "event"]);
            }
            let place = place(&rule.states, everywhere);
            row(&mut text, &[&rule.happening, &place, to, event]);
        }
    }
    if text.is_empty() {
        "Nothing moves it.\n".to_owned()
    } else {
        text
    }
}

fn refusals(rules: &[Rule], everywhere: &[String]) -> String {
    let mut reasons: Vec<(&str, String, Vec<&str>)> = Vec::new();
    for rule in rules {
        if let Answer::Refused(why) = &rule.answer {
            let place = place(&rule.states, everywhere);
            let same =
                |reason: &&mut (&str, String, Vec<&str>)| reason.0 == why && reason.1 == place;
            match reasons.iter_mut().find(same) {
                Some((_, _, happenings)) => happenings.push(&rule.happening),
                None => reasons.push((why, place, vec![&rule.happening])),
            }
        }
    }
    let mut text = String::new();
    head(&mut text, &["refused, because", "in", "what"]);
    for (why, place, happenings) in reasons {
        row(&mut text, &[why, &place, &happenings.join("; ")]);
    }
    text
}

/// What tells a state from others of its name.
fn within(state: &State) -> String {
    let label = label(state);
    let rest = label.trim_start_matches(state.name().word());
    match rest.trim_start_matches('/').trim() {
        "" => "—".to_owned(),
        rest => rest.to_owned(),
    }
}

/// Long lists that are all there is, in short.
fn place(states: &[String], everywhere: &[String]) -> String {
    let unsigned = |state: &&String| state.ends_with(" unsigned");
    let mixed = everywhere.iter().filter(unsigned).count() > 1;
    if states == everywhere {
        "any".to_owned()
    } else if mixed && states.iter().eq(everywhere.iter().filter(|s| !unsigned(s))) {
        "any signed".to_owned()
    } else if mixed && states.iter().eq(everywhere.iter().filter(unsigned)) {
        "any unsigned".to_owned()
    } else {
        states.join(", ")
    }
}
