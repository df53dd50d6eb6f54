//! What a node says when it will not.

use reqwest::StatusCode;
use serde::Deserialize;

use super::table::plain;

/// As much of a strange answer as is shown.
const SHOWN_CHARS_MAX: usize = 200;

/// A problem as RFC 9457 spells it, with our code.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Problem {
    code: String,
    detail: String,
    tx_id: Option<String>,
    #[serde(default)]
    errors: Vec<FieldError>,
}

#[derive(Deserialize)]
struct FieldError {
    field: String,
    detail: String,
}

/// A refusal as a person reads it: code and detail, the transaction it is about, each wrong field.
pub(super) fn told(status: StatusCode, body: &str) -> String {
    let Ok(problem) = serde_json::from_str::<Problem>(body) else {
        let start: String = body.chars().take(SHOWN_CHARS_MAX).collect();
        return format!("{status}: {}", plain(&start));
    };
    let mut told = format!("{}: {}", plain(&problem.code), plain(&problem.detail));
    if let Some(tx_id) = problem.tx_id {
        told.push_str(&format!(" (txId {})", plain(&tx_id)));
    }
    for FieldError { field, detail } in problem.errors {
        told.push_str(&format!("\n  {}: {}", plain(&field), plain(&detail)));
    }
    told
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_has_its_code_its_detail_and_each_wrong_field() {
        let check = |body: &str, expected: &str| {
            assert_eq!(told(StatusCode::BAD_GATEWAY, body), expected);
        };
        check(
            r#"{"code":"outcome_unknown","detail":"Ask again.","txId":"7"}"#,
            "outcome_unknown: Ask again. (txId 7)",
        );
        check(
            r#"{"code":"invalid_request","detail":"Fields are wrong.",
                "errors":[{"field":"payload.to","detail":"is not an address"}]}"#,
            "invalid_request: Fields are wrong.\n  payload.to: is not an address",
        );
        check("<html>", "502 Bad Gateway: <html>");
    }
}
