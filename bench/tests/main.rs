//! The laboratory in small, in one program: the machines are compiled once. What times
//! real processes has a program of its own, so that nothing runs beside it.

mod arbitrary_states;
mod chaos;
mod clean_start;
mod figures;
mod heal;
mod relay_worlds;
mod single_faults;
mod small_worlds;
