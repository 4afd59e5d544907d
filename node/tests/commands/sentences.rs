//! Rules for texts that a stranger reads, as far as a machine can check them, and files of these
//! texts for tools that judge prose.

use std::fmt::Write;
use std::path::PathBuf;

/// The environment variable that names the folder for the files of texts.
const FOLDER: &str = "BINOMESH_TEXTS";
/// The most words of a sentence, or of a part of it up to a semicolon or a colon.
const WORDS_MAX: usize = 40;
/// The most pronouns of a sentence, or of a part of it up to a semicolon or a colon.
const PRONOUNS_MAX: usize = 3;

const PRONOUNS: [&str; 17] = [
    "it", "its", "they", "them", "their", "that", "those", "these", "ones", "such", "so", "others",
    "both", "who", "whoever", "whose", "what",
];
/// Words that make a clause the subject of a sentence: "Who lacks a copy gets it".
const CLAUSES: [&str; 7] = [
    "who", "whoever", "whom", "whose", "what", "whatever", "which",
];
/// Words of a style that nobody speaks.
const ODD: [&str; 6] = [
    "in vain",
    "anew",
    "is to be",
    "are to be",
    "ought to",
    "as it were",
];

/// A text that users read, and its origin.
pub(crate) struct Text {
    /// The file and line, or the command, of the text.
    pub(crate) origin: String,
    /// The text with a neutral word for each placeholder.
    pub(crate) text: String,
}

/// A text with a neutral word for each placeholder of `format!`.
pub(crate) fn filled(text: &str) -> String {
    let (mut filled, mut is_inside) = (String::new(), false);
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '{' | '}' if !is_inside && letters.peek() == Some(&letter) => {
                letters.next();
                filled.push(letter);
            }
            '{' => is_inside = true,
            '}' => {
                is_inside = false;
                filled.push_str("NAME");
            }
            _ if is_inside => {}
            _ => filled.push(letter),
        }
    }
    filled
}

/// The parts of a text between its stops, colons and semicolons, each code span as one word. Parts
/// of a single word are left out.
fn parts(text: &str) -> Vec<String> {
    let plain: String = text
        .split('`')
        .enumerate()
        .map(|(number, part)| if number % 2 == 0 { part } else { "CODE" })
        .collect();
    let mut parts = vec![String::new()];
    let mut letters = plain.chars().peekable();
    while let Some(letter) = letters.next() {
        let is_last = letters.peek().is_none_or(|next| next.is_whitespace());
        match letter {
            '.' | '!' | '?' | ':' | ';' if is_last => parts.push(String::new()),
            letter => {
                if let Some(part) = parts.last_mut() {
                    part.push(letter);
                }
            }
        }
    }
    parts.retain(|part| part.split_whitespace().count() > 1);
    parts
}

/// The rules that a text breaks.
pub(crate) fn broken(text: &str) -> Vec<String> {
    let mut broken = Vec::new();
    if !text.chars().any(char::is_alphanumeric) {
        broken.push("it has no word".to_owned());
    }
    for place in ["/home/", "/root/", "/Users/", env!("CARGO_MANIFEST_DIR")] {
        if text.contains(place) {
            broken.push(format!("it names a path of a developer's machine, {place}"));
        }
    }
    for part in parts(text) {
        let lower = part.to_lowercase();
        let words: Vec<&str> = lower
            .split(|letter: char| !letter.is_alphanumeric() && letter != '\'')
            .filter(|word| !word.is_empty())
            .collect();
        if words.first().is_some_and(|word| CLAUSES.contains(word)) {
            broken.push(format!("a clause is the subject of: {part}"));
        }
        if words.len() > WORDS_MAX {
            broken.push(format!("{} words without a stop: {part}", words.len()));
        }
        let pronouns = words.iter().filter(|word| PRONOUNS.contains(word)).count();
        if pronouns > PRONOUNS_MAX {
            broken.push(format!("{pronouns} pronouns: {part}"));
        }
        let padded = format!(" {} ", words.join(" "));
        for odd in ODD {
            if padded.contains(&format!(" {odd} ")) {
                broken.push(format!("`{odd}` in: {part}"));
            }
        }
    }
    broken
}

/// The rules that help texts break: those of `broken`, and two more. Each text begins with a
/// capital, a code span or a number. No text ends within a sentence.
pub(crate) fn broken_in_help(texts: &[Text]) -> Vec<String> {
    let mut found = Vec::new();
    for Text { origin, text } in texts {
        let rules = broken(text).into_iter();
        found.extend(rules.map(|rule| format!("{origin}: {rule}")));
        if text.starts_with(char::is_lowercase) || text.ends_with([',', ';', ':', '-']) {
            found.push(format!(
                "{origin}: begins or ends within a sentence: {text}"
            ));
        }
    }
    found
}

/// Write the texts as paragraphs of a document, each below its origin.
pub(crate) fn write(name: &str, texts: &[Text]) -> PathBuf {
    let folder = std::env::var_os(FOLDER).unwrap_or_else(|| env!("CARGO_TARGET_TMPDIR").into());
    let file = PathBuf::from(folder).join(name);
    let mut document = String::new();
    for Text { origin, text } in texts {
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        let lines: Vec<&str> = lines.collect();
        let _ = writeln!(document, "# {origin}\n\n{}\n", lines.join("\n"));
    }
    std::fs::write(&file, document).expect("written");
    file
}

#[test]
fn a_riddle_breaks_the_rules_and_a_plain_text_does_not() {
    for riddle in [
        "…",
        "cannot read /home/somebody/file",
        "Who lacks a copy gets it when its link has room",
        "the disk is full; what was written is lost",
        "it is sent to those that have asked for it, with what they lack",
        "the part is to be sent again",
        &"many words ".repeat(21),
    ] {
        assert!(!broken(riddle).is_empty(), "{riddle}");
    }
    let plain = "cannot bind NAME: NAME; choose another `what` address. Which one is free?";
    assert_eq!(
        broken(&plain.replace("Which one", "One")),
        Vec::<String>::new()
    );
    assert_eq!(filled("{{}} of {name:?}"), "{} of NAME");
}
