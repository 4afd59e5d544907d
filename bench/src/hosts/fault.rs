//! The faults of a network, and the lines in which they are written.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;
use std::time::Duration;

use serde::{Serialize, Serializer};

/// The longest cut and the longest wait.
const LENGTH_MAX: Duration = Duration::from_secs(24 * 3600);
/// The longest delay.
const DELAY_MAX: Duration = Duration::from_secs(10);
/// The slowest and the fastest rate, in bits a second.
const RATES: std::ops::RangeInclusive<u64> = 8_000..=100_000_000_000;

/// A fault in the network of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(tag = "fault", rename_all = "snake_case")]
pub enum Fault {
    /// The host's link carries nothing.
    Cut {
        /// The number of the host.
        host: u32,
        /// The duration of the cut; without one it lasts until `restore`.
        #[serde(rename = "seconds", serialize_with = "seconds_if_any")]
        length: Option<Duration>,
    },
    /// The host sends no more than this rate.
    Rate {
        /// The number of the host.
        host: u32,
        /// The most that the host may send.
        #[serde(rename = "bits_per_second")]
        rate: Rate,
    },
    /// Datagrams from the host and to it are lost.
    Drop {
        /// The number of the host.
        host: u32,
        /// The share of datagrams that are lost.
        #[serde(rename = "percent")]
        share: Share,
    },
    /// Datagrams from the host and to it arrive later.
    Delay {
        /// The number of the host.
        host: u32,
        /// The delay of each datagram.
        #[serde(rename = "seconds", serialize_with = "seconds")]
        length: Duration,
    },
    /// Datagrams from the host and to it arrive twice.
    Duplicate {
        /// The number of the host.
        host: u32,
        /// The share of datagrams that arrive twice.
        #[serde(rename = "percent")]
        share: Share,
    },
    /// The host gets another address instead of its own.
    Address {
        /// The number of the host.
        host: u32,
        /// The new address of the host.
        address: IpAddr,
    },
    /// All faults end. Addresses stay.
    Restore,
}

impl Fault {
    /// Whether the relay applies this fault.
    pub const fn is_of_relay(self) -> bool {
        matches!(self, Self::Delay { .. } | Self::Duplicate { .. })
    }
}

/// A line of a scenario.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Apply a fault, and go on.
    Fault(Fault),
    /// Wait for this time.
    Wait(Duration),
}

/// Why a line is no step.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StepError {
    /// The line begins with an unknown word.
    #[error(
        "`{0}` is no kind of fault; expected cut, rate, drop, delay, duplicate, address, restore or wait"
    )]
    Word(String),
    /// The line has too many words, or too few.
    #[error("the step has the wrong number of words; write `{0}`")]
    Form(&'static str),
    /// A word is not of the expected kind.
    #[error("`{word}` is no {expected}")]
    Value {
        /// The word in the line.
        word: String,
        /// The expected kind of word.
        expected: &'static str,
    },
}

impl FromStr for Step {
    type Err = StepError;

    fn from_str(line: &str) -> Result<Self, StepError> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (word, rest) = words.split_first().unwrap_or((&"", &[]));
        let form = match *word {
            "cut" => "cut HOST [20s]",
            "rate" => "rate HOST 10mbit",
            "drop" => "drop HOST 5%",
            "delay" => "delay HOST 50ms",
            "duplicate" => "duplicate HOST 10%",
            "address" => "address HOST 10.77.0.99",
            "restore" => "restore",
            "wait" => "wait 5s",
            _ => return Err(StepError::Word((*word).to_owned())),
        };
        let fault = match (*word, rest) {
            ("cut", [of]) => Fault::Cut {
                host: host(of)?,
                length: None,
            },
            ("cut", [of, length]) => Fault::Cut {
                host: host(of)?,
                length: Some(up_to(LENGTH_MAX, length)?),
            },
            ("rate", [of, rate]) => Fault::Rate {
                host: host(of)?,
                rate: rate.parse()?,
            },
            ("drop", [of, share]) => Fault::Drop {
                host: host(of)?,
                share: share.parse()?,
            },
            ("delay", [of, length]) => Fault::Delay {
                host: host(of)?,
                length: up_to(DELAY_MAX, length)?,
            },
            ("duplicate", [of, share]) => Fault::Duplicate {
                host: host(of)?,
                share: share.parse()?,
            },
            ("address", [of, address]) => Fault::Address {
                host: host(of)?,
                address: parsed(address, "IP address")?,
            },
            ("restore", []) => Fault::Restore,
            ("wait", [length]) => return Ok(Self::Wait(up_to(LENGTH_MAX, length)?)),
            _ => return Err(StepError::Form(form)),
        };
        Ok(Self::Fault(fault))
    }
}

/// A share of all datagrams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Share(u32);

impl Share {
    /// The number of parts of the whole.
    pub const ALL: u32 = 10_000;

    /// This share as a number of parts.
    pub const fn parts(self) -> u32 {
        self.0
    }
}

impl FromStr for Share {
    type Err = StepError;

    fn from_str(text: &str) -> Result<Self, StepError> {
        let percent = text
            .strip_suffix('%')
            .and_then(|it| it.parse::<f64>().ok())
            .filter(|percent| (0.0..=100.0).contains(percent));
        let percent = percent.ok_or_else(|| StepError::Value {
            word: text.to_owned(),
            expected: "share from 0% to 100%, such as 5% or 0.25%",
        })?;
        Ok(Self((percent * f64::from(Self::ALL) / 100.0).round() as u32))
    }
}

