//! The lines of a scenario: those of the command line, then those of standard input.

use std::collections::VecDeque;
use std::io::{BufRead, Read};

use tokio::sync::mpsc;

/// The longest line of standard input, in bytes. A longer one is cut and marked, and the mark is in
/// no valid step.
const LINE_MAX: u64 = 256;
/// The most lines of standard input that wait for their turn. Further lines stay in the pipe.
const QUEUE: usize = 16;

/// The lines of a scenario.
#[derive(Debug)]
pub(super) struct Lines {
    given: VecDeque<String>,
    read: mpsc::Receiver<String>,
}

impl Lines {
    /// Open the lines. A thread reads standard input from now on, and ends with the process.
    pub(super) fn open(given: Vec<String>) -> Self {
        let (sender, read) = mpsc::channel(QUEUE);
        std::thread::spawn(move || forward(std::io::stdin().lock(), &sender));
        Self {
            given: given.into(),
            read,
        }
    }

    /// The next line that is not empty. After the last line this waits for ever.
    pub(super) async fn next(&mut self) -> String {
        if let Some(line) = self.given.pop_front() {
            return line;
        }
        match self.read.recv().await {
            Some(line) => line,
            None => std::future::pending().await,
        }
    }
}

fn forward(mut input: impl BufRead, lines: &mpsc::Sender<String>) {
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = (&mut input).take(LINE_MAX).read_until(b'\n', &mut line);
        if !read.is_ok_and(|read| read > 0) {
            return;
        }
        let mut text = String::from_utf8_lossy(&line).trim().to_owned();
        if line.len() as u64 == LINE_MAX && line.last() != Some(&b'\n') {
            text.push('…');
            skip_line(&mut input);
        }
        if !text.is_empty() && lines.blocking_send(text).is_err() {
            return;
        }
    }
}

/// Skip the rest of the line.
fn skip_line(input: &mut impl BufRead) {
    loop {
        let Ok(buffer) = input.fill_buf() else { return };
        let end = buffer.iter().position(|byte| *byte == b'\n');
        let length = end.map_or(buffer.len(), |end| end + 1);
        input.consume(length);
        if end.is_some() || length == 0 {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn given_lines_come_first_and_empty_ones_not_at_all() {
        let (sender, read) = mpsc::channel(QUEUE);
        let most = LINE_MAX as usize;
        // Its beginning and its end are valid steps by themselves, but must not count as steps.
        let long = format!("cut 3{}cut 4", " ".repeat(2 * most));
        let input = format!("one\n\n  two  \n{long}\nlast");
        std::thread::spawn(move || forward(input.as_bytes(), &sender));
        let given = VecDeque::from(["first".to_owned()]);
        let mut lines = Lines { given, read };
        for expected in ["first", "one", "two", "cut 3…", "last"] {
            assert_eq!(lines.next().await, expected);
        }
    }
}
