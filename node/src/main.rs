//! The `binomesh` command.

use std::process::ExitCode;

// A buffer that a node receives is often freed by another thread than the one that allocated it.
// The system's allocator takes locks for that, mimalloc does not: docs/speed.md.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    binomesh::cli::main()
}
