//! One operation's view of the database: a connection inside a transaction, and one time for all
//! that the operation writes.

use std::time::Duration;

use fencepost_app::ports::Terms;
use jiff::Timestamp;
use rusqlite::{Connection, Params, Row};

use crate::error::{Answer, broken};

/// Microseconds since 1970, as the columns hold them.
pub(crate) type Micros = i64;

pub(crate) struct Db<'a> {
    conn: &'a Connection,
    /// When the operation runs, by the store's clock.
    pub(crate) now: Micros,
    terms: Terms,
}

/// An answer that says whether its lane was written.
pub(crate) trait Verdict {
    fn is_written(&self) -> bool;
}

impl<'a> Db<'a> {
    pub(crate) fn new(conn: &'a Connection, now: Timestamp, terms: Terms) -> Self {
        let now = micros(now);
        Self { conn, now, terms }
    }

    /// Runs a statement; returns how many rows it changed.
    pub(crate) fn run(&self, sql: &'static str, params: impl Params) -> Answer<usize> {
        #[cfg(test)]
        crate::tests::plans::note(sql);
        Ok(self.conn.prepare_cached(sql)?.execute(params)?)
    }

    /// Runs a statement that must change exactly one row.
    pub(crate) fn run_one(&self, sql: &'static str, params: impl Params) -> Answer<()> {
        match self.run(sql, params)? {
            1 => Ok(()),
            _ => Err(broken("a statement for one row changed another number")),
        }
    }

    /// The first row, if there is one.
    pub(crate) fn one<T>(
        &self,
        sql: &'static str,
        params: impl Params,
        read: impl FnOnce(&Row<'_>) -> Answer<T>,
    ) -> Answer<Option<T>> {
        #[cfg(test)]
        crate::tests::plans::note(sql);
        let mut statement = self.conn.prepare_cached(sql)?;
        let mut rows = statement.query(params)?;
        rows.next()?.map(read).transpose()
    }

    /// The first row, which is always there: a count, an aggregate, a counter.
    pub(crate) fn value<T: rusqlite::types::FromSql>(
        &self,
        sql: &'static str,
        params: impl Params,
    ) -> Answer<T> {
        self.one(sql, params, |row| Ok(row.get(0)?))?
            .ok_or_else(|| broken("a statement for one value found none"))
    }

    /// All rows; the statement bounds them.
    pub(crate) fn all<T>(
        &self,
        sql: &'static str,
        params: impl Params,
        read: impl Fn(&Row<'_>) -> Answer<T>,
    ) -> Answer<Vec<T>> {
        #[cfg(test)]
        crate::tests::plans::note(sql);
        let mut statement = self.conn.prepare_cached(sql)?;
        let mut rows = statement.query(params)?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            found.push(read(row)?);
        }
        Ok(found)
    }

    /// Whether there is a row.
    pub(crate) fn exists(&self, sql: &'static str, params: impl Params) -> Answer<bool> {
        Ok(self.one(sql, params, |_| Ok(()))?.is_some())
    }

    /// Writes for one lane, whole or not at all: a refusal undoes what came before it.
    pub(crate) fn lane<T: Verdict>(&self, write: impl FnOnce() -> Answer<T>) -> Answer<T> {
        self.run("SAVEPOINT lane", [])?;
        let answer = write()?;
        if !answer.is_written() {
            self.run("ROLLBACK TO lane", [])?;
        }
        self.run("RELEASE lane", [])?;
        Ok(answer)
    }

    /// Some time from now.
    pub(crate) fn later(&self, wait: Duration) -> Micros {
        plus(self.now, wait)
    }

    /// When a lease that is renewed now ends.
    pub(crate) fn lease_end(&self) -> Micros {
        self.later(self.terms.duration)
    }

    /// Another node may take over a lease that ended by then.
    pub(crate) fn abandoned(&self) -> Micros {
        self.now.saturating_sub(span(self.terms.skew))
    }

    /// A lease that ends after this was written before the clock went back.
    pub(crate) fn absurd(&self) -> Micros {
        let ten = self.terms.duration.saturating_mul(10);
        self.later(ten)
    }

    /// A node that beat before this is not counted as living.
    pub(crate) fn quiet(&self) -> Micros {
        let three = self.terms.duration.saturating_mul(3);
        self.now.saturating_sub(span(three))
    }

    #[cfg(test)]
    pub(crate) fn connection(&self) -> &Connection {
        self.conn
    }
}

pub(crate) fn span(wait: Duration) -> Micros {
    i64::try_from(wait.as_micros()).unwrap_or(i64::MAX)
}

/// A time, at most the calendar's end.
pub(crate) fn plus(at: Micros, wait: Duration) -> Micros {
    let last = Timestamp::MAX.as_microsecond();
    at.saturating_add(span(wait)).min(last)
}

/// Rounded down, also before 1970.
pub(crate) fn micros(at: Timestamp) -> Micros {
    let whole = at.as_nanosecond().div_euclid(1_000);
    i64::try_from(whole).expect("the calendar fits 64 bits of microseconds")
}
