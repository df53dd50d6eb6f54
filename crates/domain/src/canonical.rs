//! One spelling for each payload: what is stored, and what "the same request" is decided by.
//! `0x10` and `16` become the same bytes; a field that is absent and one that is given do not.

use std::slice::from_ref;

use alloy_primitives::{Address, B256, Bytes, U256, keccak256};
use alloy_rlp::{
    BufMut, Decodable, Encodable, RlpDecodable, RlpEncodable, encode_list, list_length,
};

use crate::ids::Corrupt;
use crate::request::{Access, Fees, Fields, Payload};

/// Changed only together with a migration: stored hashes are compared for ever.
const FORMAT: u8 = 1;

/// A payload's bytes, and their hash.
pub(crate) struct Words {
    bytes: Vec<u8>,
    hash: B256,
}

/// A list of no or one element stands for an absent or a given field.
#[derive(RlpDecodable)]
#[cfg_attr(test, derive(RlpEncodable))]
struct Spelled {
    format: u8,
    to: Vec<Address>,
    value: Vec<U256>,
    data: Vec<Bytes>,
    gas: Vec<u64>,
    gas_price: Vec<u128>,
    max_fee: Vec<u128>,
    max_priority_fee: Vec<u128>,
    access: Vec<Vec<Access>>,
}

/// The same list while it is written, of fields that stay where they are: every create is spelled.
#[derive(RlpEncodable)]
struct Spelling<'a> {
    format: u8,
    to: Field<'a, Address>,
    value: Field<'a, U256>,
    data: Field<'a, Bytes>,
    gas: Field<'a, u64>,
    gas_price: Field<'a, u128>,
    max_fee: Field<'a, u128>,
    max_priority_fee: Field<'a, u128>,
    access: Field<'a, Vec<Access>>,
}

/// No or one element.
struct Field<'a, T>(&'a [T]);

impl<T: Encodable> Encodable for Field<'_, T> {
    fn encode(&self, out: &mut dyn BufMut) {
        encode_list::<T, T>(self.0, out);
    }

    fn length(&self) -> usize {
        list_length::<T, T>(self.0)
    }
}

impl Payload {
    fn spelling(&self) -> Spelling<'_> {
        let fields = &self.0.fields;
        let (price, cap, tip): (&[u128], &[u128], &[u128]) = match &fields.fees {
            Fees::Ours => (&[], &[], &[]),
            Fees::Legacy { gas_price } => (from_ref(gas_price), &[], &[]),
            Fees::Dynamic {
                max_fee,
                max_priority_fee,
            } => (&[], max_fee.as_slice(), max_priority_fee.as_slice()),
        };
        Spelling {
            format: FORMAT,
            to: Field(fields.to.as_slice()),
            value: Field(fields.value.as_slice()),
            data: Field(fields.data.as_slice()),
            gas: Field(fields.gas.as_slice()),
            gas_price: Field(price),
            max_fee: Field(cap),
            max_priority_fee: Field(tip),
            access: Field(fields.access.as_slice()),
        }
    }

    /// Once for all copies.
    fn words(&self) -> &Words {
        self.0.words.get_or_init(|| {
            let spelling = self.spelling();
            let mut bytes = Vec::with_capacity(spelling.length());
            spelling.encode(&mut bytes);
            let hash = keccak256(&bytes);
            Words { bytes, hash }
        })
    }

    /// The bytes that are stored.
    #[must_use]
    pub fn canonical(&self) -> &[u8] {
        &self.words().bytes
    }

    /// What two requests with one id must share to be the same request.
    #[must_use]
    pub fn hash(&self) -> B256 {
        self.words().hash
    }

    /// Both, to be sent from where they are.
    #[must_use]
    pub fn canonical_and_hash(&self) -> (&[u8], &B256) {
        let Words { bytes, hash } = self.words();
        (bytes, hash)
    }

    /// Reads stored bytes back, and refuses what [`Payload::canonical`] does not write.
    pub fn from_canonical(mut stored: &[u8]) -> Result<Self, Corrupt> {
        let corrupt = Corrupt { column: "payload" };
        let spelled = Spelled::decode(&mut stored).map_err(|_| corrupt)?;
        if !stored.is_empty() || spelled.format != FORMAT {
            return Err(corrupt);
        }
        let price = at_most_one(spelled.gas_price)?;
        let cap = at_most_one(spelled.max_fee)?;
        let tip = at_most_one(spelled.max_priority_fee)?;
        let fees = match (price, cap, tip) {
            (None, None, None) => Fees::Ours,
            (Some(gas_price), None, None) => Fees::Legacy { gas_price },
            (None, max_fee, max_priority_fee) => Fees::Dynamic {
                max_fee,
                max_priority_fee,
            },
            (Some(_), _, _) => return Err(corrupt),
        };
        Ok(Self::from(Fields {
            to: at_most_one(spelled.to)?,
            value: at_most_one(spelled.value)?,
            data: at_most_one(spelled.data)?,
            gas: at_most_one(spelled.gas)?,
            fees,
            access: at_most_one(spelled.access)?,
        }))
    }
}

