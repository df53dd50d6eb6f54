//! What one state answers, with inputs of one kind told together where they are answered alike.

use fencepost_domain::flat::Name;
use fencepost_domain::state::State;
use fencepost_domain::transition::Input;

use super::words::{detail, happening};
use crate::samples::{inputs, label};

#[derive(Clone, PartialEq)]
pub(crate) enum Answer {
    Moves { to: String, event: String },
    Refused(String),
}

/// Each happening in words, with its answer.
pub(crate) fn answers(state: &State) -> Vec<(String, Answer)> {
    let mut groups: Vec<(&'static str, Answer, Vec<String>)> = Vec::new();
    for (name, input) in inputs_of(state) {
        let (word, _) = happening(&input);
        let answer = if input == Input::Final {
            ends(state)
        } else {
            answer(state, &input)
        };
        match groups
            .iter_mut()
            .find(|group| (group.0, &group.1) == (word, &answer))
        {
            Some((_, _, names)) => names.push(name),
            None => groups.push((word, answer, vec![name])),
        }
    }
    let alone = |word: &str| groups.iter().filter(|group| group.0 == word).count() == 1;
    let tell = |(word, answer, names): &(&str, Answer, Vec<String>)| {
        let told = if alone(word) {
            (*word).to_owned()
        } else {
            format!("{word}: {}", compact(state, answer, names))
        };
        (told, answer.clone())
    };
    groups.iter().map(tell).collect()
}

/// The inputs that make a difference: without bytes none are the newest, without a block none is
/// another, and one foreign hash stands for all.
fn inputs_of(state: &State) -> Vec<(String, Input)> {
    let differs = |name: &str| match name.rsplit(' ').next() {
        Some("again" | "own" | "same") => state.hash().is_some(),
        Some("elsewhere" | "reverted") => state.inclusion().is_some(),
        Some("another") => false,
        Some(_) | None => true,
    };
    inputs()
        .into_iter()
        .filter(|(name, _)| differs(name))
        .collect()
}

/// All ends that a final block can make, by whatever attempt and status is in it.
fn ends(state: &State) -> Answer {
    let mined = |(_, input): (String, Input)| {
        let seen = matches!(input, Input::Mined(_));
        seen.then(|| state.clone().apply(input).ok()).flatten()
    };
    let blocks = state
        .inclusion()
        .map(|_| inputs().into_iter().filter_map(mined));
    let others = blocks.into_iter().flatten().map(|moved| moved.to);
    let mut tos: Vec<String> = Vec::new();
    let mut events: Vec<String> = Vec::new();
    for state in std::iter::once(state.clone()).chain(others) {
        match answer(&state, &Input::Final) {
            Answer::Moves { to, event } => {
                tos.extend(Some(to).filter(|to| !tos.contains(to)));
                events.extend(Some(event).filter(|event| !events.contains(event)));
            }
            refused @ Answer::Refused(_) => return refused,
        }
    }
    Answer::Moves {
        to: tos.join(", "),
        event: events.join(", "),
    }
}

pub(crate) fn answer(state: &State, input: &Input) -> Answer {
    let moved = match state.clone().apply(input.clone()) {
        Ok(moved) => moved,
        Err(refusal) => return Answer::Refused(refusal.to_string()),
    };
    let shown = |state: &State| label(state).trim_end_matches(" known").to_owned();
    let to = if shown(&moved.to) == shown(state) {
        "stays".to_owned()
    } else if let Input::Stick(why) = input {
        shown(&moved.to).replace(why.word(), "that reason")
    } else {
        shown(&moved.to)
    };
    let fork = if moved.event.new_fork {
        ", new fork"
    } else {
        ""
    };
    let event = format!("{}{fork}", moved.event.kind.word());
    Answer::Moves { to, event }
}

/// `sign A x`, `sign A y`, `sign B x`, `sign B y` become `A, B (x, y)`; the last words are left out
/// where all of them are there.
fn compact(state: &State, answer: &Answer, names: &[String]) -> String {
    if names.iter().all(|name| name.starts_with("stick ")) {
        return reasons(state, answer, names);
    }
    let mut groups: Vec<(Vec<String>, Vec<String>)> = Vec::new();
    for name in names {
        let first = name.split(' ').nth(1).unwrap_or_default();
        let here = lasts(name, names.iter());
        let possible = inputs_of(state);
        let all = lasts(name, possible.iter().map(|(name, _)| name));
        let told = if here == all { Vec::new() } else { here };
        let first = detail(first).to_owned();
        match groups.iter_mut().find(|(_, lasts)| *lasts == told) {
            Some((firsts, _)) if firsts.contains(&first) => {}
            Some((firsts, _)) => firsts.push(first),
            None => groups.push((vec![first], told)),
        }
    }
    let tell = |(firsts, lasts): &(Vec<String>, Vec<String>)| {
        let firsts = firsts.join(", ");
        match lasts.join(", or ") {
            lasts if lasts.is_empty() => firsts,
            lasts => format!("{firsts} ({lasts})"),
        }
    };
    groups.iter().map(tell).collect::<Vec<_>>().join("; ")
}

/// The last words of those names that begin like this one.
fn lasts<'a>(name: &str, names: impl Iterator<Item = &'a String>) -> Vec<String> {
    let mut words = name.split(' ');
    let start = format!(
        "{} {} ",
        words.next().unwrap_or_default(),
        words.next().unwrap_or_default()
    );
    names
        .filter_map(|name| name.strip_prefix(&start))
        .map(|last| detail(last).to_owned())
        .collect()
}

/// Reasons as seen from one that it may be stuck for already.
fn reasons(state: &State, answer: &Answer, names: &[String]) -> String {
    let every: Vec<String> = inputs_of(state)
        .into_iter()
        .filter_map(|(name, _)| name.strip_prefix("stick ").map(str::to_owned))
        .collect();
    let is_own = |why: &&String| state.name() == Name::Stuck && state.sub() == Some(why.as_str());
    let own = every.iter().find(is_own);
    let named = |why: &&String| names.contains(&format!("stick {why}"));
    let told: Vec<&String> = every.iter().filter(named).collect();
    let list = |reasons: &[&String]| {
        let words: Vec<&str> = reasons.iter().map(|why| why.as_str()).collect();
        words.join(", ")
    };
    match (own, answer) {
        (Some(own), _) if told == [own] => "the same reason".to_owned(),
        (Some(_), _) if told.len() + 1 == every.len() => "any other reason".to_owned(),
        (Some(own), Answer::Moves { .. }) => {
            let with_own = |why: &&String| named(why) || *why == own;
            let all: Vec<&String> = every.iter().filter(with_own).collect();
            format!("another of {}", list(&all))
        }
        (Some(_), Answer::Refused(_)) | (None, _) => list(&told),
    }
}
