//! How long a lane stands still when its leader is killed: until somebody accepts for it again, and until
//! somebody gives a nonce again. Both are read out of the clients' log and the database.

use std::collections::{BTreeMap, HashMap};

use serde::Serialize;

use crate::facts::Rows;
use crate::note::{Meaning, Micros, Note};
use crate::world::config::{LEASE_MS, SKEW_MS};

/// A fault that was over so long before a kill has nothing to do with what follows.
const BEFORE: Micros = 500_000;
/// Nor has one that begins when the lease has run out and another node has had a second to notice.
const AFTER: Micros = (LEASE_MS + SKEW_MS + 1_000) * 1_000;

/// Milliseconds.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Figures {
    pub(crate) count: usize,
    pub(crate) median_ms: Option<u64>,
    pub(crate) worst_ms: Option<u64>,
}

#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Failover {
    pub(crate) kills: usize,
    /// To the first good answer for a request that was sent after the kill.
    pub(crate) accept: Figures,
    /// To the next nonce of the lane.
    pub(crate) allocation: Figures,
    /// The same, of kills that no other fault was near.
    pub(crate) accept_undisturbed: Figures,
    pub(crate) allocation_undisturbed: Figures,
}

fn figures(mut times: Vec<Micros>) -> Figures {
    times.sort_unstable();
    let ms = |time: Option<&Micros>| time.map(|time| time / 1_000);
    Figures {
        count: times.len(),
        median_ms: ms(times.get(times.len() / 2)),
        worst_ms: ms(times.last()),
    }
}

/// For each lane, when requests that were sent later than the key were accepted first.
type Accepted = HashMap<usize, BTreeMap<Micros, Micros>>;

fn accepted(notes: &[Note]) -> Accepted {
    let mut lanes: HashMap<&str, usize> = HashMap::new();
    let mut accepted: Accepted = HashMap::new();
    for note in notes {
        if let Note::Asked { request, lane, .. } = note {
            lanes.insert(request, *lane);
        }
        if let Note::Told {
            request,
            sent,
            at,
            answer,
            ..
        } = note
            && answer.meaning() == Meaning::Done
            && let Some(lane) = lanes.get(request.as_str())
        {
            accepted.entry(*lane).or_default().insert(*at, *sent);
        }
    }
    accepted
}

fn is_disturbed(notes: &[Note], killed: Micros) -> bool {
    let near = notes.iter().filter(|note| {
        if let Note::Fault { at, until, .. } = note {
            // The kill's own note ends after it and begins at most a moment before it.
            *at < killed + AFTER && killed < *until + BEFORE
        } else {
            false
        }
    });
    near.count() > 1
}

pub(crate) fn measure(notes: &[Note], rows: &Rows) -> Failover {
    let accepted = accepted(notes);
    let mut given: HashMap<usize, Vec<Micros>> = HashMap::new();
    for (lane, at) in &rows.given {
        given.entry(*lane).or_default().push(*at);
    }
    // All, then undisturbed.
    let (mut accepts, mut allocations) = ([vec![], vec![]], [vec![], vec![]]);
    let mut kills = 0;
    for note in notes {
        let Note::Killed { at, lanes, .. } = note else {
            continue;
        };
        kills += 1;
        let disturbed = is_disturbed(notes, *at);
        for lane in lanes {
            let later = accepted.get(lane).into_iter().flatten();
            let mut later = later.filter(|(told, sent)| *told > at && *sent >= at);
            if let Some((told, _)) = later.next() {
                accepts[0].push(told - at);
                accepts[1].extend((!disturbed).then_some(told - at));
            }
            let times = given.get(lane).map_or(&[][..], Vec::as_slice);
            let next = times.partition_point(|time| time <= at);
            if let Some(time) = times.get(next) {
                allocations[0].push(time - at);
                allocations[1].extend((!disturbed).then_some(time - at));
            }
        }
    }
    let [accept, accept_undisturbed] = accepts.map(figures);
    let [allocation, allocation_undisturbed] = allocations.map(figures);
    Failover {
        kills,
        accept,
        allocation,
        accept_undisturbed,
        allocation_undisturbed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::note::{Answer, Purpose};

    fn told(request: &str, sent: Micros, at: Micros, status: u16) -> Note {
        let answer = Answer {
            status: Some(status),
            ..Answer::default()
        };
        Note::Told {
            at,
            sent,
            request: request.into(),
            node: 0,
            answer,
        }
    }

    #[test]
    fn a_failover_ends_with_the_first_good_answer_to_what_was_sent_after_the_kill() {
        let asked = Note::Asked {
            at: 0,
            request: "r".into(),
            lane: 2,
            value: 1,
            purpose: Purpose::Transfer,
        };
        let killed = Note::Killed {
            at: 1_000_000,
            node: 0,
            lanes: vec![2],
        };
        let notes = [
            asked,
            killed,
            told("r", 900_000, 1_100_000, 202),
            told("r", 1_050_000, 1_200_000, 503),
            told("r", 1_300_000, 1_400_000, 200),
        ];
        let rows = Rows {
            given: vec![(2, 900_000), (1, 1_100_000), (2, 4_000_000)],
            ..Rows::default()
        };
        let found = measure(&notes, &rows);
        assert_eq!(found.accept.worst_ms, Some(400));
        assert_eq!(found.allocation_undisturbed.median_ms, Some(3_000));
        assert_eq!((found.kills, found.accept.count), (1, 1));
    }
}
