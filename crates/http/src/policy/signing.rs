//! Signatures between a node and the business that decides: of questions, and where it is wanted of answers.

use fencepost_domain::B256;
use hmac::{Hmac, KeyInit, Mac};
use reqwest::header::HeaderValue;
use sha2::{Digest, Sha256};

use crate::secret::Secret;

/// The first lines of what is signed. They differ, so that a question is never taken for an answer.
const QUESTION: &str = "fencepost stuck 1";
const ANSWER: &str = "fencepost answer 1";

/// What a node and the business share.
#[derive(Debug, Clone)]
pub struct PolicySecret {
    /// The secret that signs.
    pub secret: Secret,
    /// Answers must be signed with it too.
    pub signed_answers: bool,
}

/// A question that was signed.
pub(super) struct Signed<'a> {
    by: &'a PolicySecret,
    signature: String,
}

impl PolicySecret {
    pub(super) fn sign(&self, at: &str, body: &[u8]) -> Signed<'_> {
        let bytes: [u8; 32] = mac(&self.secret, [QUESTION, at], body)
            .finalize()
            .into_bytes()
            .into();
        Signed {
            by: self,
            signature: B256::from(bytes).to_string(),
        }
    }
}

impl Signed<'_> {
    pub(super) fn signature(&self) -> &str {
        &self.signature
    }

    /// Whether the answer may be read. It names the question by its signature, so an answer to another
    /// question, or to the same one of an earlier round, is not good for this one.
    pub(super) fn check(
        &self,
        signature: Option<&HeaderValue>,
        body: &[u8],
    ) -> Result<(), &'static str> {
        if !self.by.signed_answers {
            return Ok(());
        }
        let given = signature.ok_or("its answer is not signed")?;
        let given: Option<B256> = given.to_str().ok().and_then(|text| text.parse().ok());
        let given = given.ok_or("the signature of its answer is not 0x with 64 hex digits")?;
        mac(&self.by.secret, [ANSWER, &self.signature], body)
            .verify_slice(given.as_slice())
            .map_err(|_| "the signature of its answer is wrong")
    }
}

fn mac(secret: &Secret, lines: [&str; 2], body: &[u8]) -> Hmac<Sha256> {
    let digest: [u8; 32] = Sha256::digest(body).into();
    let digest = B256::from(digest).to_string();
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.bytes()).expect("a key of any length");
    for line in lines.into_iter().chain([digest.trim_start_matches("0x")]) {
        mac.update(line.as_bytes());
        mac.update(b"\n");
    }
    mac
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shared() -> PolicySecret {
        PolicySecret {
            secret: Secret::new("open sesame".to_owned()),
            signed_answers: true,
        }
    }

    /// So that others can check their own: `printf 'fencepost stuck 1\n1700000000\n%s\n' "$(printf '{}'
    /// | sha256sum | cut -d' ' -f1)" | openssl dgst -sha256 -hmac 'open sesame'`.
    #[test]
    fn a_question_is_signed_as_it_is_documented() {
        let shared = shared();
        assert_eq!(
            shared.sign("1700000000", b"{}").signature(),
            "0x8bcc740782b50d6bee75b087985c1bf7e4ada754fc39e08ac955dd6b4e7c0546"
        );
    }

    /// The answer to that question: `printf 'fencepost answer 1\n0x8bcc…0546\n%s\n' "$(printf
    /// '{"action":"CANCEL"}' | sha256sum | cut -d' ' -f1)" | openssl dgst -sha256 -hmac 'open sesame'`.
    #[test]
    fn an_answer_is_signed_as_it_is_documented() {
        let shared = shared();
        let good = "0xc79fde74bc5662045bd2876fd0cdbe9639d7dfaca2abada70e894d364b6e96b8";
        let good = HeaderValue::from_static(good);
        let body = br#"{"action":"CANCEL"}"#;
        let asked = shared.sign("1700000000", b"{}");
        assert_eq!(asked.check(Some(&good), body), Ok(()));
        let later = shared.sign("1700000001", b"{}");
        let wrong = Err("the signature of its answer is wrong");
        assert_eq!(later.check(Some(&good), body), wrong);
        assert_eq!(asked.check(Some(&good), b"{}"), wrong);
        let question = HeaderValue::from_str(asked.signature()).unwrap();
        assert_eq!(asked.check(Some(&question), b"{}"), wrong);
    }
}
