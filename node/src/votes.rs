//! The votes of collectives in which this node's lives have taken part: a file in the state folder,
//! written before each vote and read by the next life.
//!
//! ```text
//!   votes    kernel 7c6b…      which start of the host wrote it
//!            12 job-7          generation and name, the greatest counts
//! ```
//!
//! A line is written but not forced to the disk: it outlives the process, but not always the host.
//! So a file that another start of the host wrote counts as lost, and stays so, see
//! [`binomesh_routing::collective::lives`]. The entries of a lost
//! record are not kept.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use binomesh_routing::collective::lives::Record;
use binomesh_routing::collective::{Key, Name};

/// This word after the id of the host's start says that an earlier record was lost.
const LOST: &str = "lost";

/// The length in bytes above which the file is written again, with only the greatest generations.
const COMPACT_BYTES: u64 = 1 << 20;

/// Why the record of votes could not be read or written.
#[derive(Debug, thiserror::Error)]
#[error("cannot {doing} {path}: {source}", path = .path.display())]
pub struct VotesError {
    doing: &'static str,
    path: PathBuf,
    source: io::Error,
}

/// The record of votes of one node.
#[derive(Debug)]
pub(crate) struct Votes {
    path: PathBuf,
    file: File,
    length: u64,
    /// Whether an earlier record was lost.
    is_lost: bool,
    greatest: BTreeMap<Name, u64>,
}

impl Votes {
    /// Read the votes that former lives have recorded in `dir`, and write the file anew. `returns`
    /// says whether there was a former life: if so, a missing file counts as a lost record.
    pub(crate) fn open(dir: &Path, returns: bool) -> Result<(Self, Record), VotesError> {
        Self::open_on(dir, returns, &kernel())
    }

    fn open_on(dir: &Path, returns: bool, kernel: &str) -> Result<(Self, Record), VotesError> {
        let path = dir.join("votes");
        let failed = |doing| {
            let path = path.clone();
            move |source| VotesError {
                doing,
                path,
                source,
            }
        };
        let text = match fs::read_to_string(&path) {
            Ok(text) => Some(text),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(failed("read")(error)),
        };
        let read = text.as_deref().map(read).transpose();
        let read = read.map_err(failed("use the record of votes in"))?;
        let (former_kernel, was_lost, mut greatest) = read.unwrap_or_default();
        // A record that was lost once stays lost, also for later lives.
        let is_other = former_kernel != kernel || kernel.is_empty();
        let is_lost = returns && (is_other || text.is_none() || was_lost);
        if is_lost {
            greatest.clear();
        }
        let record = match is_lost {
            true => Record::Lost,
            false => Record::Kept(greatest.clone()),
        };
        let (file, length) =
            write_anew(&path, kernel, is_lost, &greatest).map_err(failed("write"))?;
        let votes = Self {
            path,
            file,
            length,
            is_lost,
            greatest,
        };
        Ok((votes, record))
    }

    /// Record that this life takes part in the vote on an operation.
    pub(crate) fn record(&mut self, key: &Key) -> Result<(), VotesError> {
        let greatest = self.greatest.entry(key.name.clone()).or_default();
        if key.generation < *greatest {
            return Ok(());
        }
        *greatest = key.generation;
        self.write(key).map_err(|source| VotesError {
            doing: "write",
            path: self.path.clone(),
            source,
        })
    }

    fn write(&mut self, key: &Key) -> io::Result<()> {
        if self.length > COMPACT_BYTES {
            (self.file, self.length) =
                write_anew(&self.path, &kernel(), self.is_lost, &self.greatest)?;
            return Ok(());
        }
        let line = format!("{} {}\n", key.generation, key.name);
        self.length += line.len() as u64;
        self.file.write_all(line.as_bytes())
    }
}

/// The id of this start of the host; empty where the kernel does not tell it.
fn kernel() -> String {
    let told = fs::read_to_string("/proc/sys/kernel/random/boot_id");
    told.unwrap_or_default().trim().to_owned()
}

