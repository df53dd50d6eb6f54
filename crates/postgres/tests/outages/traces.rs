//! The traces that writes leave in a database, counted past the store.

use std::collections::BTreeMap;

use anyhow::Result;
use tokio_postgres::Client;

/// How much of everything there is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Traces(BTreeMap<&'static str, i64>);

const COUNTS: [(&str, &str); 15] = [
    ("txs", "count(*) FROM managed_tx"),
    ("versions", "sum(version) FROM managed_tx"),
    ("queued", "count(*) FROM lane_queue"),
    ("cursors", "sum(next_nonce) FROM signer_lease"),
    ("lane_seqs", "sum(lane_seq) FROM signer_lease"),
    ("tokens", "sum(fencing_token) FROM signer_lease"),
    ("events", "count(*) FROM tx_event"),
    ("attempts", "count(*) FROM tx_attempt"),
    ("free", "count(*) FROM free_nonce"),
    ("due", "count(*) FROM due_work"),
    ("completions", "count(*) FROM tx_completion"),
    ("feed_head", "sum(last_seq) FROM feed_head"),
    ("remedies", "count(*) FROM remedy"),
    ("questions", "count(*) FROM remedy WHERE action = 'DECIDE'"),
    (
        "closed remedies",
        "count(*) FROM remedy WHERE tx_id IS NOT NULL AND closed_at IS NOT NULL",
    ),
];

impl Traces {
    pub(crate) async fn read(client: &Client) -> Result<Self> {
        let parts = COUNTS.map(|(_, what)| format!("(SELECT {what})"));
        let sql = format!("SELECT ARRAY[{}]::bigint[]", parts.join(", "));
        let counts: Vec<Option<i64>> = client.query_one(&sql, &[]).await?.get(0);
        let named = COUNTS.iter().zip(counts);
        let named = named.map(|((name, _), count)| (*name, count.unwrap_or(0)));
        Ok(Self(named.collect()))
    }

    /// Fails unless exactly this has been added since.
    pub(crate) async fn assert_added(
        &self,
        client: &Client,
        expected: &[(&'static str, i64)],
        when: &str,
    ) -> Result<()> {
        let now = Self::read(client).await?;
        let grown = now.0.iter().map(|(name, n)| (*name, n - self.0[name]));
        let grown: BTreeMap<_, _> = grown.filter(|(_, by)| *by != 0).collect();
        assert_eq!(grown, expected.iter().copied().collect(), "{when}");
        Ok(())
    }
}
