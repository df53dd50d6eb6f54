//! The conformance suite on a real PostgreSQL, a fresh database for each scenario.

mod harness;

use harness::OnPostgres;

fencepost_store_tests::conformance!(OnPostgres::new().await);
