//! Files that a running node reads again: the API keys, without a restart.

use anyhow::{Result, ensure};
use fencepost_testkit::wait;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::ChildStderr;
use tokio::time::timeout;

use super::process::{Home, Node, client, private};

const READ: &str = "c98939da9a4c09b109c5abf7c8089b678502751f43cdecadc479609d2eb87201";
const OPS: &str = "49944ee1fbb9d6f1ab5e9d81ca0bf7c0c7bb8990e7fce50be6ca34f6c98952b0";

fn key(sha256: &str) -> String {
    format!("[[key]]\nname = \"app\"\nsha256 = \"{sha256}\"\nscopes = [\"read\"]\n")
}

/// The statuses that `secret of read` and `secret of ops` get.
async fn statuses(node: &Node) -> Result<(u16, u16)> {
    let status = async |word: &str| {
        let request = client().get(format!("{}/api/v1/tx", node.url));
        let answer = request.bearer_auth(format!("secret of {word}")).send();
        anyhow::Ok(answer.await?.status().as_u16())
    };
    Ok((status("read").await?, status("ops").await?))
}

/// The next line that says this.
async fn line(log: &mut Lines<BufReader<ChildStderr>>, message: &str) -> Result<Value> {
    let found = async {
        while let Some(line) = log.next_line().await? {
            let line: Value = serde_json::from_str(&line)?;
            let said = line["message"].as_str().unwrap_or_default();
            if said.starts_with(message) {
                return Ok(line);
            }
        }
        anyhow::bail!("the log ended before {message:?}")
    };
    timeout(wait::PATIENCE, found).await?
}

#[tokio::test]
async fn a_changed_keys_file_is_used_without_a_restart_and_a_broken_one_is_not() -> Result<()> {
    let home = Home::new()?;
    let keys = home.config().replace("fencepost.toml", "keys.toml");
    private(&keys, &key(READ))?;
    home.add(&format!("[auth]\nkeys_file = \"{keys}\""))?;
    let (mut node, log) = home.serve_with_log().await?;
    let mut log = log.lines();
    assert_eq!(statuses(&node).await?, (200, 401));

    std::fs::write(&keys, key(READ) + &key(OPS))?;
    let said = line(&mut log, "reloaded").await?;
    assert_eq!(
        (&said["key"], &said["found"]),
        (&"auth.keys_file".into(), &"2 keys".into())
    );
    assert_eq!(statuses(&node).await?, (200, 200), "both overlap");

    std::fs::write(&keys, "nonsense")?;
    let said = line(&mut log, "the changed file cannot be used").await?;
    assert_eq!(said["level"], "ERROR");
    ensure!(!said.to_string().contains("nonsense"), "{said}");
    assert_eq!(statuses(&node).await?, (200, 200), "the old keys stay");

    // The broken file was reported once; the next line about files is that of the signal.
    std::fs::write(&keys, key(OPS))?;
    node.signal("HUP")?;
    let said = line(&mut log, "").await?;
    assert_eq!(said["message"], "reloaded", "{said}");
    assert_eq!(statuses(&node).await?, (401, 200), "the old key is revoked");

    node.signal("TERM")?;
    ensure!(node.ended().await?.success(), "SIGHUP ends nothing");
    Ok(())
}
