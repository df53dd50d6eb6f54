//! `fencepost bench`: hands the command line to the bench, and what it finds to stdout.

use fencepost_bench::Options;

use crate::cli::bench::Bench;
use crate::failure::Failure;
use crate::output::print;
use crate::signals::Signals;

/// Measures until it is done or told to stop; either way nothing that it started is left.
pub(crate) async fn bench(what: Bench) -> Result<(), Failure> {
    let mut signals = Signals::listen().map_err(|error| Failure::new("no signals", error))?;
    let options = Options {
        quick: what.quick,
        json: what.json,
        cases: what.cases,
        store: what.store,
        nodes: what.nodes.into(),
        rpc: what.rpc,
        seconds: what.seconds,
        plots: what.plots,
    };
    let tell = |text: &str| Ok(print(text)?);
    let done = fencepost_bench::run(options, signals.next(), tell).await;
    done.map_err(|error| Failure::new("the bench did not come to its end", error))
}

/// The chain of a bench, which ends with whoever started it.
pub(crate) async fn chain() -> Result<(), Failure> {
    let served = fencepost_bench::serve_chain().await;
    served.map_err(|error| Failure::new("the bench's chain has ended", error))
}
