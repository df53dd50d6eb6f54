//! Running one autocommit statement. A critical write whose reply is lost is sent again, the very
//! same, on a new connection, before anything else is said about it. Nothing here waits without a
//! bound: a network that swallows packets breaks no connection, so silence has a limit too.

use std::error::Error as StdError;
use std::time::Duration;

use fencepost_app::ports::StoreError;
use tokio::time::{Instant, timeout_at};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Error, Row, Statement};

use crate::connect::Connections;
use crate::fault::{Fault, after_write, fault, refused};
use crate::pool::Object;
use crate::witness::Generation;

/// A statement's parameters, in order.
pub(crate) type Params<'a> = &'a [&'a (dyn ToSql + Sync)];

/// How often contention is tried again. More would only add to the queue that causes it.
const CONTENDED_TRIES: u32 = 4;
/// How often a lost reply is asked for again. A statement that takes the server down with it must not
/// do so for ever.
const LOST_TRIES: u32 = 4;
/// How often a sound connection is looked for. Each that is found broken leaves the pool.
const BROKEN_TRIES: u32 = 4;
/// Between two tries; doubled each time, up to [`PAUSE_MAX`].
const PAUSE: Duration = Duration::from_millis(20);
/// Longer, and a server that is back waits for us.
const PAUSE_MAX: Duration = Duration::from_millis(250);

type Source = Box<dyn StdError + Send + Sync>;

/// What a write came to.
#[derive(Debug)]
pub(crate) enum Written {
    /// It answered. `again` says that an earlier reply was lost, so that "no rows" may mean that
    /// the first try had done it.
    Rows { rows: Vec<Row>, again: bool },
    /// The server refused; nothing of this try was written. `again` as above.
    Refused {
        fault: Fault,
        error: Error,
        again: bool,
    },
}

/// What one try came to.
enum Once {
    Rows(Vec<Row>),
    /// The server answered that it did nothing.
    Failed(Fault, Error),
    /// No answer: it may have run, and may still.
    Lost(Source),
    /// The connection turned out to be broken before the statement went out on it.
    Broken(Source),
    /// No connection could be had.
    NotSent(StoreError),
}

impl Connections {
    /// Runs a write. Contention is tried again here, a lost reply too: until it is heard or the
    /// time for one call is over.
    pub(crate) async fn write(&self, sql: &str, params: Params<'_>) -> Result<Written, StoreError> {
        let deadline = self.call_deadline();
        let (mut contended, mut broken, mut lost) = (0, 0, 0);
        let mut pause = PAUSE;
        loop {
            let again = lost > 0;
            let error = match self.once(sql, params, deadline).await {
                Once::Rows(rows) => return Ok(Written::Rows { rows, again }),
                Once::Failed(Fault::Contended, error) => {
                    contended += 1;
                    refused(error)
                }
                Once::Failed(fault, error) => {
                    return Ok(Written::Refused {
                        fault,
                        error,
                        again,
                    });
                }
                Once::Lost(error) => {
                    lost += 1;
                    StoreError::OutcomeUnknown(error)
                }
                Once::Broken(error) => {
                    broken += 1;
                    StoreError::Unavailable(error)
                }
                // Nobody waits for a server that is down, unless it has an answer to give.
                Once::NotSent(error) if !again => return Err(error),
                Once::NotSent(error) => error,
            };
            let over = contended > CONTENDED_TRIES
                || broken > BROKEN_TRIES
                || lost > LOST_TRIES
                || Instant::now() + pause >= deadline;
            if over {
                // An earlier try may have committed even though this one did not.
                return Err(if lost > 0 { after_write(error) } else { error });
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    /// Runs a write of which any repetition is as good as the first, or whose loss the next
    /// activation makes good.
    pub(crate) async fn write_plain(
        &self,
        sql: &str,
        params: Params<'_>,
    ) -> Result<Vec<Row>, StoreError> {
        match self.write(sql, params).await? {
            Written::Rows { rows, .. } => Ok(rows),
            // The lost try may have been luckier than this one.
            Written::Refused {
                error, again: true, ..
            } => Err(StoreError::OutcomeUnknown(error.into())),
            Written::Refused { error, .. } => Err(refused(error)),
        }
    }

    async fn once(&self, sql: &str, params: Params<'_>, deadline: Instant) -> Once {
        let sent = Instant::now();
        let client = match self.writer().await {
            Ok(client) => client,
            Err(error) => return Once::NotSent(error),
        };
        let statement = match self.prepare(&client, sql, deadline).await {
            Ok(statement) => statement,
            Err(Unprepared::Refused(error)) => return Once::NotSent(refused(error)),
            Err(Unprepared::Broken(error)) => {
                discard(client);
                return Once::Broken(error);
            }
        };
        let heard = timeout_at(
            self.reply_deadline(deadline),
            client.query(&statement, params),
        );
        match heard.await {
            Ok(Ok(rows))
                if self
                    .memory
                    .acknowledge(client.server, sent.into_std(), &rows) =>
            {
                Once::Rows(rows)
            }
            Ok(Ok(_)) => Once::Lost("the database was failed over meanwhile".into()),
            Ok(Err(error)) => match fault(&error) {
                Fault::Lost => {
                    discard(client);
                    Once::Lost(error.into())
                }
                fault @ (Fault::Contended
                | Fault::Held
                | Fault::Partial
                | Fault::Taken(_)
                | Fault::Refused) => Once::Failed(fault, error),
            },
            Err(silence) => {
                discard(client);
                Once::Lost(silence.into())
            }
        }
    }

    /// Runs a read; one that finds its connection broken is tried again on another.
    pub(crate) async fn read(&self, sql: &str, params: Params<'_>) -> Result<Vec<Row>, StoreError> {
        Ok(self.read_from(sql, params).await?.0)
    }

    /// The same, with the server that has answered.
    pub(crate) async fn read_from(
        &self,
        sql: &str,
        params: Params<'_>,
    ) -> Result<(Vec<Row>, Generation), StoreError> {
        let deadline = self.call_deadline();
        let mut broken = 0;
        loop {
            let client = self.reader().await?;
            let error: Source = match self.prepare(&client, sql, deadline).await {
                Err(Unprepared::Refused(error)) => return Err(refused(error)),
                Err(Unprepared::Broken(error)) => error,
                Ok(statement) => {
                    let heard = timeout_at(
                        self.reply_deadline(deadline),
                        client.query(&statement, params),
                    );
                    match heard.await {
                        Ok(Ok(rows)) => return Ok((rows, client.server)),
                        Ok(Err(error)) if fault(&error) == Fault::Lost => error.into(),
                        Ok(Err(error)) => return Err(refused(error)),
                        Err(silence) => silence.into(),
                    }
                }
            };
            discard(client);
            broken += 1;
            if broken > BROKEN_TRIES || Instant::now() >= deadline {
                return Err(StoreError::Unavailable(error));
            }
        }
    }

    async fn prepare(
        &self,
        client: &Object,
        sql: &str,
        deadline: Instant,
    ) -> Result<Statement, Unprepared> {
        let heard = timeout_at(self.reply_deadline(deadline), client.prepare_cached(sql));
        match heard.await {
            Ok(Ok(statement)) => Ok(statement),
            Ok(Err(error)) if fault(&error) == Fault::Lost => Err(Unprepared::Broken(error.into())),
            Ok(Err(error)) => Err(Unprepared::Refused(error)),
            Err(silence) => Err(Unprepared::Broken(silence.into())),
        }
    }
}

/// Why a statement could not even be prepared.
enum Unprepared {
    Refused(Error),
    Broken(Source),
}

/// A broken connection is not given back to the pool. Closing it also tells a server that still
/// hears us to give the statement up.
fn discard(client: Object) {
    drop(Object::take(client));
}
