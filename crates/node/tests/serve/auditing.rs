//! `fencepost audit export`: what was done and refused, as JSON lines.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::process::{Home, SIGNER, run};

fn lines(text: &str) -> Result<Vec<Value>> {
    let lines = text.lines().map(serde_json::from_str);
    Ok(lines.collect::<Result<_, _>>()?)
}

#[tokio::test]
async fn the_audit_is_exported_whole_and_from_where_the_last_export_ended() -> Result<()> {
    let home = Home::new()?;
    let node = home.serve().await?;
    let url = node.url.as_str();
    let signers = async |verb: &str, more: &[&str]| {
        let common = ["signers", verb, SIGNER, "--reason", "moved", "--url", url];
        run(&[&common, more].concat()).await
    };
    // Not paused yet: refused, and in the audit all the same.
    let (code, said) = signers("cursor", &["--next", "7"]).await?;
    assert_eq!(code, Some(1), "{said}");
    let (code, said) = signers("pause", &["--ticket", "OPS-7"]).await?;
    assert_eq!(code, Some(0), "{said}");

    let (code, said) = run(&["audit", "export", "--url", url]).await?;
    assert_eq!(code, Some(0), "{said}");
    let told: Vec<Value> = lines(&said)?
        .iter()
        .map(|entry| {
            json!([
                entry["action"],
                entry["by"],
                entry["state"],
                entry["audit"]["ticket"]
            ])
        })
        .collect();
    let expected = json!([
        ["CALL", "anonymous", "REFUSED", null],
        ["PAUSE", "anonymous", "DONE", "OPS-7"],
    ]);
    assert_eq!(json!(told), expected, "{said}");
    let exported = lines(&said)?;
    ensure!(
        exported[0]["result"]
            .as_str()
            .is_some_and(|text| text.starts_with("409 ")),
        "{said}"
    );

    // A file is added to, from the last id on.
    let file = home.config().replace("fencepost.toml", "audit.jsonl");
    let export = async |after: &Value| {
        let after = after.to_string();
        run(&[
            "audit", "export", "--url", url, "--out", &file, "--after", &after,
        ])
        .await
    };
    let (code, said) = export(&json!(0)).await?;
    assert_eq!((code, said.as_str()), (Some(0), ""));
    assert_eq!(lines(&std::fs::read_to_string(&file)?)?, exported);
    signers("resume", &[]).await?;
    export(&exported[1]["id"]).await?;
    let all = lines(&std::fs::read_to_string(&file)?)?;
    assert_eq!((all.len(), &all[2]["action"]), (3, &json!("RESUME")));
    assert_eq!(all[2]["after"], "paused=none next_nonce=0");
    Ok(())
}
