//! Who may ask for what: API keys with scopes and signers. Only hashes of keys are kept, and every
//! key is compared in full, so that neither an answer nor its time tells which part was wrong.
//! The keys can be replaced while the node runs; each request uses one set of keys throughout.

mod keys_file;
mod origin;
mod permit;

use std::collections::HashSet;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use fencepost_app::ports::Record;
use fencepost_domain::{Address, B256};
use jiff::Timestamp;
use sha2::{Digest, Sha256};
use subtle::{ConditionallySelectable, ConstantTimeEq};

use crate::key_rate::KeyRate;
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
    /// The bucket of that rate, made at the first request. Keys of one name share it.
    rate: Arc<OnceLock<KeyRate>>,
    /// From this time on the key is refused.
    expires: Option<Timestamp>,
}

/// The set of keys that new requests are checked against.
type Keys = RwLock<Arc<Vec<Key>>>;

/// All keys, or none at all: then everyone may do everything, which is for loopback addresses only.
/// Clones share the keys: [`Access::reload`] on one replaces them for all.
#[derive(Debug, Clone)]
pub struct Access {
    keys: Option<Arc<Keys>>,
    /// The bucket of callers without a key, where there are no keys.
    open_rate: Arc<OnceLock<KeyRate>>,
    /// Only keys that may operate see nonces.
    hide_nonces: bool,
}

/// Who asks.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    /// The name that audits show.
    pub(crate) name: Arc<str>,
    /// What its requests are counted in.
    pub(crate) rate: KeyRate,
    /// It is told nonces.
    pub(crate) sees_nonces: bool,
    /// It has the scope operate: it is told which key asked for what.
    pub(crate) operates: bool,
    /// It has shown a key.
    has_key: bool,
    signers: Option<Arc<HashSet<Address>>>,
}

impl Access {
    /// No keys: everyone may do everything.
    #[must_use]
    pub fn open() -> Self {
        Self {
            keys: None,
            open_rate: Arc::default(),
            hide_nonces: false,
        }
    }

    /// Reads the keys file, or tells everything that is wrong in it.
    pub fn from_toml(text: &str) -> Result<Self, Vec<BadKey>> {
        let keys = keys_file::read(text)?;
        Ok(Self {
            keys: Some(Arc::new(RwLock::new(Arc::new(keys)))),
            ..Self::open()
        })
    }

    /// Replaces all keys by those of this keys file and returns their number. If anything is wrong
    /// in it, the present keys stay. A node without keys stays without.
    pub fn reload(&self, text: &str) -> Result<usize, Vec<BadKey>> {
        let new = Arc::new(keys_file::read(text)?);
        let count = new.len();
        if let Some(keys) = &self.keys {
            *keys.write().unwrap_or_else(PoisonError::into_inner) = new;
        }
        Ok(count)
    }

    /// The names of keys that are refused from `now` on because they have expired.
    #[must_use]
    pub fn expired(&self, now: Timestamp) -> Vec<String> {
        let keys = self.keys.as_ref().map(|keys| current(keys));
        let keys = keys.iter().flat_map(|keys| keys.iter());
        keys.filter(|key| key.has_expired(now))
            .map(|key| key.name.to_string())
            .collect()
    }

    /// The same, where only keys that may operate see nonces. Without keys everyone may operate.
    #[must_use]
    pub fn hiding_nonces(self, hide_nonces: bool) -> Self {
        Self {
            hide_nonces,
            ..self
        }
    }

    /// Whether everyone may do everything.
    #[must_use]
    pub const fn is_open(&self) -> bool {
        self.keys.is_none()
    }

    /// Whether a caller of a route that needs no key may see all of its answer: without keys everyone may, otherwise a
    /// key with the scope read. A key that is shown and wrong is refused, so that a mistake in it is noticed.
    pub(crate) fn sees_all(
        &self,
        headers: &HeaderMap,
        general: u32,
        now: Timestamp,
    ) -> Result<bool, Problem> {
        if self.is_open() {
            return Ok(true);
        }
        if !headers.contains_key(AUTHORIZATION) {
            return Ok(false);
        }
        let admitted = self.admit(headers, Scope::Read, general, now)?;
        admitted.caller.rate.take()?;
        Ok(admitted.is_allowed)
    }

