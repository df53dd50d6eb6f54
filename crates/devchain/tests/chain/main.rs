//! The dev chain against the rules it copies, the faults it promises and the clients it is for.

#![allow(clippy::unwrap_used)] // A test may stop at any surprise.

mod world;
mod admission;
mod mining;
mod execution;
mod reorg;
mod rivals;
mod replay;
mod views;
mod faults;
mod shapes;
mod requests;
mod control;
mod carried;
mod http;
mod limits;
