//! The load: a thread of its own that posts prepared requests on kept connections, in a closed loop or on a
//! schedule. It takes its own time as well, to say when it was itself the limit.

mod alarm;
mod client;
mod template;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use tokio::runtime::Builder;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use crate::process::thread_cpu;
use crate::window::{LEAD, Window};
use alarm::Alarm;
use client::{Client, Tally};
use template::Template;

/// The generator's thread is the limit when it works for more of the time than this.
const BUSY_MAX: f64 = 0.9;

/// What is posted, and how.
#[derive(Debug, Clone)]
pub(crate) struct Shape {
    /// How many requests one call carries; one is a plain create.
    pub(crate) batch: usize,
    /// Of a hundred requests, so many repeat one that was answered.
    pub(crate) duplicates: u64,
    /// Of the transaction's data, before it is written as hex.
    pub(crate) data_bytes: usize,
    pub(crate) connections: usize,
    /// How much of another generator's ids this one leaves alone.
    pub(crate) signers: Arc<[String]>,
    /// The point that each answer waits for, if it does.
    pub(crate) wait: Option<&'static str>,
}

/// What a stretch of load brought.
#[derive(Debug, Default)]
pub(crate) struct Slice {
    /// Requests that were answered with a transaction.
    pub(crate) accepted: u64,
    /// … of which so many were new.
    pub(crate) fresh: u64,
    /// Requests that were answered with anything else.
    pub(crate) refused: u64,
    /// What one of those said.
    pub(crate) refusal: Option<String>,
    pub(crate) elapsed: Duration,
    /// Of a closed loop, what was answered in its window, and how long that was.
    steady: (f64, Duration),
    /// How long the generator's thread was at work, and of what time: of a closed loop's window, else of all.
    busy: (Duration, Duration),
    /// From the moment a request should have been sent until its answer.
    pub(crate) latencies: Vec<Duration>,
    /// The same of those that were due in the lead.
    pub(crate) early: Vec<Duration>,
    /// How late the generator sent what it was free to send.
    pub(crate) lags: Vec<Duration>,
}

impl Slice {
    /// Of a closed loop, in its window.
    pub(crate) fn steady_rate(&self) -> f64 {
        let (accepted, time) = self.steady;
        crate::figures::share(accepted, time.as_secs_f64())
    }

    /// Of all of it.
    pub(crate) fn rate(&self) -> f64 {
        crate::figures::per_second(self.accepted, self.elapsed)
    }

    /// The share of the time for which the generator's thread was at work.
    pub(crate) fn business(&self) -> f64 {
        crate::figures::share(self.busy.0.as_secs_f64(), self.busy.1.as_secs_f64())
    }

    /// Whether a faster node would not have been noticed.
    pub(crate) fn was_limit(&self) -> bool {
        self.business() > BUSY_MAX
    }

    /// Both, one after the other.
    pub(crate) fn add(&mut self, other: Slice) {
        self.accepted += other.accepted;
        self.fresh += other.fresh;
        self.refused += other.refused;
        self.refusal = self.refusal.take().or(other.refusal);
        self.elapsed += other.elapsed;
        self.steady.0 += other.steady.0;
        self.steady.1 += other.steady.1;
        self.busy.0 += other.busy.0;
        self.busy.1 += other.busy.1;
        self.latencies.extend(other.latencies);
        self.early.extend(other.early);
        self.lags.extend(other.lags);
    }
}

/// When requests are sent.
#[derive(Debug, Clone, Copy)]
enum Pace {
    /// Each connection sends when it has its answer.
    Closed(Window),
    /// So many a second, whether answers come or not; the first of them early.
    Open {
        began: Instant,
        rate: f64,
        early: u64,
        count: u64,
    },
}

/// How fast.
#[derive(Debug, Clone, Copy)]
enum Rate {
    /// As answers come, with a window after so long.
    Closed(Duration),
    /// So many a second.
    Open(f64),
}

struct Order {
    rate: Rate,
    time: Duration,
    reply: oneshot::Sender<Result<Slice>>,
}

/// A generator with its connections. Its thread ends when this is dropped.
pub(crate) struct Load {
    orders: mpsc::Sender<Order>,
}

impl Load {
    /// Opens the connections, in turn to all nodes.
    pub(crate) async fn start(nodes: Vec<SocketAddr>, shape: Shape) -> Result<Self> {
        let (orders, taken) = mpsc::channel(1);
        let (opened, ready) = oneshot::channel();
        thread::Builder::new()
            .name("load".to_owned())
            .spawn(move || run(&nodes, &shape, taken, opened))?;
        ready.await.context("the generator is gone")??;
        Ok(Self { orders })
    }

    /// As fast as answers come.
    pub(crate) async fn closed(&self, time: Duration) -> Result<Slice> {
        self.order(Rate::Closed(Duration::ZERO), time).await
    }

    /// The same, with a window after a [`LEAD`].
    pub(crate) async fn steady(&self, time: Duration) -> Result<Slice> {
        self.order(Rate::Closed(LEAD), time).await
    }

