//! Everything at once: two nodes take a lane from each other, with leases that run out, restarts, hands
//! that go on writing under an old token, and two hands that write under one token at a time. At the
//! end the lane must be whole: every nonce with somebody or free, every event numbered, tokens in order.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Result;
use fencepost_app::ports::{
    Acquired, LaneCreated, LaneMoved, LaneRefusal, Record, Settle, SettleAct, Stored, Terms,
};
use fencepost_domain::attempt;
use fencepost_domain::ids::{Nonce, TxId};
use fencepost_domain::state::{Execution, Inclusion, Kind, Wait, Why};
use fencepost_domain::transition::Input;
use fencepost_store_tests::bench::{Seat, moved, url};
use fencepost_store_tests::builders::{accepted, block, hash, lane, loan, sign, tx};
use fencepost_testkit::wait;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::Instant;

use super::stage::{Stage, bid, seated};
use super::whole::WHOLE;

/// Short, so that the lane changes hands often.
const TERMS: Terms = Terms {
    duration: Duration::from_millis(150),
    skew: Duration::from_millis(10),
};
/// How much must have happened. Fewer changes of hands would prove little.
const TAKEOVERS: u64 = 20;
const WRITTEN: u64 = 200;
const FENCED: u64 = 10;
const LATE: u64 = 1;
const SETTLED: u64 = 1;
/// A machine that cannot do as much in this time fails the test.
const RUN_MAX: Duration = Duration::from_secs(25);
/// What one hand does before the node looks up.
const ACTS: usize = 10;

/// Numbers that look thrown, the same in every run.
struct Dice(u64);

impl Dice {
    fn throw(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }
}

/// What all hands share: numbers that nobody uses twice, and how much has happened.
struct Shared {
    numbers: AtomicU64,
    takeovers: AtomicU64,
    written: AtomicU64,
    fenced: AtomicU64,
    late: AtomicU64,
    settled: AtomicU64,
    end: Instant,
}

impl Shared {
    fn number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    fn is_over(&self) -> bool {
        self.is_enough() || Instant::now() >= self.end
    }

    fn is_enough(&self) -> bool {
        let goals = [
            (&self.takeovers, TAKEOVERS),
            (&self.written, WRITTEN),
            (&self.fenced, FENCED),
            (&self.late, LATE),
            (&self.settled, SETTLED),
        ];
        goals
            .iter()
            .all(|(count, goal)| count.load(Ordering::Relaxed) >= *goal)
    }

    fn add(&self, tally: &Tally) {
        self.written.fetch_add(tally.written, Ordering::Relaxed);
        self.fenced.fetch_add(tally.fenced, Ordering::Relaxed);
        self.late.fetch_add(tally.late, Ordering::Relaxed);
        self.settled.fetch_add(tally.settled, Ordering::Relaxed);
    }
}

/// What came of it all.
#[derive(Debug, Default)]
struct Tally {
    written: u64,
    fenced: u64,
    /// Refused because another hand was faster.
    late: u64,
    settled: u64,
    /// Every nonce that was answered.
    given: Vec<(TxId, Nonce)>,
}

impl Tally {
    fn add(&mut self, other: Self) {
        self.written += other.written;
        self.fenced += other.fenced;
        self.late += other.late;
        self.settled += other.settled;
        self.given.extend(other.given);
    }

    fn created(&mut self, answer: LaneCreated, ids: &[TxId]) {
        match answer {
            LaneCreated::Done { txs, .. } => {
                self.written += 1;
                for (stored, tx) in txs.iter().zip(ids) {
                    let Stored::New { nonce, .. } = stored else {
                        panic!("nobody else has this id: {stored:?}");
                    };
                    self.given.push((*tx, *nonce));
                }
            }
            LaneCreated::Refused(LaneRefusal::Fenced) => self.fenced += 1,
            LaneCreated::Refused(
                LaneRefusal::CursorMoved(_)
                | LaneRefusal::FreeMoved
                | LaneRefusal::QueueFirst
                | LaneRefusal::Stale,
            ) => self.late += 1,
            LaneCreated::Refused(why) => panic!("{why:?}"),
        }
    }

