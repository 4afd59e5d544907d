//! Error texts, log lines and help texts can be understood by a stranger, as far as the rules of
//! `sentences` can tell. `BINOMESH_TEXTS` names a folder for files with all these texts.

use std::path::PathBuf;

use super::document_parser;
use super::documents::{help, sources};
use super::literals::{Literal, literals};
use super::sentences::{self, Text};

/// Names of calls, functions and bindings around a text that a user reads as an error, as a part
/// of one, or as a warning of the log.
const ERRORS: [&str; 48] = [
    "DEAF",
    "EXAMPLE",
    "Err",
    "Error",
    "ErrorResponse",
    "Failure",
    "HostError",
    "REASONS",
    "START",
    "bad",
    "check_bootstrap",
    "error",
    "exists",
    "expected",
    "explained",
    "fail",
    "failed",
    "garbled",
    "give_up",
    "hint",
    "instead",
    "invalid",
    "lacks",
    "late",
    "map_err",
    "missing",
    "note",
    "note_duplicate",
    "ok_or",
    "ok_or_else",
    "own_remedy",
    "problem",
    "reason",
    "refusal",
    "refuse",
    "remedy",
    "said",
    "short",
    "surprised",
    "twice",
    "unopened",
    "unreadable",
    "unwritable",
    "unwritten",
    "usage",
    "warn",
    "weak",
    "wrong",
];
/// Names of calls and attributes around a text that no user reads.
const INTERNAL: [&str; 8] = [
    "arg",
    "assert",
    "command",
    "debug",
    "debug_assert",
    "expect",
    "panic",
    "unreachable",
];

fn is_error(literal: &Literal) -> bool {
    let is_one_of = |names: &[&str]| {
        let mut names_around = literal
            .around
            .iter()
            .flat_map(|around| around.split(['.', ':', '!', ' ']));
        names_around.any(|name| names.contains(&name))
    };
    // An empty text is an error text only directly in the brackets of `error`. Elsewhere it stands
    // for no text.
    match literal.text.is_empty() {
        true => literal.around.last().is_some_and(|name| name == "error"),
        false => is_one_of(&ERRORS) && !is_one_of(&INTERNAL),
    }
}

/// The literals of all crates outside of tests, with the file of each.
fn all_literals() -> Vec<(String, Literal)> {
    let mut files = Vec::new();
    for folder in ["overlay/src", "routing/src", "node/src", "bench/src"] {
        sources(&document_parser::root().join(folder), &mut files);
    }
    files.sort();
    let is_test = |file: &PathBuf| {
        let mut parts = file.iter().filter_map(|part| part.to_str());
        parts.any(|part| part == "tests" || part == "tests.rs")
    };
    let mut all = Vec::new();
    for file in files.iter().filter(|file| !is_test(file)) {
        let source = std::fs::read_to_string(file).expect("readable");
        let below = file.strip_prefix(document_parser::root());
        let below = below.expect("below the root").display().to_string();
        let found = literals(&source).into_iter();
        all.extend(found.map(|literal| (below.clone(), literal)));
    }
    all
}

/// The error texts of all crates.
fn errors() -> Vec<Text> {
    let all = all_literals().into_iter();
    let errors = all.filter(|(_, literal)| is_error(literal));
    let texts = errors.map(|(file, literal)| Text {
        origin: format!("{file}:{}", literal.line),
        text: sentences::filled(&literal.text),
    });
    texts.collect()
}

/// Each name in `ERRORS` is in use. Otherwise a function that is renamed would take its texts out
/// of the test.
#[test]
fn each_name_of_an_error_stands_around_a_text() {
    let all = all_literals();
    let is_around = |name: &&str| {
        let mut around = all.iter().flat_map(|(_, literal)| &literal.around);
        around.any(|around| around.split(['.', ':', '!', ' ']).any(|part| part == *name))
    };
    let unused: Vec<&str> = ERRORS.into_iter().filter(|name| !is_around(name)).collect();
    assert!(unused.is_empty(), "{unused:?}");
}

