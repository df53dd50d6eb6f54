//! JSON-RPC errors.

use alloy_primitives::Bytes;

use crate::chain::{NotThere, Unknown};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RpcError {
    pub(crate) code: i64,
    pub(crate) message: String,
    pub(crate) data: Option<Bytes>,
}

impl RpcError {
    pub(crate) fn new(code: i64, message: impl Into<String>) -> RpcError {
        RpcError {
            code,
            message: message.into(),
            data: None,
        }
    }

    pub(crate) fn params(message: impl Into<String>) -> RpcError {
        RpcError::new(-32602, message)
    }

    pub(crate) fn argument(position: usize, why: impl std::fmt::Display) -> RpcError {
        RpcError::params(format!("invalid argument {position}: {why}"))
    }
}

impl From<NotThere> for RpcError {
    fn from(missing: NotThere) -> RpcError {
        RpcError::params(missing.to_string())
    }
}

impl From<Unknown> for RpcError {
    fn from(unknown: Unknown) -> RpcError {
        match unknown {
            Unknown::Block => RpcError::new(-32000, "header not found"),
            Unknown::State(code, message) => RpcError::new(code, message),
        }
    }
}
