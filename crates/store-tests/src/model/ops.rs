//! What can be tried in a run, with nothing resolved yet: a number picks whatever is there when its
//! turn comes, so that a run stays meaningful when it is cut down to find the shortest that fails.

use std::ops::Range;

use proptest::prelude::*;

/// How many nodes and lanes a run has.
pub(super) const NODES: usize = 3;
pub(super) const LANES: usize = 3;

/// Who acts.
#[derive(Debug, Clone, Copy)]
pub(super) enum Who {
    /// The lane's leader, with its token.
    Leader,
    /// This node, with the newest token it has learnt.
    Node(usize),
}

/// What is wrong with a write, if anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Slip {
    None,
    Token,
    Cursor,
    Free,
    Version,
}

/// One row to be stored.
#[derive(Debug, Clone, Copy)]
pub(super) struct Item {
    /// 0: managed, 1: reserved, 2: placeholder.
    pub(super) kind: usize,
    /// An id that was used before, if any.
    pub(super) again: Option<usize>,
    pub(super) name: Option<usize>,
    pub(super) wei: u64,
    pub(super) nonce: u64,
}

/// One move.
#[derive(Debug, Clone, Copy)]
pub(super) struct Step {
    pub(super) tx: usize,
    pub(super) input: usize,
    /// A hash that was used before, if any.
    pub(super) again: Option<usize>,
    pub(super) due_later: bool,
    pub(super) closes: Option<usize>,
}

/// One thing to try.
#[derive(Debug, Clone)]
pub(super) enum Op {
    Join(usize),
    Beat(usize),
    Acquire {
        node: usize,
        lane: usize,
        fresh: bool,
        ghost: bool,
    },
    Renew {
        who: Who,
        lane: usize,
    },
    Release {
        who: Who,
        lane: usize,
    },
    Advance(usize),
    Create {
        who: Who,
        lane: usize,
        slip: Slip,
        items: Vec<Item>,
    },
    Enqueue {
        lane: usize,
        items: Vec<Item>,
        max: usize,
    },
    Promote {
        who: Who,
        lane: usize,
        slip: Slip,
        skip: bool,
        count: usize,
    },
    Move {
        who: Who,
        slip: Slip,
        steps: Vec<Step>,
    },
    ClaimDue {
        who: Who,
        lane: usize,
    },
    Ask {
        tx: usize,
        round: u32,
        /// Of the policy, instead of for a replacement.
        policy: bool,
    },
    ClaimRemedies {
        who: Who,
        lane: usize,
    },
    Decide {
        who: Who,
        slip: Slip,
        /// Which question, or, where there is none, which remedy.
        remedy: usize,
        action: usize,
    },
    Settle {
        tx: usize,
        act: usize,
        again: Option<usize>,
        wrong: bool,
    },
    Pause {
        lane: usize,
        change: usize,
        at_least: u64,
    },
    Raise {
        who: Who,
        lane: usize,
        to: u64,
    },
    Forget {
        who: Who,
        lane: usize,
        below: u64,
    },
    Lower {
        lane: usize,
        to: u64,
    },
}

const ANY: Range<usize> = 0..1_000;

fn who() -> impl Strategy<Value = Who> {
    prop_oneof![9 => Just(Who::Leader), 1 => (0..NODES).prop_map(Who::Node)]
}

fn slip(kinds: &'static [Slip]) -> impl Strategy<Value = Slip> {
    prop_oneof![9 => Just(Slip::None), 1 => prop::sample::select(kinds)]
}

fn seldom<T: std::fmt::Debug + Clone>(
    what: impl Strategy<Value = T>,
) -> impl Strategy<Value = Option<T>> {
    prop::option::weighted(0.2, what)
}

fn item() -> impl Strategy<Value = Item> {
    let kind = prop_oneof![6 => Just(0_usize), 3 => Just(1), 1 => Just(2)];
    let name = prop::option::weighted(0.3, 0..3_usize);
    (kind, seldom(ANY), name, 0..2_u64, 0..8_u64).prop_map(|(kind, again, name, wei, nonce)| Item {
        kind,
        again,
        name,
        wei,
        nonce,
    })
}

