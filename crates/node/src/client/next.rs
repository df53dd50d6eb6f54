//! What an operator does about a signer: why its head does not move, and the command to go on with. What
//! is behind each line stands in `docs/operations`.

use serde_json::Value;

use super::table::{cell, plain};

/// The last lines of `signers show`.
pub(super) fn lines(signer: &Value) -> String {
    let head = &signer["head"];
    let mut lines = Vec::new();
    if !head.is_null() {
        let after = |mark: &str, field: &str| {
            let text = head[field].as_str().map(plain);
            text.map(|text| format!("{mark}{text}")).unwrap_or_default()
        };
        let (nonce, state) = (cell(&head["nonce"]), cell(&head["state"]));
        let (sub, why) = (after("/", "subState"), after(": ", "why"));
        lines.push(format!("why:  nonce {nonce} is {state}{sub}{why}"));
    }
    if let Some(why) = signer["waiting"]["why"].as_str() {
        let why = plain(why);
        lines.push(format!("why:  no nonce was given yet: {why}"));
    }
    lines.push(format!("next: {}", next(signer)));
    lines.join("\n")
}

/// What holds the lane comes first: while it is paused no remedy is carried out.
fn next(signer: &Value) -> String {
    if let Some(reason) = signer["paused"].as_str() {
        return paused(signer, reason);
    }
    if let Some(reason) = signer["waiting"]["reason"].as_str() {
        return waiting(signer, reason);
    }
    let head = &signer["head"];
    let unfinished = !head.is_null() || signer["queued"].as_u64().is_some_and(|n| n > 0);
    if unfinished && signer["leader"].is_null() {
        return "start a node that has this signer: nobody leads it".to_owned();
    }
    match head["state"].as_str() {
        Some("STUCK") => stuck(signer, head["subState"].as_str().unwrap_or_default()),
        Some("RESERVED") => format!("its holder has it: fencepost nonces get {}", id(head)),
        Some(_) | None => match signer["gaps"][0].as_u64() {
            Some(gap) => {
                let verb = format!("placeholder --nonce {gap}");
                format!("{} (nobody holds that nonce)", command(signer, &verb))
            }
            None if head.is_null() => "nothing waits".to_owned(),
            None => "nothing: it moves by itself".to_owned(),
        },
    }
}

/// It goes on by itself once the endpoints agree; an operator who knows better pauses it and says where.
fn waiting(signer: &Value, reason: &str) -> String {
    let (pause, cursor) = (command(signer, "pause"), command(signer, "cursor --next …"));
    match reason {
        "CHAIN_UNREACHABLE" => "mend the chain's endpoints: it begins by itself".to_owned(),
        _ => format!(
            "nothing, if they will agree soon; or {pause}; then {cursor}; then signers resume"
        ),
    }
}

fn paused(signer: &Value, reason: &str) -> String {
    let look = command(signer, "reconcile --dry-run");
    match reason {
        "OPERATOR" => {
            let resume = command(signer, "resume");
            format!("{resume} (an operator paused it: see signers audit)")
        }
        "FAILOVER" => {
            format!("{look}; then the same with --after-failover instead of --dry-run")
        }
        _ => format!("{look}; then without --dry-run; then signers resume"),
    }
}

fn stuck(signer: &Value, reason: &str) -> String {
    let id = id(&signer["head"]);
    let remedy = |action| format!("fencepost tx remedy {id} --action {action} --reason …");
    match reason {
        "NO_RECEIPT" => remedy("REPLACE"),
        "REFUSED" => {
            let replace = remedy("REPLACE");
            format!("{replace} (fees), or --action CANCEL (it can never be taken)")
        }
        "GAP" => remedy("FILL"),
        "NO_FUNDS" => {
            let signer = cell(&signer["signer"]);
            format!("send funds to {signer}: it goes on by itself")
        }
        "SIGNER_ERROR" => {
            "mend the key or the service that has it: it goes on by itself".to_owned()
        }
        "TAMPERED" => {
            let cancel = remedy("CANCEL");
            format!("find out who changed the row, then {cancel}")
        }
        "NONCE_TAKEN" => {
            format!("find out who else uses the key; fencepost tx watch {id} tells how it ends")
        }
        "REORG_AFTER_FINAL" => {
            format!("compare the chain's endpoints; fencepost tx watch {id} tells how it ends")
        }
        _ => format!("fencepost tx get {id}"),
    }
}

fn id(head: &Value) -> String {
    cell(&head["txId"])
}

