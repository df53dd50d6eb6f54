//! What a value may look like: durations, fees, addresses, words. Each is read from text, and shown
//! again by `config print`.

use std::time::Duration;

use fencepost_app::directory::Start;
use fencepost_app::ports::CountMode;
use fencepost_domain::ids::Nonce;
use fencepost_domain::{Address, amount};
use toml::Value;

/// A value that is written as text.
pub(crate) trait Text: Sized {
    /// Reads it, or says what is wrong as the rest of a sentence.
    fn parse(text: &str) -> Result<Self, String>;

    /// As `config print` shows it: never a secret.
    fn show(&self) -> String;

    /// The same from the file, where text stands in quotes.
    fn of_file(value: &Value) -> Result<Self, String> {
        let text = value.as_str();
        Self::parse(text.ok_or_else(|| mistyped(value, "text in quotes"))?)
    }
}

/// What is said of a value of another kind.
pub(super) fn mistyped(value: &Value, wanted: &str) -> String {
    format!("must be {wanted}, not {}", value.type_str())
}

impl Text for String {
    fn parse(text: &str) -> Result<Self, String> {
        Ok(text.to_owned())
    }

    fn show(&self) -> String {
        self.clone()
    }
}

impl Text for Duration {
    fn parse(text: &str) -> Result<Self, String> {
        humantime::parse_duration(text).map_err(|error| {
            format!("{text:?} is no duration such as \"10s\" or \"1m 30s\": {error}")
        })
    }

    fn show(&self) -> String {
        humantime::format_duration(*self).to_string()
    }
}

impl Text for Address {
    fn parse(text: &str) -> Result<Self, String> {
        amount::address(text).map_err(|why| format!("{text:?} {why}"))
    }

    fn show(&self) -> String {
        self.to_checksum(None)
    }
}

/// `start` of a signer: where a lane begins that has given no nonce yet.
impl Text for Start {
    fn parse(text: &str) -> Result<Self, String> {
        match text {
            "pending" => Ok(Self::Chain(CountMode::Pending)),
            "latest" => Ok(Self::Chain(CountMode::Latest)),
            number => {
                let nonce = number.parse().ok().and_then(|n| Nonce::new(n).ok());
                nonce.map(Self::At).ok_or_else(|| {
                    format!("{text:?} is neither \"pending\" nor \"latest\" nor a nonce")
                })
            }
        }
    }

    fn show(&self) -> String {
        match self {
            Self::Unset(CountMode::Pending) | Self::Chain(CountMode::Pending) => {
                "pending".to_owned()
            }
            Self::Unset(CountMode::Latest) | Self::Chain(CountMode::Latest) => "latest".to_owned(),
            Self::At(nonce) => nonce.to_string(),
        }
    }

    fn of_file(value: &Value) -> Result<Self, String> {
        match value.as_integer() {
            Some(nonce) => Self::parse(&nonce.to_string()),
            None => Self::parse(value.as_str().ok_or_else(|| mistyped(value, "a start"))?),
        }
    }
}

/// A price of gas.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Wei(pub(crate) u128);

/// A gwei has this many digits behind its point.
const GWEI_DIGITS: usize = 9;

impl Text for Wei {
    fn parse(text: &str) -> Result<Self, String> {
        let (number, digits) = match text.strip_suffix("gwei") {
            Some(number) => (number, GWEI_DIGITS),
            None => (text.strip_suffix("wei").unwrap_or(text), 0),
        };
        let (whole, part) = match number.trim_end().split_once('.') {
            Some((whole, part)) if !part.is_empty() => (whole, part),
            Some(_) => return Err(not_a_fee(text)),
            None => (number.trim_end(), ""),
        };
        let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        if whole.is_empty() || !is_digits(whole) || !is_digits(part) {
            return Err(not_a_fee(text));
        }
        if part.len() > digits {
            return Err(format!("{text:?} is finer than one wei"));
        }
        // The point moves: 1.5 gwei is 15 followed by eight zeros.
        let wei = format!("{whole}{part:0<digits$}");
        wei.parse()
            .map(Self)
            .map_err(|_| format!("{text:?} is beyond 128 bits"))
    }

    fn show(&self) -> String {
        let gwei = 10_u128.pow(9);
        let (whole, part) = (self.0 / gwei, self.0 % gwei);
        let shown = format!("{whole}.{part:09}");
        format!("{}gwei", shown.trim_end_matches('0').trim_end_matches('.'))
    }

    fn of_file(value: &Value) -> Result<Self, String> {
        match value.as_integer() {
            Some(wei) => Self::parse(&wei.to_string()),
            None => Self::parse(value.as_str().ok_or_else(|| mistyped(value, "a fee"))?),
        }
    }
}

fn not_a_fee(text: &str) -> String {
    format!("{text:?} is no fee such as \"500gwei\", \"1.5gwei\" or plain wei")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fees_are_gwei_or_plain_wei_to_the_last_wei() {
        let check = |text: &str, wei: u128, shown: &str| {
            let fee = Wei::parse(text).unwrap_or_else(|why| panic!("{text}: {why}"));
            assert_eq!(fee, Wei(wei), "{text}");
            assert_eq!(fee.show(), shown, "{text}");
            assert_eq!(Wei::parse(shown), Ok(fee), "{text}");
        };
        check("500gwei", 500_000_000_000, "500gwei");
        check("1.5gwei", 1_500_000_000, "1.5gwei");
        check("1.5 gwei", 1_500_000_000, "1.5gwei");
        check("0.000000001gwei", 1, "0.000000001gwei");
        check("20000000000", 20_000_000_000, "20gwei");
        check("7wei", 7, "0.000000007gwei");
        check("0", 0, "0gwei");
        assert_eq!(Wei::of_file(&Value::Integer(7)), Ok(Wei(7)));
    }

    #[test]
    fn what_is_no_fee_says_so() {
        let check = |text: &str, part: &str| {
            let why = Wei::parse(text).expect_err(text);
            assert!(why.contains(part), "{text}: {why}");
        };
        for text in [
            "", "gwei", "-1gwei", "1e9", ".5gwei", "5.gwei", "1 ether", "0x10", "1,5gwei",
        ] {
            check(text, "is no fee");
        }
        check("0.0000000001gwei", "finer than one wei");
        check("1.5", "finer than one wei");
        check("400000000000000000000000000000gwei", "beyond 128 bits");
    }

    #[test]
    fn a_start_is_a_count_of_the_chain_or_a_nonce() {
        let check = |value: Value, shown: &str| {
            let start = Start::of_file(&value).unwrap_or_else(|why| panic!("{value}: {why}"));
            assert_eq!(start.show(), shown, "{value}");
            assert_eq!(Start::parse(shown), Ok(start), "{value}");
        };
        check(Value::from("pending"), "pending");
        check(Value::from("latest"), "latest");
        check(Value::Integer(17), "17");
        check(Value::from("17"), "17");
        for wrong in [
            Value::from("first"),
            Value::from("18446744073709551615"),
            Value::Integer(-1),
            Value::Boolean(true),
        ] {
            assert!(Start::of_file(&wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn durations_have_units() {
        assert_eq!(Duration::parse("1m 30s"), Ok(Duration::from_secs(90)));
        assert_eq!(Duration::from_secs(90).show(), "1m 30s");
        let why = Duration::parse("10").expect_err("no unit");
        assert!(why.contains("\"10\" is no duration"), "{why}");
    }
}
