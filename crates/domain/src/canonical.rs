//! One spelling for each payload: what is stored, and what "the same request" is decided by.
//! `0x10` and `16` become the same bytes; a field that is absent and one that is given do not.

use alloy_primitives::{Address, B256, Bytes, U256, keccak256};
use alloy_rlp::{Decodable, Encodable, RlpDecodable, RlpEncodable};

use crate::ids::Corrupt;
use crate::request::{Access, Fees, Payload};

/// Changed only together with a migration: stored hashes are compared for ever.
const FORMAT: u8 = 1;

/// Room for everything but the data of a usual request; more is only slower.
const SMALL_FIELDS: usize = 96;

/// A list of no or one element stands for an absent or a given field.
#[derive(RlpEncodable, RlpDecodable)]
struct Spelled {
    format: u8,
    to: Vec<Address>,
    value: Vec<U256>,
    data: Vec<Bytes>,
    gas: Vec<u64>,
    gas_price: Vec<u128>,
    max_fee: Vec<u128>,
    max_priority_fee: Vec<u128>,
    access: Vec<Vec<SpelledAccess>>,
}

#[derive(RlpEncodable, RlpDecodable)]
struct SpelledAccess {
    address: Address,
    keys: Vec<B256>,
}

impl Payload {
    /// The bytes that are stored.
    #[must_use]
    pub fn canonical(&self) -> Vec<u8> {
        let (price, cap, tip) = match self.fees {
            Fees::Ours => (None, None, None),
            Fees::Legacy { gas_price } => (Some(gas_price), None, None),
            Fees::Dynamic {
                max_fee,
                max_priority_fee,
            } => (None, max_fee, max_priority_fee),
        };
        let spell = |entry: &Access| SpelledAccess {
            address: entry.address,
            keys: entry.keys.clone(),
        };
        let data = self.data.as_ref().map_or(0, |data| data.len());
        let mut bytes = Vec::with_capacity(data + SMALL_FIELDS);
        Spelled {
            format: FORMAT,
            to: self.to.into_iter().collect(),
            value: self.value.into_iter().collect(),
            data: self.data.iter().cloned().collect(),
            gas: self.gas.into_iter().collect(),
            gas_price: price.into_iter().collect(),
            max_fee: cap.into_iter().collect(),
            max_priority_fee: tip.into_iter().collect(),
            access: self
                .access
                .iter()
                .map(|list| list.iter().map(spell).collect())
                .collect(),
        }
        .encode(&mut bytes);
        bytes
    }

    /// What two requests with one id must share to be the same request.
    #[must_use]
    pub fn hash(&self) -> B256 {
        self.canonical_and_hash().1
    }

    /// Both, spelled once.
    #[must_use]
    pub fn canonical_and_hash(&self) -> (Vec<u8>, B256) {
        let bytes = self.canonical();
        let hash = keccak256(&bytes);
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
        let read = |entry: SpelledAccess| Access {
            address: entry.address,
            keys: entry.keys,
        };
        Ok(Self {
            to: at_most_one(spelled.to)?,
            value: at_most_one(spelled.value)?,
            data: at_most_one(spelled.data)?,
            gas: at_most_one(spelled.gas)?,
            fees,
            access: at_most_one(spelled.access)?.map(|list| list.into_iter().map(read).collect()),
        })
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
            Draft { to: None, ..base() },
        ];
        let hashes: std::collections::HashSet<_> = variants
            .iter()
            .map(|draft| parse(draft.clone()).hash())
            .collect();
        assert_eq!(hashes.len(), variants.len());
        for draft in variants {
            let payload = parse(draft);
            assert_eq!(Payload::from_canonical(&payload.canonical()), Ok(payload));
        }
    }

    #[test]
    fn the_stored_spelling_never_changes_by_accident() {
        let hash = parse(base()).hash().to_string();
        assert_eq!(
            hash,
            "0xceda0bbb4e15a29cc9709880f83599bf48e636895faa71cccf7e47dba9c663b8"
        );
    }

    #[test]
    fn foreign_bytes_are_not_a_payload() {
        let good = parse(base()).canonical();
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
