//! The signature of calls between nodes: HMAC-SHA256 with the cluster's secret over the time and the
//! body. A call that is recorded and sent again does nothing new: it carries its transaction's id.

use axum::http::HeaderMap;
use fencepost_domain::{B256, amount};
use hmac::{Hmac, KeyInit, Mac};
use jiff::Timestamp;
use sha2::Sha256;

use crate::secret::Secret;

/// When the call was made, in seconds since 1970.
pub(crate) const TIMESTAMP: &str = "x-fencepost-timestamp";
/// The signature, as 0x-hex.
pub(crate) const SIGNATURE: &str = "x-fencepost-signature";

/// How far the clocks of two nodes may be apart.
const WINDOW_SECONDS: u64 = 30;
/// Keeps a signature from being taken for one of another purpose.
const PURPOSE: &[u8] = b"fencepost forward 1\n";

fn mac(secret: &Secret, at: &str, body: &[u8]) -> Hmac<Sha256> {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.bytes()).expect("a key of any length");
    mac.update(PURPOSE);
    mac.update(at.as_bytes());
    mac.update(b"\n");
    mac.update(body);
    mac
}

/// Signs a call.
pub(crate) fn sign(secret: &Secret, at: &str, body: &[u8]) -> String {
    let bytes: [u8; 32] = mac(secret, at, body).finalize().into_bytes().into();
    B256::from(bytes).to_string()
}

/// Whether a call comes from a node of this cluster, and lately.
pub(crate) fn is_ours(secret: &Secret, headers: &HeaderMap, body: &[u8], now: Timestamp) -> bool {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let (Some(at), Some(signature)) = (text(TIMESTAMP), text(SIGNATURE)) else {
        return false;
    };
    let (Ok(seconds), Ok(signature)) = (at.parse::<i64>(), amount::word(signature)) else {
        return false;
    };
    let is_late = now.as_second().abs_diff(seconds) > WINDOW_SECONDS;
    let is_signed = mac(secret, at, body).verify_slice(signature.as_slice());
    is_signed.is_ok() && !is_late
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(at: &str, body: &[u8], signature: &str, now: i64) -> bool {
        let secret = Secret::new("a long secret".to_owned());
        let mut headers = HeaderMap::new();
        headers.insert(TIMESTAMP, at.parse().unwrap());
        headers.insert(SIGNATURE, signature.parse().unwrap());
        is_ours(
            &secret,
            &headers,
            body,
            Timestamp::from_second(now).unwrap(),
        )
    }

    #[test]
    fn only_what_was_signed_lately_with_the_secret_is_ours() {
        let secret = Secret::new("a long secret".to_owned());
        let good = sign(&secret, "1000", b"body");
        let other = sign(&Secret::new("another secret".to_owned()), "1000", b"body");
        assert!(check("1000", b"body", &good, 1000));
        assert!(check("1000", b"body", &good, 1030));
        assert!(check("1000", b"body", &good, 970));
        assert!(!check("1000", b"body", &good, 1031));
        assert!(!check("1000", b"body", &good, 969));
        assert!(!check("1001", b"body", &good, 1000));
        assert!(!check("01000", b"body", &good, 1000));
        assert!(!check("1000", b"Body", &good, 1000));
        assert!(!check("1000", b"body", &other, 1000));
        assert!(!check("1000", b"body", "0x", 1000));
        assert!(!check("soon", b"body", &good, 1000));
    }
}
