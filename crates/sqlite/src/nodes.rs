//! Nodes: which start of a node id is the newest, and who beat lately.

use fencepost_app::ports::{Beat, Holder, Peer, Reach, StoreError};
use fencepost_domain::ids::{Corrupt, Incarnation, NodeId};
use rusqlite::params;

use crate::db::Db;
use crate::error::{Answer, broken};
use crate::row::{Cells, node};

/// More nodes than anyone runs on an embedded store; the list is read at each heartbeat.
const PEERS_MAX: i64 = 1_000;

pub(crate) fn join(db: &Db<'_>, id: &NodeId, url: &str) -> Answer<Incarnation> {
    db.run_one(
        "INSERT INTO node (node_id, incarnation, url, chains, heartbeat_at)
         VALUES (?1, 1, ?2, '', ?3)
         ON CONFLICT (node_id) DO UPDATE
         SET incarnation = incarnation + 1, url = excluded.url, chains = '',
            heartbeat_at = excluded.heartbeat_at",
        params![id.as_str(), url, db.now],
    )?;
    incarnation(db, id)?.ok_or_else(|| broken("a node that joined is not there"))
}

pub(crate) fn beat(db: &Db<'_>, holder: &Holder, chains: &[Reach]) -> Answer<Beat> {
    match incarnation(db, &holder.node)? {
        None => return Err(StoreError::Invalid("node never joined".to_owned()).into()),
        Some(newest) if newest > holder.incarnation => return Ok(Beat::Ghost(newest)),
        Some(_) => {}
    }
    let chains: Vec<String> = chains
        .iter()
        .map(|reach| reach.column().to_string())
        .collect();
    db.run_one(
        "UPDATE node SET heartbeat_at = ?2, chains = ?3 WHERE node_id = ?1",
        params![holder.node.as_str(), db.now, chains.join(",")],
    )?;
    let peers = db.all(
        "SELECT node_id, incarnation, url, chains FROM node WHERE heartbeat_at >= ?1
         ORDER BY node_id LIMIT ?2",
        params![db.quiet(), PEERS_MAX],
        |row| {
            let mut cells = Cells::of(row);
            Ok(Peer {
                node: node(cells.next()?)?,
                incarnation: Incarnation::from_column(cells.next()?)?,
                url: cells.next()?,
                chains: read_chains(&cells.next::<String>()?)?,
            })
        },
    )?;
    Ok(Beat::Alive(peers))
}

/// The newest start of a node id.
pub(crate) fn incarnation(db: &Db<'_>, id: &NodeId) -> Answer<Option<Incarnation>> {
    db.one(
        "SELECT incarnation FROM node WHERE node_id = ?1",
        [id.as_str()],
        |row| Ok(Incarnation::from_column(row.get(0)?)?),
    )
}

fn read_chains(list: &str) -> Answer<Vec<Reach>> {
    let corrupt = Corrupt { column: "chains" };
    let read = |id: &str| -> Answer<Reach> {
        let id: i64 = id.parse().map_err(|_| corrupt)?;
        Ok(Reach::from_column(id)?)
    };
    list.split(',')
        .filter(|id| !id.is_empty())
        .map(read)
        .collect()
}
