//! The signature in a service's answer: many ways to write it, one that chains accept.

use alloy_primitives::{Address, B256, Signature, hex, normalize_v};
use fencepost_app::ports::Unsignable;

use super::unusable;

/// r and s.
const SCALARS_BYTES: usize = 64;
/// An EIP-155 v of any chain id fits in eight bytes.
const V_BYTES_MAX: usize = 8;

/// Reads `r ‖ s ‖ v` in hex, where v is 0 or 1, 27 or 28, or an EIP-155 one of any length, brings it to
/// low s (a high one is as valid a proof, but chains refuse it since EIP-2), and recovers the account.
pub(super) fn read(text: &str, hash: B256, account: Address) -> Result<Signature, Unsignable> {
    let strange = || unusable("its answer is not a signature");
    let signature = parse(text).ok_or_else(strange)?.normalized_s();
    match signature.recover_address_from_prehash(&hash) {
        Ok(signer) if signer == account => Ok(signature),
        Ok(signer) => Err(unusable(format!("it signed as {signer}, not as {account}"))),
        Err(_) => Err(strange()),
    }
}

fn parse(text: &str) -> Option<Signature> {
    // Some services answer with a JSON string instead of plain text.
    let text = text.trim().trim_matches('"');
    let bytes = hex::decode(text).ok()?;
    let (scalars, v) = bytes.split_at_checked(SCALARS_BYTES)?;
    if v.is_empty() || v.len() > V_BYTES_MAX {
        return None;
    }
    let v = v.iter().fold(0, |v: u64, byte| (v << 8) | u64::from(*byte));
    Some(Signature::from_bytes_and_parity(scalars, normalize_v(v)?))
}

#[cfg(test)]
mod tests {
    use alloy_primitives::U256;

    use super::*;
    use crate::local::LocalKey;

    const HASH: B256 = B256::repeat_byte(0x17);
    const ORDER: U256 = alloy_primitives::uint!(
        0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141_U256
    );

    fn key() -> LocalKey {
        LocalKey::new(&[0x42; 32]).unwrap()
    }

    fn written(r: U256, s: U256, v: &[u8]) -> String {
        let bytes = [&r.to_be_bytes::<32>(), &s.to_be_bytes::<32>(), v].concat();
        hex::encode_prefixed(bytes)
    }

    #[test]
    fn every_way_to_write_v_is_the_same_signature() {
        let (key, mut parities) = (key(), [false; 2]);
        for byte in 0..16 {
            let hash = B256::repeat_byte(byte);
            let right = key.sign(hash);
            let odd = right.v();
            parities[usize::from(odd)] = true;
            let sepolia = 11_155_111 * 2 + 35 + u64::from(odd);
            let one = |v: u8| vec![v + u8::from(odd)];
            for v in [
                one(0),
                one(27),
                one(37),
                vec![0, 0, 27 + u8::from(odd)],
                sepolia.to_be_bytes()[4..].to_vec(),
                sepolia.to_be_bytes().to_vec(),
            ] {
                let plain = written(right.r(), right.s(), &v);
                let quoted = format!("\"{plain}\"\n");
                for text in [&plain, &quoted, &plain[2..]] {
                    assert_eq!(read(text, hash, key.address()).unwrap(), right, "{text}");
                }
            }
        }
        assert_eq!(parities, [true; 2], "both parities were seen");
    }

    #[test]
    fn a_high_s_is_brought_low_with_the_other_parity() {
        let key = key();
        let right = key.sign(HASH);
        let high = written(right.r(), ORDER - right.s(), &[28 - u8::from(right.v())]);
        assert_eq!(read(&high, HASH, key.address()).unwrap(), right);
    }

    #[test]
    fn what_is_not_this_accounts_signature_is_not_believed() {
        let key = key();
        let right = key.sign(HASH);
        let (r, s, v) = (right.r(), right.s(), 27 + u8::from(right.v()));
        let cases = [
            String::new(),
            "0x".to_owned(),
            "no".to_owned(),
            written(r, s, &[]),
            written(r, s, &[2]),
            written(r, s, &[26]),
            written(r, s, &[34]),
            written(r, s, &[0, 0, 0, 0, 0, 0, 0, 0, v]),
            written(r, s, &[55 - v]),
            written(s, r, &[v]),
            written(U256::ZERO, s, &[v]),
            written(r, U256::ZERO, &[v]),
            written(U256::MAX, U256::MAX, &[v]),
            written(r, ORDER, &[v]),
            written(r, U256::MAX, &[v]),
        ];
        for text in cases {
            let told = read(&text, HASH, key.address());
            assert!(
                matches!(told, Err(Unsignable::Unusable(_))),
                "{text}: {told:?}"
            );
        }
        let other = read(&written(r, s, &[v]), B256::ZERO, key.address());
        assert!(matches!(other, Err(Unsignable::Unusable(_))), "{other:?}");
    }
}
