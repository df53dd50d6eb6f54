//! Every statement that runs finds its rows by an index. The statements are noted as they run, so
//! a new one is checked as soon as [`everything`] reaches it.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::time::Duration;

use fencepost_app::ports::{
    Action, Acts, AskedRemedy, Body, Closing, CursorMove, CursorMoved, Decided, Decision, Key,
    LaneBatch, LaneMoved, LaneMoves, LanePromotion, Loan, Move, NewRemedy, NewTx, PageQuery,
    PauseChange, PauseReason, Reach, RemedyId, Retire, Settle, SettleAct, Settled, Stage, Store,
};
use fencepost_domain::attempt::{self, Attempt, Outcome, SignedFees};
use fencepost_domain::flat::Name;
use fencepost_domain::ids::{FeedSeq, Height, LaneSeq, LockToken, RequestId, TxId};
use fencepost_domain::state::{Block, Execution, Inclusion, Wait, Why};
use fencepost_domain::transition::Input;
use fencepost_domain::{B256, Bytes};
use rusqlite::StatementStatus;
use uuid::Uuid;

use super::{Leading, TestClock, acquire, audit, given, in_memory, lane, lead, nonce, tx};
use crate::SqliteStore;

static NOTED: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());

/// Remembers a statement that runs.
pub(crate) fn note(sql: &'static str) {
    NOTED.lock().unwrap().insert(sql);
}

#[tokio::test]
async fn every_statement_finds_its_rows_by_an_index() {
    let store = in_memory(&TestClock::new());
    everything(&store).await;
    retired(&store).await;
    let statements = NOTED.lock().unwrap().clone();
    assert!(statements.len() > 70, "only {} ran", statements.len());
    for sql in statements {
        let plan = store.write(move |db| {
            let sql = format!("EXPLAIN QUERY PLAN {sql}");
            let mut statement = db.connection().prepare(&sql)?;
            let lines = statement.raw_query().mapped(|row| row.get::<_, String>(3));
            Ok(lines.collect::<Result<Vec<_>, _>>()?)
        });
        let plan = plan.await.unwrap();
        // The list of nodes is short, and all of it is wanted.
        let is_short = sql.contains("FROM node");
        for line in plan {
            let is_slow = line.starts_with("SCAN") || line.contains("TEMP B-TREE");
            assert!(is_short || !is_slow, "{sql}\n{line}");
        }
    }
}

async fn retired(store: &SqliteStore) {
    let mut gone = 0;
    for stage in [Stage::Thin, Stage::Delete, Stage::Sweep] {
        let batch = Retire {
            stage,
            older_than: Duration::ZERO,
            limit: 10,
            beneath: vec![(lane(1).chain, Height::MAX)],
        };
        gone += store.retire(&batch).await.unwrap().retired;
    }
    assert!(gone > 2, "only {gone} were retired");
}

/// A new value of a LIMIT must not have its statement planned again.
#[tokio::test]
async fn a_statement_is_planned_once_whatever_is_bound_to_it() {
    let store = in_memory(&TestClock::new());
    let planned = store.write(|db| {
        let sql = "SELECT tx_id FROM lane_queue WHERE lane_id = ?1 ORDER BY queue_seq LIMIT ?2";
        let mut statement = db.connection().prepare(sql)?;
        for limit in 1..10 {
            statement.query([1, limit])?.next()?;
        }
        Ok(statement.get_status(StatementStatus::RePrepare))
    });
    assert_eq!(planned.await.unwrap(), 0);
}

/// A lane and its leader, through which the tables are filled.
struct Lane1<'a> {
    store: &'a SqliteStore,
    leading: Leading,
}

