//! The help texts of `binomesh-bench` can be understood by a stranger, as far as the rules of
//! `sentences` can tell.

#[path = "../../node/tests/commands/sentences.rs"]
mod sentences;

use binomesh_bench::command::Arguments;
use clap::{Command, CommandFactory};
use sentences::Text;

/// The paragraphs of a text, except the examples. Indented lines show commands and are left out.
fn paragraphs(text: &str) -> Vec<String> {
    let paragraphs = text.split("\n\n").map(|paragraph| {
        let lines = paragraph.lines().filter(|line| !line.starts_with(' '));
        lines.collect::<Vec<_>>().join(" ")
    });
    paragraphs
        .filter(|paragraph| !paragraph.starts_with("Example"))
        .collect()
}

/// The help texts of a command, of its flags and their values, and of its subcommands.
fn helps(path: &str, command: &Command, found: &mut Vec<Text>) {
    let path = format!("{path} {}", command.get_name());
    let mut note = |text: String| {
        if !text.is_empty() {
            let origin = path.clone();
            found.push(Text { origin, text });
        }
    };
    if let Some(about) = command.get_about() {
        note(about.to_string());
    }
    for argument in command.get_arguments() {
        let help = argument.get_long_help().or(argument.get_help());
        note(help.map(ToString::to_string).unwrap_or_default());
        for value in argument.get_possible_values() {
            let help = value.get_help();
            note(help.map(ToString::to_string).unwrap_or_default());
        }
    }
    if let Some(after) = command.get_after_help() {
        paragraphs(&after.to_string()).into_iter().for_each(note);
    }
    for part in command.get_subcommands() {
        helps(&path, part, found);
    }
}

#[test]
fn help_of_the_laboratory_is_in_plain_sentences() {
    let mut texts = Vec::new();
    helps("", &Arguments::command(), &mut texts);
    sentences::write("help-bench.md", &texts);
    assert!(texts.len() > 400, "{} texts", texts.len());
    let broken = sentences::broken_in_help(&texts);
    assert!(broken.is_empty(), "{broken:#?}");
}
