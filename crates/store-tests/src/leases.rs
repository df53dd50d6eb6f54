//! Who leads: leases, tokens, incarnations, heartbeats. Only the store's clock decides.

use fencepost_app::ports::{
    Acquired, Action, Beat, Bid, CursorMove, CursorMoved, Decided, Decision, Held, Holder,
    LaneRefusal, Lead, NewRemedy, Peer, Reach, Renewed, StoreError, Taken,
};
use fencepost_domain::ids::{Incarnation, LaneId, NodeId, Nonce};

use crate::Harness;
use crate::bench::{Bench, leading, only, refused, url};
use crate::builders::{audit, chain_id, lane, nonce, token, tx, txs};

/// A first bid for a lane gets token 1 at once, and every node can see who leads.
pub async fn a_first_bid_leads_with_token_one(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = bench.node("a").await;
    let [id] = bench.open([lane(1)]).await;
    let fresh = bench.store.lane(lane(1)).await.unwrap().unwrap();
    assert_eq!((fresh.leader, fresh.token), (None, token(0)));

    let lead = leading(bench.bid(&a, id, false).await);
    let expected = Lead {
        token: token(1),
        taken: Taken::Inserted,
        next_nonce: Nonce::ZERO,
        paused: None,
    };
    assert_eq!(lead, expected);
    let view = bench.store.lane(lane(1)).await.unwrap().unwrap();
    let leader = view.leader.unwrap();
    assert_eq!(
        (leader.node, leader.incarnation, leader.url, leader.token),
        (a.node, a.incarnation, url("a"), token(1))
    );
}

/// A leader that bids again keeps its token, and what it remembers of the lane stays valid.
pub async fn a_second_bid_of_the_leader_renews_under_the_same_token(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = bench.seat("a", lane(1)).await;
    a.accept(txs(1..=3)).await;
    bench.advance(harness.terms().duration * 3 / 4).await;
    let lead = leading(bench.bid(&a.holder, a.held.lane, false).await);
    assert_eq!((lead.token, lead.taken), (token(1), Taken::Kept));
    assert_eq!(lead.next_nonce.get(), 3);
    // Without the renewal the lease would be over by now.
    bench.advance(harness.terms().duration * 3 / 4).await;
    let kept = bench.store.renew(&a.holder, &[a.held]).await.unwrap();
    assert_eq!(kept, [Renewed::Kept]);
}

/// Behind a fresh token no older statement of the leader itself can apply.
pub async fn a_fresh_bid_takes_a_new_token_and_fences_the_old_one(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = bench.seat("a", lane(1)).await;
    let lead = leading(bench.bid(&a.holder, a.held.lane, true).await);
    assert_eq!((lead.token, lead.taken), (token(2), Taken::Retaken));
    assert_eq!(refused(a.create(txs([1])).await), LaneRefusal::Fenced);
}

/// Another node is told who leads, and takes over only when the lease and the allowance for skewed
/// clocks are both over.
pub async fn another_node_takes_over_only_after_expiry_and_skew(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let terms = harness.terms();
    let a = bench.seat("a", lane(1)).await;
    let b = bench.node("b").await;
    let led_by_a = async |when: &str| {
        let answer = bench.bid(&b, a.held.lane, true).await;
        let Acquired::Led(leader) = answer else {
            panic!("{when}: {answer:?}");
        };
        assert_eq!(leader.node, a.holder.node, "{when}");
        assert_eq!(leader.url, url("a"), "{when}");
        assert_eq!(leader.token, token(1), "{when}");
    };
    led_by_a("at once").await;
    bench.advance(terms.duration * 3 / 4).await;
    led_by_a("before expiry").await;
    bench.advance(terms.duration / 4 + terms.skew / 4).await;
    led_by_a("after expiry, within the skew").await;

    bench.advance(terms.skew).await;
    let lead = leading(bench.bid(&b, a.held.lane, false).await);
    assert_eq!((lead.token, lead.taken), (token(2), Taken::Stolen));
    let answer = bench.bid(&a.holder, a.held.lane, true).await;
    assert!(matches!(answer, Acquired::Led(leader) if leader.node == b.node));
}

/// Between its expiry and a takeover a lease is nobody's: its last leader must bid again, and gets
/// a new token, for another may have led in between without its knowing.
pub async fn an_expired_leader_is_fenced_until_it_bids_again(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = bench.seat("a", lane(1)).await;
    bench.advance(harness.terms().duration).await;
    assert_eq!(a.view().await.leader, None);
    let kept = bench.store.renew(&a.holder, &[a.held]).await.unwrap();
    assert_eq!(kept, [Renewed::Fenced]);
    assert_eq!(refused(a.create(txs([1])).await), LaneRefusal::Fenced);
    let lead = leading(bench.bid(&a.holder, a.held.lane, false).await);
    assert_eq!((lead.token, lead.taken), (token(2), Taken::Retaken));
}

