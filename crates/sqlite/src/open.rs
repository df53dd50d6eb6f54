//! Opening: the lock, the connections and their settings.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use fencepost_app::ports::{Clock, StoreError, Terms};
use jiff::Timestamp;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use crate::db::Db;
use crate::error::{Answer, Fault};
use crate::group::{Engine, call};
use crate::lock::{FileLock, resolved};
use crate::migrate::migrate;
use crate::worker::Worker;

/// Readers beside the writer. Fewer: a long list delays a look-up. More: caches of the same pages.
const READERS: usize = 3;

/// Only another program at the same file can make us wait; a backup does, for moments.
const BUSY_WAIT: Duration = Duration::from_secs(5);

/// Every statement of this crate fits, so each is parsed once.
const STATEMENTS_MAX: usize = 200;

/// Pages that the writer keeps in mind. Fewer, and names of requests, which come in no order, have their place in an
/// index read anew for each of them; more is memory that a small node may not have.
const WRITER_CACHE_KIB: i64 = 64 * 1024;
/// The same for each reader. Fewer, and a page of transactions reads their indexes anew; more is kept three times, and
/// what clients ask for is mostly new.
const READER_CACHE_KIB: i64 = 4 * 1024;

/// How many pages the log has before it is copied into the file. Fewer, and pages that every commit writes are copied
/// again and again; more, and the commit that has to do it takes longer.
const LOG_PAGES: i64 = 4_000;

/// The embedded store: [`fencepost_app::ports::Store`] on one SQLite file, or in memory.
pub struct SqliteStore {
    mode: Mode,
}

enum Mode {
    /// Fields are dropped in this order: the lock goes when every connection is closed.
    File {
        readers: Worker,
        writer: Worker,
        _lock: FileLock,
    },
    /// Everything runs where it is asked, so that a simulation decides what happens when.
    Inline(Mutex<Engine>),
}

impl SqliteStore {
    /// Opens a file, makes or migrates it, and keeps every other process out. Starts the threads
    /// that dropping the store ends.
    pub fn open(
        path: impl AsRef<Path>,
        terms: Terms,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, StoreError> {
        let path = resolved(path.as_ref())?;
        let lock = FileLock::take(&path)?;
        let engine = |conn| Engine {
            conn,
            clock: Arc::clone(&clock),
            terms,
        };
        let writer = writing(&path).map_err(|Fault(error)| error)?;
        let mut readers = Vec::new();
        for _ in 0..READERS {
            let conn = reading(&path).map_err(|Fault(error)| error)?;
            readers.push(engine(conn));
        }
        Ok(Self {
            mode: Mode::File {
                readers: Worker::readers(readers)?,
                writer: Worker::writer(engine(writer))?,
                _lock: lock,
            },
        })
    }

    /// A store that lives as long as this value. It has no threads, and its futures are ready when
    /// first polled: they need no runtime.
    pub fn in_memory(terms: Terms, clock: Arc<dyn Clock>) -> Result<Self, StoreError> {
        let conn = in_memory().map_err(|Fault(error)| error)?;
        let engine = Engine { conn, clock, terms };
        Ok(Self {
            mode: Mode::Inline(Mutex::new(engine)),
        })
    }

    /// Runs an operation that writes. It is answered when it is durable.
    pub(crate) async fn write<T, F>(&self, op: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&Db<'_>) -> Answer<T> + Send + 'static,
    {
        let (op, answer) = call(op);
        match &self.mode {
            Mode::File { writer, .. } => writer.ask(op).await?,
            Mode::Inline(engine) => {
                let engine = engine.lock().unwrap_or_else(PoisonError::into_inner);
                engine.commit(vec![op]);
            }
        }
        let lost = || StoreError::OutcomeUnknown("the writer has ended".into());
        answer.await.unwrap_or_else(|_| Err(lost()))
    }

    /// How many more operations the writer's queue takes, and how many wait in it.
    #[cfg(test)]
    pub(crate) fn queue(&self) -> (usize, usize) {
        match &self.mode {
            Mode::File { writer, .. } => writer.room(),
            Mode::Inline(_) => (0, 0),
        }
    }

    /// Runs an operation that only reads.
    pub(crate) async fn read<T, F>(&self, op: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&Db<'_>) -> Answer<T> + Send + 'static,
    {
        let (op, answer) = call(op);
        match &self.mode {
            Mode::File { readers, .. } => readers.ask(op).await?,
            Mode::Inline(engine) => {
                let engine = engine.lock().unwrap_or_else(PoisonError::into_inner);
                engine.read(op);
            }
        }
        let lost = || StoreError::Unavailable("the reader has ended".into());
        answer.await.unwrap_or_else(|_| Err(lost()))
    }
}

fn writing(path: &Path) -> Answer<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut conn = Connection::open_with_flags(path, flags)?;
    shared(&conn)?;
    let mode: String = conn.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0))?;
    if mode != "wal" {
        let why = format!("{} cannot be used with a write-ahead log", path.display());
        return Err(StoreError::Unfit(why).into());
    }
    // FULL syncs the log at each commit: what was answered survives a power cut. macOS syncs for
    // real only when told twice.
    conn.pragma_update(None, "synchronous", "FULL")?;
    conn.pragma_update(None, "fullfsync", true)?;
    conn.pragma_update(None, "checkpoint_fullfsync", true)?;
    conn.pragma_update(None, "wal_autocheckpoint", LOG_PAGES)?;
    caching(&conn, WRITER_CACHE_KIB)?;
    // A log that grew behind a long read is cut again.
    conn.pragma_update(None, "journal_size_limit", 64 * 1024 * 1024)?;
    migrate(&mut conn)?;
    Ok(conn)
}

fn reading(path: &Path) -> Answer<Connection> {
    // Not read-only by its flags: a reader takes part in the log's shared index.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let conn = Connection::open_with_flags(path, flags)?;
    shared(&conn)?;
    conn.pragma_update(None, "query_only", true)?;
    caching(&conn, READER_CACHE_KIB)?;
    Ok(conn)
}

fn in_memory() -> Answer<Connection> {
    let mut conn = Connection::open_in_memory()?;
    shared(&conn)?;
    migrate(&mut conn)?;
    Ok(conn)
}

fn caching(conn: &Connection, kib: i64) -> Answer<()> {
    // Below zero it counts kibibytes instead of pages.
    Ok(conn.pragma_update(None, "cache_size", -kib)?)
}

fn shared(conn: &Connection) -> Answer<()> {
    conn.busy_timeout(BUSY_WAIT)?;
    conn.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
    // Plans do not follow the values bound to them. Otherwise each new value of a LIMIT would have
    // its statement parsed and planned again (measured: two thirds of the time of a create).
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    conn.pragma_update(None, "foreign_keys", true)?;
    conn.pragma_update(None, "trusted_schema", false)?;
    // What a savepoint undoes is kept in memory, not in a file.
    conn.pragma_update(None, "temp_store", "MEMORY")?;
    Ok(())
}

/// The machine's clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }
}
