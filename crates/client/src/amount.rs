//! Amounts as the API spells them: texts of decimal digits, so that no JSON reader rounds them.

use std::fmt::Display;

use alloy_primitives::U256;
use serde::de::{Deserialize, Deserializer, Error};
use serde::ser::Serializer;

/// Writes an amount that is there; one that is not is skipped by its field.
pub(crate) fn serialize<T, S>(amount: &Option<T>, serializer: S) -> Result<S::Ok, S::Error>
where
    T: Display,
    S: Serializer,
{
    match amount {
        Some(amount) => serializer.collect_str(amount),
        None => serializer.serialize_none(),
    }
}

/// Reads an amount. One that does not fit its type is an error, never a smaller amount.
pub(crate) fn deserialize<'de, T, D>(deserializer: D) -> Result<Option<T>, D::Error>
where
    T: TryFrom<U256>,
    D: Deserializer<'de>,
{
    let Some(text) = Option::<String>::deserialize(deserializer)? else {
        return Ok(None);
    };
    let (digits, radix) = match text.strip_prefix("0x") {
        Some(hex) => (hex, 16),
        None => (&*text, 10),
    };
    // from_str_radix skips underscores; they are no digits here.
    let plain = !digits.is_empty() && digits.chars().all(|c| c.is_digit(radix));
    let number = plain.then(|| U256::from_str_radix(digits, u64::from(radix)).ok());
    let amount = number.flatten().and_then(|number| T::try_from(number).ok());
    match amount {
        Some(amount) => Ok(Some(amount)),
        None => Err(D::Error::custom(format_args!(
            "{text} is not such an amount"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use serde::{Deserialize, Serialize};
    use serde_json::json;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Some64 {
        #[serde(
            with = "crate::amount",
            default,
            skip_serializing_if = "Option::is_none"
        )]
        n: Option<u64>,
    }

    #[test]
    fn an_amount_is_digits_and_one_that_does_not_fit_is_an_error() {
        let read = |value: serde_json::Value| serde_json::from_value::<Some64>(value);
        for (value, n) in [
            (json!({ "n": "0" }), Some(0)),
            (json!({ "n": "18446744073709551615" }), Some(u64::MAX)),
            (json!({ "n": "0xff" }), Some(255)),
            (json!({ "n": null }), None),
            (json!({}), None),
        ] {
            assert_eq!(read(value).unwrap(), Some64 { n });
        }
        for wrong in ["", "0x", "-1", "+1", "1_0", "1.0", "18446744073709551616"] {
            assert!(read(json!({ "n": wrong })).is_err(), "{wrong}");
        }
        let written = serde_json::to_value(Some64 { n: Some(u64::MAX) }).unwrap();
        assert_eq!(written, json!({ "n": "18446744073709551615" }));
    }
}
