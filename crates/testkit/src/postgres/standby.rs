//! An asynchronous streaming standby: it may be behind when it is promoted, and then the tail of the
//! primary's commits is lost although the primary had acknowledged them.

use std::ops::Deref;

use anyhow::{Result, ensure};
use tokio::task::spawn_blocking;
use tokio_postgres::types::PgLsn;

use super::supervisor::Supervisor;
use super::{Cluster, Server, free_port};
use crate::wait;

/// A read-only copy that follows its primary until it is promoted.
#[derive(Debug)]
pub struct Standby {
    cluster: Cluster,
    primary: Server,
}

/// A standby can be stopped, started and read like any other cluster.
impl Deref for Standby {
    type Target = Cluster;

    fn deref(&self) -> &Cluster {
        &self.cluster
    }
}

impl Cluster {
    /// Copies this server and lets the copy follow it. It has its own port, directory and supervisor.
    pub async fn standby(&self) -> Result<Standby> {
        let primary = self.server.clone();
        let order = format!("clone {}", primary.addr()?.port());
        let cluster = spawn_blocking(move || {
            let supervisor = Supervisor::spawn()?;
            supervisor.order(&order)?;
            Cluster::first_start(supervisor, free_port)
        })
        .await??;
        Ok(Standby { cluster, primary })
    }
}

impl Standby {
    /// Returns when all that the primary had committed at the time of the call can be read here.
    pub async fn wait_caught_up(&self) -> Result<()> {
        let primary = self.primary.admin().await?;
        let goal: PgLsn = primary
            .query_one("SELECT pg_current_wal_flush_lsn()", &[])
            .await?
            .get(0);
        let here = self.admin().await?;
        wait::until("the standby catches up", || async {
            let row = here
                .query_one("SELECT pg_last_wal_replay_lsn()", &[])
                .await?;
            let replayed: Option<PgLsn> = row.get(0);
            Ok((replayed >= Some(goal)).then_some(()))
        })
        .await
    }

    /// Lets it go on receiving, but show nothing new. What it has received is replayed by a promotion
    /// all the same; [`Self::stop_receiving`] is for losing it.
    pub async fn pause_replay(&self) -> Result<()> {
        let here = self.admin().await?;
        here.batch_execute("SELECT pg_wal_replay_pause()").await?;
        wait::until("replay pauses", || async {
            let row = here
                .query_one("SELECT pg_get_wal_replay_pause_state() = 'paused'", &[])
                .await?;
            Ok(row.get::<_, bool>(0).then_some(()))
        })
        .await
    }

    /// Undoes [`Self::pause_replay`].
    pub async fn resume_replay(&self) -> Result<()> {
        Ok(self
            .admin()
            .await?
            .batch_execute("SELECT pg_wal_replay_resume()")
            .await?)
    }

    /// Cuts the standby off: whatever the primary commits after this has returned never gets here.
    pub async fn stop_receiving(&self) -> Result<()> {
        let here = self.admin().await?;
        here.batch_execute("ALTER SYSTEM SET primary_conninfo = ''")
            .await?;
        here.batch_execute("SELECT pg_reload_conf()").await?;
        wait::until("the standby stops receiving", || async {
            let receivers = here
                .query("SELECT pid FROM pg_stat_wal_receiver", &[])
                .await?;
            Ok(receivers.is_empty().then_some(()))
        })
        .await
    }

    /// Makes it a primary of its own, with all it has received. The old primary knows nothing of it.
    pub async fn promote(self) -> Result<Cluster> {
        let promoted = self
            .admin()
            .await?
            .query_one("SELECT pg_promote(true, 60)", &[])
            .await?;
        ensure!(
            promoted.get::<_, bool>(0),
            "the standby was not promoted within a minute"
        );
        Ok(self.cluster)
    }
}
