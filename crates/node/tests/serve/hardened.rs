//! What a node keeps from the other processes and users of its machine.

use std::fs::Permissions;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;
use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use tokio::io::sink;
use tokio::process::Command;

use super::process::{Home, Node, run};

/// A user that is not root; the kernel keeps nothing from root.
const USER: u32 = 65_534;

/// A node of that user (where the test does not run as root: of the same user), started under a umask that hides nothing.
async fn serve(home: &Home) -> Result<Node> {
    // The user may not be allowed to reach the place where the program was built.
    let program = home.path().join("fencepost");
    std::fs::copy(env!("CARGO_BIN_EXE_fencepost"), &program)?;
    std::fs::set_permissions(&program, Permissions::from_mode(0o755))?;
    let mut command = Command::new("sh");
    command
        .args(["-c", "umask 000 && exec \"$0\" serve --config \"$1\""])
        .args([&program, Path::new(&home.config())])
        .stdin(Stdio::null())
        .kill_on_drop(true);
    if is_root()? {
        for path in [home.path(), Path::new(&home.config())] {
            chown(path, Some(USER), Some(USER))?;
        }
        command.uid(USER).gid(USER);
    }
    let (node, mut log) = Home::serve_by(&mut command).await?;
    tokio::spawn(async move { tokio::io::copy(&mut log, &mut sink()).await });
    Ok(node)
}

fn is_root() -> Result<bool> {
    Ok(std::fs::metadata("/proc/self")?.uid() == 0)
}

fn mode(path: &Path) -> Result<u32> {
    let about = std::fs::metadata(path).with_context(|| path.display().to_string())?;
    Ok(about.mode() & 0o777)
}

/// The files of a process's memory and environment are root's when no other process may look, and its user's
/// when debuggers may.
fn is_open_to_its_user(node: &Node) -> Result<bool> {
    Ok(std::fs::metadata(format!("/proc/{}/environ", node.pid()?))?.uid() != 0)
}

fn core_limit(node: &Node) -> Result<String> {
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", node.pid()?))?;
    let line = limits.lines().find(|line| line.starts_with("Max core"));
    Ok(line.context("a line")?.to_owned())
}

#[tokio::test]
async fn what_a_node_creates_is_its_users_alone_under_any_umask() -> Result<()> {
    let home = Home::new()?;
    let node = serve(&home).await?;
    let ours = ["fencepost", "fencepost.toml"];
    let mut seen = Vec::new();
    for entry in std::fs::read_dir(home.path())? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if !ours.contains(&name.as_str()) {
            ensure!(mode(&entry.path())? == 0o600, "{name}");
            seen.push(name);
        }
    }
    for name in ["fencepost.db", "fencepost.db-wal", "fencepost.db-shm"] {
        ensure!(seen.iter().any(|it| it == name), "{name} in {seen:?}");
    }
    drop(node);
    Ok(())
}

#[tokio::test]
async fn a_nodes_memory_and_environment_are_closed_to_its_own_user() -> Result<()> {
    let home = Home::new()?;
    let node = serve(&home).await?;
    ensure!(!is_open_to_its_user(&node)?, "environ is the user's");
    let limit = core_limit(&node)?;
    let numbers: Vec<&str> = limit.split_whitespace().skip(4).collect();
    assert_eq!(numbers[..2], ["0", "0"], "{limit}");
    drop(node);

    let home = Home::new()?;
    home.add("node.allow_core_dumps = true")?;
    let node = serve(&home).await?;
    ensure!(is_open_to_its_user(&node)?, "environ is not the user's");
    Ok(())
}

/// In one line that says what to do, before anything is opened; and `config check` says the same.
#[tokio::test]
async fn a_keys_file_that_others_can_read_is_refused() -> Result<()> {
    let home = Home::new()?;
    let keys = home.path().join("keys.toml");
    std::fs::write(&keys, "")?;
    std::fs::set_permissions(&keys, Permissions::from_mode(0o644))?;
    home.add(&format!("auth.keys_file = \"{}\"", keys.display()))?;
    let why = format!("run `chmod 600 {}`", keys.display());
    for command in [
        ["serve", "--config"].as_slice(),
        &["config", "check", "--config"],
    ] {
        let config = home.config();
        let arguments = [command, &[config.as_str()]].concat();
        let (code, said) = run(&arguments).await?;
        ensure!(code == Some(2) && said.contains(&why), "{code:?}: {said}");
    }
    ensure!(!home.has_store(), "a store was made");
    Ok(())
}