impl Serialize for Share {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (f64::from(self.0) * 100.0 / f64::from(Self::ALL)).serialize(serializer)
    }
}

/// How much may be sent, in bits a second.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Rate(u64);

impl Rate {
    /// A rate of this many megabits a second.
    pub fn megabits(megabits: u32) -> Self {
        Self(u64::from(megabits) * 1_000_000)
    }
}

impl FromStr for Rate {
    type Err = StepError;

    fn from_str(text: &str) -> Result<Self, StepError> {
        let units = [
            ("kbit", 1_000),
            ("mbit", 1_000_000),
            ("gbit", 1_000_000_000),
        ];
        let rate = units.into_iter().find_map(|(unit, bits)| {
            let number: u64 = text.strip_suffix(unit)?.parse().ok()?;
            number.checked_mul(bits).filter(|rate| RATES.contains(rate))
        });
        rate.map(Self).ok_or_else(|| StepError::Value {
            word: text.to_owned(),
            expected: "rate from 8kbit to 100gbit, such as 500kbit or 10mbit",
        })
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}bit", self.0)
    }
}

fn host(word: &str) -> Result<u32, StepError> {
    parsed(word, "number of a host, such as 0")
}

fn parsed<T: FromStr>(word: &str, expected: &'static str) -> Result<T, StepError> {
    word.parse().map_err(|_| StepError::Value {
        word: word.to_owned(),
        expected,
    })
}

/// A length of time, at most `most`.
fn up_to(most: Duration, word: &str) -> Result<Duration, StepError> {
    // `ms` also ends in `s`, so it comes first.
    let units = [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000)];
    let found = units.into_iter().find_map(|(unit, milliseconds)| {
        let number: u64 = word.strip_suffix(unit)?.parse().ok()?;
        number.checked_mul(milliseconds).map(Duration::from_millis)
    });
    let found = found.filter(|length| *length <= most);
    found.ok_or_else(|| StepError::Value {
        word: word.to_owned(),
        expected: match most == DELAY_MAX {
            true => "delay up to 10s, such as 50ms",
            false => "length of time up to 24h, such as 20s or 500ms",
        },
    })
}

fn seconds<S: Serializer>(length: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    length.as_secs_f64().serialize(serializer)
}

fn seconds_if_any<S: Serializer>(
    length: &Option<Duration>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    length.map(|it| it.as_secs_f64()).serialize(serializer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_step() {
        for (line, json) in [
            ("cut 3 20s", r#"{"fault":"cut","host":3,"seconds":20.0}"#),
            (" cut  3 ", r#"{"fault":"cut","host":3,"seconds":null}"#),
            (
                "rate 2 10mbit",
                r#"{"fault":"rate","host":2,"bits_per_second":10000000}"#,
            ),
            ("drop 4 5%", r#"{"fault":"drop","host":4,"percent":5.0}"#),
            (
                "delay 1 50ms",
                r#"{"fault":"delay","host":1,"seconds":0.05}"#,
            ),
            (
                "duplicate 1 0.25%",
                r#"{"fault":"duplicate","host":1,"percent":0.25}"#,
            ),
            (
                "address 3 10.77.0.99",
                r#"{"fault":"address","host":3,"address":"10.77.0.99"}"#,
            ),
            ("restore", r#"{"fault":"restore"}"#),
        ] {
            let Ok(Step::Fault(fault)) = line.parse() else {
                panic!("{line}");
            };
            assert_eq!(serde_json::to_string(&fault).unwrap(), json);
        }
        assert_eq!("wait 2m".parse(), Ok(Step::Wait(Duration::from_secs(120))));
    }

    #[test]
    fn a_malformed_line_is_refused_with_the_reason_and_the_right_form() {
        for (line, said) in [
            ("", "`` is no kind of fault; expected cut, rate,"),
            ("pull 3", "`pull` is no kind of fault; expected cut, rate,"),
            ("cut", "write `cut HOST [20s]`"),
            ("cut 3 20s 4", "write `cut HOST [20s]`"),
            ("cut -1", "`-1` is no number of a host"),
            ("cut 3 20", "`20` is no length of time"),
            ("cut 3 25h", "`25h` is no length of time"),
            ("rate 2", "write `rate HOST 10mbit`"),
            ("rate 2 10", "`10` is no rate"),
            ("rate 2 0mbit", "`0mbit` is no rate"),
            ("rate 2 99999999999999999999gbit", "is no rate"),
            ("drop 4 5", "`5` is no share"),
            ("drop 4 101%", "`101%` is no share"),
            ("drop 4 nan%", "`nan%` is no share"),
            ("delay 1 11s", "`11s` is no delay up to 10s"),
            ("duplicate 1 -1%", "`-1%` is no share"),
            ("address 3 host", "`host` is no IP address"),
            ("restore 3", "write `restore`"),
            ("wait", "write `wait 5s`"),
        ] {
            let error = line.parse::<Step>().unwrap_err().to_string();
            assert!(error.contains(said), "{line}: {error}");
        }
    }
}
