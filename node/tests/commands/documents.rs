//! `docs/log.md` has all warnings and errors of the log, and what the documents name is there:
//! files, tests, functions, commands and flags.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::ran;
use super::shown::{self, Document};

pub(super) fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("readable").path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// The texts between quotes in a call of a macro, those with several words.
fn texts(call: &str) -> Vec<String> {
    let parts = call.split('"').skip(1).step_by(2);
    // A line that ends with a backslash goes on after the blanks of the next.
    let joined = parts.map(|part| {
        let lines = part.split("\\\n").enumerate();
        let lines = lines.map(|(number, line)| match number {
            0 => line,
            _ => line.trim_start(),
        });
        lines.collect::<String>()
    });
    joined.filter(|text| text.split(' ').count() > 2).collect()
}

#[test]
fn each_warning_and_error_of_the_log_has_its_remedy_in_the_guide() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("a workspace");
    let guide = std::fs::read_to_string(root.join("docs/log.md")).expect("readable");
    // The first words of each line of the table.
    let told: Vec<&str> = guide
        .lines()
        .filter_map(|line| line.strip_prefix("| `"))
        .flat_map(|line| line.split(" | ").take(1))
        .flat_map(|lines| lines.split("`, `"))
        .map(|line| line.trim_end_matches('`'))
        .collect();
    let mut files = Vec::new();
    for folder in ["overlay/src", "routing/src", "node/src"] {
        sources(&root.join(folder), &mut files);
    }
    let (mut calls, mut missing) = (0, Vec::new());
    let mut said: BTreeSet<&str> = BTreeSet::new();
    for file in files {
        let text = std::fs::read_to_string(&file).expect("readable");
        said.extend(told.iter().filter(|line| text.contains(**line)));
        for level in ["tracing::warn!(", "tracing::error!("] {
            for (at, _) in text.match_indices(level) {
                let call = &text[at..];
                let call = &call[..call.find(");\n").unwrap_or(call.len())];
                let texts = texts(call);
                calls += 1;
                for text in &texts {
                    said.extend(told.iter().filter(|line| text.starts_with(**line)));
                }
                let is_told = |text: &String| told.iter().any(|line| text.starts_with(line));
                if !texts.is_empty() && !texts.iter().any(is_told) {
                    missing.push(format!("{}: {texts:?}", file.display()));
                }
            }
        }
    }
    assert!(calls > 30, "{calls} calls");
    assert!(missing.is_empty(), "docs/log.md lacks {missing:#?}");
    let never: Vec<&&str> = told.iter().filter(|line| !said.contains(**line)).collect();
    assert!(never.is_empty(), "nobody says {never:#?}");
}

/// All files below a folder, as paths below the root of the repository.
fn files(folder: &Path, found: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("readable").path();
        if path.is_dir() {
            files(&path, found);
        } else {
            let path = path.strip_prefix(shown::root()).expect("below the root");
            found.push(path.display().to_string());
        }
    }
}

/// The files of the repository and the text of its sources.
struct Repository {
    files: Vec<String>,
    sources: String,
}

impl Repository {
    const FOLDERS: [&str; 7] = [
        ".ci", "bench", "deploy", "docs", "node", "overlay", "routing",
    ];

    fn read() -> Self {
        let mut found = Vec::new();
        for folder in Self::FOLDERS {
            files(&shown::root().join(folder), &mut found);
        }
        let sources = found.iter().filter(|file| file.ends_with(".rs"));
        let texts = sources.map(|file| std::fs::read_to_string(shown::root().join(file)));
        let sources = texts.map(|text| text.expect("readable")).collect();
        Self {
            files: found,
            sources,
        }
    }

    fn has_file(&self, end: &str) -> bool {
        let end = format!("/{end}");
        self.files
            .iter()
            .any(|file| format!("/{file}").ends_with(&end))
    }

    fn has_item(&self, name: &str) -> bool {
        ["fn ", "mod "]
            .iter()
            .any(|kind| self.sources.contains(&format!("{kind}{name}")))
    }

