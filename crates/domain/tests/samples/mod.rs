//! One state of each kind and one input of each kind, by names that tests and tables use.

use fencepost_domain::B256;
use fencepost_domain::attempt::{self, Outcome};
use fencepost_domain::confirmation::{Publish, Stretch};
use fencepost_domain::ids::{Height, Nonce};
use fencepost_domain::state::{
    Allocated, Block, Confirmed, Execution, Failed, Inclusion, Lent, Queued, Recyclable, Reserved,
    Seen, Signing, State, Stuck, Submitted, Tracking, Used, Wait, Why,
};
use fencepost_domain::transition::Input;

/// The newest attempt of every sample that has one.
const NEWEST: B256 = B256::repeat_byte(0x11);
const NEW: B256 = B256::repeat_byte(0x22);
const FOREIGN: B256 = B256::repeat_byte(0xf0);
const ANOTHER: B256 = B256::repeat_byte(0xf1);

fn nonce() -> Nonce {
    Nonce::new(7).expect("small")
}

fn included(by: attempt::Kind, execution: Execution, height: u64) -> Inclusion {
    let number = Height::new(height).expect("small");
    Inclusion {
        block: Block {
            number,
            hash: B256::left_padding_from(&height.to_be_bytes()),
        },
        hash: NEWEST,
        by,
        execution,
    }
}

fn here(by: attempt::Kind) -> Inclusion {
    included(by, Execution::Success, 100)
}

/// The block on top of where the samples are mined.
fn on_top(parent: B256) -> Stretch {
    let top = included(attempt::Kind::Original, Execution::Success, 101).block;
    Stretch::new(parent, top.number, vec![top.hash]).expect("one block")
}

fn published() -> [(&'static str, Publish); 4] {
    let own = here(attempt::Kind::Original).block.hash;
    [
        ("nothing", Publish::Nothing),
        ("more", Publish::Append(on_top(own))),
        ("anew", Publish::Replace(on_top(own))),
        ("beside", Publish::Replace(on_top(ANOTHER))),
    ]
}

/// The name of a state: its words, and what else decides what can happen to it.
pub(crate) fn label(state: &State) -> String {
    let words = match state.sub() {
        Some(sub) => format!("{}/{sub}", state.name().word()),
        None => state.name().word().to_owned(),
    };
    format!("{words}{}", qualifier(state))
}

fn qualifier(state: &State) -> &'static str {
    match state {
        State::Stuck(Stuck { hash, foreign, .. })
        | State::Failed(Failed::NonceTaken { hash, foreign, .. }) => match (hash, foreign) {
            (Some(_), None) => "",
            (None, None) => " unsigned",
            (Some(_), Some(_)) => " known",
            (None, Some(_)) => " unsigned known",
        },
        State::Failed(Failed::Cancelled(None) | Failed::Rejected { gave_back: None }) => {
            " in queue"
        }
        State::Used(Used { hash, at, .. }) => match (hash, at) {
            (_, Some(_)) => "",
            (Some(_), None) => " by another",
            (None, None) => " unnamed",
        },
        State::Queued(_)
        | State::Allocated(_)
        | State::Tracking(_)
        | State::Confirmed(_)
        | State::Failed(_)
        | State::Reserved(_)
        | State::Submitted(_)
        | State::Recyclable(_) => "",
    }
}

/// Every state with every sub-state, in the order of the design.
pub(crate) fn states() -> Vec<State> {
    let nonce = nonce();
    let mut all: Vec<State> = Wait::ALL
        .iter()
        .map(|&wait| State::Queued(Queued { wait }))
        .collect();
    let signings = [
        Signing::Unsigned,
        Signing::Signed(NEWEST),
        Signing::Refused(NEWEST),
    ];
    all.extend(signings.map(|bytes| State::Allocated(Allocated { nonce, bytes })));
    let sights = [
        Seen::Broadcast,
        Seen::Ambiguous,
        Seen::Mined(here(attempt::Kind::Original)),
        Seen::Reorged,
    ];
    let hash = NEWEST;
    all.extend(sights.map(|seen| State::Tracking(Tracking { nonce, hash, seen })));
    all.push(State::Confirmed(Confirmed {
        nonce,
        at: here(attempt::Kind::Original),
    }));
    all.extend(failures().map(State::Failed));
    all.extend(stuck());
    all.push(State::Reserved(Reserved { nonce }));
    let sights = [
        Lent::Awaited,
        Lent::Mined(here(attempt::Kind::External)),
        Lent::Reorged,
    ];
    all.extend(sights.map(|seen| State::Submitted(Submitted { nonce, hash, seen })));
    let uses = [
        (Some(NEWEST), Some(here(attempt::Kind::External)), None),
        (Some(NEWEST), None, Some(FOREIGN)),
        (None, None, Some(FOREIGN)),
    ];
    all.extend(uses.map(|(hash, at, foreign)| {
        State::Used(Used {
            nonce,
            hash,
            at,
            foreign,
        })
    }));
    all.push(State::Recyclable(Recyclable { gave_back: nonce }));
    all
}

