//! Measure and check Binomesh.

use std::process::ExitCode;

use clap::Parser;

// Buffers of received messages are often freed by another thread than the one that allocated them.
// The system's allocator takes locks for that: docs/speed.md.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    binomesh_bench::command::Arguments::parse().run()
}
