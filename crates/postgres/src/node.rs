//! Nodes: which starts of which ids there are, and who lives.

use fencepost_app::ports::{Beat, Holder, Peer, StoreError};
use fencepost_domain::ids::{ChainId, Incarnation, NodeId};
use tokio_postgres::Row;

use crate::row::{column, corrupt};
use crate::{PostgresStore, micros};

const JOIN: &str = "
INSERT INTO node (node_id, incarnation, url) VALUES ($1, 1, $2)
ON CONFLICT (node_id) DO UPDATE
   SET incarnation = node.incarnation + 1, url = excluded.url, chains = '{}',
       heartbeat_at = clock_timestamp()
RETURNING incarnation";

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
        Ok(Incarnation::from_column(column(row, "incarnation")?)?)
    }

    pub(crate) async fn beat_node(
        &self,
        holder: &Holder,
        chains: &[ChainId],
    ) -> Result<Beat, StoreError> {
        let chains: Vec<i64> = chains.iter().map(|chain| chain.column()).collect();
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
            .map(ChainId::from_column)
            .collect::<Result<_, _>>()?,
    })
}
