//! I13: the confirmations that events publish are one chain. Replayed here by the rule that readers are told, and
//! held against the blocks that were truly mined.

use std::collections::BTreeMap;

use alloy_primitives::B256;
use fencepost_app::ports::{Record, Store, StoredEvent};
use fencepost_domain::event::Kind;
use fencepost_domain::ids::{LaneSeq, TxId};

use super::chain::Mirror;
use crate::sometimes::Rare;
use crate::world::World;

const PROMISE: &str = "I13 confirmations told are one chain";
/// More events than any transaction has between two looks.
const ALL: usize = 1_000;

/// What a reader of one transaction's events knows.
#[derive(Debug, Clone, Default)]
struct Told {
    /// The last event that was read.
    seq: LaneSeq,
    /// The block it is in.
    own: Option<(u64, B256)>,
    /// Blocks on top, lowest first.
    list: Vec<(u64, B256)>,
}

/// All lists.
#[derive(Debug, Default)]
pub(super) struct Lists(BTreeMap<TxId, Told>);

impl Lists {
    /// Reads the next event. Says what is wrong with it.
    fn read(&mut self, stored: &StoredEvent, mirror: &Mirror) -> Result<Option<Rare>, String> {
        let told = self.0.entry(stored.tx).or_default();
        told.seq = stored.seq;
        let event = &stored.event;
        let block = event.block.map(|block| (block.number.get(), block.hash));
        let had_some = !told.list.is_empty();
        if event.new_fork || event.kind == Kind::Receipt {
            told.list.clear();
        }
        match event.kind {
            Kind::Receipt => told.own = block,
            Kind::Stuck if event.new_fork => told.own = None,
            Kind::Confirmations if event.confirmations.is_none() => told.own = None,
            Kind::Confirmations => {}
            Kind::Confirmed | Kind::Failed | Kind::Used if told.own.is_some() => {
                return told.whole(mirror).map(|()| None);
            }
            Kind::Confirmed
            | Kind::Failed
            | Kind::Used
            | Kind::Stuck
            | Kind::Accepted
            | Kind::Signed
            | Kind::Submitted
            | Kind::Remedied
            | Kind::Resumed
            | Kind::Recycled => return Ok(None),
        }
        let added = event.confirmations.iter().flat_map(|each| each.blocks());
        for (block, _) in added {
            told.add((block.number.get(), block.hash), mirror)?;
        }
        if event.confirmations.is_some() && told.list.last().copied() != block {
            return Err(format!("the newest is {:?}", told.list.last()));
        }
        let replaced = event.new_fork && had_some && !told.list.is_empty();
        Ok(replaced.then_some(Rare::ListReplaced))
    }
}

impl Told {
    /// A block is the child of the newest, or of the one it is in, and counted at some time.
    fn add(&mut self, block: (u64, B256), mirror: &Mirror) -> Result<(), String> {
        let below = self.list.last().copied().or(self.own);
        let (number, parent) = below.ok_or("it is in no block")?;
        let linked = mirror.parent(&block.1) == Some((number, parent)) && block.0 == number + 1;
        if !linked {
            return Err(format!("{block:?} is told on top of {below:?}"));
        }
        self.list.push(block);
        Ok(())
    }

    /// It has ended: the list is as long as what made it final.
    fn whole(&self, mirror: &Mirror) -> Result<(), String> {
        let length = u64::try_from(self.list.len()).expect("it is in memory");
        match mirror.listed {
            Some(most) if length != most => Err(format!("it ends with {length} of {most} blocks")),
            Some(_) | None => Ok(()),
        }
    }
}

impl World {
    /// Reads what was told of these since the last look.
    pub(super) async fn look_at_lists(&self, row: &Record) {
        if !self.profile.settings.publish_confirmations {
            return;
        }
        let after = self.checker().lists.0.get(&row.tx).map(|told| told.seq);
        let events = self.store.history(row.tx, after.unwrap_or_default(), ALL);
        for stored in events.await.expect("it is asked directly") {
            let (read, list) = {
                let mut checker = self.checker();
                let checker = &mut *checker;
                let read = checker.lists.read(&stored, &checker.mirror);
                (read, checker.lists.0.get(&row.tx).cloned())
            };
            match read {
                Ok(rare) => rare.into_iter().for_each(|rare| self.saw(rare)),
                Err(why) => {
                    self.violate(PROMISE, format!("{why}: {stored:?} after {list:?}"));
                }
            }
        }
    }

    /// An open list that is not the chain that counts on top of its transaction, if there is one.
    pub(crate) fn outdated_list(&self) -> Option<String> {
        let most = self.profile.chain.finality.published();
        let checker = self.checker();
        let in_block = |row: &&Record| !row.state.is_final() && row.state.inclusion().is_some();
        let mut open = checker.rows.values().filter(in_block);
        open.find_map(|row| {
            let told = checker.lists.0.get(&row.tx)?;
            let own = told.own?;
            let counts = checker.mirror.on_top_of(own, most);
            (counts.as_ref() != Some(&told.list)).then(|| {
                let (tx, list) = (row.tx, &told.list);
                format!("{tx} in {own:?}: {list:?} is told, {counts:?} counts")
            })
        })
    }

    /// Whether a block of an open list does not count any more.
    pub(crate) fn has_replaced_list(&self) -> bool {
        let checker = self.checker();
        let mut open = checker.rows.values().filter(|row| !row.state.is_final());
        open.any(|row| {
            let told = checker.lists.0.get(&row.tx);
            told.is_some_and(|told| {
                let counts = told
                    .own
                    .and_then(|own| checker.mirror.on_top_of(own, u64::MAX));
                counts.is_some_and(|counts| !counts.starts_with(&told.list))
            })
        })
    }

    pub(crate) fn violate_list(&self, facts: String) {
        self.violate(PROMISE, facts);
    }

    /// What readers are given is what the events give.
    pub(crate) async fn compare_list(&self, row: &Record) {
        let Some(member) = self.someone(&mut self.rng("lists")) else {
            return;
        };
        let Ok(given) = member.node.confirmations(row.tx).await else {
            return;
        };
        let given = given
            .iter()
            .map(|listed| (listed.block.number.get(), listed.block.hash));
        let given: Vec<(u64, B256)> = given.collect();
        let told = self.checker().lists.0.get(&row.tx).cloned();
        let told = told.unwrap_or_default().list;
        if self.profile.settings.publish_confirmations && given != told {
            let facts = format!("{:?}: readers get {given:?}, events give {told:?}", row.tx);
            self.violate(PROMISE, facts);
        }
    }
}