fn at_most_one<T>(list: Vec<T>) -> Result<Option<T>, Corrupt> {
    let mut items = list.into_iter();
    match (items.next(), items.next()) {
        (first, None) => Ok(first),
        (_, Some(_)) => Err(Corrupt { column: "payload" }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::{Ceilings, Draft};

    const TO: &str = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed";

    fn parse(draft: Draft) -> Payload {
        let ceilings = Ceilings {
            max_fee: u128::MAX,
            max_priority_fee: u128::MAX,
        };
        Payload::parse(&draft, ceilings).unwrap()
    }

    fn some(text: &str) -> Option<String> {
        Some(text.to_owned())
    }

    fn base() -> Draft {
        Draft {
            to: some(TO),
            value: some("16"),
            data: some("0xAB"),
            ..Draft::default()
        }
    }

    /// The list as it is read, written with copies of all fields.
    fn of_copies(payload: &Payload) -> Vec<u8> {
        let (price, cap, tip) = match payload.0.fields.fees {
            Fees::Ours => (None, None, None),
            Fees::Legacy { gas_price } => (Some(gas_price), None, None),
            Fees::Dynamic {
                max_fee,
                max_priority_fee,
            } => (None, max_fee, max_priority_fee),
        };
        let mut bytes = Vec::new();
        Spelled {
            format: FORMAT,
            to: payload.0.fields.to.into_iter().collect(),
            value: payload.0.fields.value.into_iter().collect(),
            data: payload.0.fields.data.clone().into_iter().collect(),
            gas: payload.0.fields.gas.into_iter().collect(),
            gas_price: price.into_iter().collect(),
            max_fee: cap.into_iter().collect(),
            max_priority_fee: tip.into_iter().collect(),
            access: payload.0.fields.access.clone().into_iter().collect(),
        }
        .encode(&mut bytes);
        bytes
    }

    #[test]
    fn two_spellings_of_one_request_are_the_same_request() {
        let other = Draft {
            to: Some(TO.to_lowercase()),
            value: some("0x10"),
            data: some("0xab"),
            ..Draft::default()
        };
        assert_eq!(parse(base()).hash(), parse(other).hash());
    }

    #[test]
    fn each_field_that_differs_makes_another_request() {
        let variants = [
            base(),
            Draft {
                value: None,
                ..base()
            },
            Draft {
                value: some("0"),
                ..base()
            },
            Draft {
                data: some("0x"),
                ..base()
            },
            Draft {
                data: None,
                ..base()
            },
            Draft {
                gas: some("50000"),
                ..base()
            },
            Draft {
                gas_price: some("7"),
                ..base()
            },
            Draft {
                max_fee_per_gas: some("7"),
                ..base()
            },
            Draft {
                max_priority_fee_per_gas: some("7"),
                ..base()
            },
            Draft {
                access_list: Some(vec![]),
                ..base()
            },
            Draft {
                access_list: Some(vec![(TO.to_owned(), vec![])]),
                ..base()
            },
            Draft {
                access_list: Some(vec![(
                    TO.to_owned(),
                    vec![format!("0x{}", "07".repeat(32)); 3],
                )]),
                ..base()
            },
            Draft {
                data: Some(format!("0x{}", "ab".repeat(300))),
                value: Some(U256::MAX.to_string()),
                max_fee_per_gas: Some(u128::MAX.to_string()),
                max_priority_fee_per_gas: some("7"),
                ..base()
            },
            Draft { to: None, ..base() },
        ];
        let hashes: std::collections::HashSet<_> = variants
            .iter()
            .map(|draft| parse(draft.clone()).hash())
            .collect();
        assert_eq!(hashes.len(), variants.len());
        for draft in variants {
            let payload = parse(draft);
            let written = payload.canonical();
            assert_eq!(written, of_copies(&payload), "{payload:?}");
            assert_eq!(Payload::from_canonical(written).as_ref(), Ok(&payload));
        }
    }

    /// Each was worked out apart from this code.
    #[test]
    fn the_stored_spelling_never_changes_by_accident() {
        let key = format!("0x{}", "07".repeat(32));
        let nobody = format!("0x{}", "00".repeat(20));
        let all = Draft {
            to: some(TO),
            value: Some(U256::MAX.to_string()),
            data: Some(format!("0x{}", "ab".repeat(60))),
            gas: some("100000"),
            gas_price: None,
            max_fee_per_gas: Some(u128::MAX.to_string()),
            max_priority_fee_per_gas: some("7"),
            access_list: Some(vec![
                (TO.to_owned(), vec![key.clone(), key]),
                (nobody, vec![]),
            ]),
        };
        let legacy = Draft {
            data: some("0x60"),
            gas_price: some("9"),
            ..Draft::default()
        };
        for (draft, hash) in [
            (
                base(),
                "0xceda0bbb4e15a29cc9709880f83599bf48e636895faa71cccf7e47dba9c663b8",
            ),
            (
                all,
                "0xd19cc264c734b2f235aec78bd0ac545a620c3855f37ad268b55d81c4e9dcd7f6",
            ),
            (
                legacy,
                "0x48456a0af5fa8bbe05d1aee2f0fb4b9312c3fcbb601d0990f771d1356dbed095",
            ),
        ] {
            assert_eq!(parse(draft).hash().to_string(), hash);
        }
    }

    #[test]
    fn foreign_bytes_are_not_a_payload() {
        let good = parse(base()).canonical().to_vec();
        let mut long = good.clone();
        long.push(0);
        for bad in [&[][..], &[0x80], &good[..good.len() - 1], &long] {
            assert_eq!(
                Payload::from_canonical(bad),
                Err(Corrupt { column: "payload" })
            );
        }
    }
}
