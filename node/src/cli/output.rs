//! Standard output: data only, one line at a time, flushed.

use std::fmt;
use std::io::{self, Write};

use serde::Serialize;

/// Nobody reads the output any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Closed;

/// Where data goes, and in which form.
pub(super) struct Output {
    json: bool,
    to: Box<dyn Write + Send>,
}

impl Output {
    pub(super) fn stdout(json: bool) -> Self {
        Self {
            json,
            to: Box::new(io::stdout()),
        }
    }

    pub(super) const fn is_json(&self) -> bool {
        self.json
    }

    /// Write `value` as an object, or what `text` makes of it.
    pub(super) fn line<T: Serialize, D: fmt::Display>(
        &mut self,
        value: &T,
        text: impl FnOnce(&T) -> D,
    ) -> Result<(), Closed> {
        let line = if self.json {
            serde_json::to_string(value).unwrap_or_default()
        } else {
            printable(&text(value).to_string())
        };
        self.write(&line)
    }

    /// Write a line, whatever the form.
    pub(super) fn write(&mut self, line: &str) -> Result<(), Closed> {
        let written = writeln!(self.to, "{line}").and_then(|()| self.to.flush());
        written.map_err(|_| Closed)
    }
}

/// What others have written must not speak to the terminal: its control characters are
/// shown and not sent, but for line ends and tabs.
pub(super) fn printable(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for one in text.chars() {
        match one.is_control() && !matches!(one, '\n' | '\t') {
            true => shown.extend(one.escape_default()),
            false => shown.push(one),
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_shown() {
        let text = "a\tb\nü \u{1b}[2J\u{7}\u{9b}1m\r";
        assert_eq!(printable(text), "a\tb\nü \\u{1b}[2J\\u{7}\\u{9b}1m\\r");
    }

    #[test]
    fn a_reader_that_went_away_is_noticed() {
        let (reader, writer) = io::pipe().unwrap();
        let mut output = Output {
            json: true,
            to: Box::new(writer),
        };
        assert_eq!(output.line(&1, |_| ""), Ok(()));
        drop(reader);
        assert_eq!(output.line(&1, |_| ""), Err(Closed));
    }
}
