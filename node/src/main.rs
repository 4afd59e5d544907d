//! The `binomesh` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    binomesh::cli::main()
}
