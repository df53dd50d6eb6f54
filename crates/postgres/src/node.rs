//! Nodes: which starts of which ids there are, and who lives.

use std::sync::PoisonError;

use fencepost_app::ports::{Beat, Holder, Peer, Reach, StoreError};
use fencepost_domain::ids::{Incarnation, NodeId};
use tokio_postgres::Row;

use crate::row::{column, corrupt};
use crate::statement::Params;
use crate::{PostgresStore, micros};

/// A failover may have lost the commits of later starts. The first start of a node after it leaps, as tokens do, so that no
/// incarnation that was lost is given again.
const JOIN: &str = "
INSERT INTO node (node_id, incarnation, url) SELECT $1, 1 + s.leap, $2 FROM store_identity s
ON CONFLICT (node_id) DO UPDATE
   SET incarnation = node.incarnation
                     + CASE WHEN node.heartbeat_at > (SELECT changed_at FROM store_identity) THEN 1
                            ELSE excluded.incarnation END,
       url = excluded.url, chains = '{}', heartbeat_at = clock_timestamp()
RETURNING incarnation";

/// A node that runs on after a failover which lost its start. A later start that the server knows of stands.
const REJOIN: &str = "
INSERT INTO node (node_id, incarnation, url) VALUES ($1, $2, $3)
ON CONFLICT (node_id) DO UPDATE
   SET incarnation = excluded.incarnation, url = excluded.url, heartbeat_at = clock_timestamp()
 WHERE node.incarnation < excluded.incarnation";

const BEAT: &str = "
WITH mine AS (
    UPDATE node SET heartbeat_at = clock_timestamp(), chains = $3
     WHERE node_id = $1 AND incarnation = $2
    RETURNING node_id
)
SELECT node_id, incarnation, url, CASE node_id WHEN $1 THEN $3 ELSE chains END AS chains
  FROM node
 WHERE node_id = $1 OR heartbeat_at > clock_timestamp() - $4::bigint * interval '1 microsecond'
 ORDER BY node_id";

/// A node counts as living for this many leases after its last beat.
const BEATS: u32 = 3;

impl PostgresStore {
    /// A lost reply costs an incarnation, which is harmless: numbers need only grow.
    pub(crate) async fn join_node(
        &self,
        node: &NodeId,
        url: &str,
    ) -> Result<Incarnation, StoreError> {
        let rows = self
            .connections
            .write_plain(JOIN, &[&node.as_str(), &url])
            .await?;
        let row = rows.first().ok_or_else(|| corrupt("incarnation"))?;
        let incarnation = Incarnation::from_column(column(row, "incarnation")?)?;
        let mut joined = self.joined.lock().unwrap_or_else(PoisonError::into_inner);
        *joined = Some(url.to_owned());
        Ok(incarnation)
    }

    fn joined_url(&self) -> Option<String> {
        let joined = self.joined.lock().unwrap_or_else(PoisonError::into_inner);
        joined.clone()
    }

    /// After a failover, before anything else is said to the new server.
    pub(crate) async fn rejoin(&self, holder: &Holder) -> Result<(), StoreError> {
        let memory = &self.connections.memory;
        let Some(url) = self.joined_url() else {
            return Ok(());
        };
        if !memory.set_unjoined(false) {
            return Ok(());
        }
        let (node, incarnation) = (holder.node.as_str(), holder.incarnation.column());
        let params: Params<'_> = &[&node, &incarnation, &url];
        if let Err(error) = self.connections.write_plain(REJOIN, params).await {
            memory.set_unjoined(true);
            return Err(error);
        }
        Ok(())
    }

    pub(crate) async fn beat_node(
        &self,
        holder: &Holder,
        chains: &[Reach],
    ) -> Result<Beat, StoreError> {
        let chains: Vec<i64> = chains.iter().map(|reach| reach.column()).collect();
        let me = holder.node.as_str();
        let living = micros(self.terms().duration * BEATS);
        let incarnation = holder.incarnation.column();
        let rows = self
            .connections
            .write_plain(BEAT, &[&me, &incarnation, &chains, &living])
            .await?;
        let peers = rows.iter().map(peer).collect::<Result<Vec<_>, _>>()?;
        let stored = peers.iter().find(|peer| peer.node == holder.node);
        match stored.map(|peer| peer.incarnation) {
            None => Err(StoreError::Invalid(format!("node {me} never joined"))),
            Some(newer) if newer > holder.incarnation => Ok(Beat::Ghost(newer)),
            Some(_) => Ok(Beat::Alive(peers)),
        }
    }
}

fn peer(row: &Row) -> Result<Peer, StoreError> {
    let node: String = column(row, "node_id")?;
    let chains: Vec<i64> = column(row, "chains")?;
    Ok(Peer {
        node: NodeId::new(node).map_err(|_| corrupt("node_id"))?,
        incarnation: Incarnation::from_column(column(row, "incarnation")?)?,
        url: column(row, "url")?,
        chains: chains
            .into_iter()
            .map(Reach::from_column)
            .collect::<Result<_, _>>()?,
    })
}
