//! The gauges about all lanes: what has not ended and how old it is, and what signers have.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::PoisonError;
use std::time::Duration;

use fencepost_domain::ids::{ChainId, Lane, TxId};
use fencepost_domain::state::Why;
use tokio::time::{Instant, sleep};

use crate::node::{HaltedLanes, Node};
use crate::ports::{Backlog, PauseReason, PausedLanes, READ_LIMIT_MAX, StoreError};

/// For so many times of what a page of the unfinished took, counting rests. Fewer, and writers feel it; more, and a
/// long backlog is told late.
const PAGE_RESTS: u32 = 10;
/// The longest such rest. Longer, and a slow store's gauges grow old; shorter, and it gets no rest.
const PAGE_REST_MAX: Duration = Duration::from_secs(1);
/// So many pages in a row may fail before counting is given up for this time.
const FAILURES_MAX: u32 = 3;
/// The longest that is counted. Longer, and requests that come in quicker than they are counted keep the gauges as they
/// were; shorter, and less of a long backlog is told.
const COUNTS_MAX: Duration = Duration::from_mins(2);

impl Node {
    /// Takes the gauges about all lanes.
    pub(crate) async fn gauge(&self) -> Result<(), StoreError> {
        let pulse = self.store.ping().await?;
        if let Some(age) = pulse.oldest_snapshot {
            self.meters.oldest_snapshot(age);
        }
        self.gauge_halted().await?;
        let Counted {
            backlog,
            stuck,
            whole,
        } = self.count().await?;
        if !whole {
            tracing::warn!(
                "not all that is unfinished could be counted in time: there is more than is told"
            );
        }
        let now = self.clock.now();
        for chain in &self.chains {
            for why in Why::ALL {
                match stuck.get(&(chain.id, *why)) {
                    Some(count) => self.meters.stuck_now(&chain.name, *why, *count),
                    None if whole => self.meters.stuck_now(&chain.name, *why, 0),
                    // Those may not have been reached.
                    None => {}
                }
            }
            let (depth, oldest) = match backlog.get(&chain.id) {
                Some(pending) => {
                    let age = now.duration_since(pending.oldest_at);
                    (pending.count, age.try_into().unwrap_or_default())
                }
                None if whole => (0, Duration::ZERO),
                // It was not reached: what was told of it before is all that is known.
                None => continue,
            };
            self.meters.pending(&chain.name, depth, oldest);
        }
        Ok(())
    }

    /// Lanes that do not go on: paused ones by reason, and those with work that nobody leads. Of the latter one page
    /// is counted: that there are any is what matters.
    async fn gauge_halted(&self) -> Result<(), StoreError> {
        let paused = self.store.paused_lanes().await?;
        self.note_halted(&paused);
        let unled = self.store.orphans(None, READ_LIMIT_MAX).await?;
        for chain in &self.chains {
            for reason in PauseReason::ALL {
                let is_it = |each: &&PausedLanes| each.chain == chain.id && each.reason == reason;
                let count = paused.iter().filter(is_it).map(|each| each.count).sum();
                self.meters.paused(&chain.name, reason, count);
            }
            let here = unled.iter().filter(|each| each.lane.chain == chain.id);
            self.meters.unled(&chain.name, here.count());
        }
        Ok(())
    }

    fn note_halted(&self, lanes: &[PausedLanes]) {
        let mut halted = HaltedLanes::default();
        for each in lanes {
            match each.reason {
                PauseReason::Failover => halted.held += each.count,
                PauseReason::Operator | PauseReason::CursorJump | PauseReason::NonceClash => {
                    halted.paused += each.count;
                }
            }
        }
        *self.halted.lock().unwrap_or_else(PoisonError::into_inner) = Some(halted);
    }

    /// What has not ended, page by page with rests between them. In one piece it would keep a processor of the
    /// store's busy for as long as it takes, and every create would wait for its turn beside it.
    async fn count(&self) -> Result<Counted, StoreError> {
        let mut counted = Counted::default();
        let (mut after, mut failures, mut before) = (None, 0, Duration::ZERO);
        let until = Instant::now() + COUNTS_MAX;
        while !counted.whole && Instant::now() < until {
            let began = Instant::now();
            let rest = match self.store.backlog(after, READ_LIMIT_MAX).await {
                Ok(page) => {
                    failures = 0;
                    after = counted.add(page).or(after);
                    let took = began.elapsed();
                    page_rest(took, std::mem::replace(&mut before, took))
                }
                Err(error) if failures == FAILURES_MAX => return Err(error),
                // What was counted is not counted again for it.
                Err(_) => {
                    failures += 1;
                    PAGE_REST_MAX
                }
            };
            if !counted.whole {
                sleep(rest).await;
            }
        }
        Ok(counted)
    }

    /// What a configured signer has.
    pub(crate) async fn weigh(&self, lane: Lane) {
        let Some(chain) = &self.chain else {
            return;
        };
        if let Ok(wei) = chain.balance(lane).await {
            let name = self.chain_name(lane.chain);
            let signer = lane.signer.to_string();
            // Rounded to what a gauge holds: it is for alerts, not for accounts.
            self.meters.balance(name, signer, wei.into());
        }
    }
}

/// What is known of what has not ended.
#[derive(Default)]
struct Counted {
    backlog: HashMap<ChainId, Backlog>,
    stuck: HashMap<(ChainId, Why), u64>,
    /// Nothing is left to count.
    whole: bool,
}

impl Counted {
    /// Adds a page, and says where the next one begins.
    fn add(&mut self, page: Vec<Backlog>) -> Option<TxId> {
        let count: u64 = page.iter().map(|each| each.count).sum();
        self.whole = count < u64::try_from(READ_LIMIT_MAX).unwrap_or(u64::MAX);
        let last = page.iter().map(|each| each.last).max();
        for each in page {
            if let Some(why) = each.stuck {
                *self.stuck.entry((each.chain, why)).or_default() += each.count;
            }
            match self.backlog.entry(each.chain) {
                Entry::Occupied(mut known) => {
                    let known = known.get_mut();
                    known.count += each.count;
                    known.oldest_at = known.oldest_at.min(each.oldest_at);
                }
                Entry::Vacant(new) => {
                    new.insert(each);
                }
            }
        }
        last
    }
}

/// How long counting rests after a page that took so long. One that was held up by something else, which shows by the
/// one before it, says nothing about what pages cost.
fn page_rest(took: Duration, before: Duration) -> Duration {
    (took.min(before) * PAGE_RESTS).min(PAGE_REST_MAX)
}
