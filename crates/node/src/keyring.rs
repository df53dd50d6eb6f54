//! Opening the keys of a node, and finding out which lanes they give.

use fencepost_app::directory::NewSeat;
use fencepost_domain::Address;
use fencepost_domain::ids::Lane;
use fencepost_signer::{KeySpec, Keyring};

use crate::config::problem::{Problem, Problems};
use crate::config::serving::Sender;

/// The lanes that a node may lead, each with its limit of transactions in flight.
pub(crate) type Lanes = Vec<NewSeat>;

/// Opens all keys, or says everything that is wrong with them.
pub(crate) async fn open(
    senders: &[Sender],
    keys: Option<Vec<KeySpec>>,
) -> Result<(Option<Keyring>, Lanes), Problems> {
    let Some(keys) = keys else {
        let written = senders.iter().map(|sender| Vec::from_iter(sender.address));
        let addresses: Vec<Vec<Address>> = written.collect();
        return Ok((None, lanes(senders, &addresses)));
    };
    let keyring = Keyring::open(keys).await.map_err(|errors| {
        let told = errors.iter().map(|error| {
            let path = format!("signer[{}]", error.position);
            Problem::new(path, error.flaw.to_string())
        });
        Problems(told.collect())
    })?;
    let lanes = lanes(senders, keyring.addresses());
    Ok((Some(keyring), lanes))
}

fn lanes(senders: &[Sender], addresses: &[Vec<Address>]) -> Lanes {
    let mut lanes = Vec::new();
    for (sender, addresses) in senders.iter().zip(addresses) {
        for &signer in addresses {
            for &chain in &sender.chains {
                lanes.push(NewSeat {
                    lane: Lane { chain, signer },
                    max_in_flight: sender.max_in_flight,
                    signs: true,
                });
            }
        }
    }
    lanes
}
