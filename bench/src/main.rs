//! binomesh-bench

fn main() {}
