//! Finding a connection pooler that gives every transaction another session. Settings, prepared
//! statements and locks of a session would get lost there, now and then, so such a pooler is refused at
//! the start.
//!
//! What shows it without luck is a notification. It goes to the session that listens, while its client is
//! idle: a session of our own passes it on to us, whereas a pooler in transaction mode has taken the
//! session back and has nobody to give the notification to. Nothing is set in the session meanwhile,
//! since another client of the pooler would go on with it.

use std::sync::Arc;

use fencepost_app::ports::StoreError;
use tokio::sync::Notify;
use tokio::time::timeout;
use uuid::Uuid;

use crate::connect::{Connections, REPLY_TIMEOUTS, Settings};
use crate::fault::refused;
use crate::reach::Wanted;
use crate::session::Purpose;

/// What is said when a session turns out not to be ours alone.
pub(crate) const TRANSACTION_MODE: &str = "there is a connection pooler in transaction mode between this node and PostgreSQL: settings, \
     prepared statements and locks of a session get lost there. Use pool_mode = session, or connect \
     past the pooler";

pub(crate) async fn refuse_transaction_mode(
    settings: &Settings,
    connections: &Connections,
) -> Result<(), StoreError> {
    let heard = Arc::new(Notify::new());
    let wanted = |heard| Wanted {
        settings,
        purpose: Purpose::Probe,
        prefix: "",
        heard,
    };
    let listener = connections
        .session(&wanted(Some(Arc::clone(&heard))))
        .await?;
    let channel = format!("fencepost_{}", Uuid::now_v7().simple());
    let listen = format!("LISTEN {channel}");
    listener.batch_execute(&listen).await.map_err(refused)?;
    let teller = connections.session(&wanted(None)).await?;
    let notify = format!("NOTIFY {channel}");
    teller.batch_execute(&notify).await.map_err(refused)?;
    // As long as any reply is waited for.
    match timeout(
        settings.statement_timeout * REPLY_TIMEOUTS,
        heard.notified(),
    )
    .await
    {
        Ok(()) => Ok(()),
        Err(_) => Err(StoreError::Unfit(TRANSACTION_MODE.to_owned())),
    }
}
