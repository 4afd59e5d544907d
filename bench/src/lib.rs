//! The laboratory of Binomesh. It runs the overlay's own machines in a flat arena of a million
//! processes and in a model checker, and has the commands that print their findings. It also has
//! the graphs that the overlay is compared with, and draws the dashboards of a real cluster.
//!
//! Nothing here re-implements a protocol: the rules that run are those of
//! `binomesh-overlay`, line for line.
//!
//! ```
//! use binomesh_bench::topology::{Name, Topology};
//! use binomesh_overlay::Population;
//! use binomesh_routing::sibling_tree::Fanout;
//!
//! // How many links a member of a binomial graph of 1,024 has.
//! let members = Population::new(1024).unwrap();
//! let graph = Topology::new(Name::Bmg, members, Fanout::TWO);
//! assert_eq!(graph.degree(), 19);
//! ```

#![expect(
    rustdoc::broken_intra_doc_links,
    reason = "papers are cited by their keys in brackets, which rustdoc takes for links"
)]

pub mod arena;
pub mod checker;
pub mod command;
pub mod dashboards;
pub mod figure;
pub mod hosts;
pub mod parallel;
pub mod record;
pub mod topology;
