//! What the operations guide says of the log is all that the log says.

use std::path::{Path, PathBuf};

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
fn each_warning_and_error_of_the_log_has_its_remedy_in_the_operations_guide() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("a workspace");
    let guide = std::fs::read_to_string(root.join("docs/operations.md")).expect("readable");
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
    for file in files {
        let text = std::fs::read_to_string(&file).expect("readable");
        for level in ["tracing::warn!(", "tracing::error!("] {
            for (at, _) in text.match_indices(level) {
                let call = &text[at..];
                let call = &call[..call.find(");\n").unwrap_or(call.len())];
                let texts = texts(call);
                calls += 1;
                let is_told = |text: &String| told.iter().any(|line| text.starts_with(line));
                if !texts.is_empty() && !texts.iter().any(is_told) {
                    missing.push(format!("{}: {texts:?}", file.display()));
                }
            }
        }
    }
    assert!(calls > 30, "{calls} calls");
    assert!(missing.is_empty(), "docs/operations.md lacks {missing:#?}");
}
