//! Keys of a real process, from its files: `[auth] keys_file` with `[api] hide_nonces`. And defaults that operators rely on.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::process::{Home, Node, SIGNER, client, private, run};

/// The secrets are `secret of read` and `secret of ops`.
const KEYS: &str = "
[[key]]
name = \"read\"
sha256 = \"c98939da9a4c09b109c5abf7c8089b678502751f43cdecadc479609d2eb87201\"
scopes = [\"submit\", \"read\"]
[[key]]
name = \"ops\"
sha256 = \"49944ee1fbb9d6f1ab5e9d81ca0bf7c0c7bb8990e7fce50be6ca34f6c98952b0\"
scopes = [\"submit\", \"read\", \"operate\"]
";

async fn get(node: &Node, key: &str, path: &str) -> Result<Value> {
    let request = client().get(format!("{}{path}", node.url));
    let answer = request
        .bearer_auth(format!("secret of {key}"))
        .send()
        .await?;
    let (status, text) = (answer.status(), answer.text().await?);
    ensure!(status.is_success(), "{key} {path}: {text}");
    Ok(serde_json::from_str(&text)?)
}

#[tokio::test]
async fn a_node_that_hides_nonces_tells_them_to_operators_only() -> Result<()> {
    let home = Home::new()?;
    let keys = home.config().replace("fencepost.toml", "keys.toml");
    private(&keys, KEYS)?;
    home.add(&format!(
        "[auth]\nkeys_file = \"{keys}\"\n[api]\nhide_nonces = true"
    ))?;
    let node = home.serve().await?;
    // Amounts are JSON numbers here.
    let body = json!({ "signer": SIGNER, "payload": { "to": SIGNER, "value": 1, "gas": 21_000 } });
    let request = client().post(format!("{}/api/v1/tx", node.url)).json(&body);
    let answer = request.bearer_auth("secret of read").send().await?;
    let sent: Value = serde_json::from_str(&answer.text().await?)?;
    assert_eq!(sent["nonce"], Value::Null, "{sent}");
    assert_eq!(sent["payload"]["gas"], "21000", "{sent}");
    let path = format!("/api/v1/tx/{}", sent["txId"].as_str().unwrap_or_default());
    assert_eq!(get(&node, "read", &path).await?["nonce"], Value::Null);
    assert_eq!(get(&node, "ops", &path).await?["nonce"], 0);
    let path = format!("/api/v1/signers/{SIGNER}");
    assert_eq!(get(&node, "read", &path).await?["nextNonce"], Value::Null);
    assert_eq!(get(&node, "ops", &path).await?["nextNonce"], 1);
    Ok(())
}

/// 620 s. Google's load balancers keep connections for 600 s: a node that closes earlier makes them answer 502.
#[tokio::test]
async fn the_configuration_shows_a_keep_alive_longer_than_a_load_balancers() -> Result<()> {
    let home = Home::new()?;
    let (code, said) = run(&["config", "print", "--config", &home.config()]).await?;
    assert_eq!(code, Some(0), "{said}");
    let line = said.lines().find(|line| line.contains("idle_timeout"));
    ensure!(
        line == Some("idle_timeout = \"10m 20s\""),
        "{line:?} in {said}"
    );
    Ok(())
}
