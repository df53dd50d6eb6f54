//! The seal of calls between nodes: HMAC-SHA256 with the cluster's secret. A call's head says when it
//! was made, for whom, its own number and the digest of its body, so that all but the body is checked
//! before the body is read; its answer is sealed too, as the answer to that call.

use axum::http::HeaderMap;
use fencepost_domain::{B256, amount};
use hmac::{Hmac, KeyInit, Mac};
use jiff::Timestamp;
use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::secret::Secret;

/// When the call was made, in seconds since 1970.
pub(crate) const TIMESTAMP: &str = "x-fencepost-timestamp";
/// The call's own number.
pub(crate) const CALL: &str = "x-fencepost-call";
/// The SHA-256 of the body, as 0x-hex.
pub(crate) const DIGEST: &str = "x-fencepost-digest";
/// The signature of the head, or of the answer, as 0x-hex.
pub(crate) const SIGNATURE: &str = "x-fencepost-signature";

/// How far the clocks of two nodes may be apart.
pub(crate) const WINDOW_SECONDS: u64 = 30;
/// Keeps a signature from being taken for one of another purpose.
const ANSWER: &str = "fencepost answer 2";

/// What a call is for. A call that was made for one is not heard as another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Requests are handed on.
    Forward,
    /// A leader is told to look at a lane.
    Nudge,
    /// A node is asked which store it works on.
    Store,
}

impl Purpose {
    const fn word(self) -> &'static str {
        match self {
            Self::Forward => "fencepost forward 2",
            Self::Nudge => "fencepost nudge 1",
            Self::Store => "fencepost store 1",
        }
    }
}

/// A line for each part: none of them has a line break.
fn mac(secret: &Secret, parts: &[&str]) -> Hmac<Sha256> {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.bytes()).expect("a key of any length");
    for part in parts {
        mac.update(part.as_bytes());
        mac.update(b"\n");
    }
    mac
}

fn signature(mac: Hmac<Sha256>) -> String {
    let bytes: [u8; 32] = mac.finalize().into_bytes().into();
    B256::from(bytes).to_string()
}

fn digest(body: &[u8]) -> String {
    let bytes: [u8; 32] = Sha256::digest(body).into();
    B256::from(bytes).to_string()
}

/// The head of a call to the node that is reached at `to`.
#[derive(Debug, Clone)]
pub(crate) struct Seal {
    pub(crate) at: String,
    pub(crate) call: String,
    pub(crate) digest: String,
    pub(crate) signature: String,
}

impl Seal {
    /// Seals a body that is sent now.
    pub(crate) fn new(
        secret: &Secret,
        purpose: Purpose,
        to: &str,
        body: &[u8],
        now: Timestamp,
    ) -> Self {
        let (at, call) = (now.as_second().to_string(), Uuid::now_v7().to_string());
        let digest = digest(body);
        let signature = signature(mac(secret, &[purpose.word(), to, &at, &call, &digest]));
        Self {
            at,
            call,
            digest,
            signature,
        }
    }

    /// Whether this is what the node that was called has answered.
    pub(crate) fn is_answered(&self, secret: &Secret, headers: &HeaderMap, body: &[u8]) -> bool {
        let Some(given) = text(headers, SIGNATURE).and_then(|text| amount::word(text).ok()) else {
            return false;
        };
        let mac = mac(secret, &[ANSWER, &self.signature, &digest(body)]);
        mac.verify_slice(given.as_slice()).is_ok()
    }
}

/// A call from a node of this cluster to this one, of which only the body has not been seen.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) at: i64,
    pub(crate) call: Uuid,
    digest: String,
    signature: String,
}

impl Opened {
    /// What the head says, if a node of this cluster has made it lately for this, for the node at `us`.
    pub(crate) fn read(
        secret: &Secret,
        purpose: Purpose,
        us: &str,
        headers: &HeaderMap,
        now: Timestamp,
    ) -> Option<Self> {
        let (at, call) = (text(headers, TIMESTAMP)?, text(headers, CALL)?);
        let (digest, given) = (text(headers, DIGEST)?, text(headers, SIGNATURE)?);
        let seconds: i64 = at.parse().ok()?;
        if now.as_second().abs_diff(seconds) > WINDOW_SECONDS {
            return None;
        }
        let sealed = mac(secret, &[purpose.word(), us, at, call, digest]);
        let word = amount::word(given).ok()?;
        sealed.verify_slice(word.as_slice()).ok()?;
        Some(Self {
            at: seconds,
            call: Uuid::try_parse(call).ok()?,
            digest: digest.to_owned(),
            signature: given.to_owned(),
        })
    }

