//! One seed is one story, to the byte: otherwise nothing that was found could be found again.

use fencepost_sim::{keys, run};

#[test]
fn the_same_seed_gives_the_same_trace() {
    let keys = keys();
    for seed in 1..=12 {
        let (first, second) = (run(seed, &keys, true), run(seed, &keys, true));
        assert!(first.trace.steps > 1_000, "seed {seed} does nothing");
        let lines = first.trace.all.iter().zip(&second.trace.all);
        for (one, other) in lines {
            assert_eq!(one, other, "seed {seed}");
        }
        assert_eq!(first.trace, second.trace, "seed {seed}");
        assert_eq!(first.violation, None, "seed {seed}");
    }
}

#[test]
fn another_seed_is_another_story() {
    let keys = keys();
    let (one, other) = (run(1, &keys, false), run(2, &keys, false));
    assert_ne!(one.trace.digest, other.trace.digest);
}
