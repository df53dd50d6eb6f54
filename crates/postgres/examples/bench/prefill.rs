//! Millions of finished transactions, so that the same figures can be taken on a large table.

use anyhow::Result;

const CHUNK: u64 = 250_000;

/// Rows of lanes that nobody else uses; random-looking request ids, as clients' are.
const FILL: &str = "
WITH t AS (
    INSERT INTO managed_tx (tx_id, lane_id, kind, request_id, payload, payload_hash, nonce, state, tx_hash,
        attempts, submit_attempts, block_number, block_hash, mined_hash, mined_by, mined_status,
        confirmed_at, fencing_token, version)
    SELECT ('01900000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid, 1000000 + n % 1000, 'managed',
           md5(n::text), decode(repeat('ab', 100), 'hex'), h.hash, n / 1000, 'CONFIRMED', h.hash, 1, 1, n,
           h.hash, h.hash, 'ORIGINAL', 'SUCCESS', now(), 1, 4
      FROM generate_series($1::bigint, $2::bigint) AS n,
           LATERAL (SELECT sha256(n::text::bytea) AS hash) h
    RETURNING tx_id, lane_id, nonce
)
INSERT INTO tx_event (lane_id, lane_seq, tx_id, kind, to_state, node, fencing_token)
SELECT lane_id, nonce + 1, tx_id, 'accepted', 'ALLOCATED', 'fill', 1 FROM t";

pub(crate) async fn prefill(url: &str, rows: u64) -> Result<()> {
    let client = fencepost_testkit::postgres::connect(url).await?;
    let mut from = 0;
    while from < rows {
        let to = (from + CHUNK).min(rows);
        let (first, last) = (i64::try_from(from)?, i64::try_from(to)? - 1);
        client.execute(FILL, &[&first, &last]).await?;
        from = to;
    }
    client.batch_execute("VACUUM ANALYZE").await?;
    client.batch_execute("CHECKPOINT").await?;
    Ok(())
}
