//! Which store a node works on: whether it is the one that the node worked on before, and which of two servers of a
//! replicated store is the newer one.

use uuid::Uuid;

/// The name of a store. It keeps its name through failovers, dumps and restores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StoreId(pub Uuid);

/// One server of a replicated store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Server {
    /// The database system, the same for a primary and its standbys.
    pub system: i64,
    /// Each promotion begins the next one.
    pub timeline: i64,
    /// The random name that the first node gave the server: two standbys of one primary get the same timeline.
    pub era: Uuid,
}

/// What a store says of itself when a node starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundStore {
    /// Its name.
    pub id: StoreId,
    /// It holds no transaction and no lane in it has given a nonce.
    pub is_empty: bool,
    /// An operator has declared by `fencepost migrate --new-store` that it is meant to be new.
    pub is_declared: bool,
    /// The stores whose place it takes, as an operator has declared.
    pub replaces: Vec<StoreId>,
}

/// What the store is to a node that starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Meeting {
    /// The node worked on it before, or an operator has declared that it takes that store's place.
    Known,
    /// The node remembers another store. Requests that were paid there would be paid again here.
    Another(StoreId),
    /// The node remembers no store. Its lanes are compared with the chain before they give a nonce.
    First,
    /// As `First`, but the store is empty, and an operator has declared that it is meant to be.
    Declared,
}

/// Compares the store that a node has found with the one that it remembers.
#[must_use]
pub fn meet(remembered: Option<StoreId>, found: &FoundStore) -> Meeting {
    match remembered {
        Some(known) if known == found.id || found.replaces.contains(&known) => Meeting::Known,
        Some(known) => Meeting::Another(known),
        None if found.is_declared && found.is_empty => Meeting::Declared,
        None => Meeting::First,
    }
}

/// Whether a server was left behind by a failover, as far as timelines can tell. Timelines of different systems cannot be
/// compared.
#[must_use]
pub fn is_behind(system: i64, timeline: i64, newest: Server) -> bool {
    system == newest.system && timeline < newest.timeline
}

#[cfg(test)]
mod tests {
    use super::*;

    fn store(n: u128) -> StoreId {
        StoreId(Uuid::from_u128(n))
    }

    fn used(is_declared: bool) -> FoundStore {
        FoundStore {
            is_empty: false,
            ..found(&[], is_declared)
        }
    }

    fn found(replaces: &[u128], is_declared: bool) -> FoundStore {
        FoundStore {
            id: store(1),
            is_empty: true,
            is_declared,
            replaces: replaces.iter().map(|n| store(*n)).collect(),
        }
    }

    #[test]
    fn another_store_is_refused_until_it_is_declared_in_place_of_the_known_one() {
        for (remembered, found, expected) in [
            (None, found(&[], false), Meeting::First),
            (None, found(&[], true), Meeting::Declared),
            (None, found(&[7], true), Meeting::Declared),
            // Used since: it may be an old copy of itself.
            (None, used(true), Meeting::First),
            (Some(1), used(false), Meeting::Known),
            (Some(1), found(&[], false), Meeting::Known),
            (Some(7), found(&[], false), Meeting::Another(store(7))),
            // Declared as new for other nodes: this one still remembers another.
            (Some(7), found(&[8], true), Meeting::Another(store(7))),
            (Some(7), found(&[8, 7], true), Meeting::Known),
        ] {
            let said = format!("{remembered:?} {found:?}");
            assert_eq!(meet(remembered.map(store), &found), expected, "{said}");
        }
    }

    #[test]
    fn only_a_lower_timeline_of_the_same_system_is_behind() {
        let newest = Server {
            system: 5,
            timeline: 3,
            era: Uuid::nil(),
        };
        for (system, timeline, expected) in
            [(5, 2, true), (5, 3, false), (5, 4, false), (6, 1, false)]
        {
            assert_eq!(is_behind(system, timeline, newest), expected);
        }
    }
}