    /// Whether this is the body that was sealed.
    pub(crate) fn holds(&self, body: &[u8]) -> bool {
        digest(body) == self.digest
    }

    /// Seals the answer to it.
    pub(crate) fn answer(&self, secret: &Secret, body: &[u8]) -> String {
        signature(mac(secret, &[ANSWER, &self.signature, &digest(body)]))
    }
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: &str = "http://10.0.0.1:8700";

    fn secret(text: &str) -> Secret {
        Secret::new(text.to_owned())
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn headers(seal: &Seal) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(TIMESTAMP, seal.at.parse().unwrap());
        headers.insert(CALL, seal.call.parse().unwrap());
        headers.insert(DIGEST, seal.digest.parse().unwrap());
        headers.insert(SIGNATURE, seal.signature.parse().unwrap());
        headers
    }

    fn open(seal: &Seal, us: &str, now: i64) -> Option<Opened> {
        let ours = secret("a long secret");
        Opened::read(&ours, Purpose::Forward, us, &headers(seal), at(now))
    }

    #[test]
    fn only_what_was_sealed_lately_for_us_with_the_secret_is_opened() {
        let good = Seal::new(
            &secret("a long secret"),
            Purpose::Forward,
            US,
            b"body",
            at(1000),
        );
        for now in [970, 1000, 1030] {
            assert!(open(&good, US, now).is_some_and(|opened| opened.holds(b"body")));
        }
        assert!(!open(&good, US, 1000).unwrap().holds(b"Body"));
        assert!(open(&good, US, 1031).is_none());
        assert!(open(&good, US, 969).is_none());
        assert!(open(&good, "http://10.0.0.2:8700", 1000).is_none());
        let other = Seal::new(
            &secret("another secret"),
            Purpose::Forward,
            US,
            b"body",
            at(1000),
        );
        assert!(open(&other, US, 1000).is_none());
        let nudge = Seal::new(
            &secret("a long secret"),
            Purpose::Nudge,
            US,
            b"body",
            at(1000),
        );
        assert!(open(&nudge, US, 1000).is_none(), "of another purpose");
        let changed: [fn(&mut Seal); 6] = [
            |seal| seal.at = "1001".to_owned(),
            |seal| seal.at = "01000".to_owned(),
            |seal| seal.at = "soon".to_owned(),
            |seal| seal.call = Uuid::now_v7().to_string(),
            |seal| seal.digest = digest(b"Body"),
            |seal| seal.signature = "0x".to_owned(),
        ];
        for change in changed {
            let mut seal = good.clone();
            change(&mut seal);
            assert!(open(&seal, US, 1000).is_none(), "{seal:?}");
        }
    }

    #[test]
    fn an_answer_is_good_for_its_own_call_only() {
        let ours = secret("a long secret");
        let seal = Seal::new(&ours, Purpose::Forward, US, b"body", at(1000));
        let twin = Seal::new(&ours, Purpose::Forward, US, b"body", at(1000));
        let opened = open(&seal, US, 1000).unwrap();
        let answered = |seal: &Seal, signature: &str, body: &[u8]| {
            let mut headers = HeaderMap::new();
            headers.insert(SIGNATURE, signature.parse().unwrap());
            seal.is_answered(&ours, &headers, body)
        };
        let good = opened.answer(&ours, b"answer");
        assert!(answered(&seal, &good, b"answer"));
        assert!(!answered(&seal, &good, b"Answer"));
        assert!(!answered(&twin, &good, b"answer"));
        assert!(!answered(&seal, &seal.signature, b"answer"));
        assert!(!answered(
            &seal,
            &opened.answer(&secret("another"), b"answer"),
            b"answer"
        ));
        assert!(!seal.is_answered(&ours, &HeaderMap::new(), b"answer"));
    }
}
