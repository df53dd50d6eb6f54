//! Any text is a configuration or has mistakes that are told: nothing panics, no mistake is without a
//! reason, and what is printed of a good one reads back as the same.

use proptest::prelude::*;
use proptest::sample::Index;

use super::super::Config;
use super::super::environment::Environment;
use super::super::problem::Problems;
use super::LEAST;

/// Every key there is, with its default.
const DEFAULTS: &str = include_str!("../../../../../config.default.toml");

/// The names of all keys, with the table that they stand in.
fn keys() -> Vec<String> {
    let mut table = String::new();
    let mut keys = Vec::new();
    for line in DEFAULTS.lines() {
        let line = line.strip_prefix('#').unwrap_or(line);
        if let Some(name) = line.strip_prefix('[') {
            table = name.trim_matches(['[', ']']).to_owned();
        } else if let Some((name, _)) = line.split_once(" = ")
            && !name.contains(' ')
        {
            keys.push(format!("{table}.{name}"));
        }
    }
    keys
}

/// What may stand behind a key, some of it of the wrong kind or out of range.
fn value() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<i64>().prop_map(|number| number.to_string()),
        any::<f64>().prop_map(|number| format!("{number:?}")),
        any::<bool>().prop_map(|flag| flag.to_string()),
        "[0-9]{1,25}(ns|ms|s|m|h|days|years|gwei|wei|)".prop_map(|text| format!("'{text}'")),
        "[0-9]{0,40}[.][0-9]{0,12}gwei".prop_map(|text| format!("'{text}'")),
        "(http|https|postgres|sqlite|wss)://[a-z:@/?#%\\[\\].0-9-]{0,20}"
            .prop_map(|text| format!("'{text}'")),
        "0x[0-9a-fA-F]{0,42}".prop_map(|text| format!("'{text}'")),
        any::<String>().prop_map(|text| toml::Value::String(text).to_string()),
        Just("[]".to_owned()),
        Just("['main', 7]".to_owned()),
        Just("{ a = 1 }".to_owned()),
        Just("1979-05-27".to_owned()),
    ]
}

/// Some keys set to something, and the least that must be there.
fn settings() -> impl Strategy<Value = String> {
    let setting = (prop::sample::select(keys()), value());
    prop::collection::vec(setting, 1..4).prop_map(|settings| {
        let (mut tables, mut chains, mut signers) = (String::new(), String::new(), String::new());
        for (key, value) in settings {
            let (table, name) = key.split_once('.').unwrap();
            match table {
                "chain" => chains += &format!("{name} = {value}\n"),
                "signer" => signers += &format!("{name} = {value}\n"),
                _ => tables += &format!("{key} = {value}\n"),
            }
        }
        let signer = if signers.is_empty() {
            ""
        } else {
            "[[signer]]\n"
        };
        format!("{tables}{LEAST}{chains}{signer}{signers}")
    })
}

/// The default file, damaged in one place.
fn damaged() -> impl Strategy<Value = String> {
    (any::<Index>(), any::<Index>(), ".{0,4}").prop_map(|(from, length, put)| {
        let mut text: Vec<char> = DEFAULTS.chars().collect();
        let from = from.index(text.len());
        let to = (from + length.index(8)).min(text.len());
        text.splice(from..to, put.chars());
        text.into_iter().collect()
    })
}

fn check(text: &str, environment: &Environment) {
    match Config::parse(text, environment) {
        Ok(config) => {
            let printed = config.print();
            match Config::parse(&printed, &Environment::default()) {
                Ok(again) => assert_eq!(again.print(), printed, "{text}"),
                Err(problems) => panic!("{text}\nis printed as\n{printed}\n{problems}"),
            }
        }
        Err(Problems(problems)) => {
            assert!(!problems.is_empty(), "{text}");
            assert!(problems.iter().all(|problem| !problem.why.is_empty()));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_setting_is_taken_or_told(text in settings()) {
        check(&text, &Environment::default());
    }

    #[test]
    fn any_damage_is_taken_or_told(text in prop_oneof![4 => damaged(), 1 => any::<String>()]) {
        check(&text, &Environment::default());
    }

    #[test]
    fn any_variable_is_taken_or_told(key in prop::sample::select(keys()), value in value()) {
        let name = key.to_uppercase().replace('.', "__").replace("CHAIN__", "CHAIN__0__");
        let environment = Environment::default()
            .with(&format!("FENCEPOST__{name}"), value.trim_matches('\''));
        check(LEAST, &environment);
    }
}
