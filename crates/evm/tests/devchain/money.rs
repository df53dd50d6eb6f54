//! What a signer has, what it cannot pay, and how far its nonces are.

use fencepost_app::ports::{Chain, CountMode, Estimate};
use fencepost_devchain::{GWEI, View};
use fencepost_domain::U256;
use fencepost_domain::request::{Ceilings, Draft, Payload};

use super::bench::{Bench, MAIN, OTHER, lane, signed, signer};

/// A call whose gas is asked for, with a fee of so many gwei.
fn payload(value: &str, gwei: u64) -> Payload {
    let draft = Draft {
        to: Some("0x00000000000000000000000000000000000000aa".to_owned()),
        value: Some(value.to_owned()),
        data: Some("0x01".to_owned()),
        max_fee_per_gas: Some((gwei * GWEI).to_string()),
        max_priority_fee_per_gas: Some("1".to_owned()),
        ..Draft::default()
    };
    let ceilings = Ceilings {
        max_fee: u128::MAX,
        max_priority_fee: u128::MAX,
    };
    Payload::parse(&draft, ceilings).unwrap()
}

#[tokio::test(start_paused = true)]
async fn an_estimate_tells_an_empty_account_from_one_that_can_pay() {
    let bench = Bench::new();
    let estimate = async |value: &str, gwei| {
        let payload = payload(value, gwei);
        bench.chains.estimate(lane(), &payload).await.unwrap()
    };
    assert!(matches!(estimate("1", 10).await, Estimate::Gas(_)));
    let wei = |wei: u64| bench.chain.lock().set_balance(signer(), U256::from(wei));
    wei(20_000 * GWEI);
    let unpaid = |words: &str| Estimate::NoFunds(words.to_owned());
    let transfer = unpaid("insufficient funds for transfer");
    assert_eq!(estimate("20000000000000", 1).await, transfer);
    let gas = unpaid("gas required exceeds allowance (19999)");
    assert_eq!(estimate("1", 1).await, gas);
    let gas = unpaid("gas required exceeds allowance (2000)");
    assert_eq!(estimate("0", 10).await, gas);
    wei(30_000 * GWEI);
    assert!(matches!(estimate("1", 1).await, Estimate::Gas(_)));
}

#[tokio::test(start_paused = true)]
async fn the_balance_is_that_of_the_newest_block_and_both_questions_are_counted() {
    let bench = Bench::new();
    let balance = async || bench.chains.balance(lane()).await.unwrap();
    let before = balance().await;
    bench.send(MAIN, signed(0, 5, 10));
    assert_eq!(balance().await, before, "what is pooled is not paid");
    bench.mine(1);
    let state = bench.chain.lock().state().clone();
    assert_eq!(balance().await, state.balance(&signer()));
    assert!(balance().await < before);
    bench.consumer(0).await.unwrap();
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &bench.registry).unwrap();
    let line = |method: &str, count: u32| {
        let labels = format!("chain=\"main\",method=\"{method}\",result=\"ok\"");
        let line = format!("fencepost_rpc_requests_total{{{labels}}} {count}\n");
        assert!(text.contains(&line), "{line} in {text}");
    };
    line("balance", 4);
    // The head, the count there, the count below it, the block.
    line("consumer", 4);
}

/// A lent nonce is given back only when no reachable endpoint counts beyond it.
#[tokio::test(start_paused = true)]
async fn a_transaction_in_any_endpoints_pool_is_counted() {
    let bench = Bench::new();
    let count = async |mode| {
        let count = bench.chains.count(lane(), mode).await.unwrap();
        (count.highest.get(), count.is_unanimous())
    };
    assert_eq!(count(CountMode::Pending).await, (0, true));
    bench.send(OTHER, signed(0, 1, 10));
    assert_eq!(count(CountMode::Pending).await, (1, false));
    assert_eq!(count(CountMode::Latest).await, (0, true));
    bench.chain.lock().gossip(OTHER).unwrap();
    assert_eq!(count(CountMode::Pending).await, (1, true));
    bench.mine(1);
    assert_eq!(count(CountMode::Latest).await, (1, true));
    let lags = View {
        lag: 1,
        ..View::default()
    };
    bench.chain.lock().set_view(MAIN, lags).unwrap();
    assert_eq!(count(CountMode::Latest).await, (1, false));
}
