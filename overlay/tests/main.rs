//! The rules of tree, ring, fingers and clique.

mod clique;
mod fingers;
mod ring_rules;
mod tree_rules;
