//! The clock may jump: leases follow it, tokens and cursors never go back.

use fencepost_app::ports::{Acquired, Holder, LaneCreated, LaneRefusal, Store};
use fencepost_domain::ids::NodeId;

use super::{TestClock, URL, acquire, given, in_memory, lane, lead, tx};

#[tokio::test]
async fn jumps_of_the_clock_never_move_a_token_or_a_cursor_back() {
    let clock = TestClock::new();
    let store = in_memory(&clock);
    let mut leading = lead(&store).await;
    let (mut token, mut cursor) = (leading.held.token, 0);
    for seconds in [
        0,
        3_600,
        -7_200,
        5,
        -5,
        86_400 * 365,
        -86_400 * 700,
        1,
        11,
        -11,
    ] {
        clock.jump(seconds);
        leading.held = acquire(&store, &leading.holder, leading.held.lane, false)
            .await
            .unwrap();
        assert!(leading.held.token >= token, "after {seconds} s");
        token = leading.held.token;
        let nonces = given(
            leading
                .create(&store, cursor, vec![tx(), tx()])
                .await
                .unwrap(),
        );
        assert_eq!(nonces, [cursor, cursor + 1], "after {seconds} s");
        cursor += 2;
        let view = store.lane(lane(1)).await.unwrap().unwrap();
        assert_eq!((view.token, view.next_nonce.get()), (token, cursor));
        assert_eq!(view.lane_seq.get(), cursor);
    }
}

/// The clock goes far back. The lease now claims to last for hours, which no lease does; another
/// node takes the lane with a new token, and the old leader is fenced although its lease "lives".
#[tokio::test]
async fn a_lease_from_before_the_clock_went_back_can_be_taken_over() {
    let clock = TestClock::new();
    let store = in_memory(&clock);
    let first = lead(&store).await;
    let node = NodeId::new("b").unwrap();
    let incarnation = store.join(&node, URL).await.unwrap();
    let other = Holder { node, incarnation };
    let lane = first.held.lane;

    // Five seconds back: the lease is only a little longer than usual.
    clock.jump(-5);
    let led = acquire(&store, &other, lane, false).await.unwrap_err();
    assert!(matches!(led, Acquired::Led(_)), "{led:?}");

    clock.jump(-3_600);
    let taken = acquire(&store, &other, lane, false).await.unwrap();
    assert!(taken.token > first.held.token);
    let late = first.create(&store, 0, vec![tx()]).await.unwrap();
    assert_eq!(late, LaneCreated::Refused(LaneRefusal::Fenced));
}

#[tokio::test]
async fn a_lease_that_the_clock_ran_past_is_fenced_until_it_is_taken_again() {
    let clock = TestClock::new();
    let store = in_memory(&clock);
    let mut leading = lead(&store).await;
    clock.jump(10);
    let late = leading.create(&store, 0, vec![tx()]).await.unwrap();
    assert_eq!(late, LaneCreated::Refused(LaneRefusal::Fenced));
    let again = acquire(&store, &leading.holder, leading.held.lane, false)
        .await
        .unwrap();
    assert!(again.token > leading.held.token);
    leading.held = again;
    assert_eq!(
        given(leading.create(&store, 0, vec![tx()]).await.unwrap()),
        [0]
    );
}
