//! The documents show only commands and flags of `binomesh-bench` that exist, and their walks
//! through the code name files and functions that exist.

#[path = "../../node/tests/commands/document_parser.rs"]
mod document_parser;

use binomesh_bench::command::Arguments;
use clap::{Command, CommandFactory};

/// Whether a command takes a flag.
fn takes(command: &Command, flag: &str) -> bool {
    let mut own = command.get_arguments();
    own.any(|argument| {
        let others = argument.get_all_aliases().unwrap_or_default();
        argument.get_long() == Some(flag) || others.contains(&flag)
    }) || ["help", "version"].contains(&flag)
}

#[test]
fn commands_and_flags_of_the_laboratory_that_documents_show_exist() {
    let mut all = Arguments::command();
    all.build();
    let parts: Vec<String> = all
        .get_subcommands()
        .map(|command| command.get_name().to_owned())
        // `binomesh` has a command of the same name.
        .filter(|name| name != "collectives")
        .collect();
    let (mut seen, mut missing) = (0, Vec::new());
    for document in document_parser::documents() {
        for words in document_parser::commands("binomesh-bench", &parts, &document) {
            seen += 1;
            let path = document.path.display();
            let Some(mut command) = all.find_subcommand(&words[0]) else {
                missing.push(format!("{path}: {}", words[0]));
                continue;
            };
            for word in words[1..]
                .iter()
                .take_while(|word| document_parser::is_plain(word))
            {
                let Some(next) = command.find_subcommand(word) else {
                    break;
                };
                command = next;
            }
            for flag in document_parser::flags(&words) {
                if !takes(command, &flag) {
                    missing.push(format!("{path}: {} --{flag}", command.get_name()));
                }
            }
        }
    }
    assert!(seen > 80, "{seen} commands");
    assert!(missing.is_empty(), "{missing:#?}");
}

/// The rows of each table in *Two walks*, by legs: a file and a function each.
fn walks() -> Vec<Vec<Vec<(String, String)>>> {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
    let guide = std::fs::read_to_string(format!("{root}/docs/design.md")).unwrap();
    let (_, section) = guide.split_once("\n## Two walks\n").unwrap();
    let section = section.split("\n## ").next().unwrap();
    let mut walks: Vec<Vec<Vec<(String, String)>>> = Vec::new();
    for line in section.lines() {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let [_, step, file, function, _] = cells[..] else {
            continue;
        };
        if step == "step" {
            walks.push(Vec::new());
        } else if file.starts_with('`') {
            let walk = walks.last_mut().unwrap();
            if step.starts_with('*') {
                walk.push(Vec::new());
            }
            let bare = |cell: &str| cell.trim_matches('`').to_owned();
            let row = (bare(file), bare(function));
            walk.last_mut().unwrap().push(row);
        }
    }
    walks
}

#[test]
fn the_walks_through_the_code_are_short_and_each_step_of_them_is_there() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
    let walks = walks();
    assert_eq!(walks.len(), 2);
    for (walk, most) in walks.iter().zip([30, 22]) {
        let files: std::collections::BTreeSet<_> = walk.iter().flatten().collect();
        let files: std::collections::BTreeSet<_> = files.iter().map(|(file, _)| file).collect();
        assert!((10..=most).contains(&files.len()), "{} files", files.len());
        for (file, function) in walk.iter().flatten() {
            let text = std::fs::read_to_string(format!("{root}/{file}"));
            let text = text.unwrap_or_else(|error| panic!("{file}: {error}"));
            let begins = |end| text.contains(&format!("fn {function}{end}"));
            assert!(begins('(') || begins('<'), "{file} has no {function}");
        }
        for leg in walk {
            let mut left: Vec<&String> = Vec::new();
            for (file, _) in leg {
                let is_return = left.contains(&file) && left.last() != Some(&file);
                assert!(!is_return, "back to {file}");
                left.push(file);
            }
        }
    }
}
