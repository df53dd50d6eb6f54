//! `fencepost signers reconcile`, asked of a node. A hold after a failover ends only for someone who
//! says that there was one.

use serde_json::{Value, json};

use super::audit::Told;
use super::table::{Column, card, cell};
use super::{Client, given, read};
use crate::cli::signers::Reconcile;
use crate::failure::Failure;

/// What holds a signer after the database was failed over.
const FAILOVER: &str = "FAILOVER";

const COMPARED: &[Column] = &[
    ("signer", "signer"),
    ("chain", "chain"),
    ("nextNonce", "nextNonce"),
    ("paused", "paused"),
    ("chainLatest", "chainLatest"),
    ("chainPending", "chainPending"),
    ("droppedFreeNonces", "droppedFreeNonces"),
    ("gaps", "gaps"),
];

/// Compares, and shows each figure before and after.
pub(super) async fn reconcile(client: &Client, asked: Reconcile) -> Result<(), Failure> {
    let (which, dry_run) = (asked.change.which, asked.dry_run);
    let told = Told::of(asked.change.why)?;
    if !dry_run && !asked.after_failover {
        let query = [("chain", which.chain.clone())];
        let answer = client.get(&["signers", &which.signer], &query).await?;
        allow(&read(&answer)?)?;
    }
    let body = given([
        ("chain", which.chain.map(Value::String)),
        ("reason", Some(told.reason)),
        ("dryRun", dry_run.then_some(Value::Bool(true))),
        ("audit", told.audit),
    ]);
    let path = ["signers", &which.signer, "reconcile"];
    let answer = client.post(&path, &body).await?;
    client.show(&answer, shown)
}

/// Whether a signer may be reconciled by someone who said nothing of a failover.
fn allow(signer: &Value) -> Result<(), Failure> {
    if signer["paused"] != FAILOVER {
        return Ok(());
    }
    let why = "the signer is held because the database was failed over and may lack its newest writes. \
               Look at what --dry-run tells, and at what was sent in the minutes before; then say \
               --after-failover to end the hold. Nothing was changed";
    Err(Failure::Usage(why.to_owned()))
}

fn shown(answer: &Value) -> String {
    let change = |value: &Value| {
        let (before, after) = (cell(&value["before"]), cell(&value["after"]));
        format!("{before} → {after}")
    };
    let flat = json!({
        "signer": answer["signer"],
        "chain": answer["chain"],
        "nextNonce": change(&answer["nextNonce"]),
        "paused": change(&answer["paused"]),
        "chainLatest": answer["chainLatest"],
        "chainPending": answer["chainPending"],
        "droppedFreeNonces": answer["droppedFreeNonces"],
        "gaps": answer["gaps"],
    });
    let table = card(COMPARED, &flat);
    if answer["dryRun"] == true {
        return format!("{table}\nNothing was changed: this is what would be.");
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hold_after_a_failover_is_ended_only_by_someone_who_says_so() {
        for paused in [json!(null), json!("OPERATOR"), json!("CURSOR_JUMP")] {
            assert!(allow(&json!({ "paused": paused })).is_ok(), "{paused}");
        }
        let refused = allow(&json!({ "paused": "FAILOVER" })).expect_err("held");
        assert!(
            refused.to_string().contains("--after-failover"),
            "{refused}"
        );
    }

    #[test]
    fn each_figure_is_shown_before_and_after() {
        let mut answer = json!({
            "signer": "0x1", "chain": "main", "dryRun": true,
            "nextNonce": {"before": 17, "after": 19},
            "chainLatest": 18, "chainPending": 19, "droppedFreeNonces": [15], "gaps": [17, 18],
            "paused": {"before": "FAILOVER", "after": null},
        });
        let table = shown(&answer);
        for part in ["17 → 19", "FAILOVER → -", "17, 18", "Nothing was changed"] {
            assert!(table.contains(part), "{part} in\n{table}");
        }
        answer["dryRun"] = json!(false);
        assert!(!shown(&answer).contains("Nothing was changed"));
    }
}
