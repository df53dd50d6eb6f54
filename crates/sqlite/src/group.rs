//! Group commit: many operations in one transaction, each but the first in its own savepoint. Nobody is answered
//! before the commit, and an operation that fails takes nothing but itself back.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use fencepost_app::ports::{Clock, StoreError, Terms};
use rusqlite::Connection;
use tokio::sync::oneshot;

use crate::db::Db;
use crate::error::{Answer, Fault, Lost};

/// A connection with all that operations on it need.
pub(crate) struct Engine {
    pub(crate) conn: Connection,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) terms: Terms,
}

/// An operation and whoever waits for it.
pub(crate) trait Op: Send {
    /// Runs it; false undoes what it wrote.
    fn run(&mut self, db: &Db<'_>) -> bool;
    /// Answers: with what it returned, unless the transaction around it was lost.
    fn answer(self: Box<Self>, fate: Result<(), Lost>);
}

struct Call<F, T> {
    op: Option<F>,
    result: Option<Result<T, StoreError>>,
    reply: oneshot::Sender<Result<T, StoreError>>,
}

/// An operation to be run, and where its answer will come.
pub(crate) fn call<T, F>(op: F) -> (Box<dyn Op>, oneshot::Receiver<Result<T, StoreError>>)
where
    T: Send + 'static,
    F: FnOnce(&Db<'_>) -> Answer<T> + Send + 'static,
{
    let (reply, answer) = oneshot::channel();
    let call = Call {
        op: Some(op),
        result: None,
        reply,
    };
    (Box::new(call), answer)
}

impl<T, F> Op for Call<F, T>
where
    T: Send,
    F: FnOnce(&Db<'_>) -> Answer<T> + Send,
{
    fn run(&mut self, db: &Db<'_>) -> bool {
        // Whoever gave up waiting has not been told anything, so nothing need be done for it.
        if self.reply.is_closed() {
            return false;
        }
        let Some(op) = self.op.take() else {
            return false;
        };
        // A panic is a mistake in one operation; the others of its group have done nothing wrong.
        let result = catch_unwind(AssertUnwindSafe(|| op(db)))
            .unwrap_or_else(|_| Err(Fault(StoreError::Unavailable("it panicked".into()))));
        let is_kept = result.is_ok();
        self.result = Some(result.map_err(|Fault(error)| error));
        is_kept
    }

    fn answer(self: Box<Self>, fate: Result<(), Lost>) {
        let answer = match (self.result, fate) {
            // What failed by itself knows best why.
            (Some(Err(error)), _) => Err(error),
            (Some(Ok(_)) | None, Err(lost)) => Err(lost.error()),
            (Some(Ok(value)), Ok(())) => Ok(value),
            (None, Ok(())) => Err(StoreError::Unavailable("it was not run".into())),
        };
        // Nobody waits any more: the answer is in the database all the same.
        let _ = self.reply.send(answer);
    }
}

impl Engine {
    /// Runs a group and commits it, in one transaction unless SQLite ends that one early.
    pub(crate) fn commit(&self, group: Vec<Box<dyn Op>>) {
        let mut waiting = group.into_iter();
        while waiting.len() > 0 {
            let mut done = Vec::new();
            let fate = self.transaction(&mut waiting, &mut done);
            // Some errors end a transaction by themselves, others leave it open.
            if !self.conn.is_autocommit() {
                let _ = self.conn.execute_batch("ROLLBACK");
            }
            for op in done {
                op.answer(fate.clone());
            }
        }
    }

    fn transaction(
        &self,
        waiting: &mut impl Iterator<Item = Box<dyn Op>>,
        done: &mut Vec<Box<dyn Op>>,
    ) -> Result<(), Lost> {
        if let Err(error) = self.plain("BEGIN IMMEDIATE") {
            done.extend(waiting);
            return Err(Lost::before_commit(&error));
        }
        for mut op in waiting {
            let run = if done.is_empty() {
                self.first(op.as_mut())
            } else {
                self.in_savepoint(op.as_mut())
            };
            done.push(op);
            run.map_err(|error| Lost::before_commit(&error))?;
        }
        self.plain("COMMIT")
            .map_err(|error| Lost::at_commit(&error))
    }

    /// Nothing ran before it, so the transaction itself can be undone. A savepoint would remember every page that is
    /// written, and each statement within it looks through all of them.
    fn first(&self, op: &mut dyn Op) -> rusqlite::Result<()> {
        let db = Db::new(&self.conn, self.clock.now(), self.terms);
        let is_kept = op.run(&db);
        match (is_kept, self.conn.is_autocommit()) {
            (true, false) => Ok(()),
            // SQLite has ended the transaction, and it went on without one: that is what this error says.
            (true, true) => self.plain("COMMIT"),
            (false, true) => self.plain("BEGIN IMMEDIATE"),
            (false, false) => {
                self.plain("ROLLBACK")?;
                self.plain("BEGIN IMMEDIATE")
            }
        }
    }

    /// Fails only when the transaction itself is lost, and with it all that ran in it before.
    fn in_savepoint(&self, op: &mut dyn Op) -> rusqlite::Result<()> {
        self.plain("SAVEPOINT op")?;
        let db = Db::new(&self.conn, self.clock.now(), self.terms);
        if !op.run(&db) {
            self.plain("ROLLBACK TO op")?;
        }
        self.plain("RELEASE op")
    }

    /// Runs one operation that writes nothing, on one snapshot.
    pub(crate) fn read(&self, mut op: Box<dyn Op>) {
        let fate = self
            .plain("BEGIN")
            .map_err(|error| Lost::before_commit(&error));
        if fate.is_ok() {
            op.run(&Db::new(&self.conn, self.clock.now(), self.terms));
            let _ = self.plain("ROLLBACK");
        }
        op.answer(fate);
    }

    fn plain(&self, sql: &'static str) -> rusqlite::Result<()> {
        self.conn.prepare_cached(sql)?.execute([]).map(drop)
    }
}
