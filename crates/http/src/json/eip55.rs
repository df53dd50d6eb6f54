//! Addresses with their EIP-55 checksums. One costs a hash, and a busy node spells the same few addresses in all of
//! its answers: so each thread remembers those that it spelled last.

use std::cell::RefCell;

use fencepost_domain::Address;
use serde::Serializer;

/// What one spelling has.
const LETTERS: usize = 42;
/// A place for each last byte of an address: two that share it take each other's.
const PLACES: usize = 1 << u8::BITS;

type Letters = [u8; LETTERS];

thread_local! {
    static SPELLED: RefCell<Vec<Option<(Address, Letters)>>> = RefCell::new(vec![None; PLACES]);
}

/// Writes an address as a JSON text.
pub(super) fn write<S: Serializer>(address: &Address, serializer: S) -> Result<S::Ok, S::Error> {
    let letters = spelled(address);
    let text = str::from_utf8(&letters).expect("a checksum is written in letters and digits");
    serializer.serialize_str(text)
}

fn spelled(address: &Address) -> Letters {
    let place = usize::from(address.0[19]);
    SPELLED.with_borrow_mut(|spelled| match &spelled[place] {
        Some((known, letters)) if known == address => *letters,
        _ => {
            let mut letters = [0; LETTERS];
            let _ = address.to_checksum_raw(&mut letters, None);
            spelled[place] = Some((*address, letters));
            letters
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_that_share_a_place_keep_their_own_spelling() {
        let all = (0..=255_u8).flat_map(|first| [7, 8].map(|last| (first, last)));
        let all: Vec<Address> = all
            .map(|(first, last)| {
                let mut bytes = [0xab; 20];
                (bytes[0], bytes[19]) = (first, last);
                Address::from(bytes)
            })
            .collect();
        for address in all.iter().chain(all.iter().rev()) {
            // Once when it is new, once when it is remembered.
            for _ in 0..2 {
                assert_eq!(spelled(address), address.to_checksum(None).as_bytes());
            }
        }
    }
}
