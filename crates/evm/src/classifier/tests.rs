//! What holds for all clients: what is not about the bytes, whose words count, and how tables are kept.
//! What each of them says is in `clients`.

mod clients;

use fencepost_domain::attempt::Outcome;
use fencepost_domain::rejection::Rejection::{RateLimited, Unrecognised};

use super::*;

const EVERY: [Dialect; 7] = [
    Dialect::Geth,
    Dialect::Reth,
    Dialect::Erigon,
    Dialect::Nethermind,
    Dialect::Besu,
    Dialect::Anvil,
    Dialect::Unknown,
];

#[test]
fn what_is_not_about_the_bytes_is_ambiguous_everywhere() {
    let table = [
        (-32_002, "request timed out", Unrecognised),
        (-32_003, "response too large", Unrecognised),
        (-32_600, "batch too large", Unrecognised),
        (
            -32_601,
            "the method eth_sendRawTransaction does not exist",
            Unrecognised,
        ),
        (-32_005, "limit exceeded", RateLimited),
        (-32_005, "", RateLimited),
        (
            429,
            "Your app has exceeded its compute units per second capacity",
            RateLimited,
        ),
        (-32_000, "Too Many Requests", RateLimited),
        (-32_000, "502 Bad Gateway", Unrecognised),
        (-32_000, "503 Service Temporarily Unavailable", Unrecognised),
        (-32_000, "408 Request Timeout", Unrecognised),
        (-32_000, "unknown transaction type", Unrecognised),
        (-32_000, "something new", Unrecognised),
        (-32_000, "", Unrecognised),
        (
            4,
            "the transaction was added but not mined in time",
            Unrecognised,
        ),
    ];
    for dialect in EVERY {
        for (code, text, why) in table {
            let got = rejection(dialect, code, text);
            assert_eq!(got, why, "{dialect:?}: {text}");
            assert_eq!(got.outcome(), Outcome::Ambiguous);
        }
    }
}

#[test]
fn one_clients_short_words_mean_nothing_in_anothers_mouth() {
    let own = [
        (Dialect::Erigon, "spammer"),
        (Dialect::Erigon, "underpriced"),
        (Dialect::Erigon, "gas limit is too high"),
        (Dialect::Nethermind, "Syncing"),
        (Dialect::Nethermind, "Invalid, whatever"),
        (Dialect::Nethermind, "FeeTooLow"),
        (Dialect::Nethermind, "gas limit reached"),
        (Dialect::Besu, "Upfront cost exceeds account balance"),
        (Dialect::Besu, "Wrong chainId"),
    ];
    for (owner, text) in own {
        for dialect in EVERY {
            let is_known = rejection(dialect, -32_000, text) != Unrecognised;
            assert_eq!(is_known, dialect == owner, "{dialect:?}: {text}");
        }
    }
}

#[test]
fn tables_are_in_lower_case_and_no_line_hides_behind_another() {
    for dialect in EVERY {
        for table in tables(dialect) {
            for (at, entry) in table.iter().enumerate() {
                assert_eq!(entry.text, entry.text.to_lowercase());
                let code = entry.codes.first().copied().unwrap_or_default();
                let first = table.iter().position(|other| other.fits(code, entry.text));
                assert_eq!(first, Some(at), "{dialect:?}: {}", entry.text);
            }
        }
    }
}

#[test]
fn a_text_for_a_person_is_short_and_holds_no_address() {
    let fault = Fault::Node {
        code: -32_000,
        message: format!("see https://rpc.example/KEY {}", "x".repeat(5_000)),
        data: None,
    };
    let reply = reply(Dialect::Geth, &fault).unwrap();
    let text = reply.text.unwrap();
    assert!(text.chars().count() <= 300 && !text.contains("KEY"));
}