    /// Who asks, and whether they may do this at all. `general` is the rate of keys without their own.
    fn admit(
        &self,
        headers: &HeaderMap,
        scope: Scope,
        general: u32,
        now: Timestamp,
    ) -> Result<Admitted, Problem> {
        let Some(keys) = &self.keys else {
            origin::check(headers)?;
            let rate = self.open_rate.get_or_init(|| KeyRate::new(general));
            return Ok(Admitted {
                caller: Caller {
                    name: "anonymous".into(),
                    rate: rate.clone(),
                    sees_nonces: true,
                    operates: true,
                    has_key: false,
                    signers: None,
                },
                is_allowed: true,
            });
        };
        let keys = current(keys);
        let found = bearer(headers).and_then(|key| find(&keys, key));
        let key = found.ok_or_else(|| Problem::new(Code::Unauthorized))?;
        if key.has_expired(now) {
            // Only a caller that has the whole key reads this.
            let why = format!("The key {} has expired.", key.name);
            return Err(Problem::new(Code::Unauthorized).detail(why));
        }
        let operates = key.scopes.contains(&Scope::Operate);
        let own = || KeyRate::new(key.rate_per_second.unwrap_or(general));
        Ok(Admitted {
            caller: Caller {
                name: Arc::clone(&key.name),
                rate: key.rate.get_or_init(own).clone(),
                sees_nonces: !self.hide_nonces || operates,
                operates,
                has_key: true,
                signers: key.signers.clone(),
            },
            is_allowed: key.scopes.contains(&scope),
        })
    }
}

impl Key {
    fn has_expired(&self, now: Timestamp) -> bool {
        self.expires.is_some_and(|expires| expires <= now)
    }

    /// Whether both may do the same, at the same rate.
    fn is_equal_in_rights(&self, other: &Self) -> bool {
        self.scopes == other.scopes
            && self.signers == other.signers
            && self.rate_per_second == other.rate_per_second
    }
}

fn current(keys: &Keys) -> Arc<Vec<Key>> {
    Arc::clone(&keys.read().unwrap_or_else(PoisonError::into_inner))
}

/// A caller that is known, whatever it may do.
struct Admitted {
    caller: Caller,
    is_allowed: bool,
}

/// What stands where a text was about a nonce.
pub(crate) const HIDDEN: &str = "It is about a nonce, and hidden from this key.";

impl Caller {
    /// One that may do and see everything.
    #[cfg(test)]
    pub(crate) fn operator() -> Self {
        Self {
            name: "ops".into(),
            rate: KeyRate::new(0),
            sees_nonces: true,
            operates: true,
            has_key: true,
            signers: None,
        }
    }

    /// The name of its key, as rows keep it.
    pub(crate) fn key_name(&self) -> Option<Arc<str>> {
        self.has_key.then(|| Arc::clone(&self.name))
    }

    /// The name of the key that asked for a transaction, as this caller may see it.
    pub(crate) fn creator_of(&self, record: &Record) -> Option<String> {
        let name = record.created_by.as_deref().filter(|_| self.operates);
        name.map(str::to_owned)
    }

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

    /// That it is told nonces.
    pub(crate) fn check_nonces(&self) -> Result<(), Problem> {
        if self.sees_nonces {
            return Ok(());
        }
        let why = "Nonces are hidden from keys without the scope operate (api.hide_nonces).";
        Err(Problem::new(Code::Forbidden).detail(why))
    }

    /// Words of ours, of a person's or of a chain's node, as this caller may read them. Those about nonces name some;
    /// some chains call a nonce a sequence.
    pub(crate) fn words(&self, text: String) -> String {
        if self.may_read(&text) {
            text
        } else {
            HIDDEN.to_owned()
        }
    }

    /// Whether a text is about no nonce, or the caller sees nonces.
    pub(crate) fn may_read(&self, text: &str) -> bool {
        let text = text.to_ascii_lowercase();
        self.sees_nonces || !(text.contains("nonce") || text.contains("sequence"))
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
fn find<'a>(keys: &'a [Key], shown: &[u8]) -> Option<&'a Key> {
    let shown: [u8; 32] = Sha256::digest(shown).into();
    let nobody = u32::MAX;
    let mut found = nobody;
    for (at, key) in (0u32..).zip(keys) {
        found.conditional_assign(&at, key.hash.as_slice().ct_eq(&shown));
    }
    keys.get(usize::try_from(found).ok()?)
}
