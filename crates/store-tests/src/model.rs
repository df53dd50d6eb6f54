//! A store small enough to be right by reading, and the comparison of real ones with it.
//!
//! [`Memory`] is what the port promises, on plain collections; the scenarios hold for it, too.
//! [`agree`] runs random operations on it and on two adapters, and compares every answer and, at the
//! end, everything that can be read.

mod memory;
mod lanes;
mod operate;
mod import;
mod accept;
mod moves;
mod remedies;
mod settle;
mod retire;
mod read;

mod ops;
mod plain;
mod inputs;
mod script;
mod wishes;
mod run;

use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestRng, TestRunner};
use tokio::runtime::{Builder, Runtime};

pub use memory::{Memory, MemoryHarness};

use crate::Harness;
use ops::Op;
use run::Side;
use script::Script;

/// Runs random operations on the model and on two stores, each made anew for each run, and panics
/// with the shortest run it finds in which one of them answers otherwise than the model.
///
/// Both harnesses must have the same terms.
pub fn agree<A, B>(a: impl AsyncFn() -> A, b: impl AsyncFn() -> B, cases: u32)
where
    A: Harness,
    B: Harness,
{
    let runtime: Runtime = Builder::new_multi_thread().enable_all().build().unwrap();
    let config = Config {
        cases,
        // Shrinking runs a case again and again, each on new stores.
        max_shrink_iters: 500,
        failure_persistence: None,
        ..Config::default()
    };
    // The same runs each time: a difference must not come and go by luck.
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let outcome = TestRunner::new_with_rng(config, rng).run(&ops::runs(), |ops| {
        runtime.block_on(async {
            let (a, b) = (a().await, b().await);
            compare(&ops, &a, &b).await.map_err(TestCaseError::fail)
        })
    });
    if let Err(failure) = outcome {
        panic!("{failure}");
    }
}

/// Says where a store went another way than the model, if one did.
async fn compare(ops: &[Op], a: &dyn Harness, b: &dyn Harness) -> Result<(), String> {
    assert_eq!(a.terms(), b.terms(), "terms");
    let model = MemoryHarness::new(a.terms());
    let lanes = script::lanes();
    let mut model = Side::new(&model, &lanes).await;
    let mut sides = [Side::new(a, &lanes).await, Side::new(b, &lanes).await];
    let mut script = Script::new();
    let opening = Script::opening();
    for op in opening.iter().chain(ops) {
        let Some(call) = script.resolve(op, &model).await else {
            continue;
        };
        let expected = model.ask(&call).await?;
        script.learn(&call, &expected);
        for (side, name) in sides.iter_mut().zip(["first", "second"]) {
            let answer = side.ask(&call).await?;
            if answer != expected {
                let asked = format!("the {name} store was asked\n{call:?}");
                return Err(format!(
                    "{asked}\nanswered: {answer:?}\nexpected: {expected:?}"
                ));
            }
        }
    }
    let expected = model.dump().await;
    expected.assert_sound();
    for (side, name) in sides.iter().zip(["first", "second"]) {
        if let Some(difference) = side.dump().await.difference(&expected) {
            return Err(format!(
                "in the end the {name} store differs in {difference}"
            ));
        }
    }
    Ok(())
}