/// A node that starts again need not wait for the lease of its own earlier start, and that start,
/// should it still run, is a ghost which can write nothing.
pub async fn a_restarted_node_takes_its_lanes_back_at_once(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let old = bench.seat("a", lane(1)).await;
    let [other] = bench.open([lane(2)]).await;
    let new = bench.node("a").await;
    assert_eq!(new.incarnation, old.holder.incarnation.plus(1).unwrap());

    let before = bench.dump().await;
    let ghost = Acquired::Ghost(new.incarnation);
    let bids = [old.held.lane, other].map(|lane| Bid { lane, fresh: false });
    let answers = bench.store.acquire(&old.holder, "http://old", &bids).await;
    assert_eq!(answers.unwrap(), [ghost.clone(), ghost]);
    bench.dump().await.assert_same(&before, "a ghost's bid");

    let lead = leading(bench.bid(&new, old.held.lane, false).await);
    assert_eq!((lead.token, lead.taken), (token(2), Taken::Retaken));
    assert_eq!(refused(old.create(txs([1])).await), LaneRefusal::Fenced);
    // The right token in the hands of the wrong incarnation is as bad as an old token.
    let ghost = crate::bench::Seat {
        held: Held {
            token: token(2),
            ..old.held
        },
        ..old
    };
    assert_eq!(refused(ghost.create(txs([1])).await), LaneRefusal::Fenced);
}

/// A released lane is free at once, its token stays, and only what was still ours is released.
pub async fn a_released_lane_is_free_at_once_and_its_token_stays(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = bench.seat("a", lane(1)).await;
    let second = bench.seat_of(&a.holder, lane(2)).await;
    let b = bench.seat("b", lane(3)).await;
    let stale = Held {
        token: token(9),
        ..second.held
    };
    let all = [b.held, stale, a.held];
    let released = bench.store.release(&a.holder, &all).await.unwrap();
    assert_eq!(released, [a.held.lane]);
    let view = a.view().await;
    assert_eq!((view.leader, view.token), (None, token(1)));
    assert!(second.view().await.leader.is_some());
    assert!(b.view().await.leader.is_some());

    assert_eq!(refused(a.create(txs([1])).await), LaneRefusal::Fenced);
    let again = bench.store.release(&a.holder, &[a.held]).await.unwrap();
    assert_eq!(again, []);
    let lead = leading(bench.bid(&b.holder, a.held.lane, false).await);
    assert_eq!((lead.token, lead.taken), (token(2), Taken::Inserted));
}

/// A leader that stops after its lease has run out still frees the lane for others.
pub async fn an_expired_lease_can_still_be_released(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = bench.seat("a", lane(1)).await;
    let b = bench.node("b").await;
    bench.advance(harness.terms().duration).await;
    let released = bench.store.release(&a.holder, &[a.held]).await.unwrap();
    assert_eq!(released, [a.held.lane]);
    let lead = leading(bench.bid(&b, a.held.lane, false).await);
    assert_eq!(lead.token, token(2));
}

/// Renewals answer for each lane in the order of the question.
pub async fn renewals_answer_lane_by_lane(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = bench.seat("a", lane(1)).await;
    let second = bench.seat_of(&a.holder, lane(2)).await;
    let b = bench.seat("b", lane(3)).await;
    let unknown = Held {
        lane: LaneId(1_000_000),
        token: token(1),
    };
    let stale = Held {
        token: token(0),
        ..second.held
    };
    let asked = [second.held, b.held, unknown, a.held];
    let answers = bench.store.renew(&a.holder, &asked).await.unwrap();
    let expected = [
        Renewed::Kept,
        Renewed::Fenced,
        Renewed::Fenced,
        Renewed::Kept,
    ];
    assert_eq!(answers, expected);
    let answers = bench.store.renew(&a.holder, &[stale]).await.unwrap();
    assert_eq!(answers, [Renewed::Fenced]);
    assert_eq!(bench.store.renew(&a.holder, &[]).await.unwrap(), []);
}

/// A leader that writes need not renew: each fenced write does it.
pub async fn every_fenced_write_renews_the_lease(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = bench.seat("a", lane(1)).await;
    let part = harness.terms().duration * 3 / 4;
    bench.advance(part).await;
    a.accept(txs([1])).await;
    bench.advance(part).await;
    a.step(tx(1).tx, crate::builders::sign(1)).await;
    bench.advance(part).await;
    assert_eq!(a.claim_due(part * 10, 10).await.records.len(), 1);
    bench.advance(part).await;
    let stuck = fencepost_domain::state::Why::NoReceipt;
    let stick = fencepost_domain::transition::Input::Stick(stuck);
    a.step(tx(1).tx, stick).await;
    bench.advance(part).await;
    let question = NewRemedy {
        tx: tx(1).tx,
        round: 1,
        action: Action::Decide,
        fees: None,
        audit: audit(),
    };
    bench.store.ask_remedy(&question).await.unwrap();
    let claimed = bench.store.claim_remedies(&a.holder, &[a.held], 1).await;
    let decided = Decided {
        remedy: only(claimed.unwrap().remedies).id,
        action: None,
        fees: None,
        raw: None,
        severity: None,
        after: None,
        audit: audit(),
    };
    bench.advance(part).await;
    let answer = bench.store.decide_remedy(&a.holder, a.held, &decided).await;
    assert_eq!(answer.unwrap(), Decision::Written);
    bench.advance(part).await;
    let raise = CursorMove::Raise {
        holder: a.holder.clone(),
        held: a.held,
        to: nonce(0),
    };
    let moved = bench.store.move_cursor(a.held.lane, &raise, &audit()).await;
    assert!(matches!(moved.unwrap(), CursorMoved::Now { .. }));
    bench.advance(part).await;
    let kept = bench.store.renew(&a.holder, &[a.held]).await.unwrap();
    assert_eq!(kept, [Renewed::Kept]);
}

