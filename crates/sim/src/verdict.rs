//! The last look: store, chain, feed and what clients were told are one story.

use crate::ledger::Told;
use crate::world::World;

/// Looks at everything once more, from the beginning.
pub(crate) async fn check(world: &World) {
    world.look_at_chain().await;
    told(world);
}

/// I6: what was acked is there, what was refused is not.
fn told(world: &World) {
    let tries: Vec<_> = world
        .ledger()
        .tries
        .iter()
        .map(|(tx, told)| (*tx, *told))
        .collect();
    for (tx, told) in tries {
        let is_there = world.checker().rows.contains_key(&tx);
        if told == Told::Refused && is_there {
            world.violate("I6 refused is not stored", format!("{tx:?} is there"));
        }
    }
}
