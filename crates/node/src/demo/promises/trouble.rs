//! What is promised for the days on which things go wrong. A story without trouble proves nothing here, so it
//! counts as broken.

use std::collections::BTreeSet;

use super::{Promise, count};
use crate::demo::facts::{Crash, Facts, Reorg, is_final};

const SIGKILL: i32 = 9;

/// What a reorg undoes is sent again, the same bytes, and was never told as final.
pub(super) fn reorg(facts: &Facts) -> Promise {
    let mined: BTreeSet<&String> = facts.mined.iter().map(|tx| &tx.hash).collect();
    let (counted, kept) = match &facts.reorg {
        None => ("there was no reorg".to_owned(), false),
        Some(reorg) => {
            let Reorg {
                depth,
                gone,
                told,
                noticed,
                sent_again,
                back_after: _,
            } = reorg;
            let back = count(gone, |hash| mined.contains(hash));
            let seen = count(gone, |hash| noticed.contains(*hash));
            let again = count(gone, |hash| sent_again.contains(*hash));
            let (gone, told) = (gone.len(), told.len());
            let counted = format!(
                "{depth} blocks replaced, {gone} undone, {seen} noticed, {again} sent again, \
                 {back} back; {told} had been called final"
            );
            let kept = gone > 0 && [seen, again, back] == [gone; 3] && told == 0;
            (counted, kept)
        }
    };
    Promise {
        name: "reorg",
        promise: "Mined is not final: a reorg loses nothing",
        counted,
        kept,
    }
}

/// A killed node is replaced, under a newer token, and what it had accepted ends.
pub(super) fn crash(facts: &Facts) -> Promise {
    let (counted, kept) = match &facts.crash {
        None => ("there was no crash".to_owned(), false),
        Some(crash) => after_crash(facts, crash),
    };
    Promise {
        name: "crash",
        promise: "A crash loses nothing",
        counted,
        kept,
    }
}

fn after_crash(facts: &Facts, crash: &Crash) -> (String, bool) {
    let ended = facts.stored.iter().filter(|it| is_final(&it.state));
    let ended: BTreeSet<&String> = ended.map(|it| &it.tx_id).collect();
    let finished = count(&crash.open, |id| ended.contains(id));
    let risen = count(&facts.signers, |it| {
        crash
            .tokens
            .get(&it.signer)
            .is_some_and(|before| it.token > *before)
    });
    let (open, signers, retries) = (crash.open.len(), crash.tokens.len(), crash.retries);
    let counted = format!(
        "kill -9 with {open} under way, {finished} of them ended; {retries} posts without an answer repeated; \
         {risen} of {signers} signers under a newer token"
    );
    let replaced = crash.pids.0 != crash.pids.1 && crash.signal == Some(SIGKILL);
    let kept = replaced
        && open > 0
        && finished == open
        && signers > 0
        && risen == signers
        && crash.told_after.is_some();
    (counted, kept)
}
