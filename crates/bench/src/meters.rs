//! What a transaction costs: readings of the database, the node's own metrics and the system before and after
//! a measurement, and their differences.

use std::net::SocketAddr;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tokio_postgres::Client;

use crate::figures::{real, share};
use crate::http::{Connection, get};
use crate::node::Node;
use crate::postgres::Postgres;

/// Both of them are exact at any moment, unlike PostgreSQL's statistics: the log's end, and the next
/// transaction id, of which every transaction that writes takes one.
const LOG_AND_IDS: &str = "SELECT (pg_current_wal_lsn() - '0/0')::bigint,
    pg_snapshot_xmax(pg_current_snapshot())::text::bigint";

/// Sessions report these when they end, so they are read when a node has stopped.
const ROWS: &str = "SELECT coalesce(sum(tup_inserted + tup_updated + tup_deleted), 0)::bigint
    FROM pg_stat_database WHERE datname = current_database()";

/// What has been used so far.
#[derive(Debug, Clone, Copy, Default)]
struct Reading {
    wal_bytes: f64,
    commits: f64,
    node_cpu: f64,
    postgres_cpu: Option<f64>,
    rpc_requests: f64,
    operations: f64,
    batches: f64,
    batched: f64,
}

/// Reads all meters of some nodes and their server.
pub(crate) struct Gauge<'a> {
    postgres: Option<&'a Postgres>,
    admin: Option<Client>,
    nodes: Vec<&'a Node>,
    before: Reading,
    sum: Costs,
}

/// Of all measured slices together.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Costs {
    spent: Reading,
    transactions: f64,
    /// The most that a node had.
    memory_mib: f64,
    rows_per_transaction: Option<f64>,
}

impl<'a> Gauge<'a> {
    /// Without a server where nodes have embedded stores.
    pub(crate) async fn new(postgres: Option<&'a Postgres>, nodes: Vec<&'a Node>) -> Result<Self> {
        let admin = match postgres {
            Some(postgres) => Some(postgres.admin().await?),
            None => None,
        };
        Ok(Self {
            postgres,
            admin,
            nodes,
            before: Reading::default(),
            sum: Costs::default(),
        })
    }

    /// A measurement begins.
    pub(crate) async fn begin(&mut self) -> Result<()> {
        self.before = self.read().await?;
        Ok(())
    }

    /// It has ended, and so many transactions were its work.
    pub(crate) async fn end(&mut self, transactions: u64) -> Result<()> {
        let after = self.read().await?;
        self.sum.spent = self.sum.spent.plus(after.minus(self.before));
        self.sum.transactions += real(transactions);
        let memory = self.nodes.iter().map(|node| node.resident_mib());
        self.sum.memory_mib = memory.fold(self.sum.memory_mib, f64::max);
        Ok(())
    }

    pub(crate) fn costs(&self) -> Costs {
        self.sum
    }

    async fn read(&self) -> Result<Reading> {
        let mut reading = Reading::default();
        if let Some(admin) = &self.admin {
            let row = admin.query_one(LOG_AND_IDS, &[]).await?;
            let whole = |n: usize| row.get::<_, i64>(n).unsigned_abs();
            (reading.wal_bytes, reading.commits) = (real(whole(0)), real(whole(1)));
        }
        for node in &self.nodes {
            let told = Metrics::of(node.address()).await?;
            reading.node_cpu += node.cpu_seconds();
            reading.rpc_requests += told.sum("fencepost_rpc_requests_total");
            reading.operations += told.sum("fencepost_store_seconds_count");
            reading.batches += told.sum("fencepost_writer_batch_size_count");
            reading.batched += told.sum("fencepost_writer_batch_size_sum");
        }
        reading.postgres_cpu = self.postgres.and_then(Postgres::cpu_seconds);
        Ok(reading)
    }
}

impl Reading {
    fn minus(self, other: Self) -> Self {
        self.with(other, |mine, theirs| mine - theirs)
    }

    fn plus(self, other: Self) -> Self {
        self.with(other, |mine, theirs| mine + theirs)
    }

