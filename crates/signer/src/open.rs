//! Opening: every spec is looked at, and either all of them give keys or all that is wrong is told.

use std::collections::HashMap;

use fencepost_domain::Address;
use futures::{StreamExt, stream};

use crate::keyring::Key;
use crate::keystore::{self, BadKeystore};
use crate::local::LocalKey;
use crate::mnemonic::{self, BadMnemonic};
use crate::private::{self, BadPrivate};
use crate::remote::{BadUrl, Dialer, Remote};
use crate::spec::{KeySource, KeySpec, Limits};

/// One spec gives no keys.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("key {position}: {flaw}")]
pub struct OpenError {
    /// The spec's place in the list, from zero.
    pub position: usize,
    /// What is wrong with it.
    pub flaw: Flaw,
}

/// What is wrong with a spec. No variant can hold anything secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Flaw {
    /// The private key is not one.
    #[error(transparent)]
    Private(#[from] BadPrivate),
    /// The keystore cannot be opened.
    #[error(transparent)]
    Keystore(#[from] BadKeystore),
    /// The mnemonic gives no keys.
    #[error(transparent)]
    Mnemonic(#[from] BadMnemonic),
    /// The service's URL is not one.
    #[error(transparent)]
    Url(#[from] BadUrl),
    /// A key that is not here does not tell its account.
    #[error("a remote or watch-only key needs its address")]
    NoAddress,
    /// The key is another account's.
    #[error("the key is of {found}, not of {given}")]
    OtherAddress {
        /// What the configuration says.
        given: Address,
        /// What the key says.
        found: Address,
    },
    /// A range has more than one account.
    #[error("an address is given for a range of {count} keys")]
    AddressOfMany {
        /// How many keys the range has.
        count: usize,
    },
    /// Two keys for one account: which one signs would be chance.
    #[error("{address} is already the account of key {first}")]
    Twice {
        /// The account.
        address: Address,
        /// The place of the spec that gave it first.
        first: usize,
    },
    /// Opening it panicked, which is a defect of ours.
    #[error("the key could not be read, for a reason that is not known")]
    Unknown,
}

/// The keys that all specs give together, and the accounts that each gives.
pub(crate) struct Opened {
    pub(crate) keys: HashMap<Address, Key>,
    pub(crate) addresses: Vec<Vec<Address>>,
}

pub(crate) async fn all(specs: Vec<KeySpec>, limits: Limits) -> Result<Opened, Vec<OpenError>> {
    let dialer = Dialer::new(limits);
    let openings = specs.into_iter().map(|spec| one(spec, &dialer));
    collect(at_most(limits.openings, openings).await)
}

/// Runs a few at a time, and gives what they gave in the order of the list.
async fn at_most<T>(
    limit: usize,
    jobs: impl IntoIterator<Item = impl Future<Output = T>>,
) -> Vec<(usize, T)> {
    let jobs = jobs.into_iter().enumerate();
    let jobs = jobs.map(|(position, job)| async move { (position, job.await) });
    let mut done: Vec<_> = stream::iter(jobs)
        .buffer_unordered(limit.max(1))
        .collect()
        .await;
    done.sort_by_key(|(position, _)| *position);
    done
}

type Keys = Vec<(Address, Key)>;

/// Later specs are looked at even when an earlier one is wrong: the operator mends them in one go.
fn collect(results: Vec<(usize, Result<Keys, Flaw>)>) -> Result<Opened, Vec<OpenError>> {
    let mut keys = HashMap::new();
    let mut owners: HashMap<Address, usize> = HashMap::new();
    let mut addresses = Vec::with_capacity(results.len());
    let mut errors = Vec::new();
    for (position, result) in results {
        let given = match result {
            Ok(given) => given,
            Err(flaw) => {
                errors.push(OpenError { position, flaw });
                continue;
            }
        };
        // One error per spec: two equal ranges would otherwise fill the screen.
        let taken = given
            .iter()
            .find_map(|(address, _)| Some((*address, *owners.get(address)?)));
        if let Some((address, first)) = taken {
            let flaw = Flaw::Twice { address, first };
            errors.push(OpenError { position, flaw });
            continue;
        }
        addresses.push(given.iter().map(|(address, _)| *address).collect());
        owners.extend(given.iter().map(|(address, _)| (*address, position)));
        keys.extend(given);
    }
    if errors.is_empty() {
        Ok(Opened { keys, addresses })
    } else {
        Err(errors)
    }
}

async fn one(spec: KeySpec, dialer: &Dialer) -> Result<Keys, Flaw> {
    let KeySpec { source, address } = spec;
    match source {
        KeySource::Private(text) => {
            of_one(local(move || Ok(private::read(&text)?)).await?, address)
        }
        KeySource::Keystore { json, password } => {
            let open = move || Ok(keystore::open(&json, &password)?);
            of_one(local(open).await?, address)
        }
        KeySource::Mnemonic { phrase, count } => {
            let derive = move || Ok(mnemonic::derive(&phrase, count)?);
            of_many(local(derive).await?, address)
        }
        KeySource::Remote { url } => {
            let address = address.ok_or(Flaw::NoAddress)?;
            let remote = Remote::new(dialer, &url, address)?;
            Ok(vec![(address, Key::Remote(remote))])
        }
        KeySource::Watch => Ok(vec![(address.ok_or(Flaw::NoAddress)?, Key::Watch)]),
    }
}

/// The work of seconds, away from the threads that must keep answering. A secret moves in with it and
/// is wiped there.
async fn local<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Flaw> + Send + 'static,
) -> Result<T, Flaw> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or(Err(Flaw::Unknown))
}

fn of_one(key: LocalKey, given: Option<Address>) -> Result<Keys, Flaw> {
    let found = key.address();
    match given {
        Some(given) if given != found => Err(Flaw::OtherAddress { given, found }),
        Some(_) | None => Ok(vec![(found, Key::Local(key))]),
    }
}

fn of_many(mut keys: Vec<LocalKey>, given: Option<Address>) -> Result<Keys, Flaw> {
    let count = keys.len();
    match (keys.pop(), given) {
        (Some(only), given) if count == 1 => of_one(only, given),
        (_, Some(_)) => Err(Flaw::AddressOfMany { count }),
        (last, None) => {
            let all = keys.into_iter().chain(last);
            Ok(all.map(|key| (key.address(), Key::Local(key))).collect())
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[tokio::test]
    async fn no_more_keys_are_opened_at_a_time_than_the_limit() {
        for (limit, expected) in [(0, 1), (1, 1), (2, 2), (50, 20)] {
            let (running, most) = (Cell::new(0), Cell::new(0));
            let jobs = (0..20).map(|position: usize| {
                let (running, most) = (&running, &most);
                async move {
                    running.set(running.get() + 1);
                    most.set(most.get().max(running.get()));
                    // Later ones are quicker, so that they end in another order.
                    for _ in position..20 {
                        tokio::task::yield_now().await;
                    }
                    running.set(running.get() - 1);
                    position
                }
            });
            let done = at_most(limit, jobs).await;
            assert_eq!(most.get(), expected);
            assert!(
                done.into_iter()
                    .eq((0..20).map(|position| (position, position)))
            );
        }
    }
}
