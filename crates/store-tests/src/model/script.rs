//! Resolving operations: who acts, under which token, on which rows. What it knows it has from the
//! model alone, so that all stores are asked the very same.

use std::time::Duration;

use fencepost_app::ports::{
    Acquired, Body, Closing, Held, Holder, LaneBatch, LanePromotion, LaneView, Loan, Move, NewTx,
    PageQuery, READ_LIMIT_MAX, Record, RemedyId,
};
use fencepost_domain::ids::{Incarnation, Lane, NodeId, Nonce, Token, Version};

use super::inputs;
use super::ops::{Item, LANES, NODES, Op, Slip, Step, Who};
use super::run::{Accept, Answer, Call, Side};
use crate::builders::{GRACE, TTL, lane, lane_on, lock, nonce, payload, request_id, tx};

/// What has been used so far, and what each node believes.
pub(super) struct Script {
    holders: Vec<Holder>,
    tokens: [[Token; LANES]; NODES],
    ids: u64,
    hashes: u64,
}

/// The lanes of a run: two on one chain, so that hashes can clash, and one on another.
pub(super) fn lanes() -> [Lane; LANES] {
    [lane(1), lane(2), lane_on(2, 1)]
}

impl Script {
    pub(super) fn new() -> Self {
        let holder = |n: usize| Holder {
            node: NodeId::new(format!("node-{n}")).unwrap(),
            incarnation: Incarnation::default(),
        };
        Self {
            holders: (0..NODES).map(holder).collect(),
            tokens: [[Token::default(); LANES]; NODES],
            ids: 0,
            hashes: 0,
        }
    }

    /// What every run begins with: all nodes have joined, and each leads a lane, so that short runs
    /// get somewhere.
    pub(super) fn opening() -> Vec<Op> {
        let joins = (0..NODES).map(Op::Join);
        let bids = (0..LANES).map(|lane| Op::Acquire {
            node: lane % NODES,
            lane,
            fresh: false,
            ghost: false,
        });
        joins.chain(bids).collect()
    }

    /// Remembers what a node learns from an answer.
    pub(super) fn learn(&mut self, call: &Call, answer: &Answer) {
        let position = |holder: &Holder| self.holders.iter().position(|h| h.node == holder.node);
        if let (Call::Join(node), Answer::Joined(incarnation)) = (call, answer) {
            let mut holders = self.holders.iter_mut();
            let holder = holders.find(|holder| holder.node == *node).unwrap();
            holder.incarnation = *incarnation;
        } else if let (Call::Acquire(holder, lane, _), Answer::Acquired(Acquired::Leading(lead))) =
            (call, answer)
        {
            self.tokens[position(holder).unwrap()][*lane] = lead.token;
        }
    }

    /// The call that an operation makes now; none where there is nothing it could be about.
    pub(super) async fn resolve(&mut self, op: &Op, model: &Side<'_>) -> Option<Call> {
        Some(match op {
            Op::Join(node) => Call::Join(self.holders[*node].node.clone()),
            Op::Beat(node) => Call::Beat(self.holders[*node].clone()),
            Op::Acquire {
                node,
                lane,
                fresh,
                ghost,
            } => {
                let mut holder = self.holders[*node].clone();
                let earlier = holder
                    .incarnation
                    .get()
                    .saturating_sub(u64::from(*ghost))
                    .max(1);
                holder.incarnation = Incarnation::new(earlier).unwrap();
                Call::Acquire(holder, *lane, *fresh)
            }
            Op::Renew { who, lane } => {
                let (holder, token) = self.actor(*who, *lane, model).await;
                Call::Renew(holder, *lane, token)
            }
            Op::Release { who, lane } => {
                let (holder, token) = self.actor(*who, *lane, model).await;
                Call::Release(holder, *lane, token)
            }
            Op::Advance(span) => Call::Advance(span_of(*span, model)),
            Op::Create { .. } | Op::Enqueue { .. } | Op::Promote { .. } => {
                self.accept(op, model).await?
            }
            Op::Move { who, slip, steps } => self.moves(*who, *slip, steps, model).await?,
            Op::ClaimDue { who, lane } => {
                let (holder, token) = self.actor(*who, *lane, model).await;
                Call::ClaimDue(holder, *lane, token)
            }
            Op::ClaimRemedies { who, lane } => {
                let (holder, token) = self.actor(*who, *lane, model).await;
                Call::ClaimRemedies(holder, *lane, token)
            }
            Op::Ask { .. } | Op::Settle { .. } => self.ask(op, model).await?,
            Op::Decide {
                who,
                slip,
                remedy,
                action,
            } => self.decide(*who, *slip, *remedy, *action, model).await?,
            Op::Pause { .. } | Op::Raise { .. } | Op::Forget { .. } | Op::Lower { .. } => {
                self.operate(op, model).await?
            }
        })
    }

