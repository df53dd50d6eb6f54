//! Every method of the port, with something to say that a sound store would take.

use std::time::Duration;

use anyhow::Result;
use fencepost_app::ports::{
    Action, Acts, Audit, Bid, CursorMove, Decided, Held, Holder, Key, LaneBatch, LaneMoves,
    LanePromotion, NewRemedy, NewTx, PageQuery, PauseChange, RemedyId, Retire, Settle, SettleAct,
    Stage, Store, StoreError,
};
use fencepost_domain::ids::{FeedSeq, Height, LaneId, LaneSeq, Nonce};
use fencepost_domain::state::Wait;
use fencepost_store_tests::bench::{Seat, url};
use fencepost_store_tests::builders::{audit, chain_id, hash, id, lane, lock, sign, tx, txs};
use futures::future::BoxFuture;

/// A call's text and the call.
pub(crate) type Call<'a> = (
    &'static str,
    BoxFuture<'a, std::result::Result<(), StoreError>>,
);

macro_rules! calls {
    ($($call:expr),* $(,)?) => {
        vec![$((stringify!($call), Box::pin(async move { $call.await.map(drop) }))),*]
    };
}

/// What is said.
pub(crate) struct Words {
    me: Holder,
    url: String,
    audit: Audit,
    lane: LaneId,
    held: [Held; 1],
    fresh: [Bid; 1],
    two: [Bid; 2],
    pub(crate) create: [LaneBatch; 1],
    promote: [LanePromotion; 1],
    apply: [LaneMoves; 1],
    queue: [(LaneId, NewTx); 1],
    remedy: NewRemedy,
    decided: Decided,
    retire: Retire,
    settle: Settle,
    raise: CursorMove,
    lower: CursorMove,
    key: Key,
    page: PageQuery,
}

impl Words {
    pub(crate) async fn prepare(seat: &Seat) -> Result<Self> {
        seat.accept(vec![tx(1), tx(2)]).await;
        let lane = seat.held.lane;
        let bid = |lane, fresh| Bid { lane, fresh };
        Ok(Self {
            me: seat.holder.clone(),
            url: url("a"),
            audit: audit(),
            lane,
            held: [seat.held],
            fresh: [bid(lane, true)],
            two: [bid(lane, false), bid(LaneId(99), false)],
            create: [seat.batch(txs([3])).await],
            promote: [seat.promotion(vec![id(4)]).await],
            apply: [LaneMoves {
                held: seat.held,
                moves: vec![seat.plan(id(1), sign(1)).await],
            }],
            queue: [(lane, tx(5))],
            remedy: NewRemedy {
                tx: id(1),
                round: 1,
                action: Action::Cancel,
                fees: None,
                audit: audit(),
            },
            decided: Decided {
                remedy: RemedyId(1),
                action: None,
                fees: None,
                raw: None,
                severity: None,
                after: None,
                audit: audit(),
            },
            retire: Retire {
                stage: Stage::Delete,
                older_than: Duration::ZERO,
                limit: 1,
                beneath: vec![(chain_id(1), Height::MAX)],
            },
            settle: Settle {
                reservation: id(1),
                lock: lock(1),
                act: SettleAct::Submitted {
                    hash: hash(1),
                    due_in: Duration::ZERO,
                },
            },
            raise: CursorMove::Raise {
                holder: seat.holder.clone(),
                held: seat.held,
                to: Nonce::ZERO,
            },
            lower: CursorMove::Set { to: Nonce::ZERO },
            key: Key::Id(id(1)),
            page: PageQuery {
                limit: 1,
                ..PageQuery::default()
            },
        })
    }

    pub(crate) fn writes<'a>(&'a self, store: &'a dyn Store) -> Vec<Call<'a>> {
        let (me, held) = (&self.me, &self.held);
        calls![
            store.join(&me.node, &self.url),
            store.beat(me, &[]),
            store.open_lanes(&[lane(1)]),
            store.acquire(me, &self.url, &self.fresh),
            store.acquire(me, &self.url, &self.two),
            store.renew(me, held),
            store.release(me, held),
            store.pause(self.lane, PauseChange::Resume, &self.audit),
            store.move_cursor(self.lane, &self.raise, &self.audit),
            store.move_cursor(self.lane, &self.lower, &self.audit),
            store.create(me, &self.create),
            store.enqueue(&self.queue, Wait::Leader, 10),
            store.promote(me, &self.promote),
            store.apply(me, &self.apply),
            store.claim_due(me, held, 1, 1),
            store.ask_remedy(&self.remedy),
            store.claim_remedies(me, held, 1),
            store.decide_remedy(me, held[0], &self.decided),
            store.settle(&self.settle),
            store.retire(&self.retire),
        ]
    }

    pub(crate) fn reads<'a>(&'a self, store: &'a dyn Store) -> Vec<Call<'a>> {
        let (lane_id, key, page) = (self.lane, &self.key, &self.page);
        calls![
            store.ping(),
            store.orphans(None, 1),
            store.unwatched(Duration::from_secs(1), None, 1),
            store.lane(lane(1)),
            store.lanes(None, 1),
            store.gaps(lane_id, Nonce::ZERO, 1),
            store.queued(lane_id, 1),
            store.queued_lanes(None, 1),
            store.remedy_lanes(None, 1),
            store.acts(Acts::Tx(id(1)), None, 1),
            store.acts(Acts::Lane(lane_id), None, 1),
            store.find(key),
            store.find_many(&[id(1)]),
            store.page(page),
            store.unfinished(lane_id, None, 1),
            store.history(id(1), LaneSeq::default(), 1),
            store.attempts(&[id(1)]),
            store.completions(FeedSeq::default(), 1),
        ]
    }
}
