//! A node on some database, and what it does to show that it works.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use fencepost_app::ports::{Bid, Held, Holder, Store, StoreError, Terms};
use fencepost_domain::ids::NodeId;
use fencepost_postgres::{PostgresStore, Settings};
use fencepost_store_tests::bench::{Seat, leading, only, url};
use fencepost_store_tests::builders::{id, lane, txs};
use fencepost_store_tests::dump::Dump;

/// Long enough for a busy machine.
const STATEMENT_TIMEOUT: Duration = Duration::from_secs(20);

/// A node's settings, with few connections.
pub(crate) fn settings(url: impl Into<String>) -> Settings {
    Settings {
        terms: Terms {
            duration: Duration::from_mins(10),
            skew: Duration::from_mins(1),
        },
        write_connections: 2,
        read_connections: 2,
        statement_timeout: STATEMENT_TIMEOUT,
        ..Settings::new(url)
    }
}

/// The same in a schema of its own.
pub(crate) fn in_schema(url: impl Into<String>, schema: &str) -> Settings {
    Settings {
        schema: schema.to_owned(),
        ..settings(url)
    }
}

/// Opens the store and leads a lane of it: nonces 0 to 2 are given, and the first one ends.
pub(crate) async fn works(settings: Settings) -> Result<Seat> {
    let store: Arc<dyn Store> = Arc::new(PostgresStore::open(settings).await?);
    let node = NodeId::new("a")?;
    let incarnation = store.join(&node, &url("a")).await?;
    let holder = Holder { node, incarnation };
    let id_of_lane = only(store.open_lanes(&[lane(1)]).await?);
    let bid = Bid {
        lane: id_of_lane,
        fresh: false,
    };
    let lead = leading(only(store.acquire(&holder, &url("a"), &[bid]).await?));
    let seat = Seat {
        store,
        holder,
        held: Held {
            lane: id_of_lane,
            token: lead.token,
        },
        lane: lane(1),
    };
    assert_eq!(seat.accept(txs([1, 2, 3])).await, [0, 1, 2]);
    seat.confirm(id(1), 1).await;
    Dump::of(&*seat.store).await.assert_sound();
    Ok(seat)
}

/// Why the store does not open, as people are told: one line, and it is not worth waiting.
pub(crate) async fn refusal(settings: Settings) -> Result<String> {
    let error = PostgresStore::open(settings).await.err();
    let error = error.context("it was opened")?;
    let StoreError::Unfit(why) = error else {
        anyhow::bail!("not for its settings: {error:?}");
    };
    assert!(!why.contains('\n'), "{why}");
    Ok(why)
}
