//! Luck, all of it from one number. Each actor draws from a stream of its own, so that one more draw of
//! one actor does not change what the others do.

use std::time::Duration;

/// A stream of numbers (splitmix64).
#[derive(Debug, Clone)]
pub struct Rng(u64);

impl Rng {
    /// The stream of a seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(mix(seed ^ 0x6665_6e63_6570_6f73))
    }

    /// A stream of its own for someone. Does not move this one.
    #[must_use]
    pub fn of(&self, name: &str) -> Self {
        let mut state = self.0;
        for byte in name.bytes() {
            state = mix(state ^ u64::from(byte));
        }
        Self(state)
    }

    /// The next number.
    pub const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// A number below this one; 0 where there is none.
    pub const fn below(&mut self, n: u64) -> u64 {
        let drawn = self.next();
        if n == 0 { 0 } else { drawn % n }
    }

    /// A number from the first up to the second, that one among them.
    pub const fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    /// Yes, so often in a thousand.
    pub const fn chance(&mut self, per_mille: u64) -> bool {
        self.below(1_000) < per_mille
    }

    /// One of these, which are not none.
    pub fn pick<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        let count = u64::try_from(all.len()).expect("it is in memory");
        let at = usize::try_from(self.below(count)).expect("it is below a length");
        &all[at]
    }

    /// A place in something that has so many.
    pub fn place(&mut self, len: usize) -> usize {
        let count = u64::try_from(len).expect("it is in memory");
        usize::try_from(self.below(count)).expect("it is below a length")
    }

    /// A time from the first up to the second, in milliseconds.
    pub const fn millis(&mut self, low: u64, high: u64) -> Duration {
        Duration::from_millis(self.between(low, high))
    }

    /// So many bytes for an id.
    pub fn bytes(&mut self) -> [u8; 10] {
        let mut bytes = [0; 10];
        bytes[..8].copy_from_slice(&self.next().to_be_bytes());
        bytes[8..].copy_from_slice(&self.next().to_be_bytes()[..2]);
        bytes
    }
}

const fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_of_its_own_is_not_moved_by_draws_of_others() {
        let mut root = Rng::new(7);
        let mut before = root.of("miner");
        let drawn: Vec<u64> = (0..4).map(|_| before.next()).collect();
        let mut other = root.of("client");
        assert_ne!(other.next(), drawn[0]);
        let mut again = root.of("miner");
        assert_eq!((0..4).map(|_| again.next()).collect::<Vec<_>>(), drawn);
        root.next();
        assert_ne!(root.of("miner").next(), drawn[0]);
    }
}
