//! The loops of a node, all in one place. Each repeats one step; a step that failed is made good by
//! the next one.

use std::sync::Arc;
use std::time::Duration;

use fencepost_domain::ids::{ChainId, Lane};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval, sleep, timeout};

use crate::causes::Causes;
use crate::lifecycle::follow::Follower;
use crate::lifecycle::follow::pace::Pace;
use crate::lifecycle::retire::{IDLE, STAGES};
use crate::node::{Crew, Node};
use crate::ports::{Chain, Stage};
use crate::recovery::adopt::Adopter;
use crate::settings::Retention;

/// How often lanes without a leader and lanes with a queue are looked for. Longer delays failover,
/// shorter asks the store for nothing most of the time.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// The longest until the next look, however much they cost. Longer, and a failover waits for it.
const LOOK_REST_MAX: Duration = Duration::from_secs(1);
/// How often a node looks whether the database was failed over. Longer, and lanes that may go on wait for it; the look asks
/// the store nothing while there was no failover.
const FAILOVER_EVERY: Duration = Duration::from_millis(250);
/// How often another node is asked which server of the store it works on, each in turn. Longer, and a node goes on for so
/// long with an old primary that runs beside the new one; each question is one small call.
const SERVERS_EVERY: Duration = Duration::from_secs(2);
/// How soon lanes are compared with the chain again that could not be. Longer, and their requests wait; shorter asks
/// endpoints that are down.
const COMPARE_EVERY: Duration = Duration::from_secs(2);
/// How often the feed is looked at while readers wait.
const FEED_EVERY: Duration = Duration::from_millis(100);
/// How long the gauges about all lanes stay as they are, once all is counted. Longer, and alerts come late.
const GAUGE_EVERY: Duration = Duration::from_secs(15);
/// How often it is told how many critical writes were left out of the log.
const LEFT_OUT_EVERY: Duration = Duration::from_secs(1);
/// How often a stopping node looks whether its requests have their answers.
const STOP_CHECK: Duration = Duration::from_millis(5);

/// Of how many signers the balance is asked for in one pass. More would be most of what a quiet node asks.
const BALANCES: usize = 4;
/// Of how many signers it is asked for at all: each has a line among the metrics.
const BALANCES_MAX: usize = 100;

/// A node whose loops run.
pub struct Running {
    node: Arc<Node>,
    tasks: JoinSet<()>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.node.drop_hands();
    }
}

impl Running {
    /// Starts the loops.
    #[must_use]
    pub fn start(crew: Crew) -> Self {
        let Crew {
            node,
            workers,
            creates,
            moves,
            clerk,
            completer,
            shippers,
            followers,
        } = crew;
        let mut tasks = JoinSet::new();
        for worker in workers {
            tasks.spawn(worker.run());
        }
        tasks.spawn(creates.run());
        tasks.spawn(moves.run());
        tasks.spawn(clerk.run());
        tasks.spawn(completer.run());
        for shipper in shippers {
            tasks.spawn(shipper.run());
        }
        for follower in followers {
            let announced = Arc::new(Notify::new());
            let (chain, id) = (follower.chain(), follower.settings().id);
            tasks.spawn(watch_heads(chain, id, Arc::clone(&announced)));
            tasks.spawn(follow(follower, announced));
        }
        tasks.spawn(keep(Arc::clone(&node)));
        tasks.spawn(tidy(Arc::clone(&node)));
        tasks.spawn(look(Arc::clone(&node)));
        tasks.spawn(tell(Arc::clone(&node)));
        tasks.spawn(wait(Arc::clone(&node)));
        tasks.spawn(vouch(Arc::clone(&node)));
        tasks.spawn(compare_servers(Arc::clone(&node)));
        if !node.store_memory.is_acquainted() {
            tasks.spawn(get_acquainted(Arc::clone(&node)));
        }
        tasks.spawn(gauge(Arc::clone(&node)));
        tasks.spawn(sum_up(Arc::clone(&node)));
        if let Some(retention) = node.settings.retention {
            tasks.spawn(retire(Arc::clone(&node), retention));
        }
        Self { node, tasks }
    }

