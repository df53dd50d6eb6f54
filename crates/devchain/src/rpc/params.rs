//! Reading parameters, as strictly as geth: what it refuses, a client must not get used to.

use alloy_primitives::{Address, B256, Bytes, U256};
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::RawValue;

use super::error::RpcError;
use crate::chain::At;

/// How long a hash is when it is written: geth tells it from a number by that.
const HASH_TEXT: usize = 66;

/// A block, or what comes after the newest one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Which {
    Block(At),
    Pending,
}

pub(crate) struct Params(Vec<Value>);

type Read<T> = Result<T, RpcError>;

impl Params {
    pub(crate) fn read(raw: Option<&RawValue>) -> Read<Params> {
        let Some(raw) = raw else {
            return Ok(Params(Vec::new()));
        };
        let values: Option<Vec<Value>> =
            serde_json::from_str(raw.get()).map_err(|_| RpcError::params("non-array args"))?;
        Ok(Params(values.unwrap_or_default()))
    }

    fn given(&self, position: usize) -> Option<&Value> {
        self.0.get(position).filter(|value| !value.is_null())
    }

    fn required(&self, position: usize) -> Read<&Value> {
        self.given(position).ok_or_else(|| {
            RpcError::params(format!("missing value for required argument {position}"))
        })
    }

    pub(crate) fn text(&self, position: usize) -> Read<&str> {
        let value = self.required(position)?;
        value
            .as_str()
            .ok_or_else(|| RpcError::argument(position, "json: cannot unmarshal non-string"))
    }

    pub(crate) fn address(&self, position: usize) -> Read<Address> {
        fixed(self.text(position)?)
            .map(Address::new)
            .map_err(|why| RpcError::argument(position, why))
    }

    pub(crate) fn hash(&self, position: usize) -> Read<B256> {
        fixed(self.text(position)?)
            .map(B256::new)
            .map_err(|why| RpcError::argument(position, why))
    }

    pub(crate) fn optional_hash(&self, position: usize) -> Read<Option<B256>> {
        let given = self.given(position).is_some();
        given.then(|| self.hash(position)).transpose()
    }

    pub(crate) fn bytes(&self, position: usize) -> Read<Bytes> {
        bytes(self.text(position)?).map_err(|why| RpcError::argument(position, why))
    }

    /// A quantity; JSON numbers are taken too, as those who type by hand send them.
    pub(crate) fn number(&self, position: usize) -> Read<Option<u64>> {
        let Some(value) = self.given(position) else {
            return Ok(None);
        };
        if let Some(number) = value.as_u64() {
            return Ok(Some(number));
        }
        let wide = quantity(self.text(position)?);
        let narrow = wide.and_then(|wide| u64::try_from(wide).map_err(|_| "hex number > 64 bits"));
        narrow
            .map(Some)
            .map_err(|why| RpcError::argument(position, why))
    }

    pub(crate) fn quantity(&self, position: usize) -> Read<U256> {
        quantity(self.text(position)?).map_err(|why| RpcError::argument(position, why))
    }

    pub(crate) fn flag(&self, position: usize) -> Read<bool> {
        match self.given(position) {
            None => Ok(false),
            Some(value) => value
                .as_bool()
                .ok_or_else(|| RpcError::argument(position, "json: cannot unmarshal non-bool")),
        }
    }

    /// A block by tag or number; the newest one if it is left out.
    pub(crate) fn height(&self, position: usize) -> Read<Which> {
        if self.given(position).is_none() {
            return Ok(Which::Block(At::Latest));
        }
        which(self.text(position)?).map_err(|why| RpcError::argument(position, why))
    }

    /// A block by tag, number, hash, or the object of EIP-1898; the newest one if it is left out.
    pub(crate) fn block(&self, position: usize) -> Read<Which> {
        let Some(value) = self.given(position) else {
            return Ok(Which::Block(At::Latest));
        };
        let field = |name| value.get(name).and_then(Value::as_str);
        let hashed = |text| fixed(text).map(|hash| Which::Block(At::Hash(B256::new(hash))));
        let found = match value.as_str() {
            Some(text) if text.len() == HASH_TEXT => hashed(text),
            Some(text) => which(text),
            None => match (field("blockHash"), field("blockNumber")) {
                (Some(hash), None) => hashed(hash),
                (None, Some(number)) => which(number),
                (Some(_), Some(_)) | (None, None) => Err("invalid block number or hash"),
            },
        };
        found.map_err(|why| RpcError::argument(position, why))
    }

    /// An object of a shape; an absent one is empty.
    pub(crate) fn object<T: DeserializeOwned>(&self, position: usize) -> Read<T> {
        let value = self.given(position).cloned();
        let value = value.unwrap_or_else(|| Value::Object(serde_json::Map::new()));
        serde_json::from_value(value).map_err(|error| RpcError::argument(position, error))
    }

    pub(crate) fn list(&self, position: usize) -> Read<&[Value]> {
        match self.given(position) {
            None => Ok(&[]),
            Some(value) => value
                .as_array()
                .map(Vec::as_slice)
                .ok_or_else(|| RpcError::argument(position, "json: cannot unmarshal non-array")),
        }
    }
}

fn which(text: &str) -> Result<Which, &'static str> {
    let at = match text {
        "latest" => At::Latest,
        "safe" => At::Safe,
        "finalized" => At::Finalized,
        "earliest" => At::Earliest,
        "pending" => return Ok(Which::Pending),
        number => {
            let number = quantity(number)?;
            At::Number(u64::try_from(number).map_err(|_| "block number larger than int64")?)
        }
    };
    Ok(Which::Block(at))
}

pub(crate) fn bytes(text: &str) -> Result<Bytes, &'static str> {
    let hex = text
        .strip_prefix("0x")
        .ok_or("hex string without 0x prefix")?;
    let decoded = alloy_primitives::hex::decode(hex).map_err(|_| "invalid hex string")?;
    Ok(decoded.into())
}

fn fixed<const N: usize>(text: &str) -> Result<[u8; N], &'static str> {
    let hex = text
        .strip_prefix("0x")
        .ok_or("hex string without 0x prefix")?;
    let mut out = [0; N];
    alloy_primitives::hex::decode_to_slice(hex, &mut out)
        .map_err(|_| "hex string of the wrong length or with other characters")?;
    Ok(out)
}

pub(crate) fn quantity(text: &str) -> Result<U256, &'static str> {
    let digits = text
        .strip_prefix("0x")
        .ok_or("hex string without 0x prefix")?;
    if digits.is_empty() {
        return Err("hex string \"0x\"");
    }
    if digits.len() > 1 && digits.starts_with('0') {
        return Err("hex number with leading zero digits");
    }
    if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return Err("invalid hex string");
    }
    U256::from_str_radix(digits, 16).map_err(|_| "hex number > 256 bits")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_read_as_strictly_as_geth_reads_them() {
        assert_eq!(quantity("0x0"), Ok(U256::ZERO));
        assert_eq!(quantity("0xfF"), Ok(U256::from(255)));
        for bad in ["", "0", "0x", "0x00", "0x01", "0xg", "0x_1", "12", "0x+1"] {
            assert!(quantity(bad).is_err(), "{bad}");
        }
        assert!(quantity(&format!("0x1{}", "0".repeat(64))).is_err());
    }
}