    fn moved(&mut self, answer: &LaneMoved) {
        match answer {
            LaneMoved::Done(_) => self.written += 1,
            LaneMoved::Fenced => self.fenced += 1,
            LaneMoved::Stale(_) => self.late += 1,
            LaneMoved::Paused(_)
            | LaneMoved::KnownHash(_)
            | LaneMoved::Busy
            | LaneMoved::UnknownLane => {
                panic!("{answer:?}")
            }
        }
    }
}

/// A hand of a node: writes what it can, whether its token is still good or not.
async fn hand(seat: Seat, shared: Arc<Shared>) -> Result<Tally> {
    let mut dice = Dice(shared.number() + 88_172_645_463_325_252);
    let mut tally = Tally::default();
    for _ in 0..ACTS {
        match dice.throw(8) {
            0 => create(&seat, &shared, &mut dice, &mut tally).await,
            1 => {
                let waiting = [(seat.held.lane, tx(shared.number()))];
                seat.store.enqueue(&waiting, Wait::Leader, 1_000).await?;
            }
            2 => promote(&seat, &mut dice, &mut tally).await?,
            3 => {
                let claimed = seat.claim_due(Duration::from_millis(5), 5).await;
                tally.fenced += u64::from(!claimed.fenced.is_empty());
            }
            4 => settle(&seat, &shared, &mut dice, &mut tally).await?,
            _ => walk(&seat, &shared, &mut dice, &mut tally).await?,
        }
    }
    shared.add(&tally);
    Ok(tally)
}

async fn create(seat: &Seat, shared: &Shared, dice: &mut Dice, tally: &mut Tally) {
    let one = |n| if n % 3 == 0 { loan(n) } else { tx(n) };
    let new: Vec<_> = (0..=dice.throw(3)).map(|_| one(shared.number())).collect();
    let ids: Vec<TxId> = new.iter().map(|each| each.tx).collect();
    tally.created(seat.create(new).await, &ids);
}

async fn promote(seat: &Seat, dice: &mut Dice, tally: &mut Tally) -> Result<()> {
    let limit = usize::try_from(1 + dice.throw(3))?;
    let front = seat.store.queued(seat.held.lane, limit).await?;
    let front: Vec<TxId> = front.iter().map(|each| each.tx).collect();
    if !front.is_empty() {
        tally.created(seat.promote(front.clone()).await, &front);
    }
    Ok(())
}

async fn settle(seat: &Seat, shared: &Shared, dice: &mut Dice, tally: &mut Tally) -> Result<()> {
    let open = seat.store.unfinished(seat.held.lane, None, 1_000).await?;
    let Some(record) = open.iter().rfind(|each| each.kind == Kind::Reserved) else {
        return Ok(());
    };
    let call = Settle {
        reservation: record.tx,
        lock: record.reservation.expect("terms of a reservation").lock,
        act: match dice.throw(3) {
            0 => SettleAct::Recycle,
            1 => SettleAct::Extend(Duration::from_mins(20)),
            _ => SettleAct::Submitted {
                hash: hash(shared.number()),
                due_in: Duration::ZERO,
            },
        },
    };
    seat.store.settle(&call).await?;
    tally.settled += 1;
    Ok(())
}

/// Moves one or two unfinished transactions on.
async fn walk(seat: &Seat, shared: &Shared, dice: &mut Dice, tally: &mut Tally) -> Result<()> {
    let open = seat.store.unfinished(seat.held.lane, None, 1_000).await?;
    if open.is_empty() {
        return Ok(());
    }
    let count = u64::try_from(open.len())?;
    let first = usize::try_from(dice.throw(count))?;
    let mut applied = Vec::new();
    let mut told = Vec::new();
    for record in open.iter().skip(first).take(2) {
        let inputs = inputs(record, shared);
        let turn = usize::try_from(dice.throw(8))?;
        let next = inputs.into_iter().cycle().skip(turn).take(8);
        if let Some(step) = next.filter_map(|input| moved(record, input)).next() {
            let list = if step.to.is_told() {
                &mut told
            } else {
                &mut applied
            };
            list.push(step);
        }
    }
    for moves in [applied, told] {
        if !moves.is_empty() {
            tally.moved(&seat.write(moves).await);
        }
    }
    Ok(())
}

