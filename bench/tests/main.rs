//! Small runs of the laboratory share one test program, which saves compile time. Tests that
//! time real processes have their own programs, so that no other test runs beside them.

mod arbitrary_states;
mod chaos;
mod clean_start;
mod clique_worlds;
mod collective_worlds;
mod documents;
mod figures;
mod graph_worlds;
mod heal;
mod relay_worlds;
mod schedules;
mod single_faults;
mod small_worlds;
mod texts;
