//! Goal: promises that need a transaction's whole life to be stated. Method: rows as they are
//! created, and random things happening to them; what was ever signed is remembered beside.

use fencepost_domain::B256;
use fencepost_domain::attempt::{self, Outcome};
use fencepost_domain::confirmation::{Publish, Stretch};
use fencepost_domain::ids::{Height, Nonce};
use fencepost_domain::state::{
    Allocated, Block, Execution, Inclusion, Kind, Queued, Reserved, Signing, State, Wait, Why,
};
use fencepost_domain::transition::Input;
use proptest::prelude::*;
use proptest::sample::select;

/// Few enough that the same one comes again.
fn hash() -> impl Strategy<Value = B256> {
    prop_oneof![
        4 => (1_u8..=4).prop_map(B256::repeat_byte),
        1 => any::<[u8; 32]>().prop_map(B256::from),
    ]
}

fn nonce() -> impl Strategy<Value = Nonce> {
    prop_oneof![0..=3_u64, Just(Nonce::MAX.get()), 0..Nonce::MAX.get()]
        .prop_map(|n| Nonce::new(n).expect("in range"))
}

fn inclusion() -> impl Strategy<Value = Inclusion> {
    let number = prop_oneof![0..=3_u64, 0..=Height::MAX.get()]
        .prop_map(|n| Height::new(n).expect("in range"));
    let by = select(attempt::Kind::ALL);
    (number, hash(), hash(), by, select(Execution::ALL)).prop_map(
        |(number, block_hash, hash, by, execution)| Inclusion {
            block: Block {
                number,
                hash: block_hash,
            },
            hash,
            by,
            execution,
        },
    )
}

/// What moves a transaction on comes more often than what ends it.
fn input() -> impl Strategy<Value = Input> {
    prop_oneof![
        3 => nonce().prop_map(Input::Allocate),
        1 => Just(Input::Expire),
        1 => Just(Input::Reject),
        1 => Just(Input::Cancel),
        8 => (select(attempt::Kind::ALL), hash()).prop_map(|(kind, hash)| Input::Sign(kind, hash)),
        6 => select(Outcome::ALL).prop_map(Input::Sent),
        6 => inclusion().prop_map(Input::Mined),
        4 => Just(Input::Reorged),
        2 => (inclusion(), any::<bool>(), hash()).prop_map(|(at, anew, top)| {
            let above = at.block.number.plus(1).unwrap_or(at.block.number);
            let top = Stretch::new(at.block.hash, above, vec![top]).expect("one block");
            Input::Covered(if anew { Publish::Replace(top) } else { Publish::Append(top) })
        }),
        3 => Just(Input::Final),
        2 => prop::option::of(hash()).prop_map(Input::Taken),
        2 => prop::option::of(hash()).prop_map(Input::TakenFinal),
        4 => select(Why::ALL).prop_map(Input::Stick),
        2 => Just(Input::Clear),
        3 => hash().prop_map(Input::Submit),
        1 => Just(Input::Recycle),
    ]
}

/// A row as it is created, and its kind.
fn created() -> impl Strategy<Value = (Kind, State)> {
    let ours = || select(&[Kind::Managed, Kind::Placeholder][..]);
    let queued = select(Wait::ALL).prop_map(|wait| State::Queued(Queued { wait }));
    let allocated = nonce().prop_map(|nonce| {
        State::Allocated(Allocated {
            nonce,
            bytes: Signing::Unsigned,
        })
    });
    let reserved = nonce().prop_map(|nonce| State::Reserved(Reserved { nonce }));
    prop_oneof![
        (ours(), queued),
        (ours(), allocated),
        (Just(Kind::Reserved), reserved),
    ]
}

/// What a life has shown so far.
#[derive(Default)]
struct Past {
    nonce: Option<Nonce>,
    signed: bool,
}

impl Past {
    /// A nonce is kept for ever once bytes exist, and given back only when none ever did.
    fn admits(&self, state: &State) -> Result<(), TestCaseError> {
        match (self.nonce, state.nonce()) {
            (Some(before), Some(now)) => prop_assert_eq!(before, now),
            (Some(before), None) => {
                prop_assert_eq!(state.gave_back(), Some(before));
                prop_assert!(!self.signed);
            }
            (None, Some(_)) => prop_assert!(!self.signed),
            (None, None) => {}
        }
        // Bytes need a nonce, and are never forgotten.
        prop_assert_eq!(state.hash().is_some(), self.signed);
        Ok(())
    }
}

/// A failure prints its smallest case; that belongs into a test of its own, not into a seed file.
fn config() -> ProptestConfig {
    ProptestConfig {
        cases: 2_000,
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn no_life_breaks_a_promise(
        (kind, first) in created(),
        inputs in prop::collection::vec(input(), 0..60),
    ) {
        let mut past = Past { nonce: first.nonce(), signed: false };
        let mut state = first;
        for input in inputs {
            let before = state.clone();
            let Ok(moved) = state.clone().apply(input.clone()) else {
                continue;
            };
            state = moved.to;
            past.signed |= matches!(input, Input::Sign(..) | Input::Submit(_));
            past.admits(&state)?;
            past.nonce = state.nonce();
            if before.is_final() && !state.is_final() {
                prop_assert_eq!(&input, &Input::Reorged);
            }
            prop_assert!(state.fits(kind));
            prop_assert_eq!(State::from_flat(&state.flat()), Ok(state.clone()));
            if moved.event.kind.is_told() {
                prop_assert!(state.is_told());
            }
        }
    }
}
