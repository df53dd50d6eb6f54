//! Answers that wait: a node answers when a transaction has come to a point, instead of at once.

use std::fmt;
use std::time::Duration;

use uuid::Uuid;

use crate::call::{Call, Effect};
use crate::client::Client;
use crate::error::Error;
use crate::send::{Accepted, NewTransaction};
use crate::transaction::Transaction;

/// The longest that a node waits.
const WAIT_MAX: Duration = Duration::from_secs(30);

/// How far a transaction has come. Each is also reached by one that has ended or is STUCK.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Point {
    /// It has a nonce.
    Allocated,
    /// Its bytes are stored, and its hash is known.
    Signed,
    /// Its bytes were sent.
    Submitted,
    /// It is in a block, which may still be replaced.
    Mined,
    /// It has ended.
    Final,
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Allocated => "allocated",
            Self::Signed => "signed",
            Self::Submitted => "submitted",
            Self::Mined => "mined",
            Self::Final => "final",
        })
    }
}

/// What a node waits for before it answers, and how long at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wait {
    pub(crate) point: Point,
    pub(crate) seconds: u64,
}

impl Wait {
    /// For this point, 10 s at most.
    #[must_use]
    pub const fn until(point: Point) -> Self {
        Self { point, seconds: 10 }
    }

    /// No longer than this: whole seconds, 30 at most. A longer wait is cut to that.
    #[must_use]
    pub fn within(self, within: Duration) -> Self {
        let seconds = within.min(WAIT_MAX).as_secs();
        Self { seconds, ..self }
    }
}

impl<'a> Call<'a> {
    /// Answered when this is reached, or its time is over.
    pub(crate) fn awaiting(self, wait: Option<Wait>) -> Self {
        let Some(wait) = wait else {
            return self;
        };
        self.with("wait", Some(wait.point))
            .with("waitSeconds", Some(wait.seconds))
            .waiting(Duration::from_secs(wait.seconds))
    }
}

impl Client {
    /// Has a transaction sent, as [`Client::send`], and is answered when it has come this far: with
    /// [`Point::Signed`] its hash is in the answer. One that is slow is told as it stands when the time is over, which
    /// is no error.
    ///
    /// ```no_run
    /// # use fencepost_client::{Client, NewTransaction, Point, Wait};
    /// # async fn pay(client: Client, payment: NewTransaction) -> Result<(), fencepost_client::Error> {
    /// let sent = client.send_and_wait(&payment, Wait::until(Point::Signed)).await?;
    /// println!("{:?}", sent.transaction.tx_hash);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn send_and_wait(
        &self,
        request: &NewTransaction,
        wait: Wait,
    ) -> Result<Accepted, Error> {
        let call = Call::post(["tx"], request, Effect::Idempotent).awaiting(Some(wait));
        let answer = self.ask(&call).await?;
        let transaction = answer.read(call.effect)?;
        Ok(Accepted::new(answer.status, transaction))
    }

    /// A transaction by its id, when it has come this far or the time is over.
    pub async fn transaction_after(&self, tx_id: Uuid, wait: Wait) -> Result<Transaction, Error> {
        let tx_id = tx_id.to_string();
        let call = Call::get(["tx", &tx_id]).awaiting(Some(wait));
        self.told(call).await
    }
}