    pub(super) async fn actor(&self, who: Who, lane: usize, model: &Side<'_>) -> (Holder, Token) {
        let known = |node: usize| (self.holders[node].clone(), self.tokens[node][lane]);
        match who {
            Who::Node(node) => known(node),
            Who::Leader => match view(lane, model).await.leader {
                None => known(0),
                Some(leader) => {
                    let holder = Holder {
                        node: leader.node,
                        incarnation: leader.incarnation,
                    };
                    (holder, leader.token)
                }
            },
        }
    }

    async fn accept(&mut self, op: &Op, model: &Side<'_>) -> Option<Call> {
        if let Op::Enqueue { lane, items, max } = op {
            let items = items.iter().map(|item| Item { kind: 0, ..*item });
            let txs = items.map(|item| self.new_tx(item, Nonce::ZERO)).collect();
            return Some(Call::Accept(*lane, Accept::Enqueue(txs, *max)));
        }
        let (Op::Create {
            who, lane, slip, ..
        }
        | Op::Promote {
            who, lane, slip, ..
        }) = op
        else {
            return None;
        };
        let (holder, mut token) = self.actor(*who, *lane, model).await;
        let view = view(*lane, model).await;
        let (mut cursor, mut free) = (view.next_nonce, view.free);
        match slip {
            Slip::Token => token = token.plus(1).unwrap(),
            Slip::Cursor => cursor = cursor.plus(1).unwrap(),
            Slip::Free => free.push(Nonce::ZERO),
            Slip::None | Slip::Version => {}
        }
        let held = Held {
            lane: model.lane(*lane),
            token,
        };
        let accept = if let Op::Create { items, .. } = op {
            let txs = items
                .iter()
                .map(|item| self.new_tx(*item, cursor))
                .collect();
            let batch = LaneBatch {
                held,
                cursor,
                free,
                txs,
            };
            Accept::Create(holder, batch)
        } else if let Op::Promote { skip, count, .. } = op {
            let queue = model.store.queued(held.lane, READ_LIMIT_MAX).await.unwrap();
            let front = queue.iter().skip(usize::from(*skip)).take(*count);
            let txs: Vec<_> = front.map(|record| record.tx).collect();
            // A promotion of nothing need not be put to the store, which then cannot know its cursor.
            if txs.is_empty() {
                return None;
            }
            let promotion = LanePromotion {
                held,
                cursor,
                free,
                txs,
            };
            Accept::Promote(holder, promotion)
        } else {
            return None;
        };
        Some(Call::Accept(*lane, accept))
    }