    /// Whether what a code span names is there, as far as the span looks like a name.
    fn has(&self, span: &str) -> bool {
        let first = span.split(' ').next().unwrap_or_default();
        let folder = first.split('/').next().unwrap_or_default();
        if first.contains(['*', '…']) || first.starts_with('/') {
            // A pattern, or a file of a host.
            return true;
        }
        if first.contains('/') && Self::FOLDERS.contains(&folder) {
            return shown::root().join(first).exists();
        }
        let ends = [".rs", ".sh", ".py", ".yml", ".pml", ".conf"];
        if ends.iter().any(|end| first.ends_with(end)) {
            return self.has_file(first);
        }
        if first != span {
            return true;
        }
        if span.contains("-nodes-seed-") {
            return self.has_file(&format!("{span}.json"));
        }
        let is_lower = span.chars().all(|letter| {
            letter.is_ascii_lowercase() || letter.is_ascii_digit() || "_:".contains(letter)
        });
        if let Some(function) = span.strip_suffix("()") {
            let name = function.rsplit("::").next().unwrap_or_default();
            return self.sources.contains(&format!("fn {name}"));
        }
        if let Some((_, last)) = span.rsplit_once("::") {
            let is_word = |letter: &char| letter.is_ascii_alphanumeric() || *letter == '_';
            let name: String = last.chars().take_while(is_word).collect();
            return match is_lower {
                true => self.has_item(&name),
                false => self.sources.contains(&name),
            };
        }
        let is_long = span.matches('_').count() >= 3 && !span.starts_with("binomesh_");
        !(is_lower && is_long) || self.sources.contains(span)
    }
}

#[test]
fn files_tests_and_functions_that_documents_name_exist() {
    let repository = Repository::read();
    let (mut seen, mut missing) = (0, Vec::new());
    for Document { path, spans, .. } in shown::documents() {
        seen += spans.len();
        let unknown = spans.iter().filter(|span| !repository.has(span));
        missing.extend(unknown.map(|span| format!("{}: {span}", path.display())));
    }
    assert!(seen > 1000, "{seen} code spans");
    assert!(missing.is_empty(), "{missing:#?}");
}

#[test]
fn links_between_documents_lead_somewhere() {
    let mut missing = Vec::new();
    for Document { path, .. } in shown::documents() {
        let path = shown::root().join(path);
        let text = std::fs::read_to_string(&path).expect("readable");
        for (at, _) in text.match_indices("](") {
            let target = &text[at + 2..];
            let target = &target[..target.find([')', '#']).unwrap_or(target.len())];
            let folder = path.parent().expect("a folder");
            if !target.starts_with("http") && !folder.join(target).exists() {
                missing.push(format!("{}: {target}", path.display()));
            }
        }
    }
    assert!(missing.is_empty(), "{missing:#?}");
}

/// What `--help` says of a command; nothing if there is no such command.
pub(super) fn help(words: &[String]) -> Option<String> {
    let mut words: Vec<&str> = words.iter().map(String::as_str).collect();
    words.push("--help");
    let output = ran(&words);
    let text = String::from_utf8(output.stdout).expect("words");
    output.status.success().then_some(text)
}

#[test]
fn commands_and_flags_that_documents_show_exist() {
    let overview = help(&[]).expect("a help");
    let parts = overview.lines().filter_map(|line| line.strip_prefix("  "));
    let parts = parts.filter_map(|line| line.split(' ').next());
    let parts: Vec<String> = parts
        .filter(|part| shown::is_plain(part))
        .map(str::to_owned)
        .collect();
    assert!(parts.len() > 12, "{parts:?}");
    let (mut helps, mut seen, mut missing) = (BTreeMap::new(), 0, Vec::new());
    for document in shown::documents() {
        for words in shown::commands("binomesh", &parts, &document) {
            seen += 1;
            // The second word may be the name of a message or of a collective.
            let names = words.iter().take_while(|word| shown::is_plain(word));
            let names: Vec<String> = names.take(2).cloned().collect();
            let path = document.path.display();
            let known = parts.contains(&names[0]);
            let help = helps
                .entry(names.clone())
                .or_insert_with(|| help(&names).unwrap_or_default());
            for flag in shown::flags(&words) {
                if !known || !help.contains(&format!("--{flag}")) {
                    missing.push(format!("{path}: {names:?} --{flag}"));
                }
            }
            if !known {
                missing.push(format!("{path}: {names:?}"));
            }
        }
    }
    assert!(seen > 80, "{seen} commands");
    assert!(missing.is_empty(), "{missing:#?}");
}
