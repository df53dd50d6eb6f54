//! Creates on tables that already hold millions: against a node whose tables are empty, in alternating slices.

use std::time::Instant;

use anyhow::Result;
use fencepost_testkit::postgres::connect;

use super::create::{BATCH_SIZE, DATA_BYTES, addresses_of, shape};
use super::duel::Duel;
use super::{Case, Plan, World};
use crate::figures::MEMORY_NOISE;
use crate::load::Load;
use crate::meters::Gauge;
use crate::report::{Found, Part, Target};

const SIGNERS: usize = 16;
/// What is prefilled belongs to so many lanes of another chain.
const LANES: i64 = 100_000;
const OTHER_CHAIN: i64 = 999;
const MEMORY_MIB_MAX: f64 = 512.0;
/// One statement's share: more of it and its log outgrows what is kept between checkpoints.
const CHUNK: u64 = 250_000;

const FILL_LANES: &str = "INSERT INTO signer_lease (chain_id, signer, next_nonce)
    SELECT $1, decode(lpad(to_hex(n), 40, '0'), 'hex'), 1000000 FROM generate_series(1, $2::bigint) AS n";

/// Finished transactions; request ids that look random, as clients' do.
const FILL: &str = "
WITH t AS (
    INSERT INTO managed_tx (tx_id, lane_id, kind, request_id, payload, payload_hash, nonce, state, tx_hash,
        attempts, submit_attempts, block_number, block_hash, mined_hash, mined_by, mined_status,
        confirmed_at, fencing_token, version)
    SELECT ('01900000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid, 1 + n % $3, 'managed',
           md5(n::text), decode(repeat('ab', 100), 'hex'), h.hash, n / $3, 'CONFIRMED', h.hash, 1, 1, n,
           h.hash, h.hash, 'ORIGINAL', 'SUCCESS', now(), 1, 4
      FROM generate_series($1::bigint, $2::bigint) AS n,
           LATERAL (SELECT sha256(n::text::bytea) AS hash) h
    RETURNING tx_id, lane_id, nonce
)
INSERT INTO tx_event (lane_id, lane_seq, tx_id, kind, to_state, node, fencing_token)
SELECT lane_id, nonce + 1, tx_id, 'accepted', 'ALLOCATED', 'fill', 1 FROM t";

pub(super) fn steps(plan: &Plan) -> u64 {
    u64::try_from(plan.growth.len()).unwrap_or(0) * 3
}

pub(super) async fn run(world: &World<'_>) -> Result<Found> {
    let empty = world.database().await?;
    let grown = world.database().await?;
    connect(&grown)
        .await?
        .execute(FILL_LANES, &[&OTHER_CHAIN, &LANES])
        .await?;
    let (mut parts, mut notes, mut filled) = (vec![], vec![], 0);
    let mut memory = 0.0_f64;
    for rows in &world.plan.growth {
        world
            .screen
            .step("growth", &format!("filling up to {rows} transactions"));
        let began = Instant::now();
        fill(&grown, filled, *rows).await?;
        filled = *rows;
        notes.push(format!(
            "{rows} transactions over {LANES} lanes: filled in {:.0} s",
            began.elapsed().as_secs_f64()
        ));
        for batch in [1, BATCH_SIZE] {
            let (part, mib) = measure(world, [&empty, &grown], *rows, batch).await?;
            parts.push(part.target(Target::AtLeast(0.8)));
            memory = memory.max(mib);
        }
    }
    // The largest tables stand for the case.
    parts.rotate_right(2);
    let limit = Part::new("memory of the node", memory, MEMORY_MIB_MAX, "MiB");
    parts.push(limit.noise(MEMORY_NOISE).target(Target::AtMost(1.0)));
    notes.push(
        "prefilled rows are finished: managed_tx and one event each, without attempts".to_owned(),
    );
    Ok(Found {
        case: Case::Growth,
        ratio_is: "creates per second on large tables over those on empty ones",
        parts,
        notes,
        seconds: 0.0,
    })
}

async fn measure(
    world: &World<'_>,
    [empty, grown]: [&str; 2],
    rows: u64,
    batch: usize,
) -> Result<(Part, f64)> {
    let how = match batch {
        1 => "one per request".to_owned(),
        batch => format!("batches of {batch}"),
    };
    let name = format!("{how}, {SIGNERS} signers, {rows} stored");
    world.screen.step("growth", &name);
    let (few, many) = (
        world.nodes(empty, SIGNERS).await?,
        world.nodes(grown, SIGNERS).await?,
    );
    let shape = shape(SIGNERS, batch, 0, DATA_BYTES);
    let base = Load::start(addresses_of(&few), shape.clone()).await?;
    let rival = Load::start(addresses_of(&many), shape).await?;
    let mut gauge = Gauge::new(Some(world.postgres), many.iter().collect()).await?;
    let duel = Duel::run(&world.plan, &base, &rival, &mut gauge).await?;
    let part = duel.part(name, &gauge);
    let memory = gauge.costs().memory_mib();
    drop((gauge, base, rival));
    for node in few.into_iter().chain(many) {
        node.stop().await?;
    }
    Ok((part, memory))
}

async fn fill(database: &str, from: u64, to: u64) -> Result<()> {
    let client = connect(database).await?;
    let mut first = from;
    while first < to {
        let next = (first + CHUNK).min(to);
        let (begin, end) = (i64::try_from(first)?, i64::try_from(next)? - 1);
        client.execute(FILL, &[&begin, &end, &LANES]).await?;
        first = next;
    }
    client.batch_execute("VACUUM ANALYZE").await?;
    client.batch_execute("CHECKPOINT").await?;
    Ok(())
}
