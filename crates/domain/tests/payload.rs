//! Goal: no words of a client break the reading of a payload, and what is stored of one says the
//! payload and nothing else. Method: random words, near misses, and spoiled stored bytes.

use fencepost_domain::request::{Ceilings, Draft, Payload};
use fencepost_domain::{Address, U256};
use proptest::prelude::*;
use proptest::sample::select;

const CEILINGS: Ceilings = Ceilings {
    max_fee: 1_000_000,
    max_priority_fee: 1_000,
};

fn number() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => (0..=20_u64, any::<bool>()).prop_map(|(n, hex)| spelled(n.into(), hex)),
        2 => (0..=20_000_000_u64, any::<bool>()).prop_map(|(n, hex)| spelled(n.into(), hex)),
        1 => (any::<u128>(), any::<bool>()).prop_map(|(n, hex)| spelled(n, hex)),
        1 => any::<[u8; 32]>().prop_map(|bytes| U256::from_be_bytes(bytes).to_string()),
    ]
}

fn spelled(n: u128, hex: bool) -> String {
    if hex {
        format!("{n:#x}")
    } else {
        n.to_string()
    }
}

fn address() -> impl Strategy<Value = String> {
    let bytes = prop_oneof![(0_u8..3).prop_map(|b| [b; 20]), any::<[u8; 20]>()];
    (bytes, 0..3_u8).prop_map(|(bytes, case)| {
        let text = Address::from(bytes).to_checksum(None);
        match case {
            0 => text,
            1 => text.to_lowercase(),
            _ => format!("0x{}", text[2..].to_uppercase()),
        }
    })
}

fn data(bytes_max: usize) -> impl Strategy<Value = String> {
    prop::collection::vec(0_u8..3, 0..=bytes_max).prop_map(|bytes| {
        let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("0x{digits}")
    })
}

fn word() -> impl Strategy<Value = String> {
    (0_u8..3).prop_map(|byte| format!("0x{}", format!("{byte:02x}").repeat(32)))
}

fn any_entry() -> impl Strategy<Value = (String, Vec<String>)> {
    (
        any::<String>(),
        prop::collection::vec(any::<String>(), 0..3),
    )
}

/// Mostly what the field wants, sometimes anything.
fn field(good: impl Strategy<Value = String> + 'static) -> BoxedStrategy<Option<String>> {
    let odd = select(&["", "0x", "0x0x00", "-1", " 1", "1e3", "0X1", "１", "0xé"][..]);
    let text = prop_oneof![
        30 => good,
        1 => odd.prop_map(str::to_owned),
        1 => any::<String>(),
    ];
    prop::option::of(text).boxed()
}

fn draft() -> impl Strategy<Value = Draft> {
    let entry = (address(), prop::collection::vec(word(), 0..3));
    let fees = prop_oneof![
        (Just(None), Just(None), Just(None)),
        (field(number()), Just(None), Just(None)),
        (Just(None), field(number()), field(number())),
        (field(number()), field(number()), field(number())),
    ];
    (
        field(address()),
        field(number()),
        field(data(40)),
        prop_oneof![Just(None), field(number())],
        fees,
        prop::option::of(prop::collection::vec(entry, 0..3)),
    )
        .prop_map(|(to, value, data, gas, fees, access_list)| {
            let (gas_price, max_fee_per_gas, max_priority_fee_per_gas) = fees;
            Draft {
                to,
                value,
                data,
                gas,
                gas_price,
                max_fee_per_gas,
                max_priority_fee_per_gas,
                access_list,
            }
        })
}

fn valid() -> impl Strategy<Value = Payload> {
    draft().prop_filter_map("refused", |draft| Payload::parse(&draft, CEILINGS).ok())
}

/// Payloads of very few values, so that two of them are often the same.
fn narrow() -> impl Strategy<Value = Payload> {
    let given = |words: &'static [&'static str]| prop::option::of(select(words));
    (
        given(&["0x10", "16", "0", "0x0"]),
        given(&["0x", "0x00", "0xab", "0xAB"]),
        given(&["100000", "0x186a0"]),
        given(&["5", "0x5"]),
        prop::option::of(prop::collection::vec(word(), 0..2)),
    )
        .prop_map(|(value, data, gas, tip, keys)| {
            let text = |word: Option<&str>| word.map(str::to_owned);
            let to = Address::ZERO.to_string();
            let draft = Draft {
                to: Some(to.clone()),
                value: text(value),
                data: text(data),
                gas: text(gas),
                max_priority_fee_per_gas: text(tip),
                access_list: keys.map(|keys| vec![(to, keys)]),
                ..Draft::default()
            };
            Payload::parse(&draft, CEILINGS).expect("every combination is valid")
        })
}

/// A failure prints its smallest case; that belongs into a test of its own, not into a seed file.
fn config() -> ProptestConfig {
    ProptestConfig {
        cases: 1_000,
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn any_words_are_read_or_refused_with_reasons(
        words in prop::collection::vec(prop::option::of(any::<String>()), 7),
        access in prop::option::of(prop::collection::vec(any_entry(), 0..3)),
        max_fee in any::<u128>(),
        max_priority_fee in any::<u128>(),
    ) {
        let mut words = words.into_iter();
        let mut next = || words.next().flatten();
        let draft = Draft {
            to: next(),
            value: next(),
            data: next(),
            gas: next(),
            gas_price: next(),
            max_fee_per_gas: next(),
            max_priority_fee_per_gas: next(),
            access_list: access,
        };
        if let Err(wrong) = Payload::parse(&draft, Ceilings { max_fee, max_priority_fee }) {
            prop_assert!(!wrong.is_empty());
            for invalid in wrong {
                prop_assert!(!invalid.to_string().is_empty());
            }
        }
    }

    #[test]
    fn near_misses_never_panic(draft in draft()) {
        let parsed = Payload::parse(&draft, CEILINGS);
        prop_assert_eq!(parsed.clone(), Payload::parse(&draft, CEILINGS));
    }

    #[test]
    fn what_is_stored_is_read_back(payload in valid()) {
        let read = Payload::from_canonical(payload.canonical());
        prop_assert_eq!(read, Ok(payload));
    }

    #[test]
    fn the_same_request_has_the_same_spelling_and_no_other(one in narrow(), other in narrow()) {
        prop_assert_eq!(one == other, one.canonical() == other.canonical());
        prop_assert_eq!(one == other, one.hash() == other.hash());
    }

    /// A stored payload that we read is one that we would write: no two spellings of one payload.
    #[test]
    fn spoiled_bytes_are_refused_or_another_payload(
        payload in valid(),
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
        how in 0..3_u8,
    ) {
        let mut stored = payload.canonical().to_vec();
        let at = at.index(stored.len());
        match how {
            0 => stored[at] = byte,
            1 => stored.insert(at, byte),
            _ => {
                stored.remove(at);
            }
        }
        if let Ok(read) = Payload::from_canonical(&stored) {
            prop_assert_eq!(read.canonical(), stored);
        }
    }
}
