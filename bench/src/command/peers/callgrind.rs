//! Counts of callgrind, a tool of valgrind.
//!
//! It counts the instructions of a program, without those of the kernel. Whenever a certain
//! function is entered, it writes down how many there were since the last time. Each such part is a
//! file.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use super::stretches::MARK;
use crate::command::Failure;

/// Run this program under callgrind with these arguments. Returns its output, and the number of
/// instructions of each part, in order. The last part has the instructions after the last mark.
pub(super) fn run(arguments: &[String], folder: &Path) -> Result<(String, Vec<u64>), Failure> {
    let (parts, log) = (folder.join("part"), folder.join("log"));
    let program = std::env::current_exe().map_err(Failure::run)?;
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--fair-sched=yes", "--dump-line=no"])
        .arg(format!("--dump-before=*{MARK}*"))
        .arg(format!("--callgrind-out-file={}", parts.display()))
        .arg(format!("--log-file={}", log.display()))
        .arg(program)
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| Failure::Run(format!("cannot run valgrind: {error}")))?;
    if !output.status.success() {
        return Err(failed(&output, &log));
    }
    let printed = String::from_utf8(output.stdout).map_err(Failure::run)?;
    Ok((printed, read_all(folder)?))
}

fn failed(output: &Output, log: &Path) -> Failure {
    let told = String::from_utf8_lossy(&output.stderr);
    let log = std::fs::read_to_string(log).unwrap_or_default();
    let log: Vec<&str> = log.lines().take(20).collect();
    Failure::Run(format!(
        "the benchmark failed under valgrind ({}): {}\n{}",
        output.status,
        told.trim(),
        log.join("\n")
    ))
}

/// The numbers of instructions of the parts in a folder, in the order of the parts.
fn read_all(folder: &Path) -> Result<Vec<u64>, Failure> {
    let mut parts = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(Failure::run)? {
        let path = entry.map_err(Failure::run)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with("part") {
            let text = std::fs::read_to_string(&path).map_err(Failure::run)?;
            let part = parse(&text);
            parts.push(part.ok_or_else(|| {
                Failure::Run(format!(
                    "the file {name} of valgrind holds no count of instructions"
                ))
            })?);
        }
    }
    parts.sort_unstable();
    Ok(parts.into_iter().map(|(_, count)| count).collect())
}

/// The number of a part, and its number of instructions.
fn parse(text: &str) -> Option<(u64, u64)> {
    let field = |name: &str| {
        let value = text.lines().find_map(|line| line.strip_prefix(name))?;
        value.trim().parse().ok()
    };
    // Other events may follow the instructions if valgrind's settings add them.
    let is_ir_alone = text.lines().any(|line| line == "events: Ir");
    Some((field("part: ")?, field("totals: ")?)).filter(|_| is_ir_alone)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PART: &str = "# callgrind format
version: 1
creator: callgrind-3.19.0
pid: 14228
part: 12

desc: Trigger: --dump-before=*
events: Ir
summary: 999

fn=(1) main
0 17

totals: 5381979
";

    #[test]
    fn a_part_has_a_number_and_its_instructions() {
        assert_eq!(parse(PART), Some((12, 5_381_979)));
        for line in ["part: 12\n", "totals: 5381979\n", "events: Ir\n"] {
            assert_eq!(parse(&PART.replace(line, "")), None, "without {line}");
        }
        let more = PART.replace("events: Ir\n", "events: Ir Dr\n");
        assert_eq!(parse(&more), None, "other events than instructions");
    }

    #[test]
    fn parts_are_in_the_order_of_their_numbers() {
        let folder = tempfile::tempdir().unwrap();
        for (name, number, count) in [("part", 11, 1), ("part.9", 9, 3), ("part.10", 10, 2)] {
            let text = PART.replace("part: 12", &format!("part: {number}"));
            let text = text.replace("5381979", &count.to_string());
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        std::fs::write(folder.path().join("log"), "==1== Callgrind").unwrap();
        assert_eq!(read_all(folder.path()).unwrap(), [3, 2, 1]);
    }
}