fn read(text: &str) -> io::Result<(String, bool, BTreeMap<Name, u64>)> {
    let bad = |line: &str| {
        let line: String = line.chars().take(64).collect();
        io::Error::other(format!(
            "the line {line:?} is not a generation and a name; remove the file, and this node \
             votes again as soon as the other members know that it has forgotten its votes"
        ))
    };
    let mut lines = text.split_inclusive('\n');
    let first = lines.next().unwrap_or_default();
    let first = first.strip_prefix("kernel ").ok_or_else(|| bad(first))?;
    let (kernel, was_lost) = match first.trim().strip_suffix(LOST) {
        Some(kernel) => (kernel.trim(), true),
        None => (first.trim(), false),
    };
    let mut greatest = BTreeMap::new();
    for line in lines {
        // A process that ended while it wrote this line has not voted.
        let Some(line) = line.strip_suffix('\n') else {
            break;
        };
        let (generation, name) = line.split_once(' ').ok_or_else(|| bad(line))?;
        let generation: u64 = generation.parse().map_err(|_| bad(line))?;
        let name: Name = name.parse().map_err(|_| bad(line))?;
        let known = greatest.entry(name).or_insert(generation);
        *known = generation.max(*known);
    }
    Ok((kernel.to_owned(), was_lost, greatest))
}

fn write_anew(
    path: &Path,
    kernel: &str,
    is_lost: bool,
    greatest: &BTreeMap<Name, u64>,
) -> io::Result<(File, u64)> {
    let lost = if is_lost { LOST } else { "" };
    let mut text = format!("kernel {kernel} {lost}\n");
    for (name, generation) in greatest {
        text += &format!("{generation} {name}\n");
    }
    let new = path.with_extension("new");
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    let mut file = options.open(&new)?;
    file.write_all(text.as_bytes())?;
    fs::rename(&new, path)?;
    Ok((file, text.len() as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str, generation: u64) -> Key {
        Key {
            name: name.parse().unwrap(),
            generation,
        }
    }

    fn kept(all: &[(&str, u64)]) -> Record {
        let all = all.iter();
        Record::Kept(all.map(|(n, g)| (n.parse().unwrap(), *g)).collect())
    }

    #[test]
    fn a_later_life_knows_the_greatest_generation_of_each_name() {
        let dir = tempfile::tempdir().unwrap();
        let (mut votes, record) = Votes::open_on(dir.path(), false, "k").unwrap();
        assert_eq!(record, kept(&[]));
        for (name, generation) in [("a b", 3), ("c", 9), ("a b", 4), ("c", 2)] {
            votes.record(&key(name, generation)).unwrap();
        }
        // The process was killed while it wrote.
        votes.file.write_all(b"77 half").unwrap();
        drop(votes);
        let (_, record) = Votes::open_on(dir.path(), true, "k").unwrap();
        assert_eq!(record, kept(&[("a b", 4), ("c", 9)]));
    }

    #[test]
    fn a_record_of_another_start_of_the_host_or_no_record_counts_as_lost() {
        let dir = tempfile::tempdir().unwrap();
        let (mut votes, _) = Votes::open_on(dir.path(), false, "k").unwrap();
        votes.record(&key("x", 7)).unwrap();
        let (votes, record) = Votes::open_on(dir.path(), true, "another").unwrap();
        assert_eq!(record, Record::Lost);
        assert!(votes.greatest.is_empty());
        let (_, record) = Votes::open_on(dir.path(), true, "another").unwrap();
        assert_eq!(record, Record::Lost);
        let (_, record) = Votes::open_on(dir.path(), true, "").unwrap();
        assert_eq!(record, Record::Lost);
        fs::remove_file(dir.path().join("votes")).unwrap();
        let (_, record) = Votes::open_on(dir.path(), true, "another").unwrap();
        assert_eq!(record, Record::Lost);
    }

    #[test]
    fn a_long_record_is_written_anew() {
        let dir = tempfile::tempdir().unwrap();
        let (mut votes, _) = Votes::open(dir.path(), false).unwrap();
        let long = "n".repeat(100);
        for generation in 0..(COMPACT_BYTES / 80) {
            votes.record(&key(&long, generation)).unwrap();
        }
        let length = fs::metadata(dir.path().join("votes")).unwrap().len();
        assert!(length < COMPACT_BYTES, "{length}");
        let (_, record) = Votes::open(dir.path(), true).unwrap();
        assert_eq!(record, kept(&[(&long, COMPACT_BYTES / 80 - 1)]));
    }

    #[test]
    fn a_file_that_is_no_record_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        for text in ["", "x\n", "kernel k\nthree job\n", "kernel k\n3\n"] {
            fs::write(dir.path().join("votes"), text).unwrap();
            assert!(Votes::open(dir.path(), true).is_err(), "{text:?}");
        }
    }
}
