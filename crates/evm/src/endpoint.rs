//! One endpoint of a chain: what is known of it, and how it is asked. Nobody is asked anything before
//! it has told that it is of our chain, nor after a silence before it has told so again.

mod breadth;
mod exchange;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use fencepost_app::ports::EndpointHealth;
use fencepost_domain::ids::ChainId;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};

use crate::dialect::Dialect;
use crate::meters::{ChainMeters, Purpose};
use crate::rpc::{Answer, Call, Fault, value};
use crate::standing::{Change, Leave, Standing};
use crate::text;
use crate::transport::Transport;
use breadth::Breadth;
pub(crate) use exchange::Order;

/// Sends to one endpoint that may be under way. One that hangs holds no more connections than these.
const SENDS_MAX: usize = 8;
/// Sends that may be under way or wait for their turn. Fewer would turn a burst away from a healthy
/// endpoint; more would pile up bytes before one that hangs.
const SENDS_QUEUE_MAX: usize = 64;
/// A feature that an endpoint lacks is asked for again after this time: it may be upgraded.
const LACK_TIME: Duration = Duration::from_secs(600);
/// And one that took too long, after this: sooner, and an endpoint to which it is always too much spends its time
/// with that; later, and a hiccup is paid for with more requests for long.
const SLOW_TIME: Duration = Duration::from_secs(60);
/// A version text is a line; some gateways return pages.
const CLIENT_CHARS_MAX: usize = 100;

/// Why an endpoint cannot be asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unready {
    #[error("endpoint {0} failed lately and is not asked yet")]
    Waits(usize),
    #[error("endpoint {0} is of another chain")]
    WrongChain(usize),
    #[error("endpoint {position} does not tell its chain: {why}")]
    Silent { position: usize, why: Fault },
}

/// A thing that an endpoint may not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Feature {
    BlockReceipts,
    Safe,
    Finalized,
}

#[derive(Debug, Default)]
struct Lacks {
    block_receipts: Option<Instant>,
    safe: Option<Instant>,
    finalized: Option<Instant>,
}

impl Lacks {
    const fn of(&mut self, feature: Feature) -> &mut Option<Instant> {
        match feature {
            Feature::BlockReceipts => &mut self.block_receipts,
            Feature::Safe => &mut self.safe,
            Feature::Finalized => &mut self.finalized,
        }
    }
}

pub(crate) struct Endpoint {
    chain: ChainId,
    name: Arc<str>,
    position: usize,
    transport: Arc<dyn Transport>,
    meters: ChainMeters,
    standing: Mutex<Standing>,
    lacks: Mutex<Lacks>,
    breadth: Mutex<Breadth>,
    /// Held while greeting, so that a thousand callers greet once.
    greeting: tokio::sync::Mutex<()>,
    next_id: AtomicU64,
    pub(crate) sends: Semaphore,
    pub(crate) sends_queue: Arc<Semaphore>,
    /// Whether a look at its head is under way.
    pub(crate) is_probed: AtomicBool,
}

impl Endpoint {
    pub(crate) fn new(
        chain: ChainId,
        name: Arc<str>,
        position: usize,
        transport: Arc<dyn Transport>,
        batch_max: usize,
        meters: ChainMeters,
    ) -> Self {
        Self {
            chain,
            name,
            position,
            transport,
            meters,
            standing: Mutex::new(Standing::new()),
            lacks: Mutex::default(),
            breadth: Mutex::new(Breadth::new(batch_max)),
            greeting: tokio::sync::Mutex::new(()),
            next_id: AtomicU64::new(1),
            sends: Semaphore::new(SENDS_MAX),
            sends_queue: Arc::new(Semaphore::new(SENDS_QUEUE_MAX)),
            is_probed: AtomicBool::new(false),
        }
    }

    pub(crate) const fn position(&self) -> usize {
        self.position
    }