    /// Stops gracefully: what is in hand is finished, then everything is given up. Takes no longer
    /// than `within`; leases that are not given up by then run out.
    pub async fn stop(mut self, within: Duration) {
        self.node.drain();
        let node = Arc::clone(&self.node);
        let orderly = async {
            while node.in_hand() > 0 {
                sleep(STOP_CHECK).await;
            }
            self.tasks.abort_all();
            while self.tasks.join_next().await.is_some() {}
            node.drop_hands();
            if let Err(error) = node.release_all().await {
                tracing::warn!(error = %Causes(&error), "giving up the leases failed; they run out");
            }
            node.log_left_out();
        };
        if timeout(within, orderly).await.is_err() {
            tracing::warn!(
                ?within,
                in_hand = node.in_hand(),
                "the node stops before all is answered"
            );
        }
    }
}

/// Ticks at once, and then once in each period; a late tick puts the others off.
fn every(period: Duration) -> Interval {
    let mut timer = interval(period);
    timer.set_missed_tick_behavior(MissedTickBehavior::Delay);
    timer
}

async fn keep(node: Arc<Node>) {
    let mut timer = every(node.settings.renew_interval);
    loop {
        timer.tick().await;
        node.renew().await;
        node.beat().await;
        node.compare_clocks().await;
    }
}

/// Apart from the follower, which must not wait for announcements.
async fn watch_heads(chain: Arc<dyn Chain>, id: ChainId, announced: Arc<Notify>) {
    chain.watch_heads(id, &announced).await;
}

async fn follow(mut follower: Follower, announced: Arc<Notify>) {
    let mut pace = Pace::new(follower.settings().poll_interval, announced);
    let mut failing = false;
    loop {
        pace.next().await;
        let looked = follower.pass().await;
        pace.looked();
        let chain = follower.settings().name.as_str();
        match &looked {
            Err(error) if !failing => {
                tracing::warn!(chain, error = %Causes(error), "the chain cannot be followed now");
            }
            Ok(()) if failing => tracing::info!(chain, "the chain is followed again"),
            Ok(()) | Err(_) => {}
        }
        failing = looked.is_err();
    }
}

/// Apart from the renewal, which must not wait for it.
async fn tidy(node: Arc<Node>) {
    let mut timer = every(node.settings.renew_interval);
    loop {
        timer.tick().await;
        if let Err(error) = node.release_unused().await {
            tracing::warn!(error = %Causes(&error), "giving up unused lanes failed");
        }
        if let Err(error) = node.release_unreached().await {
            tracing::warn!(error = %Causes(&error), "giving up lanes of a chain out of reach failed");
        }
    }
}

async fn look(node: Arc<Node>) {
    let mut adopter = Adopter::new(node);
    let mut before = Duration::ZERO;
    loop {
        let began = Instant::now();
        let looked = adopter.pass().await;
        let took = began.elapsed();
        match looked {
            Ok(()) => {
                sleep(rest(took, before)).await;
                before = took;
            }
            // A look that waited for a store that is away says nothing about its cost.
            Err(error) => {
                tracing::warn!(error = %Causes(&error), "looking for orphaned lanes failed");
                sleep(LOOK_EVERY).await;
            }
        }
    }
}

/// How long to wait after a look that took so long, and the one before it. Their cost grows with the lanes that have
/// work: they may take a tenth of a connection's time. One that was held up once, by a disk or by whoever held a lane's
/// row, is none: a failover would wait ten times as long.
fn rest(took: Duration, before: Duration) -> Duration {
    (took.min(before) * 10).clamp(LOOK_EVERY, LOOK_REST_MAX)
}

async fn tell(node: Arc<Node>) {
    let mut timer = every(FEED_EVERY);
    loop {
        timer.tick().await;
        if let Err(error) = node.watch_feed().await {
            tracing::warn!(error = %Causes(&error), "looking at the feed failed");
        }
    }
}

