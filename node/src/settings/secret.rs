//! Where the secret of a job is kept.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Where the secret of a job is kept: a file, or `env:` and the name of a variable. It is never the
/// secret itself, since other users could read that on a command line.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum SecretSource {
    /// In a file that no other user may read.
    File(PathBuf),
    /// In the variable of this name.
    Variable(String),
    /// The text seems to be the secret itself. It is dropped here, so that no error shows it.
    Itself,
}

/// Whether a text seems to contain a secret: many hexadecimal digits in a row, or base64 of random
/// bytes.
fn is_secret(text: &str) -> bool {
    let digits = text.split(|letter: char| !letter.is_ascii_hexdigit());
    let is_hex = digits.map(str::len).max() >= Some(32);
    let is_base64 = |word: &str| {
        let has = |kind: fn(&char) -> bool| word.chars().any(|letter| kind(&letter));
        let is_mixed = has(char::is_ascii_uppercase)
            && has(char::is_ascii_lowercase)
            && has(char::is_ascii_digit);
        word.len() >= 22 && is_mixed
    };
    let name = text.trim().trim_end_matches('=');
    let is_path = text.starts_with(['/', '.']);
    let is_letter = |letter: char| letter.is_ascii_alphanumeric() || "+/-_".contains(letter);
    is_hex || !is_path && name.chars().all(is_letter) && is_base64(name)
}

impl From<String> for SecretSource {
    fn from(text: String) -> Self {
        if is_secret(text.strip_prefix("env:").unwrap_or(&text)) {
            return Self::Itself;
        }
        match text.strip_prefix("env:") {
            Some(name) => Self::Variable(name.to_owned()),
            None => Self::File(text.into()),
        }
    }
}

impl FromStr for SecretSource {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(text.to_owned().into())
    }
}

impl From<SecretSource> for String {
    fn from(source: SecretSource) -> Self {
        source.to_string()
    }
}

impl fmt::Display for SecretSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => path.display().fmt(f),
            Self::Variable(name) => write!(f, "env:{name}"),
            Self::Itself => f.write_str("hidden"),
        }
    }
}
