//! The `binomesh` command.

use std::process::ExitCode;

// What a node receives is often freed by another thread than took it, for which the
// system's allocator takes locks: docs/speed.md.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    binomesh::cli::main()
}
