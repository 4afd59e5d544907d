//! binomesh

fn main() {}