    fn new_tx(&mut self, item: Item, cursor: Nonce) -> NewTx {
        let n = match item.again {
            Some(again) if self.ids > 0 => u64::try_from(again).unwrap() % self.ids,
            Some(_) | None => {
                self.ids += 1;
                self.ids - 1
            }
        };
        // Below the cursor, for above it a placeholder is merely impossible.
        let below = item.nonce.min(cursor.get().saturating_sub(1));
        let body = match item.kind {
            1 => Body::Reserved(Loan {
                lock: lock(n),
                ttl: TTL,
                grace: GRACE,
            }),
            2 if cursor > Nonce::ZERO => Body::Placeholder(nonce(below)),
            _ => Body::Managed(payload(item.wei)),
        };
        NewTx {
            request_id: item.name.map(|name| request_id(&format!("name-{name}"))),
            body,
            ..tx(n)
        }
    }

    async fn moves(
        &mut self,
        who: Who,
        slip: Slip,
        steps: &[Step],
        model: &Side<'_>,
    ) -> Option<Call> {
        let records = records(model).await;
        let mut batch: Vec<(Move, Option<usize>)> = Vec::new();
        let mut of_lane = None;
        for step in steps {
            let Some(record) = pick(&records, step.tx) else {
                continue;
            };
            let Some(plan) = self.plan(record, *step) else {
                continue;
            };
            let closes = step.closes.filter(|_| model.remedies() > 0);
            let closes = closes.map(|number| number % model.remedies());
            let fits = batch.first().is_none_or(|(first, _)| {
                first.event.kind.is_told() == plan.event.kind.is_told()
                    && of_lane == Some(record.lane)
            });
            if fits && batch.iter().all(|(each, _)| each.tx != plan.tx) {
                of_lane = Some(record.lane);
                batch.push((closing(plan, closes), closes));
            }
        }
        let lane = lanes().iter().position(|lane| Some(*lane) == of_lane)?;
        let (holder, mut token) = self.actor(who, lane, model).await;
        match slip {
            Slip::Token => token = token.plus(1).unwrap(),
            Slip::Version => batch[0].0.version = Version::new(77).unwrap(),
            Slip::None | Slip::Cursor | Slip::Free => {}
        }
        Some(Call::Move(holder, lane, token, batch))
    }

    fn plan(&mut self, record: &Record, step: Step) -> Option<Move> {
        let hash = self.hash(step.again);
        let plan = inputs::plan(record, hash, step.input)?;
        Some(if step.due_later {
            plan.due_in(Duration::from_secs(5))
        } else {
            plan
        })
    }

    pub(super) fn hash(&mut self, again: Option<usize>) -> u64 {
        match again {
            Some(again) if self.hashes > 0 => u64::try_from(again).unwrap() % self.hashes,
            Some(_) | None => {
                self.hashes += 1;
                self.hashes - 1
            }
        }
    }
}

fn closing(plan: Move, closes: Option<usize>) -> Move {
    match closes {
        None => plan,
        // Each store puts its own name of that remedy in.
        Some(number) => plan.closing(Closing {
            remedy: RemedyId(i64::try_from(number).unwrap()),
            refused: None,
        }),
    }
}

/// Spans that tell states apart: most of a lease, past it, past the skew, a reservation's time. The
/// odd milliseconds keep sums of them away from every boundary.
fn span_of(which: usize, model: &Side<'_>) -> Duration {
    let terms = model.terms();
    let odd = Duration::from_millis(7);
    match which {
        0 => terms.duration / 4 + odd,
        1 => terms.duration + odd,
        2 | 3 => terms.duration + terms.skew * 2 + odd,
        _ => TTL + GRACE + odd,
    }
}

async fn view(lane: usize, model: &Side<'_>) -> LaneView {
    model.store.lane(lanes()[lane]).await.unwrap().unwrap()
}

pub(super) async fn records(model: &Side<'_>) -> Vec<Record> {
    let all = PageQuery {
        limit: READ_LIMIT_MAX,
        ..PageQuery::default()
    };
    model.store.page(&all).await.unwrap()
}

pub(super) fn pick<T>(all: &[T], number: usize) -> Option<&T> {
    all.get(number.checked_rem(all.len())?)
}
