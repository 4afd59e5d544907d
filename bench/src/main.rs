//! Measure and check Binomesh.

use std::process::ExitCode;

use clap::Parser;

// What a node receives is often freed by another thread than took it, for which the
// system's allocator takes locks: docs/speed.md.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    binomesh_bench::command::Arguments::parse().run()
}
