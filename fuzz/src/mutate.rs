//! How inputs are changed: every other time as libFuzzer does, byte by byte, else by words. All that is
//! fuzzed here is text, in which a slip is a number too long, a word cut short or a sign too many, and
//! bytes thrown at random seldom make one of these.

use std::ops::Range;

use libfuzzer_sys::fuzzer_mutate;

/// Words that stand at an edge of what somewhere is allowed.
const EDGES: [&str; 24] = [
    "0",
    "1",
    "-1",
    "+1",
    "00",
    "01",
    "1e3",
    "1.5",
    "0x",
    "0x0",
    "0X1",
    "2147483648",
    "4294967296",
    "9007199254740993",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551616",
    "340282366920938463463374607431768211456",
    "115792089237316195423570985008687907853269984665640564039457584007913129639936",
    "null",
    "true",
    "\u{e9}",
    "%ff",
    "\\u0000",
];

/// Changes an input in place, by a seed, and tells its new size.
pub fn mutate(data: &mut [u8], size: usize, max_size: usize, seed: u32) -> usize {
    let mut dice = Dice(u64::from(seed));
    let words = words(&data[..size]);
    if words.is_empty() || dice.below(2) == 0 {
        return fuzzer_mutate(data, size, max_size);
    }
    let at = words[dice.below(words.len())].clone();
    let other = words[dice.below(words.len())].clone();
    let word = changed(&data[at.clone()], &data[other], &mut dice);
    let input = [&data[..at.start], &word, &data[at.end..size]].concat();
    if input.len() > max_size {
        return fuzzer_mutate(data, size, max_size);
    }
    data[..input.len()].copy_from_slice(&input);
    input.len()
}

fn changed(word: &[u8], other: &[u8], dice: &mut Dice) -> Vec<u8> {
    let place = dice.below(word.len());
    match dice.below(12) {
        0 => Vec::new(),
        1 => word[..1].to_vec(),
        2 => word[..place].to_vec(),
        3 => word[place..].to_vec(),
        4 => [&word[..place], &word[place + 1..]].concat(),
        5 => [word, word].concat(),
        6 => [b"0", word].concat(),
        7 => other.to_vec(),
        _ => EDGES[dice.below(EDGES.len())].as_bytes().to_vec(),
    }
}

/// Where the words are: letters, digits and what stands within numbers and names.
fn words(text: &[u8]) -> Vec<Range<usize>> {
    let mut words: Vec<Range<usize>> = Vec::new();
    for (at, byte) in text.iter().enumerate() {
        if !byte.is_ascii_alphanumeric() && byte.is_ascii() && !b"_-.".contains(byte) {
            continue;
        }
        match words.last_mut() {
            Some(word) if word.end == at => word.end += 1,
            Some(_) | None => words.push(at..at + 1),
        }
    }
    words
}

/// SplitMix64: the same seed, the same change.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let bound = u64::try_from(bound).expect("a size fits 64 bits");
        usize::try_from((mixed ^ (mixed >> 31)) % bound).expect("below a size")
    }
}
