//! How values are combined: numbers of 64 bits, little-endian, one after another.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// How the bytes of a value are read as numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Number {
    /// Whole numbers without a sign. Sums wrap.
    U64,
    /// Whole numbers with a sign. Sums wrap.
    I64,
    /// Floating-point numbers. A NaN is no minimum and no maximum while there is a number.
    F64,
}

/// An operator on two numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Operator {
    /// The sum of both numbers.
    Sum,
    /// The smaller number.
    Min,
    /// The greater number.
    Max,
    /// The bits that both have.
    And,
    /// The bits that at least one has.
    Or,
    /// The bits that exactly one has.
    Xor,
}

/// How two values are combined.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Op {
    /// Number by number, with this operator.
    Numbers(Operator, Number),
    /// By a function of the callers. Its name is compared, so that all callers mean the same
    /// function.
    User(String),
}

/// Why values cannot be combined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum ReduceError {
    /// The lengths of two values differ.
    #[error("values of {0} and {1} bytes cannot be combined")]
    Lengths(usize, usize),
    /// The length is no multiple of 8 bytes.
    #[error("a value of {0} bytes is not a row of 8-byte numbers")]
    NotNumbers(usize),
    /// The values need a function of the callers.
    #[error("the operation of the values is unknown at this node")]
    User,
}

impl Op {
    /// Combine `other` into `all`. The values in `all` come before `other` in the list of members.
    pub fn combine(&self, all: &mut [u8], other: &[u8]) -> Result<(), ReduceError> {
        let Self::Numbers(operator, number) = self else {
            return Err(ReduceError::User);
        };
        if all.len() != other.len() {
            return Err(ReduceError::Lengths(all.len(), other.len()));
        }
        let (numbers, rest) = all.as_chunks_mut::<8>();
        if !rest.is_empty() {
            return Err(ReduceError::NotNumbers(other.len()));
        }
        for (one, other) in numbers.iter_mut().zip(other.as_chunks::<8>().0) {
            *one = operator.apply(*number, *one, *other);
        }
        Ok(())
    }
}

impl Operator {
    fn apply(self, number: Number, one: [u8; 8], other: [u8; 8]) -> [u8; 8] {
        let (a, b) = (u64::from_le_bytes(one), u64::from_le_bytes(other));
        let (x, y) = (f64::from_bits(a), f64::from_bits(b));
        let bits = match (self, number) {
            (Self::Sum, Number::F64) => (x + y).to_bits(),
            (Self::Min, Number::F64) => x.min(y).to_bits(),
            (Self::Max, Number::F64) => x.max(y).to_bits(),
            (Self::Sum, _) => a.wrapping_add(b),
            (Self::Min, Number::U64) => a.min(b),
            (Self::Max, Number::U64) => a.max(b),
            (Self::Min, Number::I64) => (a as i64).min(b as i64) as u64,
            (Self::Max, Number::I64) => (a as i64).max(b as i64) as u64,
            (Self::And, _) => a & b,
            (Self::Or, _) => a | b,
            (Self::Xor, _) => a ^ b,
        };
        bits.to_le_bytes()
    }

    const ALL: [(Self, &'static str); 6] = [
        (Self::Sum, "sum"),
        (Self::Min, "min"),
        (Self::Max, "max"),
        (Self::And, "and"),
        (Self::Or, "or"),
        (Self::Xor, "xor"),
    ];
}

impl Number {
    const ALL: [(Self, &'static str); 3] =
        [(Self::U64, "u64"), (Self::I64, "i64"), (Self::F64, "f64")];
}

/// A text that names no way to combine.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is no operation; expected OP:KIND such as sum:u64, with sum, min, max, and, or, xor as OP and u64, i64, f64 as KIND (f64 for the first three only)"
)]
pub struct UnknownOp(String);

impl FromStr for Op {
    type Err = UnknownOp;

    fn from_str(text: &str) -> Result<Self, UnknownOp> {
        let unknown = || UnknownOp(text.chars().take(64).collect());
        let (operator, number) = text.split_once(':').unwrap_or((text, "u64"));
        let operator = Operator::ALL.iter().find(|(_, name)| *name == operator);
        let number = Number::ALL.iter().find(|(_, name)| *name == number);
        match (operator, number) {
            (Some((Operator::And | Operator::Or | Operator::Xor, _)), Some((Number::F64, _))) => {
                Err(unknown())
            }
            (Some((operator, _)), Some((number, _))) => Ok(Self::Numbers(*operator, *number)),
            _ => Err(unknown()),
        }
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (operator, number) = match self {
            Self::User(name) => return write!(f, "user function {name:?}"),
            Self::Numbers(operator, number) => (operator, number),
        };
        let operator = Operator::ALL.iter().find(|(one, _)| one == operator);
        let number = Number::ALL.iter().find(|(one, _)| one == number);
        let name = |found: Option<&'static str>| found.unwrap_or_default();
        write!(
            f,
            "{}:{}",
            name(operator.map(|(_, name)| *name)),
            name(number.map(|(_, name)| *name))
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn combined(op: &str, one: [u8; 8], other: [u8; 8]) -> [u8; 8] {
        let mut all = one;
        let op: Op = op.parse().unwrap();
        op.combine(&mut all, &other).unwrap();
        all
    }

    #[test]
    fn each_operation_does_what_it_says() {
        let u =
            |op, a: u64, b: u64| u64::from_le_bytes(combined(op, a.to_le_bytes(), b.to_le_bytes()));
        assert_eq!(u("sum", 3, u64::MAX), 2);
        assert_eq!(u("min:u64", 3, 9), 3);
        assert_eq!(u("max:u64", 3, 9), 9);
        assert_eq!(u("and", 6, 3), 2);
        assert_eq!(u("or", 6, 3), 7);
        assert_eq!(u("xor:i64", 6, 3), 5);
        assert_eq!(u("min:i64", 3, -9_i64 as u64) as i64, -9);
        let f =
            |op, a: f64, b: f64| f64::from_le_bytes(combined(op, a.to_le_bytes(), b.to_le_bytes()));
        assert_eq!(f("sum:f64", 0.5, 0.25), 0.75);
        assert_eq!(f("max:f64", f64::NAN, 1.0), 1.0);
    }

    #[test]
    fn values_that_do_not_fit_are_refused() {
        let op: Op = "sum".parse().unwrap();
        let refused = op.combine(&mut [0; 8], &[0; 16]);
        assert_eq!(refused, Err(ReduceError::Lengths(8, 16)));
        assert_eq!(
            op.combine(&mut [0; 7], &[0; 7]),
            Err(ReduceError::NotNumbers(7))
        );
        for text in ["mean:u64", "xor:f64", "and:f64"] {
            assert!(text.parse::<Op>().is_err(), "{text}");
        }
        for text in ["sum:u64", "xor:i64", "max:f64"] {
            assert_eq!(text.parse::<Op>().unwrap().to_string(), text);
        }
    }
}
