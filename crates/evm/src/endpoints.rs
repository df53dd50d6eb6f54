//! The endpoints of one chain, and which of them is read from. Reads stick to one endpoint, so that
//! answers fit together, until it fails or falls behind.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use fencepost_app::ports::{ChainHealth, ChainUnavailable, Source};
use fencepost_domain::ids::ChainId;
use futures::future::join_all;
use futures::stream::{FuturesUnordered, StreamExt};
use tokio::time::Instant;

use crate::ask::quote::QuoteCache;
use crate::chains::ChainConfig;
use crate::endpoint::{Endpoint, Unready};
use crate::meters::{ChainMeters, Meters, Purpose};
use crate::rpc::{Call, Fault, value};
use crate::standing::Leave;

/// Why a chain could not be asked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unasked {
    #[error("chain {0} is not configured")]
    UnknownChain(ChainId),
    #[error("chain {0} has no endpoint {1}")]
    NoSuchEndpoint(String, usize),
    #[error("chain {0} has no endpoint that can be used now: {1}")]
    NoneUsable(String, String),
    #[error(transparent)]
    Unready(#[from] Unready),
    #[error("endpoint {position} of chain {chain}: {fault}")]
    Fault {
        chain: String,
        position: usize,
        fault: Fault,
    },
    #[error("no endpoint of chain {0} answered")]
    NobodyAnswered(String),
    /// Of a question that another caller asked a moment ago.
    #[error("{0}")]
    AskedBefore(Arc<str>),
}

impl From<Unasked> for ChainUnavailable {
    fn from(why: Unasked) -> Self {
        Self(Box::new(why))
    }
}

pub(crate) struct Endpoints {
    pub(crate) name: Arc<str>,
    pub(crate) all: Vec<Arc<Endpoint>>,
    pub(crate) deadline: Duration,
    pub(crate) poll_interval: Duration,
    pub(crate) meters: ChainMeters,
    pub(crate) quotes: QuoteCache,
    reader: AtomicUsize,
}

impl Endpoints {
    pub(crate) fn new(config: ChainConfig, meters: &Meters) -> Self {
        let name: Arc<str> = config.name.into();
        let meters = meters.on(name.clone());
        let endpoint = |(position, transport)| {
            let (name, meters) = (name.clone(), meters.clone());
            let batch_max = config.batch_max;
            Arc::new(Endpoint::new(
                config.id, name, position, transport, batch_max, meters,
            ))
        };
        let all = config.endpoints.into_iter().enumerate().map(endpoint);
        Self {
            all: all.collect(),
            deadline: config.deadline,
            poll_interval: config.poll_interval,
            quotes: QuoteCache::default(),
            reader: AtomicUsize::new(0),
            meters,
            name,
        }
    }

    pub(crate) fn until(&self) -> Instant {
        Instant::now() + self.deadline
    }

    pub(crate) fn is_usable(&self) -> bool {
        self.all
            .iter()
            .any(|endpoint| endpoint.standing().is_usable())
    }

    pub(crate) fn health(&self) -> ChainHealth {
        ChainHealth {
            name: self.name.to_string(),
            endpoints: self.all.iter().map(|endpoint| endpoint.health()).collect(),
        }
    }

    pub(crate) fn fault(&self, endpoint: &Endpoint, fault: Fault) -> Unasked {
        Unasked::Fault {
            chain: self.name.to_string(),
            position: endpoint.position(),
            fault,
        }
    }

    /// The endpoint that gave an earlier answer of the same pass.
    pub(crate) async fn at(
        &self,
        source: Source,
        until: Instant,
    ) -> Result<&Arc<Endpoint>, Unasked> {
        let endpoint = self.all.get(source.0);
        let endpoint =
            endpoint.ok_or_else(|| Unasked::NoSuchEndpoint(self.name.to_string(), source.0))?;
        endpoint.ready(until).await?;
        Ok(endpoint)
    }

    /// The endpoint to read from now, other than those that have just failed.
    pub(crate) async fn reader(
        &self,
        tried: &[usize],
        until: Instant,
    ) -> Result<&Arc<Endpoint>, Unasked> {
        if let Some(endpoint) = self.best(tried) {
            return Ok(endpoint);
        }
        let why = self.greet_any(tried, until).await;
        let nobody = || Unasked::NoneUsable(self.name.to_string(), why);
        self.best(tried).ok_or_else(nobody)
    }

    /// From now on this one is read from, as long as it keeps up.
    pub(crate) fn read_from(&self, endpoint: &Endpoint) {
        self.reader.store(endpoint.position(), Ordering::Relaxed);
    }

    /// The best of those that stand well: the one we stick to as long as it keeps up, then the first,
    /// and one that lags only when none keeps up.
    fn best(&self, tried: &[usize]) -> Option<&Arc<Endpoint>> {
        let sticky = self.reader.load(Ordering::Relaxed);
        let ranked = self.all.iter().filter_map(|endpoint| {
            let standing = endpoint.standing();
            let position = endpoint.position();
            let is_known = standing.leave(Instant::now()) == Leave::Ask;
            let lag = if standing.is_lagging() {
                standing.lag()
            } else {
                0
            };
            let rank = (lag, !standing.is_good(), position != sticky, position);
            (is_known && !tried.contains(&position)).then_some((rank, endpoint))
        });
        let (_, best) = ranked.min_by_key(|(rank, _)| *rank)?;
        self.read_from(best);
        Some(best)
    }

