//! `fencepost signers cursor`, `import` and `export`, asked of a node.

use std::path::Path;

use serde_json::{Map, Value};

use super::audit::Told;
use super::once::Once;
use super::signers::shown;
use super::table::{Column, card, lines};
use super::{Client, given, read};
use crate::cli::signers::{Cursor, Export, Import};
use crate::failure::Failure;
use crate::output::print;

/// A node takes no longer import and gives no longer export (`Limits::import_bytes`); a larger file is another one.
const FILE_BYTES_MAX: u64 = 32 * 1024 * 1024;

const IMPORTED: &[Column] = &[
    ("signer", "signer"),
    ("chain", "chain"),
    ("dryRun", "dryRun"),
    ("nextNonce before", "nextNonce.before"),
    ("nextNonce after", "nextNonce.after"),
    ("chainLatest", "chainLatest"),
    ("chainPending", "chainPending"),
    ("gaps", "gaps"),
];

const OPEN: &[Column] = &[
    ("nonce", "nonce"),
    ("state", "state"),
    ("requestId", "requestId"),
    ("txHash", "txHash"),
    ("txId", "txId"),
    ("lockToken", "lockToken"),
];

/// Sets the next nonce; the answer is the signer.
pub(super) async fn cursor(client: &Client, asked: Cursor) -> Result<(), Failure> {
    let (which, told) = (asked.change.which, Told::of(asked.change.why)?);
    let body = given([
        ("chain", which.chain.map(Value::String)),
        ("nextNonce", Some(asked.next.into())),
        ("reason", Some(told.reason)),
        ("audit", told.audit),
    ]);
    let path = ["signers", &which.signer, "cursor"];
    let answer = client.post(&path, &body).await?;
    client.show(&answer, shown)
}

/// Has a file taken over; the answer is what it came to.
pub(super) async fn import(client: &Client, asked: Import) -> Result<(), Failure> {
    let mut body = file(&asked.file)?;
    let in_file = body
        .get("signer")
        .and_then(Value::as_str)
        .map(str::to_owned);
    let signer = asked.signer.clone().or(in_file).ok_or_else(|| {
        Failure::Usage("the file names no signer: give --signer ADDRESS".to_owned())
    })?;
    if let Some(chain) = asked.chain {
        body.insert("chain".to_owned(), chain.into());
    }
    if let Some(reason) = asked.reason {
        body.insert("reason".to_owned(), reason.into());
    }
    if asked.dry_run {
        body.insert("dryRun".to_owned(), true.into());
    }
    let path = ["signers", &signer, "import"];
    let answer = client.post(&path, &Value::Object(body)).await?;
    client.show(&answer, |told| {
        let open = told["open"]
            .as_array()
            .map(Vec::as_slice)
            .unwrap_or_default();
        format!("{}\n{}", card(IMPORTED, told), lines(OPEN, open))
    })
}

fn file(path: &Path) -> Result<Map<String, Value>, Failure> {
    let shown = path.display();
    let unread = |error: std::io::Error| Failure::new(format!("{shown} cannot be read"), error);
    let size = std::fs::metadata(path).map_err(unread)?.len();
    if size > FILE_BYTES_MAX {
        let why = format!("{shown} has {size} bytes; no file to import has over {FILE_BYTES_MAX}");
        return Err(Failure::Usage(why));
    }
    let text = std::fs::read_to_string(path).map_err(unread)?;
    object(&text).map_err(|error| Failure::new(format!("{shown} is not a JSON object"), error))
}

/// A JSON object. One with a field twice is refused, as a node would: of two nonces or hashes only one would be sent.
fn object(text: &str) -> Result<Map<String, Value>, serde_json::Error> {
    let Once(value) = serde_json::from_str(text)?;
    if let Value::Object(fields) = value {
        Ok(fields)
    } else {
        Err(serde::de::Error::custom("it is no object"))
    }
}

/// Writes what an import takes, and says what is not in it.
pub(super) async fn export(client: &Client, asked: Export) -> Result<(), Failure> {
    let which = asked.which;
    let query = [("chain", which.chain.clone())];
    let signer = client.get(&["signers", &which.signer], &query).await?;
    let body = client
        .get(&["signers", &which.signer, "export"], &query)
        .await?;
    for warning in missing(&read(&signer)?) {
        eprintln!("warning: {warning}");
    }
    match &asked.out {
        None => print(&body),
        Some(path) => std::fs::write(path, format!("{body}\n"))
            .map_err(|error| Failure::new(format!("{} cannot be written", path.display()), error)),
    }
}

/// What a file does not tell of a signer.
fn missing(signer: &Value) -> Vec<String> {
    let mut warnings = Vec::new();
    if signer["paused"].is_null() {
        warnings.push(
            "the signer is not paused: the file is old as soon as a nonce is given".to_owned(),
        );
    }
    if let Some(queued) = signer["queued"].as_u64().filter(|queued| *queued > 0) {
        warnings.push(format!(
            "{queued} requests wait for a nonce and are not in the file: resume the signer until they have one"
        ));
    }
    let gaps = signer["gaps"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    if !gaps.is_empty() {
        let gaps: Vec<String> = gaps.iter().map(Value::to_string).collect();
        let gaps = gaps.join(", ");
        warnings.push(format!(
            "nobody holds nonces {gaps}: later ones wait until they are used"
        ));
    }
    warnings
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_field_that_stands_twice_is_refused() {
        let good = r#"{"open":[{"nonce":1,"state":"RESERVED"},{"nonce":2,"state":"RESERVED"}]}"#;
        assert_eq!(object(good).unwrap()["open"][1]["nonce"], 2);
        for twice in [
            r#"{"nextNonce":1,"nextNonce":2,"open":[]}"#,
            r#"{"nextNonce":1,"open":[{"nonce":1,"state":"RESERVED","nonce":2}]}"#,
        ] {
            let error = object(twice).unwrap_err().to_string();
            assert!(error.contains("twice"), "{error}");
        }
        assert!(object("[]").is_err());
        assert!(object("{").is_err());
    }

    #[test]
    fn what_a_file_does_not_tell_is_said() {
        let signer = json!({ "paused": "OPERATOR", "queued": 0, "gaps": [] });
        assert_eq!(missing(&signer), [""; 0]);
        let signer = json!({ "paused": null, "queued": 3, "gaps": [7, 9] });
        let told = missing(&signer);
        assert_eq!(told.len(), 3, "{told:?}");
        assert!(
            told[1].contains("3 requests") && told[2].contains("7, 9"),
            "{told:?}"
        );
    }
}