fn step() -> impl Strategy<Value = Step> {
    (
        ANY,
        ANY,
        seldom(ANY),
        prop::bool::weighted(0.2),
        seldom(ANY),
    )
        .prop_map(|(tx, input, again, due_later, closes)| Step {
            tx,
            input,
            again,
            due_later,
            closes,
        })
}

fn leading() -> impl Strategy<Value = Op> {
    let lane = 0..LANES;
    prop_oneof![
        1 => (0..NODES).prop_map(Op::Join),
        1 => (0..NODES).prop_map(Op::Beat),
        12 => (0..NODES, lane.clone(), prop::bool::weighted(0.1), prop::bool::weighted(0.1))
            .prop_map(|(node, lane, fresh, ghost)| Op::Acquire { node, lane, fresh, ghost }),
        1 => (who(), lane.clone()).prop_map(|(who, lane)| Op::Renew { who, lane }),
        1 => (who(), lane).prop_map(|(who, lane)| Op::Release { who, lane }),
        2 => (0..5_usize).prop_map(Op::Advance),
    ]
}

fn accepting() -> impl Strategy<Value = Op> {
    const SLIPS: &[Slip] = &[Slip::Token, Slip::Cursor, Slip::Free];
    let lane = 0..LANES;
    prop_oneof![
        6 => (who(), lane.clone(), slip(SLIPS), prop::collection::vec(item(), 1..5))
            .prop_map(|(who, lane, slip, items)| Op::Create { who, lane, slip, items }),
        2 => (lane.clone(), prop::collection::vec(item(), 1..4), 1..6_usize)
            .prop_map(|(lane, items, max)| Op::Enqueue { lane, items, max }),
        3 => (who(), lane, slip(SLIPS), prop::bool::weighted(0.1), 1..4_usize).prop_map(
            |(who, lane, slip, skip, count)| Op::Promote { who, lane, slip, skip, count }
        ),
    ]
}

fn moving() -> impl Strategy<Value = Op> {
    const SLIPS: &[Slip] = &[Slip::Token, Slip::Version];
    let lane = 0..LANES;
    prop_oneof![
        9 => (who(), slip(SLIPS), prop::collection::vec(step(), 1..4))
            .prop_map(|(who, slip, steps)| Op::Move { who, slip, steps }),
        1 => (who(), lane).prop_map(|(who, lane)| Op::ClaimDue { who, lane }),
    ]
}

fn operating() -> impl Strategy<Value = Op> {
    let lane = 0..LANES;
    prop_oneof![
        4 => (ANY, ANY, seldom(ANY), prop::bool::weighted(0.1))
            .prop_map(|(tx, act, again, wrong)| Op::Settle { tx, act, again, wrong }),
        2 => (lane.clone(), 0..4_usize, 0..8_u64)
            .prop_map(|(lane, change, at_least)| Op::Pause { lane, change, at_least }),
        1 => (who(), lane.clone(), 0..8_u64)
            .prop_map(|(who, lane, to)| Op::Raise { who, lane, to }),
        1 => (who(), lane.clone(), 0..8_u64)
            .prop_map(|(who, lane, below)| Op::Forget { who, lane, below }),
        1 => (lane, 0..8_u64).prop_map(|(lane, to)| Op::Lower { lane, to }),
    ]
}

fn caring() -> impl Strategy<Value = Op> {
    prop_oneof![
        2 => (ANY, 1..4_u32, prop::bool::weighted(0.7))
            .prop_map(|(tx, round, policy)| Op::Ask { tx, round, policy }),
        3 => (who(), 0..LANES).prop_map(|(who, lane)| Op::ClaimRemedies { who, lane }),
        3 => (who(), slip(&[Slip::Token]), ANY, ANY)
            .prop_map(|(who, slip, remedy, action)| Op::Decide { who, slip, remedy, action }),
    ]
}

/// A run.
pub(super) fn runs() -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        3 => leading(), 4 => accepting(), 8 => moving(), 3 => operating(), 5 => caring()
    ];
    prop::collection::vec(op, 1..100)
}
