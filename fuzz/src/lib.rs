//! What the fuzz targets share: a node with its API in one thread and in virtual time, so that an
//! input gives the same answer each time it is tried.

pub mod call;
pub mod chain;
pub mod mutate;
pub mod reply;
pub mod said;
pub mod world;
