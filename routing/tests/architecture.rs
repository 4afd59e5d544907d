//! Limits on the structure of the relay, so that each of its parts can be read alone.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The most lines of a file, and the most methods of a type.
const MOST_LINES: usize = 400;
const MOST_METHODS: usize = 50;

/// The parts of the relay. Each part owns its state.
const PARTS: [&str; 10] = [
    "Relay",
    "Parts",
    "Origin",
    "Receiver",
    "Custody",
    "Delegator",
    "Sender",
    "Epochs",
    "Peers",
    "TreeLinks",
];

/// All files of the relay with their text.
fn files() -> Vec<(PathBuf, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut open = vec![root.join("relay.rs"), root.join("relay")];
    let mut files = Vec::new();
    while let Some(path) = open.pop() {
        if path.is_dir() {
            let entries = fs::read_dir(&path).unwrap();
            open.extend(entries.map(|entry| entry.unwrap().path()));
        } else {
            let text = fs::read_to_string(&path).unwrap();
            files.push((path, text));
        }
    }
    assert!(files.len() > 20, "the relay is elsewhere");
    files
}

/// The items of a text with their lines. `begins` returns the name of the item that begins with
/// a line.
fn items(text: &str, begins: impl Fn(&str) -> Option<String>) -> Vec<(String, Vec<&str>)> {
    let mut items: Vec<(String, Vec<&str>)> = Vec::new();
    let mut is_inside = false;
    for line in text.lines() {
        if let Some(name) = begins(line) {
            items.push((name, Vec::new()));
            is_inside = !line.ends_with('}') && !line.ends_with(';');
        } else if is_inside && let Some((_, lines)) = items.last_mut() {
            is_inside = !line.starts_with('}');
            lines.push(line);
        }
    }
    items
}

fn name_at_start(text: &str) -> String {
    let is_of_name = |c: &char| c.is_alphanumeric() || *c == '_';
    text.chars().take_while(is_of_name).collect()
}

#[test]
fn no_file_of_the_relay_is_long() {
    for (path, text) in files() {
        let lines = text.lines().count();
        assert!(lines <= MOST_LINES, "{}: {lines} lines", path.display());
    }
}

#[test]
fn no_part_has_many_methods() {
    let mut methods: BTreeMap<String, usize> = BTreeMap::new();
    for (_, text) in files() {
        let of_impl = |line: &str| {
            let rest = line.strip_prefix("impl")?;
            let after = rest
                .split_once("> ")
                .map_or(rest.trim_start(), |(_, after)| after);
            (!line.contains(" for ")).then(|| name_at_start(after))
        };
        for (name, lines) in items(&text, of_impl) {
            let is_method = |line: &&&str| {
                let line = line.strip_prefix("    ").unwrap_or_default();
                !line.starts_with(' ') && line.contains("fn ") && !line.starts_with("//")
            };
            *methods.entry(name).or_default() += lines.iter().filter(is_method).count();
        }
    }
    for part in PARTS.iter().filter(|part| **part != "Parts") {
        assert!(methods.get(*part).is_some_and(|count| *count > 0), "{part}");
    }
    for (name, count) in methods {
        assert!(count <= MOST_METHODS, "{name} has {count} methods");
    }
}

#[test]
fn each_part_keeps_its_fields_to_itself_and_none_takes_the_whole_relay() {
    let mut seen = 0;
    for (path, text) in files() {
        let of_struct = |line: &str| {
            let (before, after) = line.split_once("struct ")?;
            let is_item = before.is_empty() || before.starts_with("pub");
            is_item.then(|| name_at_start(after))
        };
        for (name, lines) in items(&text, of_struct) {
            if PARTS.contains(&name.as_str()) {
                seen += 1;
                let is_public = |line: &&&str| line.trim_start().starts_with("pub");
                assert_eq!(lines.iter().find(is_public), None, "{name}");
            }
        }
        assert!(!text.contains("&mut Relay<"), "{}", path.display());
    }
    assert_eq!(seen, PARTS.len());
}
