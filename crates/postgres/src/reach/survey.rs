//! Looking at all hosts of the URL before one of them is used. An old primary that has come back answers like any other
//! and may stand first in the URL; only beside the promoted one can it be seen to be old.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use futures::future::join_all;
use tokio::time::error::Elapsed;
use tokio::time::timeout;
use tokio_postgres::{Client, SimpleQueryMessage};

use super::{Reach, Unreached, Wanted, addresses};
use crate::session::Purpose;
use crate::target::Place;

/// A new session looks at all hosts again when the last look is older. Longer, and a node goes on for so long with an
/// old primary that runs beside a promoted one; shorter, and each new session costs one more on every host.
const SURVEY_EVERY: Duration = Duration::from_secs(10);

/// A standby shows the timeline that it follows: one above its primary's means that there is a newer primary.
const SHOWN: &str = "
SELECT (SELECT system_identifier FROM pg_catalog.pg_control_system()),
       pg_catalog.pg_is_in_recovery(),
       CASE WHEN pg_catalog.pg_is_in_recovery()
            THEN (SELECT timeline_id::bigint FROM pg_catalog.pg_control_checkpoint())
            ELSE ('x' || pg_catalog.left(pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_lsn()), 8))::bit(32)::bigint END";

/// What one host has shown.
#[derive(Debug, Clone, Copy)]
struct Shown {
    system: i64,
    is_standby: bool,
    timeline: i64,
}

impl Reach {
    /// Looks at all hosts, unless that was done a moment ago. Fails where two hosts can be written to that are different
    /// database systems, and this node knows neither.
    pub(super) async fn survey(&self, wanted: &Wanted<'_>) -> Result<(), Unreached> {
        if self.target.hosts.len() < 2 {
            return Ok(());
        }
        let mut last = self.surveyed.lock().await;
        if last.is_some_and(|last| last.elapsed() < SURVEY_EVERY) {
            return Ok(());
        }
        let answering = self.answering();
        let looks = answering.iter().map(|(_, place)| self.shown(place, wanted));
        let mut writers = BTreeMap::new();
        for ((n, place), shown) in answering.iter().zip(join_all(looks).await) {
            let shown = match shown {
                Ok(Some(shown)) => shown,
                // Opening the session says why.
                Ok(None) => continue,
                Err(_) => {
                    self.note(*n, Some(Instant::now()));
                    continue;
                }
            };
            self.memory.survey(shown.system, shown.timeline);
            if !shown.is_standby {
                writers.entry(shown.system).or_insert(*place);
            }
        }
        *last = Some(Instant::now());
        drop(last);
        let systems = writers.keys().copied().collect();
        if !self.memory.choose_system(systems) {
            let hosts: Vec<String> = writers.values().map(|place| place.show()).collect();
            return Err(Unreached::unfit(format!(
                "the hosts {} of store.url are primaries of different database systems: name only those of one",
                hosts.join(" and ")
            )));
        }
        Ok(())
    }

    /// The hosts that were not silent a moment ago.
    fn answering(&self) -> Vec<(usize, &Place)> {
        let hosts = self.target.hosts.iter().enumerate();
        hosts.filter(|(n, _)| !self.is_silent(*n)).collect()
    }

    /// None where the host lets no one look; an error where it is silent.
    async fn shown(&self, place: &Place, wanted: &Wanted<'_>) -> Result<Option<Shown>, Elapsed> {
        let limit = self.limit() / 2;
        let looked = timeout(limit, async {
            let wanted = Wanted {
                purpose: Purpose::Probe,
                heard: None,
                ..*wanted
            };
            for addr in addresses(place).await.ok()? {
                let client = Box::pin(self.connect(place, addr, &wanted, limit)).await;
                if let Ok(client) = client
                    && let Some(shown) = read(&client).await
                {
                    return Some(shown);
                }
            }
            None
        });
        looked.await
    }
}

async fn read(client: &Client) -> Option<Shown> {
    let messages = client.simple_query(SHOWN).await.ok()?;
    messages.iter().find_map(|message| {
        let SimpleQueryMessage::Row(row) = message else {
            return None;
        };
        Some(Shown {
            system: row.get(0)?.parse().ok()?,
            is_standby: row.get(1)? == "t",
            timeline: row.get(2)?.parse().ok()?,
        })
    })
}
