//! Opening the keys of a node, and finding out which lanes they give.

use fencepost_app::directory::NewSeat;
use fencepost_domain::Address;
use fencepost_domain::ids::Lane;
use fencepost_signer::{KeySpec, Keyring};

use crate::config::problem::{Problem, Problems};
use crate::config::serving::Sender;

/// The lanes that a node may lead, each with its limit of transactions in flight and whether it signs.
pub(crate) type Lanes = Vec<NewSeat>;

/// Opens all keys, or says everything that is wrong with them.
pub(crate) async fn open(
    senders: &[Sender],
    keys: Option<Vec<KeySpec>>,
) -> Result<(Option<Keyring>, Lanes), Problems> {
    let Some(keys) = keys else {
        let written = senders.iter().map(|sender| Vec::from_iter(sender.address));
        let addresses: Vec<Vec<Address>> = written.collect();
        // Without endpoints nothing is signed here, and what gets a nonce waits for a node that has them:
        // which keys there are is that one's to know.
        return Ok((None, lanes(senders, &addresses, |_| true)));
    };
    let keyring = Keyring::open(keys).await.map_err(|errors| {
        let told = errors.iter().map(|error| {
            let path = format!("signer[{}]", error.position);
            Problem::new(path, error.flaw.to_string())
        });
        Problems(told.collect())
    })?;
    let lanes = lanes(senders, keyring.addresses(), |signer| keyring.signs(signer));
    Ok((Some(keyring), lanes))
}

fn lanes(senders: &[Sender], addresses: &[Vec<Address>], signs: impl Fn(Address) -> bool) -> Lanes {
    let mut lanes = Vec::new();
    for (sender, addresses) in senders.iter().zip(addresses) {
        for &signer in addresses {
            for &chain in &sender.chains {
                lanes.push(NewSeat {
                    lane: Lane { chain, signer },
                    max_in_flight: sender.max_in_flight,
                    signs: signs(signer),
                    start: sender.start,
                });
            }
        }
    }
    lanes
}

#[cfg(test)]
mod tests {
    use fencepost_app::directory::Start;
    use fencepost_domain::ids::ChainId;
    use fencepost_signer::KeySource;

    use super::*;

    const WATCHED: Address = Address::repeat_byte(0x11);

    fn sender(address: Option<Address>) -> Sender {
        Sender {
            address,
            chains: vec![ChainId::new(1).unwrap(), ChainId::new(5).unwrap()],
            max_in_flight: None,
            start: Start::default(),
        }
    }

    fn watched() -> KeySpec {
        KeySpec {
            source: KeySource::Watch,
            address: Some(WATCHED),
        }
    }

    async fn told(senders: &[Sender], keys: Option<Vec<KeySpec>>) -> (bool, Vec<(Address, bool)>) {
        let (keyring, lanes) = open(senders, keys).await.unwrap();
        let lanes = lanes.iter().map(|seat| (seat.lane.signer, seat.signs));
        (keyring.is_some(), lanes.collect())
    }

    #[tokio::test]
    async fn a_lane_signs_where_there_is_a_key_for_it() {
        let private = KeySpec {
            source: KeySource::Private("01".repeat(32).into()),
            address: None,
        };
        let remote = KeySpec {
            source: KeySource::Remote {
                url: "http://127.0.0.1:1".into(),
            },
            address: Some(Address::repeat_byte(0x22)),
        };
        let keys = vec![watched(), private, remote];
        let senders = [sender(Some(WATCHED)), sender(None), sender(None)];
        let (_, lanes) = told(&senders, Some(keys)).await;
        let signs: Vec<bool> = lanes.iter().map(|(_, signs)| *signs).collect();
        assert_eq!(signs, [false, false, true, true, true, true], "{lanes:?}");
    }

    #[tokio::test]
    async fn a_node_that_only_watches_has_a_keyring_all_the_same() {
        let (has_keyring, lanes) = told(&[sender(Some(WATCHED))], Some(vec![watched()])).await;
        assert!(has_keyring, "it follows what others have sent");
        assert_eq!(lanes, [(WATCHED, false); 2]);
    }

    /// It opens no keys, so it cannot tell, and must not keep requests from the node that signs.
    #[tokio::test]
    async fn a_node_without_endpoints_gives_nonces_to_all_of_its_signers() {
        let (has_keyring, lanes) = told(&[sender(Some(WATCHED))], None).await;
        assert!(!has_keyring);
        assert_eq!(lanes, [(WATCHED, true); 2]);
    }
}
