//! Admitting a session that was opened: it must lead to the newest server that this process has met, or to a newer one.

use std::sync::Arc;

use deadpool_postgres::ClientWrapper;

use super::{Reach, Unreached};
use crate::connect::{Look, stale};
use crate::failover;
use crate::pool::Session;
use crate::witness::Generation;

impl Reach {
    /// Finds out which server a session leads to, and refuses one that was left behind.
    pub(super) async fn admit(
        &self,
        mut client: ClientWrapper,
        look: Look,
    ) -> Result<Session, Unreached> {
        let known = match look {
            Look::Unmigrated => {
                let server = Generation::default();
                return Ok(Session { client, server });
            }
            Look::Known(known) => known,
            Look::Changed { system, timeline } => {
                let noted;
                (client, noted) = self.note_failover(client, system, timeline).await?;
                noted
            }
        };
        let Some(server) = self.memory.meet(known.server) else {
            return Err(stale(known.server.timeline));
        };
        if known.feed_waits {
            self.memory.set_feed_waits(true);
        }
        Ok(Session { client, server })
    }

    /// Holding all lanes takes longer than any other statement where they are many. It goes on when the caller's time is
    /// over: the next session finds it done.
    async fn note_failover(
        &self,
        client: ClientWrapper,
        system: i64,
        timeline: i64,
    ) -> Result<(ClientWrapper, failover::Known), Unreached> {
        let turn = Arc::clone(&self.noting).lock_owned().await;
        let memory = Arc::clone(&self.memory);
        let noting = tokio::spawn(async move {
            let noted = failover::note(&client, &memory, system, timeline).await;
            drop(turn);
            noted.map(|known| (client, known))
        });
        match noting.await {
            Ok(noted) => noted.map_err(|error| Unreached::of(&error)),
            Err(ended) => Err(Unreached::down(ended.to_string())),
        }
    }
}
