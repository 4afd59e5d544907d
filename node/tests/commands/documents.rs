//! `docs/log.md` has all warnings and errors of the log. The files, tests, functions, commands and
//! flags that documents name exist.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::document_parser::{self, Document};
use super::ran;

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

/// The quoted texts in a macro call that have at least three words.
fn texts(call: &str) -> Vec<String> {
    let parts = call.split('"').skip(1).step_by(2);
    // A line that ends with a backslash goes on behind the blanks of the next line.
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
    // The beginnings of lines of the log, from the first column of the table.
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
            let path = path
                .strip_prefix(document_parser::root())
                .expect("below the root");
            found.push(path.display().to_string());
        }
    }
}

/// The files of the repository, and the path and text of each source.
struct Repository {
    files: Vec<String>,
    sources: Vec<(String, String)>,
}

impl Repository {
    const FOLDERS: [&str; 7] = [
        ".ci", "bench", "deploy", "docs", "node", "overlay", "routing",
    ];

    fn read() -> Self {
        let mut found = Vec::new();
        for folder in Self::FOLDERS {
            files(&document_parser::root().join(folder), &mut found);
        }
        let sources = found.iter().filter(|file| file.ends_with(".rs"));
        let read = |file: &String| std::fs::read_to_string(document_parser::root().join(file));
        let sources = sources.map(|file| (file.clone(), read(file).expect("readable")));
        Self {
            sources: sources.collect(),
            files: found,
        }
    }

    fn has_file(&self, end: &str) -> bool {
        let end = format!("/{end}");
        self.files
            .iter()
            .any(|file| format!("/{file}").ends_with(&end))
    }

    fn contains(&self, text: &str) -> bool {
        self.sources.iter().any(|(_, source)| source.contains(text))
    }

    /// Whether a module has a function or a module whose name contains `name`.
    fn has_item(&self, module: &str, name: &str) -> bool {
        let inline = format!("mod {module} {{");
        let is_of = |(path, text): &&(String, String)| {
            path.split(['/', '.']).any(|part| part == module) || text.contains(&inline)
        };
        let is_item = |line: &str| {
            let defined = ["fn ", "mod "]
                .iter()
                .filter_map(|kind| line.split_once(kind));
            let mut names = defined.map(|(_, rest)| rest.split(['(', '<', ' ', ';']).next());
            names.any(|defined| defined.is_some_and(|defined| defined.contains(name)))
        };
        let mut modules = self.sources.iter().filter(is_of);
        modules.any(|(_, text)| text.lines().any(is_item))
    }

    /// Whether the thing that a code span names exists. A span that looks like no name passes.
    fn has(&self, span: &str) -> bool {
        let first = span.split(' ').next().unwrap_or_default();
        let folder = first.split('/').next().unwrap_or_default();
        if first.contains(['*', '…']) || first.starts_with('/') {
            // The span is a pattern, or a file of a host.
            return true;
        }
        if first.contains('/') && Self::FOLDERS.contains(&folder) {
            return document_parser::root().join(first).exists();
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
            return self.contains(&format!("fn {name}"));
        }
        if let Some((modules, last)) = span.rsplit_once("::") {
            let module = modules.rsplit("::").next().unwrap_or_default();
            let is_word = |letter: &char| letter.is_ascii_alphanumeric() || *letter == '_';
            let name: String = last.chars().take_while(is_word).collect();
            return match is_lower {
                true => self.has_item(module, &name),
                false => self.contains(&name),
            };
        }
        let is_long = span.matches('_').count() >= 3 && !span.starts_with("binomesh_");
        !(is_lower && is_long) || self.contains(span)
    }
}

/// The items in a line of a document that are named behind their module, with the module.
fn items_behind_modules(line: &str) -> Vec<(String, String)> {
    let parts: Vec<&str> = line.split('`').collect();
    let mut found = Vec::new();
    let mut module = None;
    // The parts with even numbers stand between the spans.
    for at in (1..parts.len()).step_by(2) {
        module = match (parts[at - 1], module) {
            (": ", _) if at > 2 => Some(parts[at - 2]),
            (", ", module) => module,
            _ => None,
        };
        if let Some(module) = module {
            found.push((module.to_owned(), parts[at].to_owned()));
        }
    }
    found
}

#[test]
fn items_are_found_behind_their_module() {
    let line = "| of `x` | (`book`: `one_name`, `other`; `later`), `y::z`: `third` |";
    let found = [("book", "one_name"), ("book", "other"), ("y::z", "third")];
    let found = found.map(|(module, item)| (module.to_owned(), item.to_owned()));
    assert_eq!(items_behind_modules(line), found);
}

#[test]
fn files_tests_and_functions_that_documents_name_exist() {
    let repository = Repository::read();
    let (mut seen, mut behind, mut missing) = (0, 0, Vec::new());
    for Document { path, spans, .. } in document_parser::documents() {
        let text = std::fs::read_to_string(document_parser::root().join(&path));
        let text = text.expect("readable");
        let items: Vec<_> = text.lines().flat_map(items_behind_modules).collect();
        (seen, behind) = (seen + spans.len(), behind + items.len());
        let unknown = spans.iter().filter(|span| !repository.has(span));
        missing.extend(unknown.map(|span| format!("{}: {span}", path.display())));
        for (modules, item) in items {
            let module = modules.rsplit("::").next().unwrap_or_default();
            let is_name =
                |letter: char| letter.is_ascii_lowercase() || "_0123456789".contains(letter);
            let is_item = item.contains('_') && item.chars().all(is_name);
            if is_item && !repository.has_item(module, &item) {
                missing.push(format!("{}: {modules}: {item}", path.display()));
            }
        }
    }
    assert!(seen > 1000, "{seen} code spans");
    assert!(behind > 50, "{behind} items behind their modules");
    assert!(missing.is_empty(), "{missing:#?}");
}

#[test]
fn links_between_documents_lead_somewhere() {
    let mut missing = Vec::new();
    for Document { path, .. } in document_parser::documents() {
        let path = document_parser::root().join(path);
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

/// The help text of a command, or nothing if there is no such command.
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
        .filter(|part| document_parser::is_plain(part))
        .map(str::to_owned)
        .collect();
    assert!(parts.len() > 12, "{parts:?}");
    let (mut helps, mut seen, mut missing) = (BTreeMap::new(), 0, Vec::new());
    for document in document_parser::documents() {
        for words in document_parser::commands("binomesh", &parts, &document) {
            seen += 1;
            // The second word may be the name of a message or of a collective.
            let names = words
                .iter()
                .take_while(|word| document_parser::is_plain(word));
            let names: Vec<String> = names.take(2).cloned().collect();
            let path = document.path.display();
            let known = parts.contains(&names[0]);
            let help = helps
                .entry(names.clone())
                .or_insert_with(|| help(&names).unwrap_or_default());
            for flag in document_parser::flags(&words) {
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
