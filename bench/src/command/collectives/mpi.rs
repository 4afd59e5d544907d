//! A barrier and an all-reduce by Open MPI over TCP: a program of a few lines, compiled and run
//! here.

use std::fs;
use std::process::Command;

use super::Row;
use crate::command::Failure;

const PROGRAM: &str = r#"
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}
int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int rank, rounds = atoi(argv[1]);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    double *times = malloc(rounds * sizeof(double));
    for (int what = 0; what < 2; what++) {
        for (int i = 0; i < rounds / 10 + 1; i++) MPI_Barrier(MPI_COMM_WORLD);
        double start = MPI_Wtime();
        for (int i = 0; i < rounds; i++) {
            double begin = MPI_Wtime();
            unsigned long long mine = rank, sum;
            if (what == 0) MPI_Barrier(MPI_COMM_WORLD);
            else MPI_Allreduce(&mine, &sum, 1, MPI_UNSIGNED_LONG_LONG, MPI_SUM, MPI_COMM_WORLD);
            times[i] = (MPI_Wtime() - begin) * 1e3;
        }
        double mean = (MPI_Wtime() - start) * 1e3 / rounds;
        qsort(times, rounds, sizeof(double), by_size);
        if (rank == 0)
            printf("%s %f %f %f\n", what ? "all-reduce" : "barrier", times[(rounds - 1) / 2],
                   times[(rounds - 1) * 99 / 100], mean);
    }
    MPI_Finalize();
}
"#;

/// Compile the program and run it with this many ranks.
pub(super) fn measure(ranks: u32, rounds: u32, broadcast_ms: f64) -> Result<Vec<Row>, Failure> {
    let folder = tempfile::tempdir().map_err(Failure::run)?;
    let (source, program) = (folder.path().join("mpi.c"), folder.path().join("mpi"));
    fs::write(&source, PROGRAM).map_err(Failure::run)?;
    let compiled = Command::new("mpicc")
        .args(["-O2", "-o"])
        .args([&program, &source])
        .output();
    let missing = "install the packages openmpi-bin, libopenmpi-dev and gcc, or leave out --mpi";
    let compiled = compiled.map_err(|e| Failure::Run(format!("mpicc: {e}; {missing}")))?;
    checked("mpicc", &compiled)?;
    let run = Command::new("mpirun")
        .args([
            "--allow-run-as-root",
            "--oversubscribe",
            "--bind-to",
            "none",
        ])
        .args([
            "--mca",
            "btl",
            "tcp,self",
            "--mca",
            "btl_tcp_if_include",
            "lo",
        ])
        .args([
            "--mca",
            "mpi_yield_when_idle",
            "1",
            "-n",
            &ranks.to_string(),
        ])
        .arg(&program)
        .arg(rounds.to_string())
        .output()
        .map_err(|e| Failure::Run(format!("mpirun: {e}; {missing}")))?;
    checked("mpirun", &run)?;
    let text = String::from_utf8_lossy(&run.stdout);
    let rows = text.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        let operation = match words.next()? {
            "barrier" => "barrier",
            "all-reduce" => "all-reduce",
            _ => return None,
        };
        let mut number = || words.next()?.parse::<f64>().ok();
        let (p50_ms, p99_ms, mean_ms) = (number()?, number()?, number()?);
        Some(Row {
            nodes: ranks,
            system: "openmpi",
            operation,
            bytes: if operation == "barrier" { 0 } else { 8 },
            rounds,
            p50_ms,
            p99_ms,
            mean_ms,
            ratio_to_broadcast: p50_ms / broadcast_ms,
        })
    });
    Ok(rows.collect())
}

fn checked(what: &str, output: &std::process::Output) -> Result<(), Failure> {
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let said: String = said.chars().take(2000).collect();
    Err(Failure::Run(format!("{what} failed: {said}")))
}
