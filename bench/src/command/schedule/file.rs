//! Files of `binomesh-bench schedule`: graphs and schedules are read, and results written.

use std::path::Path;

use binomesh_routing::schedule::{Schedule, Topology};

use crate::command::Failure;

/// The most bytes of a graph's or schedule's file.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// A graph by its name. For a name `file:PATH`, the graph is made from the edges in that file.
pub(in crate::command) fn topology(name: &str) -> Result<Topology, Failure> {
    let built = match name.strip_prefix("file:") {
        Some(path) => Topology::from_edges(name, &read("--graph", Path::new(path))?),
        None => Topology::generate(name),
    };
    built.map_err(|error| Failure::Usage(format!("--graph: {error}")))
}

/// Check that a file can be written. An existing file is left as it is, and no new file remains.
pub(super) fn check_writable(flag: &str, file: &Path) -> Result<(), Failure> {
    let is_new = !file.exists();
    let mut options = std::fs::OpenOptions::new();
    let opened = options.append(true).create(true).open(file).map(drop);
    let checked = match is_new {
        true => opened.and_then(|()| std::fs::remove_file(file)),
        false => opened,
    };
    checked.map_err(|error| Failure::Usage(unwritable(flag, file, &error)))
}

pub(super) fn write(flag: &str, file: &Path, text: &str) -> Result<(), Failure> {
    let written = std::fs::write(file, text);
    written.map_err(|error| Failure::Run(unwritable(flag, file, &error)))
}

fn unwritable(flag: &str, file: &Path, error: &std::io::Error) -> String {
    let file = file.display();
    format!("{flag} {file}: {error}; name a file that can be written")
}

pub(super) fn read_schedule(flag: &str, file: &Path) -> Result<Schedule, Failure> {
    let text = read(flag, file)?;
    serde_json::from_str(&text).map_err(|error| {
        let file = file.display();
        Failure::Usage(format!(
            "{flag} {file}: {error}; name a file that --out has written"
        ))
    })
}

fn read(flag: &str, file: &Path) -> Result<String, Failure> {
    let refuse = |reason: String| {
        let file = file.display();
        Failure::Usage(format!("{flag} {file}: {reason}"))
    };
    let about = std::fs::metadata(file);
    let about = about.map_err(|error| refuse(format!("{error}; name a file that can be read")))?;
    if !about.is_file() {
        return Err(refuse("it is not a regular file; name a file".to_owned()));
    }
    if about.len() > FILE_BYTES_MAX {
        return Err(refuse(
            "the file is too large; name a file of at most 64 MiB".to_owned(),
        ));
    }
    let text = std::fs::read_to_string(file);
    text.map_err(|error| refuse(format!("{error}; name a file that can be read")))
}