#[test]
fn errors_and_warnings_name_the_thing_in_plain_sentences() {
    let all = errors();
    // One or two words are a name, such as the label of a metric.
    let texts: Vec<Text> = all
        .into_iter()
        .filter(|text| text.text.is_empty() || text.text.split_whitespace().count() > 2)
        .collect();
    sentences::write("errors.md", &texts);
    assert!(texts.len() > 750, "{} texts", texts.len());
    let mut broken = Vec::new();
    for Text { origin, text } in &texts {
        let rules = sentences::broken(text).into_iter();
        broken.extend(rules.map(|rule| format!("{origin}: {rule}")));
        if text.ends_with(['.', ',', ';']) && !text.contains('\n') {
            broken.push(format!("{origin}: ends with a mark: {text}"));
        }
        let mut letters = text.chars();
        let is_capital = letters.next().is_some_and(char::is_uppercase);
        let is_sentence = is_capital && letters.next().is_some_and(char::is_lowercase);
        let is_name = ["Prometheus", "Kubernetes", "Slurm", "Open MPI", "binomesh"];
        if is_sentence && !is_name.iter().any(|name| text.starts_with(name)) {
            broken.push(format!("{origin}: begins with a capital: {text}"));
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
}

/// The paragraphs of a help text: the texts of the command, of its parts and flags, and of their
/// values. Usage, examples, titles and notes of clap in brackets are left out.
fn paragraphs(help: &str) -> Vec<String> {
    let mut paragraphs = vec![String::new()];
    let mut is_example = false;
    for line in help.lines() {
        let text = line.trim();
        let depth = line.len() - line.trim_start().len();
        let is_note = ["[default: ", "[env: ", "[alias: "]
            .iter()
            .any(|note| text.starts_with(note) && text.ends_with(']'));
        if text.is_empty() {
            is_example = false;
            paragraphs.push(String::new());
            continue;
        }
        is_example |= text.starts_with("Example") && text.ends_with(':');
        let is_begin = paragraphs.last().is_some_and(String::is_empty);
        let is_heading = depth == 0 && is_begin && text.ends_with(':');
        let is_title = is_heading || text == "Possible values:" || text.starts_with("Usage: ");
        if is_example || is_note || is_title {
            continue;
        }
        let (label, rest) = match text.strip_prefix("- ") {
            Some(value) => value.split_once(": ").unwrap_or((value, "")),
            None if (1..10).contains(&depth) => text.split_once("  ").unwrap_or((text, "")),
            None => ("", text),
        };
        if !label.is_empty() {
            paragraphs.push(String::new());
        }
        if let Some(paragraph) = paragraphs.last_mut() {
            let blank = if paragraph.is_empty() { "" } else { " " };
            paragraph.push_str(blank);
            paragraph.push_str(rest.trim());
        }
    }
    paragraphs.retain(|paragraph| !paragraph.is_empty());
    paragraphs
}

/// The help texts of a command and of its parts.
fn helps(words: &[String], found: &mut Vec<Text>) {
    let text = help(words).unwrap_or_else(|| panic!("no help of {words:?}"));
    found.extend(paragraphs(&text).into_iter().map(|text| Text {
        origin: format!("binomesh {}", words.join(" ")),
        text,
    }));
    let commands = text.lines().skip_while(|line| *line != "Commands:").skip(1);
    for line in commands.take_while(|line| !line.is_empty()) {
        let name = line.trim().split(' ').next().unwrap_or_default();
        let is_name = line.starts_with("  ") && !line.starts_with("   ");
        if is_name && document_parser::is_plain(name) && name != "help" {
            helps(&[words, &[name.to_owned()]].concat(), found);
        }
    }
}

#[test]
fn help_is_in_plain_sentences() {
    let mut texts = Vec::new();
    helps(&[], &mut texts);
    sentences::write("help-binomesh.md", &texts);
    assert!(texts.len() > 200, "{} texts", texts.len());
    let broken = sentences::broken_in_help(&texts);
    assert!(broken.is_empty(), "{broken:#?}");
}
