//! The string literals of a source, each with its surroundings: the calls, attributes and
//! functions around it, and the binding that it belongs to.

use std::iter::Peekable;
use std::vec::IntoIter;

/// A string literal.
pub(crate) struct Literal {
    /// The number of its line, from 1.
    pub(crate) line: usize,
    /// Its text, without the line breaks that a backslash hides.
    pub(crate) text: String,
    /// The names around it, bindings before open brackets, the innermost bracket last: `let
    /// reason`, `fn remedy`, `Failure::usage`, `map_err`.
    pub(crate) around: Vec<String>,
}

/// The literals of a source before its test module.
pub(crate) fn literals(source: &str) -> Vec<Literal> {
    let mut scanner = Scanner {
        letters: shipped(source)
            .chars()
            .collect::<Vec<_>>()
            .into_iter()
            .peekable(),
        line: 1,
        word: String::new(),
        open: Vec::new(),
        keyword: None,
        function: None,
        bindings: Vec::new(),
        found: Vec::new(),
    };
    scanner.scan();
    scanner.found
}

/// A source up to its test module.
fn shipped(source: &str) -> &str {
    let is_module = |at: &usize| {
        let mut lines = source[*at..]
            .lines()
            .skip_while(|line| line.starts_with("#["));
        lines
            .next()
            .is_some_and(|line| line.starts_with("mod ") && line.ends_with('{'))
    };
    let mut tests = source.match_indices("#[cfg(test)]").map(|(at, _)| at);
    let end = tests.find(is_module).unwrap_or(source.len());
    &source[..end]
}

struct Scanner {
    letters: Peekable<IntoIter<char>>,
    line: usize,
    /// The name before the current letter: `self.map_err`, `format!`.
    word: String,
    /// The name before each open bracket, or the function whose body the bracket opens.
    open: Vec<String>,
    /// The keyword whose name comes next: `fn`, or `let` also for constants.
    keyword: Option<&'static str>,
    /// The function whose body comes next.
    function: Option<String>,
    /// The bindings whose value is not complete, each with the number of brackets that were
    /// open at its name.
    bindings: Vec<(usize, String)>,
    found: Vec<Literal>,
}

impl Scanner {
    fn next(&mut self) -> Option<char> {
        let letter = self.letters.next();
        self.line += usize::from(letter == Some('\n'));
        letter
    }

    fn scan(&mut self) {
        while let Some(letter) = self.next() {
            match letter {
                '/' if self.letters.peek() == Some(&'/') => {
                    while self.letters.peek().is_some_and(|next| *next != '\n') {
                        self.next();
                    }
                }
                '"' => self.string(),
                '\'' => self.letter(),
                '#' if self.word == "r" => self.raw(),
                '(' | '[' | '{' => {
                    let name = std::mem::take(&mut self.word);
                    if self.keyword.take_if(|keyword| *keyword == "fn").is_some() {
                        self.function = Some(format!("fn {name}"));
                    }
                    let function = self.function.take_if(|_| letter == '{');
                    self.open.push(function.unwrap_or(name));
                }
                ')' | ']' | '}' => {
                    self.open.pop();
                    let depth = self.open.len();
                    self.bindings.retain(|(of, _)| *of <= depth);
                    self.word.clear();
                }
                ';' => {
                    let depth = self.open.len();
                    self.bindings.retain(|(of, _)| *of < depth);
                    self.function = None;
                    self.word.clear();
                }
                letter if letter.is_alphanumeric() || "_.:!".contains(letter) => {
                    self.word.push(letter);
                }
                _ => self.end_word(),
            }
        }
    }

    fn end_word(&mut self) {
        let word = std::mem::take(&mut self.word);
        let name = word.trim_end_matches(':').to_owned();
        match (word.as_str(), self.keyword) {
            ("", _) | ("mut", _) => {}
            ("fn", _) => self.keyword = Some("fn"),
            ("let" | "const" | "static", _) => self.keyword = Some("let"),
            (_, Some("fn")) => {
                self.keyword = None;
                self.function = Some(format!("fn {name}"));
            }
            (_, Some(keyword)) => {
                self.keyword = None;
                let binding = (self.open.len(), format!("{keyword} {name}"));
                self.bindings.push(binding);
            }
            (_, None) => {}
        }
    }

    fn string(&mut self) {
        let line = self.line;
        let mut text = String::new();
        while let Some(letter) = self.next() {
            match letter {
                '"' => break,
                '\\' => match self.next() {
                    Some('\n') => {
                        while self.letters.peek().is_some_and(|next| next.is_whitespace()) {
                            self.next();
                        }
                    }
                    Some('n') => text.push('\n'),
                    Some(escaped) => text.push(escaped),
                    None => break,
                },
                letter => text.push(letter),
            }
        }
        self.note(line, text);
    }

    /// A raw string with `#` outside of its quotes. The first `#` has been read.
    fn raw(&mut self) {
        let line = self.line;
        let mut text = String::new();
        while self.letters.peek() == Some(&'#') {
            self.next();
        }
        if self.letters.peek() == Some(&'"') {
            self.next();
            while let Some(letter) = self.next() {
                if letter == '"' && self.letters.peek() == Some(&'#') {
                    break;
                }
                text.push(letter);
            }
        }
        self.note(line, text);
    }

    /// A letter between quotes, or a lifetime.
    fn letter(&mut self) {
        match self.next() {
            Some('\\') => {
                self.next();
                while self.next().is_some_and(|letter| letter != '\'') {}
            }
            Some(_) if self.letters.peek() == Some(&'\'') => {
                self.next();
            }
            _ => {}
        }
        self.word.clear();
    }

    fn note(&mut self, line: usize, text: String) {
        self.word.clear();
        let bindings = self.bindings.iter().map(|(_, name)| name);
        let around = bindings.chain(&self.open).cloned().collect();
        self.found.push(Literal { line, text, around });
    }
}
