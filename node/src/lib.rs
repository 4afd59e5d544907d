//! node
pub mod peer;
#[cfg(feature = "simulator")]
pub mod world;
