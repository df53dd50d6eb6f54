//! In memory nothing needs a thread or a runtime: each future is ready when it is first polled.

use std::task::{Context, Poll, Waker};

use fencepost_app::ports::{Key, Store};

use super::{TestClock, given, in_memory, lane, lead, tx};

#[test]
fn a_store_in_memory_works_without_a_runtime() {
    let store = in_memory(&TestClock::new());
    futures::executor::block_on(async {
        store.ping().await.unwrap();
        let leading = lead(&store).await;
        let new = tx();
        let id = new.tx;
        assert_eq!(
            given(leading.create(&store, 0, vec![new]).await.unwrap()),
            [0]
        );
        assert!(store.find(&Key::Id(id)).await.unwrap().is_some());
    });
}

#[test]
fn each_future_is_ready_at_once() {
    let store = in_memory(&TestClock::new());
    let mut context = Context::from_waker(Waker::noop());
    let lanes = [lane(1)];
    let mut write = store.open_lanes(&lanes);
    assert!(matches!(
        write.as_mut().poll(&mut context),
        Poll::Ready(Ok(_))
    ));
    let mut read = store.lane(lane(1));
    assert!(matches!(
        read.as_mut().poll(&mut context),
        Poll::Ready(Ok(Some(_)))
    ));
}
