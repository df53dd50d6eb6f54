//! Finding the name by which a service knows our key. Web3Signer goes by public keys, and lists them;
//! services that do not list theirs go by address.

use std::sync::Arc;

use alloy_primitives::{Address, hex};
use fencepost_app::ports::Unsignable;
use reqwest::header::ACCEPT;
use secp256k1::PublicKey;

use super::{Remote, body, unreached};

/// Fifteen thousand keys. A longer list is not read, and its service is asked by address.
const LIST_BYTES_MAX: usize = 2 * 1024 * 1024;

impl Remote {
    /// The name found before, or looked for now. A service that cannot be reached is an error; one
    /// that has no list, or none with our key, is asked by address.
    pub(super) async fn name(&self) -> Result<Arc<str>, Unsignable> {
        if let Some(name) = self.known_name() {
            return Ok(name);
        }
        let request = self.http.get(self.url(&["publicKeys"]));
        let response = request.header(ACCEPT, "application/json").send().await;
        let response = response.map_err(unreached)?;
        let status = response.status();
        let (list, whole) = body::read(response, LIST_BYTES_MAX).await?;
        let found = match status.is_success() && whole {
            true => find(&list, self.account),
            false => None,
        };
        let name: Arc<str> = match found {
            Some(public) => public.into(),
            None => format!("{:#x}", self.account).into(),
        };
        // Only what will be so tomorrow is remembered: a list, or that there is none.
        if status.is_success() || matches!(status.as_u16(), 404 | 405 | 501) {
            self.remember(Some(name.clone()));
        }
        Ok(name)
    }
}

/// The public key of this account, as the service writes it.
fn find(list: &[u8], account: Address) -> Option<String> {
    let keys: Vec<String> = serde_json::from_slice(list).ok()?;
    keys.into_iter()
        .find(|key| address_of(key) == Some(account))
}

/// A public key may be written raw (64 bytes), or in either of the SEC 1 forms. Only hex gets through,
/// so that the name is safe in a path.
fn address_of(key: &str) -> Option<Address> {
    let bytes = hex::decode(key).ok()?;
    match bytes.len() {
        64 => Some(Address::from_raw_public_key(&bytes)),
        33 | 65 => {
            let key = PublicKey::from_slice(&bytes).ok()?;
            Some(Address::from_raw_public_key(
                &key.serialize_uncompressed()[1..],
            ))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use alloy_primitives::address;

    use super::*;

    /// The public key and account of the private key 1.
    const X: &str = "79be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798";
    const Y: &str = "483ada7726a3c4655da4fbfc0e1108a8fd17b448a68554199c47d08ffb10d4b8";
    const ACCOUNT: Address = address!("7E5F4552091A69125d5DfCb7b8C2659029395Bdf");

    #[test]
    fn a_public_key_is_found_in_whichever_form_the_service_writes_it() {
        let other = format!("{Y}{X}");
        for ours in [
            format!("0x{X}{Y}"),
            format!("{X}{Y}"),
            format!("0x04{X}{Y}"),
            format!("0x02{X}"),
            format!("0x{}{Y}", X.to_uppercase()),
        ] {
            let list = serde_json::to_string(&["", "0x", "zz", &other, &ours]).unwrap();
            assert_eq!(find(list.as_bytes(), ACCOUNT), Some(ours));
        }
    }

    #[test]
    fn a_list_without_our_key_names_none() {
        for list in [
            "",
            "[]",
            "{}",
            "[1]",
            r#"["../../x"]"#,
            "[",
            &format!(r#"["0x03{X}"]"#),
        ] {
            assert_eq!(find(list.as_bytes(), ACCOUNT), None, "{list}");
        }
    }
}
