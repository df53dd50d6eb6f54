//! `fencepost demo`: the whole story in about twenty seconds, on a chain and a node of its own. Clients post, the
//! chain is reorganised, the node is killed, and at the end every promise is held against the chain.

mod request;
mod chain;
mod node;
mod api;
mod clients;
mod screen;
mod facts;
mod story;
mod promises;
mod summary;

use crate::cli::demo::Demo;
use crate::dev::addresses;
use crate::failure::Failure;
use crate::output::print;
use crate::signals::Signals;

use chain::Chain;
use node::Home;
use request::Request;
use screen::Screen;
use summary::Summary;

/// Plays the story and judges it. It fails where a promise was broken.
pub(crate) async fn demo(options: Demo) -> Result<(), Failure> {
    let mut signals = Signals::listen().map_err(|error| Failure::new("no signals", error))?;
    let chain = Chain::start(addresses(options.signers).await?).await?;
    let home = Home::new(&chain)?;
    let screen = Screen::new(u64::from(options.transactions));
    let count = usize::try_from(options.transactions).unwrap_or(usize::MAX);
    let requests = Request::all(count, chain.signers());
    let played = tokio::select! {
        played = story::play(&chain, &home, &screen, requests) => played,
        () = signals.next() => {
            return Err(Failure::Refused("stopped in the middle of it".to_owned()));
        }
    };
    let signers = chain.signers().len();
    chain.stop().await;
    let judged = played.map(|told| {
        let promises = promises::judge(&told.facts);
        Summary::new(&told, promises, signers)
    });
    let is_well = judged.as_ref().is_ok_and(|it| it.broken().is_empty());
    let kept = (options.keep || !is_well).then(|| home.keep());
    if let Some(kept) = &kept {
        screen.say(&format!(
            "the node's configuration, store and log are in {}",
            kept.display()
        ));
    }
    let summary = judged?;
    print(&if options.json {
        summary.json().to_string()
    } else {
        summary.table()
    })?;
    match summary.broken() {
        broken if broken.is_empty() => Ok(()),
        broken => Err(Failure::Refused(format!("broken: {}", broken.join(", ")))),
    }
}
