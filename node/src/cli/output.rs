//! The output of commands: data goes to standard output, line by line and flushed; all else goes to
//! standard error, where lost text does no harm.

use std::borrow::Cow;
use std::fmt;
use std::io::{self, Write};

use serde::Serialize;
use time::OffsetDateTime;

use super::Failure;

/// Data that could not be written.
#[derive(Debug)]
pub(super) enum Unwritten {
    /// The reader has closed the pipe, as `head` does.
    Closed,
    /// The disk is full, or the file cannot be written.
    Failed(io::Error),
}

impl From<Unwritten> for Failure {
    fn from(unwritten: Unwritten) -> Self {
        match unwritten {
            // The command ends without an error.
            Unwritten::Closed => Self::new(0, ""),
            Unwritten::Failed(error) => Self::failed(format!(
                "cannot write to standard output: {error}; the output is incomplete"
            )),
        }
    }
}

/// How a command ends after its data were written: an earlier failure counts more.
pub(super) fn ended(
    outcome: Result<(), Failure>,
    written: Result<(), Unwritten>,
) -> Result<(), Failure> {
    outcome.and_then(|()| Ok(written?))
}

/// Print a note for the user.
pub(super) fn note(text: impl fmt::Display) {
    let text = printable(&text.to_string());
    // A user who has closed standard error wants no notes.
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// The destination and the form of a command's data.
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

    /// Write `value` as a JSON object, or as the text that `text` makes of it.
    pub(super) fn line<T: Serialize, D: fmt::Display>(
        &mut self,
        value: &T,
        text: impl FnOnce(&T) -> D,
    ) -> Result<(), Unwritten> {
        let line = if self.json {
            serde_json::to_string(value).unwrap_or_default()
        } else {
            printable(&text(value).to_string())
        };
        self.write(&line)
    }

    /// Write a line, JSON or text, and flush it.
    pub(super) fn write(&mut self, line: &str) -> Result<(), Unwritten> {
        let written = writeln!(self.to, "{line}").and_then(|()| self.to.flush());
        written.map_err(|error| match error.kind() {
            io::ErrorKind::BrokenPipe => Unwritten::Closed,
            _ => Unwritten::Failed(error),
        })
    }
}

/// A time in seconds since 1970, in human-readable form.
pub(super) fn date(seconds: i64) -> String {
    let Ok(at) = OffsetDateTime::from_unix_timestamp(seconds) else {
        return seconds.to_string();
    };
    let (year, month, day) = (at.year(), u8::from(at.month()), at.day());
    let (hour, minute, second) = at.to_hms();
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC")
}

/// Whether a character controls the terminal, ends a line, or changes the reading direction of the
/// text after it.
fn is_unseen(one: char) -> bool {
    let ends_line = matches!(one, '\u{2028}' | '\u{2029}');
    let turns = matches!(one, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    one.is_control() || ends_line || turns
}

/// Text of other members with its control characters escaped, except for line ends and tabs: it
/// must not control the terminal.
pub(super) fn printable(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for one in text.chars() {
        match is_unseen(one) && !matches!(one, '\n' | '\t') {
            true => shown.extend(one.escape_default()),
            false => shown.push(one),
        }
    }
    shown
}

/// The most bytes of a peer's text that are shown in one line. A guess: a receipt's reasons fit.
/// With more, a peer could flood terminal and log.
pub(super) const SHOWN: usize = 4096;

/// Text of other members as a part of a line: its length is bounded, and it can neither begin
/// another line nor control the terminal.
pub(super) fn in_a_line(text: &str) -> Cow<'_, str> {
    if text.len() <= SHOWN && !text.chars().any(is_unseen) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(SHOWN + 32);
    for (at, one) in text.char_indices() {
        if shown.len() >= SHOWN {
            shown.push_str(&format!(" … and {} bytes", text.len() - at));
            break;
        }
        match is_unseen(one) {
            true => shown.extend(one.escape_default()),
            false => shown.push(one),
        }
    }
    Cow::Owned(shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_readable() {
        assert_eq!(date(0), "1970-01-01 00:00:00 UTC");
        assert_eq!(date(1_795_859_999), "2026-11-28 09:59:59 UTC");
        assert_eq!(date(i64::MAX), i64::MAX.to_string());
    }

    #[test]
    fn text_shown_in_a_line_is_escaped_and_cut() {
        assert_eq!(in_a_line("a\tb\nü\u{1b}"), "a\\tb\\nü\\u{1b}");
        let text = "\n".repeat(1 << 20);
        let long = in_a_line(&text);
        assert!(long.len() < SHOWN + 40 && long.ends_with("bytes"), "{long}");
    }

    #[test]
    fn control_characters_are_shown() {
        assert_eq!(printable("\u{202e}fdp.exe"), "\\u{202e}fdp.exe");
        assert_eq!(in_a_line("a\u{2028}b"), "a\\u{2028}b");
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
        assert!(output.line(&1, |_| "").is_ok());
        drop(reader);
        let closed = output.line(&1, |_| "");
        assert!(matches!(closed, Err(Unwritten::Closed)));
        assert_eq!(ended(Ok(()), closed).unwrap_err().status, 0);
    }

    #[test]
    fn output_without_room_is_an_error_but_hides_no_worse_one() {
        let full = std::fs::File::options().write(true).open("/dev/full");
        let mut output = Output {
            json: true,
            to: Box::new(full.unwrap()),
        };
        let unwritten = output.line(&1, |_| "");
        assert!(matches!(unwritten, Err(Unwritten::Failed(_))));
        let failure = ended(Ok(()), unwritten).unwrap_err();
        assert_eq!(failure.status, 1);
        assert!(failure.message.contains("standard output"), "{failure:?}");
        let partial = Err(Failure::timeout("late"));
        let failure = ended(partial, Err(Unwritten::Closed)).unwrap_err();
        assert_eq!(failure.status, 4);
    }
}