impl Lane1<'_> {
    async fn create(&self, free: &[u64], txs: Vec<NewTx>) {
        let cursor = self.store.lane(lane(1)).await.unwrap().unwrap().next_nonce;
        let batch = LaneBatch {
            held: self.leading.held,
            cursor,
            free: free.iter().copied().map(nonce).collect(),
            txs,
        };
        let created = self.store.create(&self.leading.holder, &[batch]).await;
        given(created.unwrap().remove(0));
    }

    async fn step(&self, tx: TxId, input: Input, with: impl FnOnce(Move) -> Move) {
        let record = self.store.find(&Key::Id(tx)).await.unwrap().unwrap();
        let moved = record.state.clone().apply(input).unwrap();
        let is_told = moved.to.is_told();
        let moves = vec![with(Move::of(&record, moved))];
        let held = self.leading.held;
        let batch = [LaneMoves { held, moves }];
        let answer = if is_told {
            self.store.complete(&self.leading.holder, &batch).await
        } else {
            self.store.apply(&self.leading.holder, &batch).await
        };
        let answer = answer.unwrap().remove(0);
        assert!(matches!(answer, LaneMoved::Done(_)), "{answer:?}");
    }

    async fn sign(&self, tx: TxId, kind: attempt::Kind, n: u8) {
        let attempt = Attempt {
            kind,
            hash: B256::repeat_byte(n),
            raw: Bytes::from(vec![n]),
            fees: Some(SignedFees {
                max_fee: u128::MAX,
                max_priority_fee: Some(1),
            }),
        };
        let input = Input::Sign(kind, attempt.hash);
        self.step(tx, input, |step| step.attempt(attempt)).await;
    }

    async fn ask(&self, tx: TxId, action: Action) -> RemedyId {
        let remedy = NewRemedy {
            tx,
            round: 1,
            action,
            fees: None,
            audit: audit(),
        };
        let answer = self.store.ask_remedy(&remedy).await.unwrap();
        let AskedRemedy::Asked(id) = answer else {
            panic!("{answer:?}");
        };
        id
    }

    async fn settle(&self, tx: TxId, act: SettleAct) -> Settled {
        let call = Settle {
            reservation: tx,
            lock: lock(),
            act,
        };
        self.store.settle(&call).await.unwrap()
    }
}

fn lock() -> LockToken {
    LockToken(Uuid::from_u128(7))
}

fn loan() -> NewTx {
    let loan = Loan {
        lock: lock(),
        ttl: Duration::from_secs(60),
        grace: Duration::from_secs(60),
    };
    NewTx {
        body: Body::Reserved(loan),
        ..tx()
    }
}

fn mined(n: u8) -> Input {
    Input::Mined(Inclusion {
        block: Block {
            number: Height::new(1).unwrap(),
            hash: B256::repeat_byte(0xbb),
        },
        hash: B256::repeat_byte(n),
        by: attempt::Kind::Original,
        execution: Execution::Success,
    })
}

/// Goes through every operation once: afterwards the tables hold rows in many states.
pub(crate) async fn everything(store: &SqliteStore) {
    let leading = lead(store).await;
    let lane1 = Lane1 { store, leading };
    managed(&lane1).await;
    remedied(&lane1).await;
    reserved(&lane1).await;
    queued(&lane1).await;
    operated(&lane1).await;
    read(&lane1).await;
}

/// One is confirmed, one gives its nonce back, and its nonce is given again.
async fn managed(lane1: &Lane1<'_>) {
    let (a, b) = (tx(), tx());
    let (a_id, b_id) = (a.tx, b.tx);
    lane1.create(&[], vec![a, b]).await;
    lane1.sign(a_id, attempt::Kind::Original, 1).await;
    let sent = Input::Sent(Outcome::Accepted);
    lane1
        .step(a_id, sent, |step| {
            step.sent(1, Outcome::Accepted)
                .due_in(Duration::from_secs(60))
        })
        .await;
    lane1.step(a_id, mined(1), |step| step.receipt("{}")).await;
    lane1.step(a_id, Input::Final, |step| step).await;
    lane1
        .step(b_id, Input::Reject, |step| step.error("no"))
        .await;
    lane1.create(&[1], vec![tx()]).await;
}

