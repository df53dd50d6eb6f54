//! Waiting for an event that can only be asked for, not subscribed to. Tests never sleep: they ask here,
//! often and for a bounded time.

use std::future::Future;
use std::time::Duration;

use anyhow::{Result, bail};
use tokio::time::{Instant, sleep};

/// Higher makes every waiting test slower; lower keeps a busy machine busy with asking.
const PAUSE: Duration = Duration::from_millis(2);

/// Lower fails tests on a loaded machine; higher makes a test that hangs slow to say so.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Asks until the answer is `Some`, and fails after [`PATIENCE`] with the name of what never happened.
pub async fn until<T, F>(what: &str, mut ask: impl FnMut() -> F) -> Result<T>
where
    F: Future<Output = Result<Option<T>>>,
{
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(answer) = ask().await? {
            return Ok(answer);
        }
        if Instant::now() > deadline {
            bail!("waited {PATIENCE:?} in vain: {what}");
        }
        sleep(PAUSE).await;
    }
}
