//! The pools of sessions: how one is made and which may be used again.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::Duration;

use deadpool::Runtime;
use deadpool::managed::{self, Metrics, QueueMode, RecycleError, RecycleResult};
use deadpool_postgres::ClientWrapper;
use fencepost_app::ports::StoreError;
use tokio::runtime::Handle;
use tokio::task::JoinSet;

use crate::connect::Settings;
use crate::reach::{Reach, Unreached, Wanted};
use crate::session::Purpose;
use crate::witness::{Generation, Memory};

/// A connection that is older is made anew. Only a new one shows that the address leads to another server now: longer,
/// and a node writes the longer to one that was left behind; shorter, and connecting is felt.
const AGE_MAX: Duration = Duration::from_mins(1);

pub(crate) type Pool = managed::Pool<Sessions>;
/// A session of a pool, given back when it is dropped.
pub(crate) type Object = managed::Object<Sessions>;
pub(crate) type PoolError = managed::PoolError<Unreached>;

/// A session, and the server that it was opened on.
pub(crate) struct Session {
    pub(crate) client: ClientWrapper,
    pub(crate) server: Generation,
}

impl Deref for Session {
    type Target = ClientWrapper;

    fn deref(&self) -> &ClientWrapper {
        &self.client
    }
}

impl DerefMut for Session {
    fn deref_mut(&mut self) -> &mut ClientWrapper {
        &mut self.client
    }
}

/// Makes the sessions of one pool.
pub(crate) struct Sessions {
    reach: Arc<Reach>,
    settings: Arc<Settings>,
    purpose: Purpose,
    memory: Arc<Memory>,
    /// Where the store was opened. A session is carried by a task of the runtime that opened it, whoever uses it later: one
    /// that was opened for an API request must not depend on the runtime of requests, or a flood of them would delay the
    /// renewal of leases.
    runtime: Handle,
}

impl managed::Manager for Sessions {
    type Type = Session;
    type Error = Unreached;

    async fn create(&self) -> Result<Session, Unreached> {
        let (reach, settings) = (Arc::clone(&self.reach), Arc::clone(&self.settings));
        let purpose = self.purpose;
        let opening = async move {
            let wanted = Wanted {
                settings: &settings,
                purpose,
                prefix: "",
                heard: None,
            };
            reach.session(&wanted).await
        };
        // A set, because it ends its task when it is dropped.
        let mut task = JoinSet::new();
        task.spawn_on(opening, &self.runtime);
        match task.join_next().await {
            Some(Ok(session)) => session,
            Some(Err(_)) | None => Err(Unreached::down("connecting was given up".to_owned())),
        }
    }

    async fn recycle(&self, client: &mut Session, metrics: &Metrics) -> RecycleResult<Unreached> {
        let unusable = |why| Err(RecycleError::message(why));
        if client.is_closed() {
            return unusable("it is closed");
        }
        if !self.memory.is_present(client.server) {
            return unusable("it leads to a server that a failover has left behind");
        }
        if metrics.created.elapsed() > AGE_MAX {
            return unusable("it is looked again where it leads");
        }
        Ok(())
    }
}

pub(crate) fn pool(
    settings: &Settings,
    purpose: Purpose,
    size: usize,
    reach: &Arc<Reach>,
    memory: &Arc<Memory>,
) -> Result<Pool, StoreError> {
    let sessions = Sessions {
        reach: Arc::clone(reach),
        settings: Arc::new(settings.clone()),
        purpose,
        memory: Arc::clone(memory),
        runtime: Handle::current(),
    };
    Pool::builder(sessions)
        .max_size(size)
        // What was used last is used next: its session has the tables' rules and the statements' plans at hand.
        .queue_mode(QueueMode::Lifo)
        .wait_timeout(Some(settings.statement_timeout * 3 / 2))
        .recycle_timeout(Some(settings.statement_timeout))
        .runtime(Runtime::Tokio1)
        .build()
        .map_err(|error| StoreError::Unfit(format!("no connection pool: {error}")))
}
