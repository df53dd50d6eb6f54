//! The keys file: TOML with one `[[key]]` for each. Everything that is wrong in it is told at once.

use std::collections::HashSet;
use std::fmt::Display;
use std::sync::Arc;

use fencepost_app::ports::check::KEY_NAME_BYTES_MAX;
use fencepost_domain::{Address, amount};
use jiff::Timestamp;
use toml::{Table, Value};

use super::{Key, Scope};

/// More is a mistake, and every request is compared with every key.
const KEYS_MAX: usize = 10_000;

/// One thing that is wrong in the keys file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {why}")]
pub struct BadKey {
    /// Where.
    pub place: String,
    /// What.
    pub why: String,
}

/// Reads the keys, or tells everything that is wrong in the file.
pub(super) fn read(text: &str) -> Result<Vec<Key>, Vec<BadKey>> {
    let mut wrong = Wrong::default();
    let mut table: Table = match toml::from_str(text) {
        Ok(table) => table,
        Err(error) => {
            // The error's own text would quote the line.
            let line = error.span().map_or(0, |span| {
                text.bytes()
                    .take(span.start)
                    .filter(|b| *b == b'\n')
                    .count()
                    + 1
            });
            wrong.add(&format!("line {line}"), error.message());
            return Err(wrong.0);
        }
    };
    let keys = match table.remove("key") {
        Some(Value::Array(keys)) if !keys.is_empty() && keys.len() <= KEYS_MAX => keys,
        Some(Value::Array(keys)) => {
            let n = keys.len();
            wrong.add(
                "key",
                format_args!("holds {n} keys; 1 to {KEYS_MAX} are allowed"),
            );
            vec![]
        }
        None => {
            wrong.add(
                "key",
                "is missing: without any key nobody could ask anything",
            );
            vec![]
        }
        Some(_) => {
            wrong.add("key", "must be written [[key]]");
            vec![]
        }
    };
    wrong.unknown("", &table);
    let keys = read_all(keys, &mut wrong);
    if wrong.0.is_empty() {
        Ok(keys)
    } else {
        Err(wrong.0)
    }
}

#[derive(Default)]
struct Wrong(Vec<BadKey>);

impl Wrong {
    fn add(&mut self, place: &str, why: impl Display) {
        self.0.push(BadKey {
            place: place.to_owned(),
            why: why.to_string(),
        });
    }

    /// Whatever was not taken out of a table does not belong in it.
    fn unknown(&mut self, place: &str, table: &Table) {
        for field in table.keys() {
            self.add(&format!("{place}{field}"), "is not known here");
        }
    }
}

fn read_all(tables: Vec<Value>, wrong: &mut Wrong) -> Vec<Key> {
    let mut keys: Vec<Key> = Vec::new();
    for (at, table) in tables.into_iter().enumerate() {
        let place = format!("key[{at}]");
        let Value::Table(table) = table else {
            wrong.add(&place, "must be written [[key]]");
            continue;
        };
        let Some(mut key) = read_key(&place, table, wrong) else {
            continue;
        };
        // An old key and its successor have one name, so that audits and rates are not split.
        if let Some(other) = keys.iter().find(|other| other.name == key.name) {
            if !key.is_equal_in_rights(other) {
                let why = "is another key's name, with other scopes, signers or rate_per_second";
                wrong.add(&format!("{place}.name"), why);
            }
            key.rate = Arc::clone(&other.rate);
        }
        if keys.iter().any(|other| other.hash == key.hash) {
            wrong.add(&format!("{place}.sha256"), "is another key's hash");
        }
        keys.push(key);
    }
    keys
}

fn read_key(place: &str, mut table: Table, wrong: &mut Wrong) -> Option<Key> {
    let at = |field: &str| format!("{place}.{field}");
    let name = match table.remove("name") {
        Some(Value::String(name)) if is_name(&name) => Some(name),
        _ => {
            wrong.add(&at("name"), "must be 1 to 100 bytes of printable text");
            None
        }
    };
    let hash = match table.remove("sha256") {
        Some(Value::String(hex)) => amount::word(&format!("0x{hex}")).ok(),
        _ => None,
    };
    if hash.is_none() {
        wrong.add(
            &at("sha256"),
            "must be the 64 hex digits of the key's SHA-256",
        );
    }
    let scopes = read_scopes(&at("scopes"), table.remove("scopes"), wrong);
    let signers = read_signers(&at("signers"), table.remove("signers"), wrong);
    let rate = match table.remove("rate_per_second") {
        None => None,
        Some(Value::Integer(rate)) if u32::try_from(rate).is_ok() => u32::try_from(rate).ok(),
        Some(_) => {
            wrong.add(
                &at("rate_per_second"),
                "must be a whole number, 0 for no limit",
            );
            None
        }
    };
    let expires = read_expiry(&at("expires"), table.remove("expires"), wrong);
    wrong.unknown(&at(""), &table);
    Some(Key {
        name: name?.into(),
        hash: hash?,
        scopes,
        signers: signers.map(Arc::new),
        rate_per_second: rate,
        rate: Arc::default(),
        expires,
    })
}

/// A time of TOML or the same as text. Without an offset it would be another time on each machine.
fn read_expiry(place: &str, given: Option<Value>, wrong: &mut Wrong) -> Option<Timestamp> {
    let given = given?;
    let text = given.as_str().map(str::to_owned);
    let text = text.or_else(|| given.as_datetime().map(ToString::to_string));
    let expires = text.and_then(|text| text.parse().ok());
    if expires.is_none() {
        wrong.add(
            place,
            "must be a time with an offset, such as 2026-12-31T00:00:00Z",
        );
    }
    expires
}