async fn sum_up(node: Arc<Node>) {
    let mut timer = every(LEFT_OUT_EVERY);
    loop {
        timer.tick().await;
        node.log_left_out();
    }
}

async fn wait(node: Arc<Node>) {
    let mut failing = false;
    loop {
        let answered = node.answer_waiters().await;
        if let Err(error) = &answered
            && !failing
        {
            tracing::warn!(error = %Causes(error), "reading for clients that wait failed");
        }
        failing = answered.is_err();
    }
}

async fn vouch(node: Arc<Node>) {
    let mut timer = every(FAILOVER_EVERY);
    let mut silent = Vec::new();
    loop {
        timer.tick().await;
        if let Err(error) = node.vouch(&mut silent).await {
            tracing::warn!(error = %Causes(&error), "judging lanes after a failover of the database failed");
        }
    }
}

async fn compare_servers(node: Arc<Node>) {
    let mut timer = every(SERVERS_EVERY);
    let mut turn = 0;
    loop {
        timer.tick().await;
        let peers = node.store_memory.peers();
        let url = peers.get(turn % peers.len().max(1));
        turn = turn.wrapping_add(1);
        if let Some(url) = url {
            node.compare_servers(url).await;
        }
    }
}

/// Until every lane of a store that this node meets for the first time was compared with the chain.
async fn get_acquainted(node: Arc<Node>) {
    loop {
        match node.compare_lanes().await {
            Ok(true) => {
                node.store_memory.get_acquainted();
                tracing::info!(
                    "all lanes were compared with the chain: this node remembers the store from now on"
                );
                return;
            }
            Ok(false) => {}
            Err(error) => {
                tracing::warn!(error = %Causes(&error), "comparing the lanes with the chain failed");
            }
        }
        sleep(COMPARE_EVERY).await;
    }
}

async fn retire(node: Arc<Node>, retention: Retention) {
    let idle = IDLE.max(retention.interval);
    let (mut wait, mut batch) = (retention.interval, retention.batch);
    let mut sweep_at = Instant::now();
    loop {
        sleep(wait).await;
        // A walk that begins anew steps over all that was deleted and not yet cleared away, so it rests at its end.
        let sweeps = Instant::now() >= sweep_at;
        let stages: &[Stage] = if sweeps { &STAGES } else { &STAGES[..2] };
        let little = Retention { batch, ..retention };
        wait = match node.retire(little, stages).await {
            Ok(more) => {
                if sweeps && !more.contains(&Stage::Sweep) {
                    sweep_at = Instant::now() + idle;
                }
                batch = batch.saturating_mul(2).min(retention.batch);
                if more.is_empty() {
                    idle
                } else {
                    retention.interval
                }
            }
            Err(error) => {
                tracing::warn!(error = %Causes(&error), batch, "retiring what ended long ago failed");
                // The same batch may never be done in the time that a statement has.
                batch = (batch / 2).max(1);
                idle
            }
        };
    }
}

async fn gauge(node: Arc<Node>) {
    let lanes: Vec<Lane> = node.directory.lanes().take(BALANCES_MAX).collect();
    let mut balances = lanes.iter().cycle();
    loop {
        if let Err(error) = node.gauge().await {
            tracing::warn!(error = %Causes(&error), "taking the gauges failed");
        }
        for lane in balances.by_ref().take(BALANCES.min(lanes.len())) {
            node.weigh(*lane).await;
        }
        sleep(GAUGE_EVERY).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_rest_by_what_they_cost_and_not_by_what_held_one_up() {
        let ms = Duration::from_millis;
        for (took, before, expected) in [
            (1, 0, 100),
            (1, 1, 100),
            (30, 30, 300),
            (30, 40, 300),
            (3_000, 5, 100),
            (5, 3_000, 100),
            (3_000, 3_000, 1_000),
        ] {
            assert_eq!(rest(ms(took), ms(before)), ms(expected), "{took} {before}");
        }
    }
}
