//! The commands of `binomesh-bench` that the documents show are there, with their flags.

#[path = "../../node/tests/commands/shown.rs"]
mod shown;

use binomesh_bench::command::Arguments;
use clap::{Command, CommandFactory};

/// Whether a command takes a flag.
fn takes(command: &Command, flag: &str) -> bool {
    let mut own = command.get_arguments();
    own.any(|argument| argument.get_long() == Some(flag)) || ["help", "version"].contains(&flag)
}

#[test]
fn commands_and_flags_of_the_laboratory_that_documents_show_exist() {
    let mut all = Arguments::command();
    all.build();
    let parts: Vec<String> = all
        .get_subcommands()
        .map(|command| command.get_name().to_owned())
        // `binomesh` has a command of that name, too.
        .filter(|name| name != "collectives")
        .collect();
    let (mut seen, mut missing) = (0, Vec::new());
    for document in shown::documents() {
        for words in shown::commands("binomesh-bench", &parts, &document) {
            seen += 1;
            let path = document.path.display();
            let Some(mut command) = all.find_subcommand(&words[0]) else {
                missing.push(format!("{path}: {}", words[0]));
                continue;
            };
            for word in words[1..].iter().take_while(|word| shown::is_plain(word)) {
                let Some(next) = command.find_subcommand(word) else {
                    break;
                };
                command = next;
            }
            for flag in shown::flags(&words) {
                if !takes(command, &flag) {
                    missing.push(format!("{path}: {} --{flag}", command.get_name()));
                }
            }
        }
    }
    assert!(seen > 80, "{seen} commands");
    assert!(missing.is_empty(), "{missing:#?}");
}