/// A verb of `signers` for this one.
fn command(signer: &Value, verb: &str) -> String {
    let (verb, options) = verb.split_once(' ').unwrap_or((verb, ""));
    let gap = if options.is_empty() { "" } else { " " };
    let (address, chain) = (cell(&signer["signer"]), cell(&signer["chain"]));
    format!("fencepost signers {verb} {address} --chain {chain}{gap}{options} --reason …")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn signer() -> Value {
        json!({
            "signer": "0xA", "chain": "main", "leader": {"node": "a"}, "queued": 0, "gaps": [],
            "paused": null, "head": {
                "txId": "t1", "nonce": 17, "state": "TRACKING", "subState": "BROADCAST", "why": null,
            },
        })
    }

    fn check(change: impl FnOnce(&mut Value), expected: &str) {
        let mut signer = signer();
        change(&mut signer);
        assert_eq!(next(&signer), expected, "{signer}");
    }

    #[test]
    fn each_reason_has_its_remedy() {
        let stuck = |reason: &str, expected: &str| {
            check(
                |signer| {
                    signer["head"]["state"] = json!("STUCK");
                    signer["head"]["subState"] = json!(reason);
                    signer["gaps"] = json!([18]);
                },
                expected,
            );
        };
        stuck(
            "NO_RECEIPT",
            "fencepost tx remedy t1 --action REPLACE --reason …",
        );
        stuck(
            "REFUSED",
            "fencepost tx remedy t1 --action REPLACE --reason … (fees), or --action CANCEL (it can never \
             be taken)",
        );
        stuck("GAP", "fencepost tx remedy t1 --action FILL --reason …");
        stuck("NO_FUNDS", "send funds to 0xA: it goes on by itself");
        stuck(
            "SIGNER_ERROR",
            "mend the key or the service that has it: it goes on by itself",
        );
        stuck(
            "TAMPERED",
            "find out who changed the row, then fencepost tx remedy t1 --action CANCEL --reason …",
        );
        stuck(
            "NONCE_TAKEN",
            "find out who else uses the key; fencepost tx watch t1 tells how it ends",
        );
        stuck(
            "REORG_AFTER_FINAL",
            "compare the chain's endpoints; fencepost tx watch t1 tells how it ends",
        );
    }

    /// Every reason that a node can give is one that is known here.
    #[test]
    fn no_reason_is_without_advice() {
        for why in fencepost_domain::state::Why::ALL {
            let told = stuck(&signer(), why.word());
            assert!(!told.starts_with("fencepost tx get"), "{}", why.word());
        }
    }

    #[test]
    fn the_pages_show_what_is_printed() {
        let docs = "../../docs/operations";
        let mut signer = signer();
        signer["signer"] = json!("0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed");
        signer["head"]["txId"] = json!("019a8c1e-7d40-7b3a-9d55-0f6a2f1c9e07");
        for why in fencepost_domain::state::Why::ALL {
            let name = why.word().to_lowercase().replace('_', "-");
            let page = std::fs::read_to_string(format!("{docs}/{name}.md")).unwrap();
            let line = format!("\nnext: {}\n", stuck(&signer, why.word()));
            assert!(page.contains(&line), "{name}.md lacks {line}");
        }
    }

    #[test]
    fn what_holds_the_lane_comes_before_its_head() {
        let held = |reason: &str, expected: &str| {
            check(
                |signer| {
                    signer["paused"] = json!(reason);
                    signer["head"]["state"] = json!("STUCK");
                    signer["head"]["subState"] = json!("NO_RECEIPT");
                },
                expected,
            );
        };
        let look = "fencepost signers reconcile 0xA --chain main --dry-run --reason …; then";
        held(
            "OPERATOR",
            "fencepost signers resume 0xA --chain main --reason … (an operator paused it: see signers \
             audit)",
        );
        held(
            "FAILOVER",
            &format!("{look} the same with --after-failover instead of --dry-run"),
        );
        for reason in ["CURSOR_JUMP", "NONCE_CLASH"] {
            held(
                reason,
                &format!("{look} without --dry-run; then signers resume"),
            );
        }
    }

    #[test]
    fn what_moves_needs_nothing_and_what_nobody_leads_needs_a_node() {
        check(|_| {}, "nothing: it moves by itself");
        check(|signer| signer["head"] = json!(null), "nothing waits");
        let unled = "start a node that has this signer: nobody leads it";
        check(|signer| signer["leader"] = json!(null), unled);
        check(
            |signer| {
                signer["leader"] = json!(null);
                signer["head"] = json!(null);
                signer["queued"] = json!(3);
            },
            unled,
        );
        check(
            |signer| signer["gaps"] = json!([18, 20]),
            "fencepost signers placeholder 0xA --chain main --nonce 18 --reason … (nobody holds that nonce)",
        );
        check(
            |signer| signer["head"]["state"] = json!("RESERVED"),
            "its holder has it: fencepost nonces get t1",
        );
    }

    #[test]
    fn why_the_head_does_not_move_stands_above_what_to_do() {
        let mut signer = signer();
        signer["head"]["why"] = json!("no receipt\u{1b}[2J");
        let expected = "why:  nonce 17 is TRACKING/BROADCAST: no receipt\\u{1b}[2J\nnext: nothing: it moves \
                        by itself";
        assert_eq!(lines(&signer), expected);
        signer["head"]["why"] = json!(null);
        assert!(lines(&signer).starts_with("why:  nonce 17 is TRACKING/BROADCAST\n"));
        signer["head"] = json!(null);
        assert_eq!(lines(&signer), "next: nothing waits");
    }
}
