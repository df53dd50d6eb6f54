//! The adapter on a chain that keeps its rules, in virtual time and without sockets: what is told of
//! nonces and money is what the chain holds, as far as its endpoints let anyone see it.

#![allow(clippy::unwrap_used)] // A test may stop at any surprise.

mod devchain {
    mod bench;

    mod consumer;
    mod money;
}