/// One is stuck and nothing is done about it, one is remedied, one ends before its remedy is claimed.
async fn remedied(lane1: &Lane1<'_>) {
    let (a, b, c) = (tx(), tx(), tx());
    let ids = [a.tx, b.tx, c.tx];
    lane1.create(&[], vec![a, b, c]).await;
    for (n, id) in (10..).zip(&ids[..2]) {
        lane1.sign(*id, attempt::Kind::Original, n).await;
        let stick = Input::Stick(Why::NoReceipt);
        lane1.step(*id, stick, |step| step).await;
    }
    let question = lane1.ask(ids[0], Action::Decide).await;
    let remedy = lane1.ask(ids[1], Action::Replace).await;
    lane1.ask(ids[2], Action::Cancel).await;
    lane1.step(ids[2], Input::Reject, |step| step).await;
    let (holder, held) = (&lane1.leading.holder, [lane1.leading.held]);
    let claimed = lane1.store.claim_remedies(holder, &held, 10).await.unwrap();
    assert_eq!(claimed.remedies.len(), 2);
    let noop = Decided {
        remedy: question,
        action: None,
        fees: None,
        raw: None,
        severity: None,
        after: None,
        audit: audit(),
    };
    let decided = lane1.store.decide_remedy(holder, held[0], &noop).await;
    assert_eq!(decided.unwrap(), Decision::Written);
    let open = lane1.store.remedy_lanes(None, 10).await.unwrap();
    assert_eq!(open, [held[0].lane]);
    let acts = lane1.store.acts(Acts::Tx(ids[0]), None, 10).await.unwrap();
    assert_eq!(acts[0].action, "NOOP");
    let closing = Closing {
        remedy,
        refused: None,
    };
    lane1
        .step(ids[1], Input::Clear, |step| step.closing(closing))
        .await;
    let due = lane1.store.claim_due(holder, &held, 1_000, 100).await;
    assert!(!due.unwrap().records.is_empty());
}

async fn reserved(lane1: &Lane1<'_>) {
    let loans = [loan(), loan(), loan()];
    let [a, b, c] = [loans[0].tx, loans[1].tx, loans[2].tx];
    lane1.create(&[], loans.to_vec()).await;
    let hash = B256::repeat_byte(20);
    let done = lane1
        .settle(
            a,
            SettleAct::Submitted {
                hash,
                due_in: Duration::ZERO,
            },
        )
        .await;
    assert!(matches!(done, Settled::Done(_)), "{done:?}");
    let done = lane1.settle(b, SettleAct::Recycle).await;
    assert!(matches!(done, Settled::Done(_)), "{done:?}");
    let late = SettleAct::Submitted {
        hash: B256::repeat_byte(21),
        due_in: Duration::ZERO,
    };
    let late = lane1.settle(b, late).await;
    assert_eq!(late, Settled::LockLost { recorded: true });
    let longer = SettleAct::Extend(Duration::from_secs(600));
    let done = lane1.settle(c, longer).await;
    assert!(matches!(done, Settled::Done(_)), "{done:?}");
    // The nonce that was recycled is used up.
    let hole = lane1.store.lane(lane(1)).await.unwrap().unwrap().free[0];
    let fill = NewTx {
        body: Body::Placeholder(hole),
        ..tx()
    };
    lane1.create(&[], vec![fill]).await;
}

async fn queued(lane1: &Lane1<'_>) {
    let store = lane1.store;
    let held = lane1.leading.held;
    let named = |name: &str| NewTx {
        request_id: Some(RequestId::new(name).unwrap()),
        ..tx()
    };
    let waiting = [named("a"), named("b"), named("c")].map(|tx| (held.lane, tx));
    store.enqueue(&waiting, Wait::Leader, 100).await.unwrap();
    assert_eq!(store.queued(held.lane, 10).await.unwrap().len(), 3);
    assert_eq!(store.queued_lanes(None, 10).await.unwrap(), [held.lane]);
    let view = store.lane(lane(1)).await.unwrap().unwrap();
    let promotion = LanePromotion {
        held,
        cursor: view.next_nonce,
        free: Vec::new(),
        txs: vec![waiting[0].1.tx],
    };
    let holder = &lane1.leading.holder;
    let promoted = store.promote(holder, &[promotion]).await.unwrap();
    assert_eq!(given(promoted.into_iter().next().unwrap()).len(), 1);
    lane1
        .step(waiting[1].1.tx, Input::Expire, |step| step)
        .await;
}

