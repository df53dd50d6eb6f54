//! Running one autocommit statement. A critical write whose reply is lost is sent again, the very
//! same, on a new connection, before anything else is said about it.

use std::time::Duration;

use deadpool_postgres::Object;
use fencepost_app::ports::StoreError;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Error, Row};

use crate::connect::Connections;
use crate::fault::{Fault, fault, refused};

/// A statement's parameters, in order.
pub(crate) type Params<'a> = &'a [&'a (dyn ToSql + Sync)];

/// How often contention is tried again. More would only add to the queue that causes it.
const CONTENDED_TRIES: u32 = 4;
/// How often a lost reply is asked for again before the outcome is called unknown.
const LOST_TRIES: u32 = 3;
/// Between two tries; doubled each time.
const PAUSE: Duration = Duration::from_millis(20);

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

impl Connections {
    /// Runs a write. Contention is tried again here, a lost reply too.
    pub(crate) async fn write(&self, sql: &str, params: Params<'_>) -> Result<Written, StoreError> {
        let (mut contended, mut lost) = (0, 0);
        let mut pause = PAUSE;
        loop {
            let error = match self.once(sql, params).await {
                Once::Rows(rows) => {
                    return Ok(Written::Rows {
                        rows,
                        again: lost > 0,
                    });
                }
                Once::NotSent(error) if lost == 0 => return Err(error),
                Once::NotSent(error) => {
                    lost += 1;
                    if lost > LOST_TRIES {
                        return Err(StoreError::OutcomeUnknown(error.into()));
                    }
                    None
                }
                Once::Failed(error) => Some(error),
            };
            if let Some(error) = error {
                match fault(&error) {
                    Fault::Lost => lost += 1,
                    Fault::Contended => contended += 1,
                    fault @ (Fault::Partial | Fault::Taken(_) | Fault::Refused) => {
                        return Ok(Written::Refused {
                            fault,
                            error,
                            again: lost > 0,
                        });
                    }
                }
                if lost > LOST_TRIES {
                    return Err(StoreError::OutcomeUnknown(error.into()));
                }
                if contended > CONTENDED_TRIES {
                    // An earlier try may have committed even though this one did not.
                    return Err(match lost {
                        0 => refused(error),
                        _ => StoreError::OutcomeUnknown(error.into()),
                    });
                }
            }
            tokio::time::sleep(pause).await;
            pause *= 2;
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
            Written::Refused { error, .. } => Err(refused(error)),
        }
    }

    async fn once(&self, sql: &str, params: Params<'_>) -> Once {
        let client = match self.writer().await {
            Ok(client) => client,
            Err(error) => return Once::NotSent(error),
        };
        let statement = match client.prepare_cached(sql).await {
            Ok(statement) => statement,
            Err(error) => {
                discard(client);
                return Once::NotSent(StoreError::Unavailable(error.into()));
            }
        };
        match client.query(&statement, params).await {
            Ok(rows) => Once::Rows(rows),
            Err(error) => {
                if fault(&error) == Fault::Lost {
                    discard(client);
                }
                Once::Failed(error)
            }
        }
    }

    /// Runs a read; one that finds its connection broken is tried again on another.
    pub(crate) async fn read(&self, sql: &str, params: Params<'_>) -> Result<Vec<Row>, StoreError> {
        let mut lost = 0;
        loop {
            let client = self.reader().await?;
            let answer = match client.prepare_cached(sql).await {
                Ok(statement) => client.query(&statement, params).await,
                Err(error) => Err(error),
            };
            match answer {
                Ok(rows) => return Ok(rows),
                Err(error) if fault(&error) == Fault::Lost && lost < LOST_TRIES => {
                    discard(client);
                    lost += 1;
                }
                Err(error) => return Err(refused(error)),
            }
        }
    }
}

enum Once {
    Rows(Vec<Row>),
    Failed(Error),
    NotSent(StoreError),
}

/// A broken connection is not given back to the pool.
fn discard(client: Object) {
    drop(Object::take(client));
}
