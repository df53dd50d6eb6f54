//! When all faults are over: everything that was accepted must end, and does so within a bounded time.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::Result;
use tokio::time::{Instant, sleep};
use tokio_postgres::Client;

use crate::dice::Dice;
use crate::facts::database::{Left, gaps, left, stuck, unfinished};
use crate::load::business::{Business, Known};
use crate::load::operator::{lane_act, remedy};
use crate::note::{Note, now};
use crate::world::World;

/// Without any progress for so long, it will not come.
const NO_PROGRESS: Duration = Duration::from_secs(120);
/// However much progress there is. A busy machine needs some time for what is left.
const LIMIT: Duration = Duration::from_secs(1_800);
const BETWEEN: Duration = Duration::from_secs(1);
/// What is stuck gets so long to end by itself, and then as long after each remedy.
const ROUND: Duration = Duration::from_secs(25);

pub(crate) struct Healer {
    pub(crate) world: Arc<World>,
    pub(crate) known: Arc<Known>,
    pub(crate) dice: Dice,
}

impl Healer {
    /// Waits until all has ended; notes what has not.
    pub(crate) async fn run(mut self) -> Result<()> {
        self.world.mend()?;
        for lane in 0..self.world.lanes.len() {
            lane_act(&self.world, lane, "resume").await;
        }
        let client = self.world.database.connect().await?;
        let began = Instant::now();
        let (mut moved, mut before, mut round) = (began, None, 0);
        loop {
            let left = left(&client).await?;
            if left.unfinished == 0 {
                return Ok(());
            }
            if before.as_ref() != Some(&left) {
                moved = Instant::now();
            }
            if moved.elapsed() > NO_PROGRESS || began.elapsed() > LIMIT {
                return self.give_up(&client, &left).await;
            }
            before = Some(left);
            self.fill(&client).await?;
            if began.elapsed() > ROUND * (round + 1) {
                self.remedy(&client, round).await?;
                round += 1;
            }
            sleep(BETWEEN).await;
        }
    }

    /// A nonce that was given back holds up those above it until somebody takes it: the next requests do.
    async fn fill(&mut self, client: &Client) -> Result<()> {
        for (lane, count) in gaps(&self.world, client).await? {
            for n in 0..count {
                let filler = Business {
                    world: Arc::clone(&self.world),
                    known: Arc::clone(&self.known),
                    name: format!("filler-{}-{lane}-{n}", now()),
                    dice: self.dice.fork(),
                    rate: 1,
                    count: 0,
                };
                filler
                    .probe(lane, self.dice.index(self.world.nodes.len()))
                    .await;
            }
        }
        Ok(())
    }

    /// An operator replaces what is stuck, and calls it off if that does not help.
    async fn remedy(&mut self, client: &Client, round: u32) -> Result<()> {
        for lane in 0..self.world.lanes.len() {
            lane_act(&self.world, lane, "resume").await;
        }
        let action = if round == 0 { "REPLACE" } else { "CANCEL" };
        for (tx, reason) in stuck(client).await? {
            let action = if reason == "GAP" { "FILL" } else { action };
            let node = self.dice.index(self.world.nodes.len());
            remedy(&self.world, node, &tx, action).await;
        }
        Ok(())
    }

    async fn give_up(&self, client: &Client, left: &Left) -> Result<()> {
        let unfinished = unfinished(client).await?;
        let at = now();
        let left = format!("{left:?}: {unfinished:#?}");
        self.world.journal.note(&Note::NotHealed { at, left });
        Ok(())
    }
}

/// Waits until readers that go on have read all there is; whoever has not is found by the checker's holes.
pub(crate) async fn readers_are_done(
    world: &World,
    places: &[Arc<std::sync::atomic::AtomicU64>],
) -> Result<()> {
    let client = world.database.connect().await?;
    let head = u64::try_from(left(&client).await?.feed)?;
    let deadline = Instant::now() + Duration::from_secs(60);
    let behind = || {
        places
            .iter()
            .any(|place| place.load(Ordering::Relaxed) < head)
    };
    while behind() {
        if Instant::now() > deadline {
            let at = now();
            let read: Vec<u64> = places.iter().map(|p| p.load(Ordering::Relaxed)).collect();
            let left = format!("readers of the feed are at {read:?}, its head is {head}");
            world.journal.note(&Note::NotHealed { at, left });
            break;
        }
        sleep(Duration::from_millis(100)).await;
    }
    Ok(())
}
