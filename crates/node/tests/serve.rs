//! A node as a real process: its life, its metrics, and the verbs that ask it.

#![allow(clippy::unwrap_used)] // A test may stop at any surprise.

mod serve {
    pub(crate) mod process;
    mod life;
    mod together;
    mod metrics;
    mod log;
    mod secrets;
    mod hardened;
    mod alerts;
    mod client;
    mod heard;
    mod keyed;
    mod reloading;
    mod auditing;
}
