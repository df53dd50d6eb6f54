//! All keys by account: the one answer to "sign this".

use std::collections::HashMap;
use std::fmt;

use async_trait::async_trait;
use fencepost_app::ports::{Signed, Signer, Unsignable};
use fencepost_domain::Address;
use fencepost_domain::attempt::Unsigned;

use crate::local::LocalKey;
use crate::open::{self, OpenError, Opened};
use crate::remote::Remote;
use crate::spec::{KeySpec, Limits};
use crate::transaction::Draft;

/// How one account signs.
pub(crate) enum Key {
    Local(LocalKey),
    Remote(Remote),
    Watch,
}

/// The keys of a node. Opened once; its keys never change while it lives.
pub struct Keyring {
    keys: HashMap<Address, Key>,
    addresses: Vec<Vec<Address>>,
}

impl Keyring {
    /// Opens every key, or tells everything that is wrong. Services elsewhere are not called: one
    /// that is down at start must not keep the other lanes from working.
    pub async fn open(specs: Vec<KeySpec>) -> Result<Self, Vec<OpenError>> {
        Self::open_within(specs, Limits::default()).await
    }

    /// As [`Keyring::open`], with other limits.
    pub async fn open_within(specs: Vec<KeySpec>, limits: Limits) -> Result<Self, Vec<OpenError>> {
        let Opened { keys, addresses } = open::all(specs, limits).await?;
        Ok(Self { keys, addresses })
    }

    /// The accounts of each spec, in the order of the specs; a range's in the order of its indices.
    #[must_use]
    pub fn addresses(&self) -> &[Vec<Address>] {
        &self.addresses
    }

    /// Whether there is a key for this account, here or elsewhere: not for one that is only watched.
    #[must_use]
    pub fn signs(&self, account: Address) -> bool {
        match self.keys.get(&account) {
            Some(Key::Local(_) | Key::Remote(_)) => true,
            Some(Key::Watch) | None => false,
        }
    }
}

#[async_trait]
impl Signer for Keyring {
    async fn sign(&self, account: Address, tx: &Unsigned) -> Result<Signed, Unsignable> {
        let unusable = |why: &str| Unsignable::Unusable(why.to_owned());
        let key = self.keys.get(&account);
        let key = key.ok_or_else(|| unusable("there is no key for this account"))?;
        let draft = Draft::of(tx);
        let signature = match key {
            Key::Local(key) => key.sign(draft.hash()),
            Key::Remote(remote) => remote.sign(&draft).await?,
            Key::Watch => return Err(unusable("the account is watch-only")),
        };
        Ok(draft.signed(signature))
    }
}

/// Tells how many keys there are, never which: a long list says nothing, and a key must not be shown.
impl fmt::Debug for Keyring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = |wanted: fn(&Key) -> bool| self.keys.values().filter(|key| wanted(key)).count();
        f.debug_struct("Keyring")
            .field("local", &count(|key| matches!(key, Key::Local(_))))
            .field("remote", &count(|key| matches!(key, Key::Remote(_))))
            .field("watched", &count(|key| matches!(key, Key::Watch)))
            .finish()
    }
}
