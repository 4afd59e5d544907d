//! The checks of real clusters must be able to see red.