/// Over many changes of hands the token only grows, and the cursor stays where work has left it.
pub async fn tokens_and_cursors_never_go_back(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let holders = [bench.node("a").await, bench.node("b").await];
    let (mut last, mut cursor) = (0, 0);
    for round in 0..6_u64 {
        let turn = usize::try_from(round % 2).unwrap();
        let seat = bench.seat_of(&holders[turn], lane(1)).await;
        assert!(seat.held.token.get() > last, "round {round}");
        last = seat.held.token.get();
        let lead = leading(bench.bid(&holders[turn], seat.held.lane, false).await);
        assert_eq!(lead.next_nonce.get(), cursor, "round {round}");
        assert_eq!(seat.accept(txs([round])).await, [cursor]);
        cursor += 1;
        if round == 2 {
            let released = bench.store.release(&seat.holder, &[seat.held]).await;
            assert_eq!(released.unwrap().len(), 1);
        } else {
            bench.lapse().await;
        }
    }
    bench.dump().await.assert_sound();
}

/// One call bids for many lanes, and each gets its own answer.
pub async fn bids_answer_lane_by_lane(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let b = bench.seat("b", lane(2)).await;
    let a = bench.node("a").await;
    let [first] = bench.open([lane(1)]).await;
    let bids = [b.held.lane, LaneId(1_000_000), first].map(|lane| Bid { lane, fresh: false });
    let answers = bench.store.acquire(&a, &url("a"), &bids).await.unwrap();
    assert!(matches!(&answers[0], Acquired::Led(leader) if leader.node == b.holder.node));
    assert_eq!(answers[1], Acquired::UnknownLane);
    assert!(matches!(&answers[2], Acquired::Leading(lead) if lead.token == token(1)));
    assert_eq!(bench.store.acquire(&a, &url("a"), &[]).await.unwrap(), []);
}

/// A chain, and whether it is reached: the first is not.
fn reach(chain: u64) -> Reach {
    Reach {
        chain: chain_id(chain),
        usable: chain > 1,
    }
}

/// Nodes see each other for three leases after their last heartbeat, and which chains the others have and reach.
pub async fn nodes_that_beat_lately_see_each_other(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let (b, a) = (bench.node("b").await, bench.node("a").await);
    let peer = |holder: &Holder, chains: &[u64]| Peer {
        node: holder.node.clone(),
        incarnation: holder.incarnation,
        url: url(holder.node.as_str()),
        chains: chains.iter().copied().map(reach).collect(),
    };
    let beat = async |holder: &Holder, chains: &[u64]| {
        let chains: Vec<_> = chains.iter().copied().map(reach).collect();
        bench.store.beat(holder, &chains).await.unwrap()
    };
    beat(&b, &[1, 137]).await;
    let both = Beat::Alive(vec![peer(&a, &[1]), peer(&b, &[1, 137])]);
    assert_eq!(beat(&a, &[1]).await, both);

    bench.advance(harness.terms().duration * 2).await;
    let both = Beat::Alive(vec![peer(&a, &[]), peer(&b, &[1, 137])]);
    assert_eq!(beat(&a, &[]).await, both);
    bench.advance(harness.terms().duration * 3 / 2).await;
    assert_eq!(beat(&a, &[]).await, Beat::Alive(vec![peer(&a, &[])]));
}

/// A ghost learns from its heartbeat that a later start of its node id has joined.
pub async fn a_ghost_learns_it_from_its_heartbeat(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let old = bench.node("a").await;
    assert_eq!(old.incarnation, Incarnation::new(1).unwrap());
    let new = bench.node("a").await;
    let beat = bench.store.beat(&old, &[]).await.unwrap();
    assert_eq!(beat, Beat::Ghost(new.incarnation));
    let beat = bench.store.beat(&new, &[]).await.unwrap();
    assert!(matches!(beat, Beat::Alive(peers) if only(peers.clone()).node == new.node));
}

/// A node that never joined cannot beat: its incarnation was never taken.
pub async fn a_node_that_never_joined_cannot_beat(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let stranger = Holder {
        node: NodeId::new("stranger").unwrap(),
        incarnation: Incarnation::new(1).unwrap(),
    };
    let answer = bench.store.beat(&stranger, &[]).await;
    assert!(matches!(answer, Err(StoreError::Invalid(_))), "{answer:?}");
}
