//! Who may ask for what: API keys with scopes and signers. Only hashes of keys are kept, and every
//! key is compared in full, so that neither an answer nor its time tells which part was wrong.

mod keys_file;
mod origin;
mod permit;

use std::collections::HashSet;
use std::sync::Arc;

use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use fencepost_domain::{Address, B256};
use sha2::{Digest, Sha256};
use subtle::{ConditionallySelectable, ConstantTimeEq};

use crate::problem::{Code, Problem};

pub use keys_file::BadKey;
pub(crate) use permit::{Operator, Reader, Submitter};

/// What a key may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Scope {
    /// Have transactions sent, and nonces reserved.
    Submit,
    /// See transactions, signers and the feed.
    Read,
    /// Hold, mend and audit signers and their transactions.
    Operate,
}

impl Scope {
    const ALL: [Self; 3] = [Self::Submit, Self::Read, Self::Operate];

    const fn word(self) -> &'static str {
        match self {
            Self::Submit => "submit",
            Self::Read => "read",
            Self::Operate => "operate",
        }
    }
}

/// One key, without the key.
#[derive(Debug, Clone)]
struct Key {
    name: Arc<str>,
    hash: B256,
    scopes: HashSet<Scope>,
    /// Only these; none is all.
    signers: Option<Arc<HashSet<Address>>>,
    /// Its own rate; none is the general one.
    rate_per_second: Option<u32>,
}

/// All keys, or none at all: then everyone may do everything, which is for loopback addresses only.
#[derive(Debug, Clone)]
pub struct Access {
    keys: Option<Vec<Key>>,
}

/// Who asks.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    /// The name that audits show.
    pub(crate) name: Arc<str>,
    /// Its place among the rates.
    pub(crate) rate: usize,
    signers: Option<Arc<HashSet<Address>>>,
}

impl Access {
    /// No keys: everyone may do everything.
    #[must_use]
    pub const fn open() -> Self {
        Self { keys: None }
    }

    /// Whether everyone may do everything.
    #[must_use]
    pub const fn is_open(&self) -> bool {
        self.keys.is_none()
    }

    /// The rate of each key, in their order; without keys there is one.
    pub(crate) fn rates(&self, general: u32) -> Vec<u32> {
        match &self.keys {
            None => vec![general],
            Some(keys) => keys
                .iter()
                .map(|key| key.rate_per_second.unwrap_or(general))
                .collect(),
        }
    }

    /// Who asks, and whether they may do this at all.
    fn admit(&self, headers: &HeaderMap, scope: Scope) -> Result<Admitted, Problem> {
        let Some(keys) = &self.keys else {
            origin::check(headers)?;
            return Ok(Admitted {
                caller: Caller {
                    name: "anonymous".into(),
                    rate: 0,
                    signers: None,
                },
                is_allowed: true,
            });
        };
        let found = bearer(headers).and_then(|key| find(keys, key));
        let (at, key) = found.ok_or_else(|| Problem::new(Code::Unauthorized))?;
        Ok(Admitted {
            caller: Caller {
                name: Arc::clone(&key.name),
                rate: at,
                signers: key.signers.clone(),
            },
            is_allowed: key.scopes.contains(&scope),
        })
    }
}

/// A caller that is known, whatever it may do.
struct Admitted {
    caller: Caller,
    is_allowed: bool,
}

impl Caller {
    /// Whether the key covers this signer.
    pub(crate) fn covers(&self, signer: Address) -> bool {
        self.signers
            .as_ref()
            .is_none_or(|signers| signers.contains(&signer))
    }

    /// Whether the key covers some signers only.
    pub(crate) const fn is_limited(&self) -> bool {
        self.signers.is_some()
    }

    /// That the key covers this signer.
    pub(crate) fn check(&self, signer: Address) -> Result<(), Problem> {
        if self.covers(signer) {
            Ok(())
        } else {
            Err(Problem::new(Code::Forbidden))
        }
    }
}

fn bearer(headers: &HeaderMap) -> Option<&[u8]> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let (value, None) = (values.next()?.as_bytes(), values.next()) else {
        return None;
    };
    let (scheme, key) = value.split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"bearer ").then_some(key)
}

/// Every key is looked at, whether an earlier one was it or not.
fn find<'a>(keys: &'a [Key], shown: &[u8]) -> Option<(usize, &'a Key)> {
    let shown: [u8; 32] = Sha256::digest(shown).into();
    let nobody = u32::MAX;
    let mut found = nobody;
    for (at, key) in (0u32..).zip(keys) {
        found.conditional_assign(&at, key.hash.as_slice().ct_eq(&shown));
    }
    let at = usize::try_from(found).ok()?;
    keys.get(at).map(|key| (at, key))
}
