//! With `failover = "witness"` lanes go on by themselves after a failover, by the word of whoever led them last, where
//! nothing that was acknowledged is missing. Real primaries with real standbys; two nodes, each with its own way to them.

use anyhow::Result;
use fencepost_app::ports::{Acquired, Bid, LaneRefusal, StoreError, Vouched};
use fencepost_domain::failover::Loss;
use fencepost_domain::ids::FeedSeq;
use fencepost_postgres::Failover;
use fencepost_store_tests::bench::{Seat, leading, only, refused, url};
use fencepost_store_tests::builders::{accepted, id, nonce, sign, token, txs};
use fencepost_testkit::postgres::Cluster;
use fencepost_testkit::wait;

use super::post::TERMS;
use super::town::{BRIEF, Node, SHORT_LEASE, Town, fail_over, held, town};

#[tokio::test]
async fn where_nothing_is_lost_lanes_and_feed_go_on_by_themselves() -> Result<()> {
    let Town {
        primary,
        standby,
        a,
        b,
        ..
    } = town(TERMS, Failover::Witness).await?;
    let one = a.lead(1).await?;
    let two = b.lead(2).await?;
    one.accept(txs([1, 2, 3])).await;
    one.confirm(id(1), 1).await;
    one.step(id(2), sign(2)).await;
    two.accept(txs([20])).await;
    a.enqueue(two.held.lane, 21).await?;
    assert_eq!(b.epoch().await?, 1);
    standby.wait_caught_up().await?;
    let promoted = fail_over(&primary, standby, &[&a, &b]).await?;

    wait::until("a reaches the server", || async {
        Ok(a.store.ping().await.is_ok().then_some(()))
    })
    .await?;
    assert_eq!(a.paused(1).await?, held(), "until its leader has spoken");
    let unsaid = a.store.completions(FeedSeq::default(), 10).await;
    assert!(
        matches!(unsaid, Err(StoreError::Unavailable(_))),
        "{unsaid:?}"
    );
    let said = a.vouch().await?;
    assert_eq!((&said.lost[..], said.feed_lost), (&[][..], false));
    assert_eq!(said.silent, ["b"], "it may have acknowledged something");
    assert_eq!(a.paused(1).await?, held());
    let said = b.vouch().await?;
    assert!(said.gone_on.contains(&two.held.lane), "{said:?}");
    assert_eq!(b.paused(2).await?, None);
    assert_eq!(b.paused(1).await?, held(), "its leader is another");
    let said = a.vouch().await?;
    assert!(said.gone_on.contains(&one.held.lane), "{said:?}");
    assert_eq!((&said.lost[..], &said.unheard[..]), (&[][..], &[][..]));
    assert_eq!(a.paused(1).await?, None);
    assert_eq!((a.epoch().await?, b.epoch().await?), (1, 1));

    // The next nonce is the next, under a token that no lost commit can have given.
    let again = a.lead(1).await?;
    assert!(again.held.token > token(1_000_000));
    assert_eq!(again.accept(txs([4])).await, [3]);
    assert_eq!(a.vouch().await?, Vouched::default(), "all is said");

    // And once more: what went on goes on again.
    let next = promoted.standby().await?;
    next.wait_caught_up().await?;
    let _promoted = fail_over(&promoted, next, &[&a, &b]).await?;
    for node in [&a, &b] {
        assert_eq!(node.vouch().await?.lost, []);
    }
    let said = a.vouch().await?;
    assert!(said.gone_on.contains(&one.held.lane), "{said:?}");
    assert_eq!(a.lead(1).await?.accept(txs([5])).await, [4]);
    assert_eq!((a.epoch().await?, b.epoch().await?), (1, 1));
    Ok(())
}

/// A promoted standby that lacks the newest commits, and the lanes by what they lost.
struct Tail {
    _promoted: Cluster,
    a: Node,
    b: Node,
    event: Seat,
    cursor: Seat,
    whole: Seat,
    queue: Seat,
    taken: Seat,
}

async fn tail_missing() -> Result<Tail> {
    let Town {
        primary,
        standby,
        database,
        a,
        b,
    } = town(SHORT_LEASE, Failover::Witness).await?;
    let event = a.lead(1).await?;
    let cursor = a.lead(2).await?;
    let whole = a.lead(3).await?;
    let queue = a.lead(4).await?;
    let taken = a.lead(5).await?;
    let unled = b.lead(6).await?;
    for (n, seat) in [
        (10, &event),
        (20, &cursor),
        (30, &whole),
        (40, &queue),
        (60, &unled),
    ] {
        seat.accept(txs([n])).await;
    }
    event.step(id(10), sign(10)).await;
    let c = Node::start(&database, "c", SHORT_LEASE, Failover::Witness).await?;
    let dead = c.lead(7).await?;
    dead.accept(txs([70])).await;
    standby.wait_caught_up().await?;
    standby.stop_receiving().await?;
    event.step(id(10), accepted()).await;
    cursor.accept(txs([21])).await;
    b.enqueue(queue.held.lane, 41).await?;
    let bid = Bid {
        lane: taken.held.lane,
        fresh: true,
    };
    let bids = [bid];
    let lead = leading(only(a.store.acquire(&a.holder, &url("a"), &bids).await?));
    assert_eq!(lead.token, token(2));
    unled.confirm(id(60), 60).await;
    // Told to a reader at b, and to nobody else.
    assert_eq!(
        b.store
            .completions(FeedSeq::default(), 10)
            .await?
            .head
            .get(),
        1
    );
    drop(c);
    let whole_and_queue = [whole.held, queue.held];
    a.store.renew(&a.holder, &whole_and_queue).await?;
    let promoted = fail_over(&primary, standby, &[&a, &b]).await?;
    Ok(Tail {
        _promoted: promoted,
        a,
        b,
        event,
        cursor,
        whole,
        queue,
        taken,
    })
}