async fn operated(lane1: &Lane1<'_>) {
    let store = lane1.store;
    let Leading { holder, held } = &lane1.leading;
    store.ping().await.unwrap();
    let reach = Reach {
        chain: lane(1).chain,
        usable: true,
    };
    store.beat(holder, &[reach]).await.unwrap();
    store.renew(holder, &[*held]).await.unwrap();
    let pause = PauseChange::Pause(PauseReason::Operator);
    let reconcile = PauseChange::Reconcile { at_least: nonce(0) };
    for change in [pause, PauseChange::Resume, reconcile, pause] {
        store.pause(held.lane, change, &audit()).await.unwrap();
    }
    let from = store.lane(lane(1)).await.unwrap().unwrap().next_nonce;
    let to = from.plus(10).unwrap();
    let raise = CursorMove::Raise {
        holder: holder.clone(),
        held: *held,
        to,
    };
    let moved = store.move_cursor(held.lane, &raise, &audit()).await;
    assert_eq!(moved.unwrap(), CursorMoved::Now { from, to });
    let lower = CursorMove::Set { to: from };
    let moved = store.move_cursor(held.lane, &lower, &audit()).await;
    assert_eq!(moved.unwrap(), CursorMoved::Now { from: to, to: from });
    let resume = PauseChange::Resume;
    store.pause(held.lane, resume, &audit()).await.unwrap();
    // A cursor that an operator sets ends the lease.
    acquire(store, holder, held.lane, false).await.unwrap();
    let of = Acts::Lane(held.lane);
    assert_eq!(store.acts(of, None, 100).await.unwrap().len(), 7);
    let other = store.open_lanes(&[lane(2)]).await.unwrap()[0];
    let other = acquire(store, holder, other, true).await.unwrap();
    assert_eq!(store.release(holder, &[other]).await.unwrap(), [other.lane]);
}

async fn read(lane1: &Lane1<'_>) {
    let store = lane1.store;
    let id = lane1.leading.held.lane;
    store.orphans(None, 10).await.unwrap();
    let hour = Duration::from_hours(1);
    store.unwatched(hour, None, 10).await.unwrap();
    store.lanes(None, 10).await.unwrap();
    assert!(!store.backlog(None, 10).await.unwrap().is_empty());
    store.gaps(id, nonce(0), 10).await.unwrap();
    let all = store.unfinished(id, None, 100).await.unwrap();
    let txs: Vec<TxId> = all.iter().map(|record| record.tx).collect();
    store.find_many(&txs).await.unwrap();
    store.attempts(&txs).await.unwrap();
    store.history(txs[0], LaneSeq::default(), 10).await.unwrap();
    let feed = store.completions(FeedSeq::default(), 100).await.unwrap();
    assert_eq!(feed.completions.last().unwrap().seq, feed.head);
    for key in [
        Key::Request(lane(1), RequestId::new("a").unwrap()),
        Key::Hash(lane(1).chain, B256::repeat_byte(1)),
        Key::Nonce(lane(1), nonce(0)),
    ] {
        assert!(store.find(&key).await.unwrap().is_some(), "{key:?}");
    }
    for lane in [None, Some(lane(1))] {
        for state in [None, Some(Name::Confirmed)] {
            let query = PageQuery {
                lane,
                state,
                before: None,
                limit: 10,
            };
            assert!(!store.page(&query).await.unwrap().is_empty());
        }
    }
}
