//! The smallest things: addresses, hashes, amounts, bytes, times, and JSON of others.

use std::borrow::Cow;
use std::cell::RefCell;
use std::fmt::Display;

use fencepost_domain::{Address, B256, Bytes, U256};
use jiff::Timestamp;
use serde::{Serialize, Serializer};
use serde_json::value::{RawValue, to_raw_value};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{
    KnownFormat, Object, ObjectBuilder, Schema, SchemaFormat, SchemaType, Type,
};
use utoipa::{PartialSchema, ToSchema};

use super::eip55;

fn text(description: &str, pattern: &str) -> Object {
    ObjectBuilder::new()
        .schema_type(Type::String)
        .description(Some(description))
        .pattern(Some(pattern))
        .build()
}

macro_rules! scalar {
    ($name:ident($inner:ty) as $shown:literal by $write:path, $schema:expr) => {
        #[derive(Debug, Clone)]
        pub(crate) struct $name(pub(crate) $inner);

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                $write(&self.0, serializer)
            }
        }

        schema!($name as $shown, $schema);
    };
}

fn shown<S: Serializer>(thing: &impl Display, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(thing)
}

/// Nearly all amounts are small, and those are spelled much quicker.
fn decimal<S: Serializer>(amount: &U256, serializer: S) -> Result<S::Ok, S::Error> {
    match u64::try_from(*amount) {
        Ok(small) => serializer.collect_str(&small),
        Err(_) => serializer.collect_str(amount),
    }
}

/// At once, and not by the machinery of formats, which takes a text in pieces.
fn hex<S: Serializer>(bytes: &Bytes, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&fencepost_domain::hex::encode_prefixed(bytes))
}

thread_local! {
    /// The last time that was spelled here.
    static SPELLED: RefCell<Option<(Timestamp, String)>> = const { RefCell::new(None) };
}

/// What one statement has stored is of one time, and so are both times of a new transaction: it is spelled once.
fn moment<S: Serializer>(at: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
    SPELLED.with_borrow_mut(|spelled| match spelled {
        Some((known, text)) if known == at => serializer.serialize_str(text),
        Some(_) | None => {
            let (_, text) = spelled.insert((*at, at.to_string()));
            serializer.serialize_str(text)
        }
    })
}

/// A schema and its name; of what clients give, that is all there is.
macro_rules! schema {
    ($name:ident as $shown:literal, $schema:expr) => {
        impl PartialSchema for $name {
            fn schema() -> RefOr<Schema> {
                $schema.into()
            }
        }

        impl ToSchema for $name {
            fn name() -> Cow<'static, str> {
                Cow::Borrowed($shown)
            }
        }
    };
}

scalar!(
    Eip55(Address) as "Address" by eip55::write,
    text("An address with its EIP-55 checksum", "^0x[0-9a-fA-F]{40}$")
);
scalar!(Hash(B256) as "Hash" by shown, text("A hash of 32 bytes", "^0x[0-9a-f]{64}$"));
scalar!(
    Wei(U256) as "Amount" by decimal,
    text("An amount, in decimal digits", "^(0|[1-9][0-9]{0,77})$")
);
scalar!(Hex(Bytes) as "Bytes" by hex, text("Bytes", "^0x([0-9a-f]{2})*$"));
scalar!(
    Moment(Timestamp) as "Time" by moment,
    ObjectBuilder::new()
        .schema_type(Type::String)
        .format(Some(SchemaFormat::KnownFormat(KnownFormat::DateTime)))
        .description(Some("A time, RFC 3339 in UTC"))
);

/// An address as clients give it.
pub(crate) struct AddressText;
schema!(
    AddressText as "AddressInput",
    text(
        "An address: lower case, upper case, or both with the EIP-55 checksum",
        "^0x([0-9a-f]{40}|[0-9A-F]{40}|[0-9a-fA-F]{40})$"
    )
);

/// An amount as clients give it.
pub(crate) struct AmountText;
schema!(
    AmountText as "AmountInput",
    ObjectBuilder::new()
        .schema_type(SchemaType::from_iter([Type::String, Type::Integer]))
        .description(Some(
            "An amount of up to 256 bits: a string of decimal digits or 0x-hex, or a number below 2^53. `21000` and `\"21000\"` are the same request"
        ))
        .pattern(Some("^([0-9]+|0x[0-9a-fA-F]+)$"))
        .minimum(Some(0))
        .maximum(Some(9_007_199_254_740_991_i64))
);

/// Bytes as clients give them.
pub(crate) struct BytesText;
schema!(
    BytesText as "BytesInput",
    text("Bytes as 0x-hex", "^0x([0-9a-fA-F]{2})*$")
);

/// A word of 32 bytes as clients give it.
pub(crate) struct WordText;
schema!(
    WordText as "WordInput",
    text("32 bytes as 0x-hex", "^0x[0-9a-fA-F]{64}$")
);

/// JSON that is not ours: kept and given back as it is.
#[derive(Debug, Clone, Serialize)]
#[serde(transparent)]
pub(crate) struct Foreign(Box<RawValue>);

impl Foreign {
    /// What was stored as JSON. If it is not, it is told as the text it is.
    pub(crate) fn new(text: &str) -> Self {
        let raw = RawValue::from_string(text.to_owned());
        Self(raw.unwrap_or_else(|_| to_raw_value(text).expect("a text is JSON")))
    }
}

/// The schema of such JSON, `null` included.
pub(crate) fn foreign() -> Object {
    ObjectBuilder::new()
        .schema_type(SchemaType::AnyValue)
        .description(Some("Any JSON"))
        .build()
}

/// The schema of an object of the caller's own.
pub(crate) fn object() -> Object {
    ObjectBuilder::new()
        .schema_type(SchemaType::from_iter([Type::Object, Type::Null]))
        .description(Some("An object of the caller's own, up to 16 KiB"))
        .build()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_keep_their_own_spelling() {
        let times = [0, 1_700_000_000, -1].map(|second| Timestamp::from_second(second).unwrap());
        for time in times.iter().chain(&times) {
            // Once when it is new, once when it is remembered.
            for _ in 0..2 {
                let written = serde_json::to_string(&Moment(*time)).unwrap();
                assert_eq!(written, format!("\"{time}\""));
            }
        }
    }

    #[test]
    fn bytes_are_written_as_hex_with_its_prefix() {
        for (bytes, text) in [(&[][..], "\"0x\""), (&[0, 0xab, 0xff], "\"0x00abff\"")] {
            let hex = Hex(Bytes::copy_from_slice(bytes));
            assert_eq!(serde_json::to_string(&hex).unwrap(), text);
        }
    }
}