/// All that could happen to it; the domain says no to most.
fn inputs(record: &Record, shared: &Shared) -> [Input; 8] {
    let n = shared.number();
    let by = match record.kind {
        Kind::Reserved => attempt::Kind::External,
        Kind::Managed | Kind::Placeholder => attempt::Kind::Original,
    };
    let mined = Inclusion {
        block: block(n, 0),
        hash: record.state.hash().unwrap_or_else(|| hash(n)),
        by,
        execution: Execution::Success,
    };
    [
        sign(n),
        accepted(),
        Input::Mined(mined),
        Input::Final,
        Input::Reorged,
        Input::Reject,
        Input::Stick(Why::NoFunds),
        Input::Clear,
    ]
}

/// A node: takes the lane, works with two hands, and then gives it up, falls silent or restarts.
async fn node(stage: Arc<Stage>, name: &'static str, shared: Arc<Shared>) -> Result<Tally> {
    let mut seat = stage.join(name, name, lane(1)).await?;
    let mut dice = Dice(shared.number() + 362_436_069);
    let mut tally = Tally::default();
    let mut ghosts: JoinSet<Result<Tally>> = JoinSet::new();
    while !shared.is_over() {
        let lead = wait::until("the lane is led or all is over", || async {
            if let Acquired::Leading(lead) = bid(seat.clone()).await? {
                return Ok(Some(Some(lead)));
            }
            Ok(shared.is_over().then_some(None))
        });
        let Some(lead) = lead.await? else { break };
        shared
            .takeovers
            .fetch_add(u64::from(lead.changed()), Ordering::Relaxed);
        seat = seated(seat, &lead);
        let hands = [(); 2].map(|()| tokio::spawn(hand(seat.clone(), Arc::clone(&shared))));
        for hand in hands {
            tally.add(hand.await??);
        }
        match dice.throw(3) {
            0 => drop(seat.store.release(&seat.holder, &[seat.held]).await?),
            1 => {
                ghosts.spawn(hand(seat.clone(), Arc::clone(&shared)));
                seat.holder.incarnation = seat.store.join(&seat.holder.node, &url(name)).await?;
            }
            _ => {
                ghosts.spawn(hand(seat.clone(), Arc::clone(&shared)));
                await_another(&seat, &shared).await?;
            }
        }
    }
    while let Some(ghost) = ghosts.join_next().await {
        tally.add(ghost??);
    }
    Ok(tally)
}

/// Silent until the other node leads.
async fn await_another(seat: &Seat, shared: &Shared) -> Result<()> {
    wait::until("the other node leads", || async {
        let leader = seat.view().await.leader;
        let another = leader.is_some_and(|leader| leader.node != seat.holder.node);
        Ok((another || shared.is_over()).then_some(()))
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lane_is_whole_after_a_storm() -> Result<()> {
    let stage = Arc::new(Stage::with(TERMS).await?);
    let shared = Arc::new(Shared {
        numbers: AtomicU64::new(1),
        takeovers: AtomicU64::new(0),
        written: AtomicU64::new(0),
        fenced: AtomicU64::new(0),
        late: AtomicU64::new(0),
        settled: AtomicU64::new(0),
        end: Instant::now() + RUN_MAX,
    });
    let nodes: Vec<JoinHandle<Result<Tally>>> = ["a", "b"]
        .map(|name| tokio::spawn(node(Arc::clone(&stage), name, Arc::clone(&shared))))
        .into();
    let mut tally = Tally::default();
    for node in nodes {
        tally.add(node.await??);
    }
    let takeovers = shared.takeovers.load(Ordering::Relaxed);
    let seen = (
        takeovers,
        tally.written,
        tally.fenced,
        tally.late,
        tally.settled,
    );
    eprintln!("takeovers, written, fenced, late, settled: {seen:?}");
    assert!(shared.is_enough(), "{seen:?}");
    for (what, sql) in WHOLE {
        assert_eq!(stage.number(sql).await?, 0, "{what}");
    }
    for (tx, nonce) in &tally.given {
        let sql = "SELECT coalesce(nonce, nonce_given_back) FROM managed_tx WHERE tx_id = $1";
        let row = stage.probe.query_one(sql, &[&tx.0]).await?;
        assert_eq!(
            row.get::<_, i64>(0),
            nonce.column(),
            "another nonce than was answered"
        );
    }
    Ok(())
}
