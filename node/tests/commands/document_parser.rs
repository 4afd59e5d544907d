//! The shown parts of documents: lines of fenced blocks, code spans, and the commands in both.

use std::path::{Path, PathBuf};

/// A document of the repository, without its prose.
pub(crate) struct Document {
    /// The path of the document below the root of the repository.
    pub(crate) path: PathBuf,
    /// The lines of its fenced blocks.
    pub(crate) fenced: Vec<String>,
    /// The texts between backticks.
    pub(crate) spans: Vec<String>,
}

impl Document {
    fn read(root: &Path, path: &Path) -> Self {
        let text = std::fs::read_to_string(path).expect("readable");
        let (mut fenced, mut spans) = (Vec::new(), Vec::new());
        let mut is_inside = false;
        for line in text.lines() {
            if line.trim_start().starts_with("```") {
                is_inside = !is_inside;
            } else if is_inside {
                fenced.push(line.to_owned());
            } else {
                spans.extend(line.split('`').skip(1).step_by(2).map(str::to_owned));
            }
        }
        let path = path.strip_prefix(root).expect("below the root").to_owned();
        Self {
            path,
            fenced,
            spans,
        }
    }
}

/// The folder of the workspace.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("a workspace")
}

/// The documents in the root folder and below `docs`, in the order of their paths.
pub(crate) fn documents() -> Vec<Document> {
    let mut paths = Vec::new();
    for folder in ["", "docs", "docs/runbooks", "docs/measurements"] {
        for entry in std::fs::read_dir(root().join(folder)).expect("a folder") {
            let path = entry.expect("readable").path();
            if path.extension().is_some_and(|extension| extension == "md") {
                paths.push(path);
            }
        }
    }
    paths.sort();
    let read = |path: &PathBuf| Document::read(root(), path);
    paths.iter().map(read).collect()
}

/// Whether a word can name a command or one of its parts.
pub(crate) fn is_plain(word: &str) -> bool {
    !word.is_empty()
        && word
            .chars()
            .all(|letter| letter.is_ascii_lowercase() || letter == '-')
        && !word.starts_with('-')
}

/// A word without the quotes, brackets and marks at its ends.
fn bare(word: &str) -> String {
    word.trim_matches(|letter| "'\"(),;".contains(letter))
        .to_owned()
}

/// The words behind `program` in each of its commands: in fenced lines and code spans, and in
/// spans with flags that leave the program out and begin with one of `parts`.
pub(crate) fn commands(program: &str, parts: &[String], document: &Document) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    for line in document.fenced.iter().chain(&document.spans) {
        let words: Vec<&str> = line.split_whitespace().collect();
        for (at, word) in words.iter().enumerate() {
            let is_program = word.trim_start_matches(['\'', '"', '(', '.', '/']) == program;
            let behind = &words[at + 1..];
            let end = behind.iter().position(|word| word.ends_with(';'));
            let behind = &behind[..end.map_or(behind.len(), |end| end + 1)];
            let behind: Vec<String> = behind.iter().map(|word| bare(word)).collect();
            if is_program && behind.first().is_some_and(|next| is_plain(next)) {
                found.push(behind);
            }
        }
    }
    for span in document.spans.iter().filter(|span| span.contains(" --")) {
        let words: Vec<String> = span.split_whitespace().map(bare).collect();
        if words.first().is_some_and(|first| parts.contains(first)) {
            found.push(words);
        }
    }
    found
}

/// The long flags of a command, without their dashes and values. Words behind a bare `--`, a `#`, a
/// pipe or another such sign of a shell do not count.
pub(crate) fn flags(words: &[String]) -> Vec<String> {
    let own = words
        .iter()
        .take_while(|word| !["--", "|", "||", "&&", "#", "<", ">"].contains(&word.as_str()));
    let flags = own.filter_map(|word| word.strip_prefix("--"));
    flags
        .map(|flag| {
            let is_name = |letter: &char| letter.is_ascii_alphanumeric() || *letter == '-';
            flag.chars().take_while(is_name).collect()
        })
        .collect()
}
