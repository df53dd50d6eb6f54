//! Requests without a valid key. Anyone who reaches the node can make them, so they are bounded by the address they come from;
//! health checks are not, because refusing one costs as much as answering it. A request with a valid key is never counted here.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use axum::http::request::Parts;
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep};

use crate::key_rate::{Bucket, limited};
use crate::meters::{Meters, Refused};
use crate::problem::Problem;
use crate::server::Peer;

/// Of how many addresses the rate is kept; all others share one. More takes memory, fewer lets a few thousand addresses
/// share the rate of one.
const ADDRESSES_MAX: usize = 8_192;
/// How often addresses that have not asked for a while are forgotten, at most.
const FORGET_EVERY: Duration = Duration::from_secs(1);
/// Stands for all addresses that have no place of their own.
const OTHERS: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
/// How long the answer to an unknown key is delayed. Longer keeps connections, shorter lets more keys be tried on each.
const SLOWED_BY: Duration = Duration::from_millis(250);
/// How many answers are delayed at once; more are sent at once. Each keeps a connection from being closed for room.
const SLOWED_MAX: usize = 64;
/// One line of the log for all unknown keys in this time.
const LOG_EVERY: Duration = Duration::from_secs(10);

/// What is remembered of callers without a valid key.
pub(crate) struct Keyless {
    per_second: u32,
    addresses: Mutex<Addresses>,
    slowed: Semaphore,
    unlogged: Mutex<Unlogged>,
    meters: Meters,
}

struct Addresses {
    buckets: HashMap<IpAddr, Bucket>,
    forgot: Instant,
}

#[derive(Default)]
struct Unlogged {
    count: u64,
    logged: Option<Instant>,
}

impl Keyless {
    /// So many requests a second for each address; 0 is no limit.
    pub(crate) fn new(per_second: u32, meters: Meters) -> Self {
        Self {
            per_second,
            addresses: Mutex::new(Addresses {
                buckets: HashMap::new(),
                forgot: Instant::now(),
            }),
            slowed: Semaphore::new(SLOWED_MAX),
            unlogged: Mutex::default(),
            meters,
        }
    }

    /// Lets one request in, or tells when to come again. Without a connection there is no address, and no limit.
    pub(crate) fn take(&self, peer: Option<&Peer>) -> Result<(), Problem> {
        let Some(peer) = peer.filter(|_| self.per_second > 0) else {
            return Ok(());
        };
        let mut addresses = self
            .addresses
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let bucket = addresses.bucket(network(peer.address), self.per_second);
        bucket.take(1.0, f64::from(self.per_second)).map_err(|wait| {
            self.meters.refused(Refused::KeylessRate);
            let why = "The address has used up its rate of requests without a valid key. Nothing was stored.";
            limited(wait).detail(why)
        })
    }

    /// What a caller without a valid key is answered. It is counted, logged once in a while, and slowed.
    pub(crate) async fn refuse(&self, parts: &Parts, problem: Problem) -> Problem {
        let peer = parts.extensions.get::<Peer>();
        self.meters.refused(Refused::Unauthorized);
        self.log(peer, parts.uri.path());
        if let Err(limited) = self.take(peer) {
            return limited;
        }
        if peer.is_some()
            && let Ok(_slowed) = self.slowed.try_acquire()
        {
            sleep(SLOWED_BY).await;
        }
        problem
    }

    fn log(&self, peer: Option<&Peer>, path: &str) {
        let mut unlogged = self.unlogged.lock().unwrap_or_else(PoisonError::into_inner);
        unlogged.count += 1;
        if unlogged.logged.is_some_and(|at| at.elapsed() < LOG_EVERY) {
            return;
        }
        let requests = std::mem::take(&mut unlogged.count);
        unlogged.logged = Some(Instant::now());
        let address = peer.map(|peer| tracing::field::display(peer.address));
        tracing::warn!(
            code = "unauthorized",
            requests,
            address,
            path,
            "requests without a known key since the last line like this; address and path are those of the newest"
        );
    }
}

impl Addresses {
    fn bucket(&mut self, address: IpAddr, per_second: u32) -> &mut Bucket {
        if self.buckets.len() >= ADDRESSES_MAX && self.forgot.elapsed() > FORGET_EVERY {
            self.forgot = Instant::now();
            self.buckets.retain(|_, bucket| !bucket.is_full());
        }
        let is_known = self.buckets.contains_key(&address);
        let fits = is_known || self.buckets.len() < ADDRESSES_MAX;
        let key = if fits { address } else { OTHERS };
        let rate = f64::from(per_second);
        let new = || Bucket::new(rate, rate);
        self.buckets.entry(key).or_insert_with(new)
    }
}

/// Whoever has an IPv6 address usually has 2^64 of them.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => IpAddr::V4(address),
        IpAddr::V6(address) => {
            let prefix = u128::from(address) & !u128::from(u64::MAX);
            IpAddr::V6(Ipv6Addr::from_bits(prefix))
        }
    }
}

/// A path that needs no key, and is no health check.
pub(crate) fn is_keyless(path: &str) -> bool {
    !path.starts_with("/api/")
        && !path.starts_with("/internal/")
        && !crate::routes::HEALTH_PATHS.contains(&path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem::Code;

    fn from(address: &str) -> Peer {
        Peer {
            address: address.parse().unwrap(),
            is_spare: false,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn each_address_has_a_rate_of_its_own() {
        let keyless = Keyless::new(2, Meters::default());
        let (one, other) = (from("10.0.0.1"), from("10.0.0.2"));
        assert!(keyless.take(Some(&one)).is_ok());
        assert!(keyless.take(Some(&one)).is_ok());
        let refused = keyless.take(Some(&one)).unwrap_err();
        assert_eq!(refused.code(), Code::RateLimited);
        assert_eq!(refused.told().retry_after(), Some(1));
        assert!(keyless.take(Some(&other)).is_ok());
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(keyless.take(Some(&one)).is_ok());
        let unlimited = Keyless::new(0, Meters::default());
        assert!((0..100).all(|_| unlimited.take(Some(&one)).is_ok()));
    }

    #[tokio::test(start_paused = true)]
    async fn addresses_of_one_ipv6_network_share_a_rate() {
        let keyless = Keyless::new(1, Meters::default());
        assert!(keyless.take(Some(&from("2001:db8::1"))).is_ok());
        assert!(keyless.take(Some(&from("2001:db8::2"))).is_err());
        assert!(keyless.take(Some(&from("2001:db8:0:1::1"))).is_ok());
        assert!(keyless.take(Some(&from("::ffff:10.0.0.1"))).is_ok());
        assert!(keyless.take(Some(&from("10.0.0.1"))).is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn the_table_of_addresses_is_bounded_and_forgets() {
        let keyless = Keyless::new(1, Meters::default());
        let max = u32::try_from(ADDRESSES_MAX).unwrap();
        let nth = |n: u32| Peer {
            address: IpAddr::V4(Ipv4Addr::from_bits(0x0a00_0000 + n)),
            is_spare: false,
        };
        assert!((0..max).all(|n| keyless.take(Some(&nth(n))).is_ok()));
        assert!(
            keyless.take(Some(&nth(max))).is_ok(),
            "the rate of all others"
        );
        assert!(keyless.take(Some(&nth(max + 1))).is_err());
        let known = |keyless: &Keyless| keyless.addresses.lock().unwrap().buckets.len();
        assert_eq!(known(&keyless), ADDRESSES_MAX + 1);
        tokio::time::advance(Duration::from_secs(2)).await;
        assert!(keyless.take(Some(&nth(max + 1))).is_ok());
        assert_eq!(known(&keyless), 1);
    }
}