    /// Greets all that may be greeted, until the first is ready. The others go on by themselves, so
    /// that one that hangs delays nobody.
    async fn greet_any(&self, tried: &[usize], until: Instant) -> String {
        let mut greetings: FuturesUnordered<_> = self
            .all
            .iter()
            .filter(|endpoint| !tried.contains(&endpoint.position()))
            .map(|endpoint| {
                let endpoint = endpoint.clone();
                tokio::spawn(async move { endpoint.ready(until).await })
            })
            .collect();
        let mut why = Vec::new();
        while let Some(greeted) = greetings.next().await {
            match greeted {
                Ok(Ok(())) => break,
                Ok(Err(unready)) => why.push(unready.to_string()),
                Err(stopped) => why.push(stopped.to_string()),
            }
        }
        why.sort();
        why.join("; ")
    }

    /// Asks the reader, and when it cannot tell the next, while there is time.
    pub(crate) async fn read<T, F>(
        &self,
        until: Instant,
        question: impl Fn(Arc<Endpoint>) -> F,
    ) -> Result<T, Unasked>
    where
        F: Future<Output = Result<T, Fault>>,
    {
        let mut tried = Vec::new();
        let mut failed = None;
        loop {
            let endpoint = match self.reader(&tried, until).await {
                Ok(endpoint) => endpoint,
                Err(nobody) => return Err(failed.unwrap_or(nobody)),
            };
            tried.push(endpoint.position());
            match question(endpoint.clone()).await {
                Ok(answer) => return Ok(answer),
                // The first one's trouble tells more than what time was left for the others.
                Err(fault) => failed = failed.or(Some(self.fault(endpoint, fault))),
            }
        }
    }

    /// Asks every endpoint that can be reached, all at once; who gives nothing is left out. One that
    /// was away is waited for only when there is no other: it would delay every answer while it is.
    pub(crate) async fn everyone<T, F>(
        &self,
        until: Instant,
        question: impl Fn(Arc<Endpoint>) -> F,
    ) -> Vec<T>
    where
        F: Future<Output = Option<T>>,
    {
        let is_there = |endpoint: &&Arc<Endpoint>| endpoint.leave() == Leave::Ask;
        let has_any = self.all.iter().any(|endpoint| is_there(&endpoint));
        let asked = self
            .all
            .iter()
            .filter(|endpoint| !has_any || is_there(endpoint) || endpoint.standing().is_untried())
            .map(|endpoint| {
                let question = &question;
                async move {
                    endpoint.ready(until).await.ok()?;
                    question(endpoint.clone()).await
                }
            });
        join_all(asked).await.into_iter().flatten().collect()
    }

    /// The newest block that any other endpoint which answers has told.
    pub(crate) fn best_head(&self, but: &Endpoint) -> u64 {
        let others = self
            .all
            .iter()
            .filter(|other| other.position() != but.position());
        let heads = others.filter_map(|endpoint| {
            let standing = endpoint.standing();
            standing.is_good().then(|| standing.head()).flatten()
        });
        heads.max().unwrap_or(0)
    }

    /// Looks at the heads of those that are not read from, each now and then and in the background:
    /// it tells whether the reader lags, and brings back who was away.
    pub(crate) fn look_around(self: &Arc<Self>, reader: &Endpoint) {
        let every = (self.poll_interval * 5).clamp(Duration::from_secs(1), Duration::from_secs(10));
        let now = Instant::now();
        for endpoint in &self.all {
            if endpoint.position() == reader.position() {
                continue;
            }
            let is_due = match endpoint.leave() {
                Leave::Ask => endpoint
                    .standing()
                    .seen_at()
                    .is_none_or(|at| now >= at + every),
                Leave::Greet => true,
                Leave::Wait | Leave::Later | Leave::Never => false,
            };
            if is_due && !endpoint.is_probed.swap(true, Ordering::AcqRel) {
                tokio::spawn(self.clone().probe(endpoint.clone()));
            }
        }
    }

    async fn probe(self: Arc<Self>, endpoint: Arc<Endpoint>) {
        let until = self.until();
        if endpoint.ready(until).await.is_ok() {
            let call = Call::new("eth_blockNumber", &[]);
            let answer = endpoint.ask_one(Purpose::Head, call, until).await;
            match answer.map(|raw| value::u64(&raw)) {
                Ok(Some(head)) => endpoint.saw_head(head, self.best_head(&endpoint)),
                Ok(None) => endpoint.fails(&Fault::Garbled("no block number")),
                // It was noted with the answer.
                Err(_) => {}
            }
        }
        endpoint.is_probed.store(false, Ordering::Release);
    }
}