fn is_name(name: &str) -> bool {
    let fits = !name.is_empty() && name.len() <= KEY_NAME_BYTES_MAX;
    fits && name.trim() == name && !name.chars().any(char::is_control)
}

fn read_scopes(place: &str, given: Option<Value>, wrong: &mut Wrong) -> HashSet<Scope> {
    let mut scopes = HashSet::new();
    let Some(Value::Array(words)) = given else {
        wrong.add(place, "must be a list of submit, read and operate");
        return scopes;
    };
    for word in &words {
        let scope = Scope::ALL
            .into_iter()
            .find(|scope| word.as_str() == Some(scope.word()));
        match scope {
            Some(scope) => drop(scopes.insert(scope)),
            None => wrong.add(place, format_args!("{word} is not submit, read or operate")),
        }
    }
    if words.is_empty() {
        wrong.add(place, "is empty: the key could do nothing");
    }
    scopes
}

fn read_signers(place: &str, given: Option<Value>, wrong: &mut Wrong) -> Option<HashSet<Address>> {
    let mut signers = HashSet::new();
    let given = given?;
    let Some(texts) = given.as_array() else {
        wrong.add(place, "must be a list of addresses");
        return None;
    };
    for (at, text) in texts.iter().enumerate() {
        match amount::address(text.as_str().unwrap_or_default()) {
            Ok(signer) => drop(signers.insert(signer)),
            Err(why) => wrong.add(&format!("{place}[{at}]"), why),
        }
    }
    if texts.is_empty() {
        wrong.add(place, "is empty; leave it out to cover all signers");
    }
    Some(signers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::Access;

    const HASH: &str = "5e884898da28047151d0e56f8dc6292773603d0d6aabbdd62a11ef721d1542d8";
    const SIGNER: &str = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed";

    fn places(text: &str) -> Vec<String> {
        let wrong = Access::from_toml(text).unwrap_err();
        wrong.into_iter().map(|bad| bad.place).collect()
    }

    #[test]
    fn a_key_has_a_name_a_hash_scopes_and_perhaps_signers_and_a_rate() {
        let text = format!(
            "[[key]]\nname = \"billing\"\nsha256 = \"{HASH}\"\nscopes = [\"submit\", \"read\"]\n
             signers = [\"{SIGNER}\"]\nrate_per_second = 100\n
             [[key]]\nname = \"ops\"\nsha256 = \"{}\"\nscopes = [\"operate\"]\n",
            HASH.replace('5', "6")
        );
        assert!(!Access::from_toml(&text).unwrap().is_open());
        let rates: Vec<Option<u32>> = read(&text)
            .unwrap()
            .into_iter()
            .map(|key| key.rate_per_second)
            .collect();
        assert_eq!(rates, [Some(100), None]);
    }

    #[test]
    fn everything_wrong_is_told_at_once_and_by_its_place() {
        let text = format!(
            "colour = 1\n[[key]]\nname = \" x\"\nsha256 = \"{HASH}\"\nscopes = [\"sign\"]\n
             signers = [\"0x1\"]\nrate_per_second = -1\nsecret = \"s\"\n
             [[key]]\nname = \"a\"\nsha256 = \"short\"\nscopes = []\n"
        );
        let expected = [
            "colour",
            "key[0].name",
            "key[0].scopes",
            "key[0].signers[0]",
            "key[0].rate_per_second",
            "key[0].secret",
            "key[1].sha256",
            "key[1].scopes",
        ];
        assert_eq!(places(&text), expected);
    }

    #[test]
    fn two_keys_share_a_name_only_with_the_same_rights_and_never_a_hash() {
        let key = |hash: &str, more: &str| {
            format!("[[key]]\nname = \"a\"\nsha256 = \"{hash}\"\nscopes = [\"read\"]\n{more}\n")
        };
        let other = HASH.replace('5', "6");
        assert_eq!(places(&key(HASH, "").repeat(2)), ["key[1].sha256"]);
        let expires = "expires = 2026-12-31T00:00:00Z";
        let keys = read(&(key(HASH, expires) + &key(&other, ""))).unwrap();
        assert!(Arc::ptr_eq(&keys[0].rate, &keys[1].rate));
        for more in ["rate_per_second = 1", "signers = [\"{SIGNER}\"]"] {
            let more = more.replace("{SIGNER}", SIGNER);
            let text = key(HASH, "") + &key(&other, &more);
            assert_eq!(places(&text), ["key[1].name"]);
        }
    }

    #[test]
    fn an_expiry_is_one_point_in_time() {
        let expires = |value: &str| {
            let key = format!(
                "[[key]]\nname = \"a\"\nsha256 = \"{HASH}\"\nscopes = [\"read\"]\nexpires = {value}\n"
            );
            read(&key).map(|keys| keys[0].expires)
        };
        let at: Option<Timestamp> = Some("2026-12-31T00:00:00Z".parse().unwrap());
        for good in [
            "2026-12-31T00:00:00Z",
            "\"2026-12-31T00:00:00Z\"",
            "2026-12-31T02:00:00+02:00",
        ] {
            assert_eq!(expires(good).ok(), Some(at), "{good}");
        }
        for bad in ["2026-12-31", "2026-12-31T00:00:00", "\"soon\"", "1"] {
            assert!(expires(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_file_without_keys_or_without_sense_is_refused() {
        assert_eq!(places(""), ["key"]);
        assert_eq!(places("key = 1"), ["key"]);
        assert_eq!(places("a = 1\nb = = 2\n"), ["line 2"]);
    }
}
