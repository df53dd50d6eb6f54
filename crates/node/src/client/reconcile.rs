//! `fencepost signers reconcile`, asked of a node. A hold after a failover ends only for someone who
//! says that there was one.

use serde_json::{Value, json};

use super::audit::Told;
use super::table::{Column, card, cell, lines};
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
    let dry_run = asked.dry_run;
    let told = Told::of(asked.why)?;
    let Some(signer) = asked.signer else {
        return all_held(client, asked.chain, dry_run, &told).await;
    };
    if !dry_run && !asked.after_failover {
        let query = [("chain", asked.chain.clone())];
        let answer = client.get(&["signers", &signer], &query).await?;
        allow(&read(&answer)?)?;
    }
    let answer = one(client, &signer, asked.chain, dry_run, &told).await?;
    client.show(&answer, shown)
}

async fn one(
    client: &Client,
    signer: &str,
    chain: Option<String>,
    dry_run: bool,
    told: &Told,
) -> Result<String, Failure> {
    let body = given([
        ("chain", chain.map(Value::String)),
        ("reason", Some(told.reason.clone())),
        ("dryRun", dry_run.then_some(Value::Bool(true))),
        ("audit", told.audit.clone()),
    ]);
    let path = ["signers", signer, "reconcile"];
    client.post(&path, &body).await
}

/// Every signer that is held after a failover. One that cannot be reconciled stops no other.
async fn all_held(
    client: &Client,
    chain: Option<String>,
    dry_run: bool,
    told: &Told,
) -> Result<(), Failure> {
    let signers = super::signers::all(client).await?;
    let is_meant = |signer: &&Value| {
        let here = chain.as_ref().is_none_or(|chain| signer["chain"] == *chain);
        signer["paused"] == FAILOVER && here
    };
    let (mut compared, mut failed) = (Vec::new(), Vec::new());
    for held in signers.iter().filter(is_meant) {
        let text = |name: &str| held[name].as_str().unwrap_or_default().to_owned();
        let (signer, chain) = (text("signer"), text("chain"));
        match one(client, &signer, Some(chain.clone()), dry_run, told).await {
            Ok(answer) => compared.push(read(&answer)?),
            Err(failure) => {
                let error = failure.lines().join("; ");
                failed.push(json!({ "signer": signer, "chain": chain, "error": error }));
            }
        }
    }
    let all = json!({ "dryRun": dry_run, "reconciled": compared, "failed": failed });
    client.show(&all.to_string(), several)?;
    match failed.len() {
        0 => Ok(()),
        n => Err(Failure::Refused(format!(
            "{n} signers could not be reconciled and stay held; run the command again for them"
        ))),
    }
}

/// One line for each signer.
fn several(all: &Value) -> String {
    let none = Vec::new();
    let list = |name: &str| all[name].as_array().unwrap_or(&none);
    let (compared, failed) = (list("reconciled"), list("failed"));
    if compared.is_empty() && failed.is_empty() {
        return "No signer is held after a failover.".to_owned();
    }
    let rows: Vec<Value> = compared.iter().map(flat).collect();
    let mut text = lines(COMPARED, &rows);
    for each in failed {
        let (signer, chain) = (cell(&each["signer"]), cell(&each["chain"]));
        text += &format!(
            "\nnot reconciled: {signer} on {chain}: {}",
            cell(&each["error"])
        );
    }
    let count = compared.len();
    if all["dryRun"] == true {
        return format!(
            "{text}\nNothing was changed: this is what would become of {count} signers."
        );
    }
    format!("{text}\n{count} signers were reconciled and go on.")
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

/// What a signer was compared with, each figure before and after.
fn flat(answer: &Value) -> Value {
    let change = |value: &Value| {
        let (before, after) = (cell(&value["before"]), cell(&value["after"]));
        format!("{before} → {after}")
    };
    json!({
        "signer": answer["signer"],
        "chain": answer["chain"],
        "nextNonce": change(&answer["nextNonce"]),
        "paused": change(&answer["paused"]),
        "chainLatest": answer["chainLatest"],
        "chainPending": answer["chainPending"],
        "droppedFreeNonces": answer["droppedFreeNonces"],
        "gaps": answer["gaps"],
    })
}

fn shown(answer: &Value) -> String {
    let table = card(COMPARED, &flat(answer));
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
    fn each_of_several_signers_has_a_line_and_what_failed_is_named() {
        assert!(several(&json!({"reconciled": [], "failed": []})).contains("No signer is held"));
        let compared = json!({
            "signer": "0x1", "chain": "main", "nextNonce": {"before": 17, "after": 19},
            "paused": {"before": "FAILOVER", "after": null},
        });
        let failed = json!({"signer": "0x2", "chain": "main", "error": "chain_unavailable"});
        let mut all = json!({"dryRun": true, "reconciled": [compared], "failed": [failed]});
        let text = several(&all);
        for part in [
            "17 → 19",
            "not reconciled: 0x2 on main: chain_unavailable",
            "Nothing was changed",
        ] {
            assert!(text.contains(part), "{part} in\n{text}");
        }
        all["dryRun"] = json!(false);
        assert!(several(&all).ends_with("1 signers were reconciled and go on."));
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