    /// So many requests a second, by the clock. What was due in the [`LEAD`] is told apart: the load is not steady
    /// until then.
    pub(crate) async fn open(&self, rate: f64, time: Duration) -> Result<Slice> {
        self.order(Rate::Open(rate), time).await
    }

    async fn order(&self, rate: Rate, time: Duration) -> Result<Slice> {
        let (reply, answer) = oneshot::channel();
        let order = Order { rate, time, reply };
        let sent = self.orders.send(order).await;
        sent.ok().context("the generator is gone")?;
        answer.await.context("the generator is gone")?
    }
}

fn run(
    nodes: &[SocketAddr],
    shape: &Shape,
    mut orders: mpsc::Receiver<Order>,
    opened: oneshot::Sender<Result<()>>,
) {
    let runtime = match Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            let _ = opened.send(Err(error.into()));
            return;
        }
    };
    runtime.block_on(async {
        let mut clients = match open(nodes, shape).await {
            Ok(clients) => clients,
            Err(error) => {
                let _ = opened.send(Err(error));
                return;
            }
        };
        let _ = opened.send(Ok(()));
        while let Some(Order { rate, time, reply }) = orders.recv().await {
            let done = slice(&mut clients, rate, time).await;
            let _ = reply.send(done);
        }
    });
}

async fn open(nodes: &[SocketAddr], shape: &Shape) -> Result<Vec<Client>> {
    let nanos = SystemTime::now().duration_since(UNIX_EPOCH)?.as_nanos();
    let run = u32::try_from(nanos / 1_000 % u128::from(u32::MAX))?;
    let template = Template::new(shape);
    let mut clients = Vec::new();
    for number in 0..shape.connections {
        // Each node has its own signers, so that what is measured is not forwarding.
        let spread = nodes.len().min(shape.signers.len());
        let node = number % spread;
        let own = (node..shape.signers.len()).step_by(spread).collect();
        clients.push(Client::open(nodes[node], number, run, own, template.clone(), shape).await?);
    }
    Ok(clients)
}

async fn slice(clients: &mut Vec<Client>, rate: Rate, time: Duration) -> Result<Slice> {
    let (began, busy) = (Instant::now(), thread_cpu());
    let pace = match rate {
        Rate::Closed(lead) => Pace::Closed(Window::after(lead, time)),
        Rate::Open(rate) => Pace::Open {
            began,
            rate,
            early: count(rate, LEAD),
            count: count(rate, LEAD + time),
        },
    };
    let next = Arc::new(AtomicU64::new(0));
    let mut at_work = JoinSet::new();
    for client in clients.drain(..) {
        at_work.spawn(work(client, pace, Arc::clone(&next)));
    }
    let mut slice = Slice::default();
    if let Pace::Closed(window) = pace {
        slice.busy = busy_in(window).await;
        slice.steady.1 = window.time();
    }
    while let Some(ended) = at_work.join_next().await {
        let (client, tally) = ended?.context("the load broke off")?;
        slice.add(tally.slice());
        clients.push(client);
    }
    slice.elapsed = began.elapsed();
    if let Pace::Open { .. } = pace {
        slice.busy = (thread_cpu().saturating_sub(busy), slice.elapsed);
    }
    Ok(slice)
}

/// How long this thread was at work in a window, and how long that was: a busy thread sees its end late.
async fn busy_in(window: Window) -> (Duration, Duration) {
    sleep_until(window.from.into()).await;
    let (began, busy) = (Instant::now(), thread_cpu());
    sleep_until(window.until.into()).await;
    (thread_cpu().saturating_sub(busy), began.elapsed())
}

/// How many requests a schedule has.
fn count(rate: f64, time: Duration) -> u64 {
    let whole = Duration::try_from_secs_f64(rate * time.as_secs_f64());
    whole.map_or(0, |whole| whole.as_secs())
}

async fn work(mut client: Client, pace: Pace, next: Arc<AtomicU64>) -> Result<(Client, Tally)> {
    let mut tally = Tally::default();
    match pace {
        Pace::Closed(window) => {
            while !window.is_over() {
                let (sent, before) = (std::time::Instant::now(), tally.accepted);
                client.post(&mut tally).await?;
                let accepted = crate::figures::real(tally.accepted - before);
                tally.steady += accepted * window.part(sent, std::time::Instant::now());
            }
        }
        Pace::Open {
            began,
            rate,
            early,
            count,
        } => {
            let alarm = Alarm::new()?;
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= count {
                    break;
                }
                let due = began + Duration::from_secs_f64(crate::figures::real(number) / rate);
                if Instant::now() < due {
                    alarm.until(due).await?;
                    if number >= early {
                        tally.lags.push(due.elapsed());
                    }
                }
                client.post(&mut tally).await?;
                if number < early {
                    tally.early.push(due.elapsed());
                } else {
                    tally.latencies.push(due.elapsed());
                }
            }
        }
    }
    Ok((client, tally))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schedule_has_as_many_requests_as_its_rate_and_time_give() {
        assert_eq!(count(250.0, Duration::from_secs(2)), 500);
        assert_eq!(count(0.0, Duration::from_secs(2)), 0);
        assert_eq!(count(f64::NAN, Duration::from_secs(2)), 0);
    }
}
