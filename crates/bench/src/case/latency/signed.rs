//! What it costs to wait for the hash: creates that are answered when they are signed, beside plain ones, by turns and
//! at the same rate, on a node with keys and a chain.

use std::time::Duration;

use anyhow::{Result, ensure};

use super::SIGNERS;
use crate::case::World;
use crate::case::create::DATA_BYTES;
use crate::chain::Chain;
use crate::figures::{Course, Times};
use crate::keys::{addresses, keys};
use crate::load::{Load, Shape, Slice};
use crate::node::{ChainSpec, Node, Spec};
use crate::report::Part;

/// Requests a second: few enough that neither blocks nor the window hold signing up.
const RATE: f64 = 50.0;
const CONNECTIONS: usize = 16;
const BLOCK: Duration = Duration::from_millis(200);
const POLL: Duration = Duration::from_millis(50);

pub(super) async fn part(world: &World<'_>) -> Result<Part> {
    let plan = &world.plan;
    world
        .screen
        .step("latency", "creates that wait for their hash");
    let keys = tokio::task::spawn_blocking(|| keys(SIGNERS)).await??;
    let accounts = addresses(&keys);
    let chain = Chain::start(&accounts, BLOCK).await?;
    let spec = Spec {
        name: "bench-signed".to_owned(),
        store: world.database().await?,
        chain: Some(ChainSpec {
            rpc: chain.url.clone(),
            id: chain.id,
            poll: POLL,
            confirmations: 3,
        }),
        signers: accounts.len(),
    };
    let node = Node::start(&spec).await?;
    let shape = |wait| Shape {
        batch: 1,
        duplicates: 0,
        data_bytes: DATA_BYTES,
        connections: CONNECTIONS,
        signers: accounts.clone().into(),
        wait,
    };
    let plain = Load::start(vec![node.address()], shape(None)).await?;
    let signed = Load::start(vec![node.address()], shape(Some("signed"))).await?;
    // The first of each lane asks the chain where its account stands.
    signed.open(RATE, plan.warm_up()).await?;
    let (mut plainly, mut waited) = (Slice::default(), Slice::default());
    let mut course = Course::begin();
    for _ in 0..plan.slices {
        let create = plain.open(RATE, plan.slice()).await?;
        let wait = signed.open(RATE, plan.slice()).await?;
        course.push(
            Times::new(wait.latencies.clone()).ms(9_900),
            Times::new(create.latencies.clone()).ms(9_900),
        );
        plainly.add(create);
        waited.add(wait);
    }
    drop((plain, signed));
    node.stop().await?;
    ensure!(
        waited.refused + plainly.refused == 0,
        "refused: {:?}",
        waited.refusal.or(plainly.refusal)
    );
    let (create, wait) = (Times::new(plainly.latencies), Times::new(waited.latencies));
    let name = "p99 with wait=signed over p99 of the plain create";
    let part = Part::new(name, wait.ms(9_900), create.ms(9_900), "ms").course(course);
    Ok(part
        .fact("offeredPerSecond", RATE)
        .fact("createP50Ms", create.median_ms())
        .fact("createP99Ms", create.ms(9_900))
        .fact("signedP50Ms", wait.median_ms())
        .fact("signedP99Ms", wait.ms(9_900)))
}