#[tokio::test]
async fn exactly_the_lanes_that_lost_something_are_held() -> Result<()> {
    let Tail {
        _promoted,
        a,
        b,
        event,
        cursor,
        whole,
        queue,
        taken,
    } = tail_missing().await?;
    let said = a.vouch().await?;
    assert_eq!(said.gone_on, [], "b and c may still say something");
    let lost = |seat: &Seat| {
        let found = said.lost.iter().find(|(lane, _)| *lane == seat.held.lane);
        found.map(|(_, loss)| loss.clone())
    };
    assert!(
        matches!(lost(&event), Some(Loss::Events { .. })),
        "{said:?}"
    );
    let nonces = Loss::Nonces {
        acknowledged: nonce(2),
        found: nonce(1),
    };
    assert_eq!(lost(&cursor), Some(nonces));
    let token = Loss::Token {
        acknowledged: token(2),
        found: token(1),
    };
    assert_eq!(lost(&taken), Some(token));
    assert_eq!(lost(&whole), None);
    assert!(!said.feed_lost, "a's readers were told nothing");
    let later = wait::until("whole lanes go on without the others", || async {
        let said = a.store.vouch(&a.holder).await?;
        Ok((!said.gone_on.is_empty()).then_some(said))
    })
    .await?;
    assert!(later.gone_on.contains(&whole.held.lane), "{later:?}");
    assert_eq!(later.unheard, ["b", "c"]);
    for (n, expected) in [
        (1, held()),
        (2, held()),
        (3, None),
        (4, None),
        (5, held()),
        (7, held()),
    ] {
        assert_eq!(a.paused(n).await?, expected, "lane {n}");
    }

    // Another node comes later and misses a request that it took: the lane that had gone on is held again.
    let said = b.vouch().await?;
    let first = format!("the queued request {}", id(41).0);
    let missed = (queue.held.lane, Loss::Acknowledged { count: 1, first });
    assert!(said.lost.contains(&missed), "{said:?}");
    assert_eq!(b.paused(4).await?, held());
    assert_eq!(b.paused(3).await?, None);
    assert_eq!(b.paused(6).await?, held(), "its completion is lost");
    assert!(said.feed_lost);
    assert_eq!((a.epoch().await?, b.epoch().await?), (2, 2), "once");
    Ok(())
}

/// Another node may have taken the lane in a commit that is lost. Only that node can tell.
#[tokio::test]
async fn a_lane_whose_lease_ran_out_waits_for_whoever_may_have_taken_it() -> Result<()> {
    let Town {
        primary,
        standby,
        a,
        b,
        ..
    } = town(BRIEF, Failover::Witness).await?;
    let taken = a.lead(1).await?;
    let left = a.lead(2).await?;
    taken.accept(txs([1])).await;
    left.accept(txs([20])).await;
    for node in [&a, &b] {
        node.store.beat(&node.holder, &[]).await?;
    }
    standby.wait_caught_up().await?;
    standby.stop_receiving().await?;
    // As if a were cut off from a primary that b still reaches.
    let b_leads = wait::until("b takes the lane", || async {
        let lane = taken.held.lane;
        let bids = [Bid { lane, fresh: false }];
        let answer = only(b.store.acquire(&b.holder, &url("b"), &bids).await?);
        Ok(matches!(answer, Acquired::Leading(_)).then_some(()))
    });
    b_leads.await?;
    let _promoted = fail_over(&primary, standby, &[&a, &b]).await?;

    let said = a.vouch().await?;
    assert_eq!((&said.gone_on[..], &said.lost[..]), (&[][..], &[][..]));
    assert_eq!(said.silent, ["b"]);
    assert!(said.waiting >= 2, "{said:?}");
    let said = b.vouch().await?;
    assert!(
        said.lost
            .iter()
            .any(|(lane, loss)| *lane == taken.held.lane && matches!(loss, Loss::Token { .. })),
        "{said:?}"
    );
    let said = a.vouch().await?;
    assert!(said.gone_on.contains(&left.held.lane), "{said:?}");
    assert!(!said.gone_on.contains(&taken.held.lane), "{said:?}");
    assert_eq!(a.paused(1).await?, held());
    assert_eq!(a.paused(2).await?, None);
    Ok(())
}

#[tokio::test]
async fn a_lossless_failover_holds_nothing_and_fences_every_leader() -> Result<()> {
    let Town {
        primary,
        standby,
        a,
        b,
        ..
    } = town(TERMS, Failover::Lossless).await?;
    let one = a.lead(1).await?;
    one.accept(txs([1])).await;
    assert_eq!(b.epoch().await?, 1);
    standby.wait_caught_up().await?;
    let _promoted = fail_over(&primary, standby, &[&a, &b]).await?;
    assert_eq!(b.vouch().await?, Vouched::default());
    assert_eq!(b.paused(1).await?, None);
    assert_eq!(b.epoch().await?, 1);
    assert_eq!(refused(one.create(txs([2])).await), LaneRefusal::Fenced);
    let again = b.lead(1).await?;
    assert!(again.held.token > token(1_000_000));
    assert_eq!(again.accept(txs([2])).await, [1]);
    Ok(())
}
