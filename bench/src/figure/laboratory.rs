//! The laboratory runs command lines, each once, and keeps their rows.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::parallel;

/// Rows by the line that printed them, without the name of the program.
#[derive(Debug, Clone, Default)]
pub struct Laboratory {
    rows: BTreeMap<String, Value>,
}

impl Laboratory {
    /// Run the lines in `alone` one after the other, since their time and memory count, and then
    /// the others, several at once. `measure` returns the row of a line. `tell` is called after
    /// each line, with the number of lines that are done, the number of all, and one that is done.
    pub fn run(
        alone: &[String],
        others: &[String],
        measure: impl Fn(&str) -> Result<Value, String> + Sync,
        tell: impl Fn(usize, usize, &str) + Sync,
    ) -> Result<Self, String> {
        let mut laboratory = Self::default();
        let all = alone.len() + others.len();
        for line in alone {
            laboratory.rows.insert(line.clone(), measure(line)?);
            tell(laboratory.rows.len(), all, line);
        }
        let rows = parallel::map(
            others.len() as u64,
            parallel::processors(),
            |place| {
                let line = &others[place as usize];
                let row = measure(line);
                (line, row)
            },
            |(_, row)| row.is_err(),
            |done| {
                let last = done.values().last().map_or("", |(line, _)| line.as_str());
                tell(alone.len() + done.len(), all, last);
            },
        );
        for (line, row) in rows.into_values() {
            laboratory.rows.insert(line.clone(), row?);
        }
        Ok(laboratory)
    }

    /// A number from the row of a line. If it is missing the result is not a number, so that no
    /// comparison with it holds.
    pub fn number(&self, line: &str, field: &str) -> f64 {
        let value = self.rows.get(line).and_then(|row| row.get(field));
        value.and_then(Value::as_f64).unwrap_or(f64::NAN)
    }

    /// The rows, by line.
    pub const fn rows(&self) -> &BTreeMap<String, Value> {
        &self.rows
    }

    /// The same laboratory with one number changed, to test whether a verdict follows.
    pub fn with(mut self, line: &str, field: &str, number: f64) -> Self {
        if let Some(Value::Object(row)) = self.rows.get_mut(line) {
            row.insert(field.to_owned(), number.into());
        }
        self
    }
}
