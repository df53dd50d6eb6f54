//! The chain that transactions are sent to: a devchain in a process of its own, so that what it costs is
//! neither the node's nor the generator's.

use anyhow::Result;

/// Serves.
pub async fn serve() -> Result<()> {
    Ok(())
}