    /// What is known of it. Held for a few instructions only.
    pub(crate) fn standing(&self) -> MutexGuard<'_, Standing> {
        self.standing
            .lock()
            .expect("nothing panics while it is held")
    }

    pub(crate) fn leave(&self) -> Leave {
        self.standing().leave(Instant::now())
    }

    pub(crate) fn dialect(&self) -> Dialect {
        self.standing().dialect()
    }

    /// Ids of the next calls.
    fn ids(&self, count: usize) -> u64 {
        let count = u64::try_from(count).unwrap_or(u64::MAX);
        self.next_id.fetch_add(count, Ordering::Relaxed)
    }

    pub(crate) fn has(&self, feature: Feature) -> bool {
        let mut lacks = self.lacks.lock().expect("nothing panics while it is held");
        lacks
            .of(feature)
            .is_none_or(|until| Instant::now() >= until)
    }

    pub(crate) fn lacks(&self, feature: Feature) {
        self.spare(feature, LACK_TIME);
    }

    pub(crate) fn is_slow_with(&self, feature: Feature) {
        self.spare(feature, SLOW_TIME);
    }

    /// Does without it for so long.
    fn spare(&self, feature: Feature, time: Duration) {
        let mut lacks = self.lacks.lock().expect("nothing panics while it is held");
        *lacks.of(feature) = Some(Instant::now() + time);
    }

    /// Sees to it that the endpoint may be asked: greets it where it must tell its chain first.
    pub(crate) async fn ready(&self, until: Instant) -> Result<(), Unready> {
        if self.leave() == Leave::Ask {
            return Ok(());
        }
        let Ok(_alone) = timeout_at(until, self.greeting.lock()).await else {
            return Err(Unready::Waits(self.position));
        };
        // Another one may have greeted it while we waited.
        match self.leave() {
            Leave::Ask => Ok(()),
            Leave::Greet => self.greet(until).await,
            Leave::Wait | Leave::Later => Err(Unready::Waits(self.position)),
            Leave::Never => Err(Unready::WrongChain(self.position)),
        }
    }

    async fn greet(&self, until: Instant) -> Result<(), Unready> {
        let calls = [
            Call::new("eth_chainId", &[]),
            Call::new("web3_clientVersion", &[]),
        ];
        let answers = self
            .exchange(Purpose::Handshake, &calls, Order::Free, until)
            .await;
        let mut answers = answers.into_iter();
        let mut next = || answers.next().unwrap_or(Err(Fault::Unanswered));
        let (id, version) = (next(), next());
        let id = id.and_then(|raw| value::u64(&raw).ok_or(Fault::Garbled("no chain id")));
        let position = self.position;
        match id {
            Ok(id) if id == self.chain.get() => {
                let client = version.ok().and_then(|raw| value::thing::<String>(&raw));
                self.welcomed(client);
                Ok(())
            }
            Ok(id) => {
                let change = self.standing().wrong_chain(Instant::now());
                if change != Change::None {
                    tracing::error!(chain = %self.name, endpoint = position, expected = %self.chain, found = id,
                        "this endpoint is of another chain and is not used");
                }
                Err(Unready::WrongChain(position))
            }
            Err(why) => {
                self.fails(&why);
                Err(Unready::Silent { position, why })
            }
        }
    }

    fn welcomed(&self, client: Option<String>) {
        let client = client.map(|client| {
            let line = text::cleaned(&client);
            line.chars().take(CLIENT_CHARS_MAX).collect::<String>()
        });
        let version = client.clone().unwrap_or_default();
        if self.standing().greeted(client) == Change::CameBack {
            tracing::info!(chain = %self.name, endpoint = self.position, client = %version,
                "this endpoint answers again");
        }
    }

    /// One answer for each call, in the calls' order; what they say of the endpoint is noted. It must
    /// be ready.
    pub(crate) async fn ask(
        &self,
        purpose: Purpose,
        calls: &[Call],
        order: Order,
        until: Instant,
    ) -> Vec<Answer> {
        let answers = self.exchange(purpose, calls, order, until).await;
        self.note(&answers);
        answers
    }

    /// As [`Endpoint::ask`] with a deadline that is too short to blame the endpoint for.
    pub(crate) async fn ask_in_passing(
        &self,
        purpose: Purpose,
        calls: &[Call],
        until: Instant,
    ) -> Vec<Answer> {
        self.exchange(purpose, calls, Order::Free, until).await
    }

    /// One call. Its fault is the endpoint's own if it is not an error of the node.
    pub(crate) async fn ask_one(&self, purpose: Purpose, call: Call, until: Instant) -> Answer {
        let answers = self.ask(purpose, &[call], Order::Free, until).await;
        answers.into_iter().next().unwrap_or(Err(Fault::Unanswered))
    }

    fn note(&self, answers: &[Answer]) {
        let faults = || answers.iter().filter_map(|answer| answer.as_ref().err());
        let blame = |blames: fn(&Fault) -> bool| faults().find(|fault| blames(fault));
        if let Some(fault) = blame(is_breakdown).or_else(|| blame(Fault::is_limit)) {
            self.fails(fault);
        } else if answers
            .iter()
            .any(|answer| !matches!(answer, Err(Fault::NoTime)))
        {
            let change = self.standing().answered();
            if change == Change::CameBack {
                tracing::info!(chain = %self.name, endpoint = self.position, "this endpoint answers again");
            }
        }
    }

    /// It did not answer, or with something that cannot be what was asked for.
    pub(crate) fn fails(&self, fault: &Fault) {
        if *fault == Fault::NoTime {
            return;
        }
        let now = Instant::now();
        let change = if fault.is_limit() {
            self.standing().limited(now)
        } else {
            self.standing().failed(now)
        };
        self.log(change, fault);
    }

    fn log(&self, change: Change, why: &Fault) {
        if change == Change::WentBad {
            tracing::warn!(chain = %self.name, endpoint = self.position, %why,
                "this endpoint does not answer; it is left alone for a while");
        }
    }

    /// Notes its newest block beside the newest of all.
    pub(crate) fn saw_head(&self, head: u64, best: u64) {
        let best = best.max(head);
        let change = self.standing().saw_head(head, best, Instant::now());
        self.meters.head_lag(self.position, best - head);
        match change {
            Change::None => {}
            Change::WentBad => {
                tracing::warn!(chain = %self.name, endpoint = self.position, head, best, "this endpoint lags behind");
            }
            Change::CameBack => {
                tracing::info!(chain = %self.name, endpoint = self.position, head, "this endpoint has caught up");
            }
        }
    }

    pub(crate) fn health(&self) -> EndpointHealth {
        let standing = self.standing();
        EndpointHealth {
            position: self.position,
            state: standing.word(),
            head: standing.head(),
            client: standing.client(),
        }
    }
}

/// Whether the endpoint did not answer as an endpoint does. A batch's single missing answer is no
/// breakdown: the next batch is smaller.
fn is_breakdown(fault: &Fault) -> bool {
    match fault {
        Fault::Status(_)
        | Fault::TimedOut
        | Fault::Unreached(_)
        | Fault::Broken(_)
        | Fault::TooLarge(_)
        | Fault::Garbled(_) => true,
        Fault::Node { .. } | Fault::Limited | Fault::NoTime | Fault::Unanswered => false,
    }
}
