//! Reading requests. Everything that can be sent is either calls or an error to answer.

use alloy_primitives::keccak256;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::error::RpcError;
use super::params::Params;
use crate::fault::Target;

/// Methods that steer the chain. They are never counted and never meet a fault, or none could be cleared.
const CONTROL: [&str; 5] = [
    "evm_mine",
    "anvil_mine",
    "hardhat_mine",
    "anvil_setBalance",
    "hardhat_setBalance",
];

pub(crate) struct Call<'a> {
    pub(crate) method: String,
    pub(crate) params: Option<&'a RawValue>,
    /// Without one it is a notification: done, but not answered.
    pub(crate) id: Option<&'a RawValue>,
}

pub(crate) enum Body<'a> {
    /// The whole of it is answered with one error.
    Refused(RpcError),
    One(Result<Call<'a>, RpcError>),
    Batch(Vec<Result<Call<'a>, RpcError>>),
}

pub(crate) struct Incoming<'a> {
    pub(crate) body: Body<'a>,
}

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(default)]
    jsonrpc: Option<String>,
    #[serde(default)]
    method: Option<String>,
    #[serde(borrow, default)]
    params: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    id: Option<&'a RawValue>,
}

/// A null id is an id: only a missing one makes a notification.
fn present<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(from).map(Some)
}

pub(crate) fn read(body: &str, batch_max: usize) -> Incoming<'_> {
    let body = if body.trim_start().starts_with('[') {
        read_batch(body, batch_max)
    } else {
        match serde_json::from_str::<&RawValue>(body) {
            Ok(one) => Body::One(read_call(one)),
            Err(error) => Body::Refused(RpcError::new(-32700, error.to_string())),
        }
    };
    Incoming { body }
}

fn read_batch(body: &str, batch_max: usize) -> Body<'_> {
    match serde_json::from_str::<Vec<&RawValue>>(body) {
        Err(error) => Body::Refused(RpcError::new(-32700, error.to_string())),
        Ok(calls) if calls.is_empty() => Body::Refused(RpcError::new(-32600, "empty batch")),
        Ok(calls) if calls.len() > batch_max => {
            Body::Refused(RpcError::new(-32600, "batch too large"))
        }
        Ok(calls) => Body::Batch(calls.into_iter().map(read_call).collect()),
    }
}

fn read_call(raw: &RawValue) -> Result<Call<'_>, RpcError> {
    let invalid = || RpcError::new(-32600, "invalid request");
    let envelope: Envelope<'_> = serde_json::from_str(raw.get()).map_err(|_| invalid())?;
    let is_scalar = |id: &&RawValue| !id.get().starts_with(['{', '[']);
    if envelope.jsonrpc.as_deref() != Some("2.0") || !envelope.id.iter().all(is_scalar) {
        return Err(invalid());
    }
    Ok(Call {
        method: envelope.method.ok_or_else(invalid)?,
        params: envelope.params,
        id: envelope.id,
    })
}

impl Call<'_> {
    pub(crate) fn is_control(&self) -> bool {
        self.method.starts_with("dev_") || CONTROL.contains(&self.method.as_str())
    }

    /// What faults know it by.
    pub(crate) fn target(&self, asks_about: bool) -> Target<'_> {
        Target {
            method: &self.method,
            about: asks_about.then(|| self.about()).flatten(),
        }
    }

    fn about(&self) -> Option<String> {
        let params = Params::read(self.params).ok()?;
        if self.method == "eth_sendRawTransaction" {
            return Some(keccak256(params.bytes(0).ok()?).to_string());
        }
        params.text(0).ok().map(str::to_lowercase)
    }
}

impl Incoming<'_> {
    fn calls(&self) -> impl Iterator<Item = &Call<'_>> {
        let calls = match &self.body {
            Body::Refused(_) => &[],
            Body::One(call) => std::slice::from_ref(call),
            Body::Batch(calls) => calls.as_slice(),
        };
        calls.iter().flatten()
    }

    /// Whether all it does is steer the chain.
    pub(crate) fn is_control(&self) -> bool {
        self.calls().next().is_some() && self.calls().all(Call::is_control)
    }

    pub(crate) fn targets(&self, asks_about: bool) -> impl Iterator<Item = Target<'_>> {
        let calls = self.calls().filter(|call| !call.is_control());
        calls.map(move |call| call.target(asks_about))
    }
}