    fn with(self, other: Self, of: impl Fn(f64, f64) -> f64) -> Self {
        let cpu = other.postgres_cpu;
        Self {
            wal_bytes: of(self.wal_bytes, other.wal_bytes),
            commits: of(self.commits, other.commits),
            node_cpu: of(self.node_cpu, other.node_cpu),
            postgres_cpu: cpu.map(|cpu| of(self.postgres_cpu.unwrap_or_default(), cpu)),
            rpc_requests: of(self.rpc_requests, other.rpc_requests),
            operations: of(self.operations, other.operations),
            batches: of(self.batches, other.batches),
            batched: of(self.batched, other.batched),
        }
    }
}

impl Costs {
    /// With the rows that were written for each transaction, which only a stopped node has told in full.
    pub(crate) fn with_rows(mut self, rows: f64, transactions: u64) -> Self {
        self.rows_per_transaction = Some(share(rows, real(transactions)));
        self
    }

    pub(crate) fn rpc_per_transaction(&self) -> f64 {
        share(self.spent.rpc_requests, self.transactions)
    }

    pub(crate) fn memory_mib(&self) -> f64 {
        self.memory_mib
    }

    /// CPU seconds of the nodes.
    pub(crate) fn node_cpu(&self) -> f64 {
        self.spent.node_cpu
    }

    pub(crate) fn postgres_cpu(&self) -> Option<f64> {
        self.spent.postgres_cpu
    }

    pub(crate) fn wal_bytes(&self) -> f64 {
        self.spent.wal_bytes
    }

    pub(crate) fn operations(&self) -> f64 {
        self.spent.operations
    }

    pub(crate) fn json(&self) -> Value {
        let each = |spent: f64| share(spent, self.transactions);
        json!({
            "rowsPerTx": self.rows_per_transaction,
            "statementsPerTx": each(self.spent.operations),
            "commitsPerTx": each(self.spent.commits),
            "walBytesPerTx": each(self.spent.wal_bytes),
            "nodeCpuSecondsPer1000": each(self.spent.node_cpu) * 1_000.0,
            "postgresCpuSecondsPer1000": self.spent.postgres_cpu.map(|cpu| each(cpu) * 1_000.0),
            "rpcRequestsPerTx": self.rpc_per_transaction(),
            "batchSize": share(self.spent.batched, self.spent.batches),
            "nodeMemoryMiB": self.memory_mib,
        })
    }
}

/// How many rows a database has written, as far as its sessions have told.
pub(crate) async fn rows_written(database: &str) -> Result<f64> {
    let client = fencepost_testkit::postgres::connect(database).await?;
    let row = client.query_one(ROWS, &[]).await?;
    Ok(real(row.get::<_, i64>(0).unsigned_abs()))
}

/// A node's metrics at one moment.
pub(crate) struct Metrics(String);

impl Metrics {
    pub(crate) async fn of(node: SocketAddr) -> Result<Self> {
        let mut connection = Connection::open(node).await?;
        let (status, body) = connection.exchange(&get("/metrics")).await?;
        ensure!(status == 200, "/metrics answers {status}");
        let text = String::from_utf8(body.to_vec()).context("/metrics is no text")?;
        Ok(Self(text))
    }

    /// Over all labels of a metric.
    pub(crate) fn sum(&self, name: &str) -> f64 {
        let value = |line: &str| {
            let rest = line.strip_prefix(name)?;
            let is_whole = rest.starts_with('{') || rest.starts_with(' ');
            let value = rest.rsplit_once(' ').filter(|_| is_whole)?.1;
            value.parse::<f64>().ok()
        };
        self.0.lines().filter_map(value).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_metric_is_summed_over_its_labels_and_no_other() {
        let text = "# TYPE a counter\na_total{x=\"1\",y=\"p q\"} 3\na_total{x=\"2\"} 4.5\na_total_more 9\na 100\n";
        let metrics = Metrics(text.to_owned());
        assert_eq!(metrics.sum("a_total"), 7.5);
        assert_eq!(metrics.sum("b"), 0.0);
    }
}
