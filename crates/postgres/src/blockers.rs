//! Sessions that hold a lane's row while it is taken over: which they are, and how they are ended.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use fencepost_app::ports::StoreError;
use fencepost_domain::ids::LaneId;

use crate::PostgresStore;
use crate::row::column;

/// How the sessions of takeovers begin their names.
pub(crate) const TAKEOVER: &str = "takeover ";

/// For how long bids pass over a lane whose blocker could not be terminated, before one of them waits for the row
/// again. Shorter: the worker's other lanes wait more often, and the log has more lines. Longer: it is said less
/// often what blocks the lane. A row that is free is taken at once in any case.
const PASS_OVER: Duration = Duration::from_secs(10);
/// How long such a bid waits then: long enough for the server to name the blocker.
const SECOND_WAIT: Duration = Duration::from_millis(250);
/// More blocked lanes than this are not remembered: bids for the others wait as for the first time.
const LANES_MAX: usize = 4_096;

/// Other nodes may wait for the same lane, and the first of them stands between us and the session that holds
/// it: takeovers are looked through, never ended. A prepared transaction holds rows without a session: its pid is 0.
const TERMINATE: &str = "
WITH RECURSIVE blocker AS (
    SELECT unnest(pg_blocking_pids($1)) AS pid
    UNION
    SELECT unnest(pg_blocking_pids(b.pid)) FROM blocker b JOIN pg_stat_activity a ON a.pid = b.pid
     WHERE starts_with(a.application_name, $2)
)
SELECT b.pid, a.usename::text AS role, a.application_name, a.state, left(a.query, 200) AS query,
       CASE WHEN b.pid <> 0
             AND ((SELECT rolsuper FROM pg_roles WHERE rolname = current_user)
                  OR (NOT r.rolsuper
                      AND (pg_has_role(r.oid, 'USAGE') OR pg_has_role('pg_signal_backend', 'USAGE'))))
            THEN pg_terminate_backend(b.pid) END AS done
  FROM blocker b LEFT JOIN pg_stat_activity a ON a.pid = b.pid
  LEFT JOIN pg_roles r ON r.oid = a.usesysid
 WHERE NOT starts_with(coalesce(a.application_name, ''), $2)";

/// Lanes whose rows are held by sessions that we may not terminate.
#[derive(Default)]
pub(crate) struct BlockedLanes(Mutex<HashMap<LaneId, Instant>>);

/// What a bid for one lane does when it finds the lane's row held.
pub(crate) enum Patience {
    /// It was found a moment ago that waiting does not help.
    None,
    /// Wait so long, then look who holds it.
    For(Duration),
}

impl BlockedLanes {
    pub(crate) fn patience(&self, lane: LaneId, usual: Duration) -> Patience {
        let lanes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match lanes.get(&lane) {
            Some(found) if found.elapsed() < PASS_OVER => Patience::None,
            Some(_) => Patience::For(usual.min(SECOND_WAIT)),
            None => Patience::For(usual),
        }
    }

    pub(crate) fn note(&self, lane: LaneId) {
        let mut lanes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if lanes.len() < LANES_MAX || lanes.contains_key(&lane) {
            lanes.insert(lane, Instant::now());
        }
    }

    pub(crate) fn forget(&self, lane: LaneId) {
        let mut lanes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        lanes.remove(&lane);
    }
}

impl PostgresStore {
    /// Terminates the sessions that the takeover `pid` waits for. Says whether the takeover should go on waiting:
    /// false when one of them may not be terminated.
    pub(crate) async fn end_blockers(&self, pid: i32, lane: LaneId) -> bool {
        match self.terminate_blockers(pid, lane).await {
            Ok(ended) => ended,
            Err(error) => {
                let (signer, token) = self.signer_and_token(lane).await;
                let error = &error as &dyn std::error::Error;
                tracing::error!(
                    signer,
                    token,
                    lane = lane.0,
                    error,
                    "takeover blocked: who holds the lane's row could not be read"
                );
                true
            }
        }
    }

    async fn terminate_blockers(&self, pid: i32, lane: LaneId) -> Result<bool, StoreError> {
        let mut ended = true;
        for row in self.connections.read(TERMINATE, &[&pid, &TAKEOVER]).await? {
            let blocker: i32 = column(&row, "pid")?;
            let role: Option<String> = column(&row, "role")?;
            let application: Option<String> = column(&row, "application_name")?;
            let state: Option<String> = column(&row, "state")?;
            // Without pg_read_all_stats the server shows the queries of our own role only.
            let query: Option<String> = column(&row, "query")?;
            // A session that we may terminate is terminated beside one that we may not.
            let done: Option<bool> = column(&row, "done")?;
            let (signer, token) = self.signer_and_token(lane).await;
            let lane = lane.0;
            if let Some(done) = done {
                tracing::error!(
                    signer,
                    token,
                    lane,
                    blocker,
                    done,
                    "terminated a backend that blocked a takeover"
                );
            } else if blocker == 0 {
                ended = false;
                tracing::error!(
                    signer,
                    token,
                    lane,
                    "takeover blocked: a prepared transaction holds the lane row; end it with COMMIT PREPARED or \
                     ROLLBACK PREPARED (SELECT * FROM pg_prepared_xacts)"
                );
            } else {
                ended = false;
                tracing::error!(
                    signer,
                    token,
                    lane,
                    blocker,
                    role,
                    application,
                    state,
                    query,
                    "takeover blocked: backend {blocker} holds the lane row and may not be terminated by our role \
                     (missing pg_signal_backend, or it is a superuser's); run SELECT pg_terminate_backend({blocker})"
                );
            }
        }
        Ok(ended)
    }

    /// What a line about a lane names it by. A plain read, which waits for no lock; empty where it fails.
    async fn signer_and_token(&self, lane: LaneId) -> (String, i64) {
        const NAMED: &str = "
SELECT '0x' || encode(signer, 'hex') AS signer, fencing_token FROM signer_lease WHERE lane_id = $1";
        let rows = self.connections.read(NAMED, &[&lane.0]).await;
        let row = rows.ok().and_then(|mut rows| rows.pop());
        let named = row.and_then(|row| {
            let signer: String = column(&row, "signer").ok()?;
            Some((signer, column(&row, "fencing_token").ok()?))
        });
        named.unwrap_or_default()
    }
}
