//! The rules of tree, ring and fingers.

mod clique;
mod fingers;
mod ring_rules;
mod tree_rules;
