//! Writing answers.

use serde::Serialize;
use serde_json::value::RawValue;

use super::error::RpcError;

#[derive(Serialize)]
struct ErrorBody<'a> {
    code: i64,
    message: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<&'a alloy_primitives::Bytes>,
}

pub(super) fn result(id: &RawValue, result: &str) -> String {
    let id = id.get();
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#)
}

pub(super) fn error(id: Option<&RawValue>, error: &RpcError) -> String {
    let id = id.map_or("null", RawValue::get);
    let body = json(&ErrorBody {
        code: error.code,
        message: &error.message,
        data: error.data.as_ref(),
    });
    format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{body}}}"#)
}

/// The answers of a batch; of nothing but notifications there are none.
pub(super) fn batch(answers: impl Iterator<Item = String>) -> String {
    let mut body = String::new();
    for answer in answers {
        body.push(if body.is_empty() { '[' } else { ',' });
        body.push_str(&answer);
    }
    if !body.is_empty() {
        body.push(']');
    }
    body
}

pub(super) fn json<T: Serialize + ?Sized>(value: &T) -> String {
    serde_json::to_string(value).expect("answers have string keys and no failing parts")
}
