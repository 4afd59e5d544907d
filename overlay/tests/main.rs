//! The rules of tree, ring and fingers.

mod fingers;
mod ring_rules;
mod tree_rules;
