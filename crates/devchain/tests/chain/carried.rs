//! The way to the chain without sockets, by a clock that the test turns.

use std::time::Duration;

use fencepost_devchain::{Disconnected, Fault, FaultKind, Shared, When};
use serde_json::json;
use tokio::time::{Instant, timeout};

use crate::world::*;

#[tokio::test(start_paused = true)]
async fn answers_come_when_it_is_time() {
    let shared = Shared::new(chain());
    let ask = || shared.call(MAIN, request("eth_chainId", &json!([])));
    let start = Instant::now();
    let (status, body) = ask().await.unwrap();
    assert_eq!((status, start.elapsed()), (200, Duration::ZERO));
    assert!(body.contains("0x7a69"));

    let late = Fault::late(Duration::from_secs(30)).times(1);
    shared.lock().add_fault(MAIN, late).unwrap();
    ask().await.unwrap();
    assert_eq!(start.elapsed().as_secs(), 30);

    let hang = Fault::new(FaultKind::Hang(When::After)).times(1);
    shared.lock().add_fault(MAIN, hang).unwrap();
    assert!(timeout(Duration::from_hours(1), ask()).await.is_err());

    let cut = Fault::new(FaultKind::Disconnect(When::Before)).times(1);
    shared.lock().add_fault(MAIN, cut).unwrap();
    assert_eq!(ask().await, Err(Disconnected));
    assert!(ask().await.is_ok());
}
