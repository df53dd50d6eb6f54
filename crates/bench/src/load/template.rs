//! The bytes of a request, made once. Only signers and request ids differ between requests, and both have a
//! fixed width, so they are written over in place.

use super::Shape;
use crate::http::post;
use crate::plain::{RECEIVER, data};

/// `0x` and 40 digits.
const SIGNER: usize = 42;
/// Run, connection and number, in hex.
const ID: usize = 8 + 4 + 12;
/// More than a call with as much data as we send needs; a node that estimated would measure the chain.
const GAS: u64 = 200_000;

/// One request's name: who sends, and as which of its requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Name {
    pub(super) signer: usize,
    pub(super) number: u64,
}

#[derive(Debug, Clone)]
pub(super) struct Template {
    bytes: Vec<u8>,
    /// Where each item's signer and id begin.
    items: Vec<(usize, usize)>,
}

impl Template {
    pub(super) fn new(shape: &Shape) -> Self {
        let (signer, id) = ("s".repeat(SIGNER), "i".repeat(ID));
        let data = data(shape.data_bytes);
        let item = format!(
            "{{\"signer\":\"{signer}\",\"requestId\":\"{id}\",\"payload\":{{\"to\":\"{RECEIVER}\",\
             \"value\":\"1\",\"gas\":\"{GAS}\",\"data\":\"0x{data}\"}}}}"
        );
        let query = shape.wait.map(|point| format!("?wait={point}"));
        let query = query.unwrap_or_default();
        let bytes = if shape.batch == 1 {
            post(&format!("/api/v1/tx{query}"), &item)
        } else {
            let items = vec![item; shape.batch].join(",");
            let path = format!("/api/v1/tx/batch{query}");
            post(&path, &format!("{{\"requests\":[{items}]}}"))
        };
        let text = String::from_utf8_lossy(&bytes);
        let places =
            |what: &str| -> Vec<usize> { text.match_indices(what).map(|(at, _)| at).collect() };
        let items = places(&signer).into_iter().zip(places(&id)).collect();
        Self { bytes, items }
    }

    pub(super) fn len(&self) -> usize {
        self.items.len()
    }

    /// Writes an item's signer and id.
    pub(super) fn set(
        &mut self,
        item: usize,
        signer: &str,
        run: u32,
        connection: usize,
        number: u64,
    ) {
        let (signer_at, id_at) = self.items[item];
        let id = format!("{run:08x}{connection:04x}{number:012x}");
        self.bytes[signer_at..signer_at + SIGNER].copy_from_slice(signer.as_bytes());
        self.bytes[id_at..id_at + ID].copy_from_slice(id.as_bytes());
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::Value;

    use super::*;

    #[test]
    fn each_item_of_a_batch_has_the_signer_and_id_that_were_set() {
        let signers: Arc<[String]> = crate::node::signers(3).collect();
        let shape = Shape {
            batch: 3,
            duplicates: 0,
            data_bytes: 200,
            connections: 1,
            signers: Arc::clone(&signers),
            wait: None,
        };
        let mut template = Template::new(&shape);
        assert_eq!(template.len(), 3);
        for (item, signer) in signers.iter().enumerate() {
            template.set(item, signer, 1, 2, 0xff);
        }
        let text = String::from_utf8(template.bytes().to_vec()).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("content-length: {}", body.len())));
        let body: Value = serde_json::from_str(body).unwrap();
        let items = body["requests"].as_array().unwrap();
        let told: Vec<&str> = items
            .iter()
            .filter_map(|it| it["signer"].as_str())
            .collect();
        assert_eq!(told, signers.iter().collect::<Vec<_>>());
        assert!(
            items
                .iter()
                .all(|it| it["requestId"] == "0000000100020000000000ff")
        );
    }
}