fn failures() -> [Failed; 11] {
    let nonce = nonce();
    let reverted = included(attempt::Kind::Original, Execution::Reverted, 100);
    let taken = |hash| Failed::NonceTaken {
        nonce,
        hash,
        foreign: None,
    };
    [
        Failed::Reverted(nonce, reverted),
        Failed::Cancelled(Some((nonce, here(attempt::Kind::Cancel)))),
        Failed::Cancelled(None),
        Failed::Placeholder(nonce, here(attempt::Kind::Placeholder)),
        Failed::Substituted(nonce, here(attempt::Kind::Substitute)),
        taken(Some(NEWEST)),
        taken(None),
        Failed::NonceTaken {
            nonce,
            hash: Some(NEWEST),
            foreign: Some(FOREIGN),
        },
        Failed::Expired,
        Failed::Rejected {
            gave_back: Some(nonce),
        },
        Failed::Rejected { gave_back: None },
    ]
}

/// Signed for every reason, unsigned where that can be, with the thief known where there is one.
fn stuck() -> Vec<State> {
    let mut all = Vec::new();
    for &why in Why::ALL {
        let (hashes, thieves): (&[_], &[_]) = match why {
            Why::NoReceipt | Why::Refused => (&[Some(NEWEST)], &[None]),
            Why::Gap | Why::NoFunds | Why::SignerError | Why::ReorgAfterFinal | Why::Tampered => {
                (&[Some(NEWEST), None], &[None])
            }
            Why::NonceTaken => (&[Some(NEWEST), None], &[None, Some(FOREIGN)]),
        };
        for &hash in hashes {
            all.extend(thieves.iter().map(|&foreign| {
                State::Stuck(Stuck {
                    nonce: nonce(),
                    hash,
                    why,
                    foreign,
                })
            }));
        }
    }
    all
}

/// Every input by name. `new` bytes differ from the newest ones, `again` are the same; `here` is
/// the block that mined samples are in, successfully, and `reverted` is there, too; `own` is the
/// newest attempt taken for a foreign one.
pub(crate) fn inputs() -> Vec<(String, Input)> {
    let mut all: Vec<(String, Input)> = Vec::new();
    let mut add = |name: String, input| all.push((name, input));
    add("allocate".into(), Input::Allocate(nonce()));
    add("expire".into(), Input::Expire);
    add("reject".into(), Input::Reject);
    add("cancel".into(), Input::Cancel);
    for &kind in attempt::Kind::ALL {
        add(format!("sign {} new", kind.word()), Input::Sign(kind, NEW));
        add(
            format!("sign {} again", kind.word()),
            Input::Sign(kind, NEWEST),
        );
    }
    for &outcome in Outcome::ALL {
        add(format!("sent {}", outcome.word()), Input::Sent(outcome));
    }
    for &kind in attempt::Kind::ALL {
        let places = [
            ("here", here(kind)),
            ("elsewhere", included(kind, Execution::Success, 101)),
            ("reverted", included(kind, Execution::Reverted, 100)),
        ];
        for (place, at) in places {
            add(format!("mined {} {place}", kind.word()), Input::Mined(at));
        }
    }
    add("reorged".into(), Input::Reorged);
    for (name, publish) in published() {
        add(format!("covered {name}"), Input::Covered(publish));
    }
    add("final".into(), Input::Final);
    let thieves = [
        ("unknown", None),
        ("foreign", Some(FOREIGN)),
        ("another", Some(ANOTHER)),
        ("own", Some(NEWEST)),
    ];
    for (name, thief) in thieves {
        add(format!("taken {name}"), Input::Taken(thief));
        add(format!("takenfinal {name}"), Input::TakenFinal(thief));
    }
    for &why in Why::ALL {
        add(format!("stick {}", why.word()), Input::Stick(why));
    }
    add("clear".into(), Input::Clear);
    add("submit same".into(), Input::Submit(NEWEST));
    add("submit other".into(), Input::Submit(NEW));
    add("recycle".into(), Input::Recycle);
    all
}
