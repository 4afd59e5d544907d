//! Measure and check Binomesh.

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    binomesh_bench::command::Arguments::parse().run()
}
