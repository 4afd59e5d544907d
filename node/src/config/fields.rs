//! The names and kinds of all settings. [`NodeConfig`] is the only list of settings, and `serde`
//! tells its fields.
//!
//! Here [`NodeConfig`] is deserialised from probes instead of a file. One probe learns the names of
//! the fields, another whether the type of a field asks for a text.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;
use serde::de::value::{Error, MapDeserializer};
use serde::de::{Deserializer, Error as _, IntoDeserializer, Visitor};
use serde::forward_to_deserialize_any;

use crate::settings::NodeConfig;

/// How the text of a variable or a flag becomes the value of a setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// The text itself is the value, so that a node may be called `7`.
    Text,
    /// The text is parsed: a number, a truth value or a list.
    Parsed,
}

/// The kind of a setting; `None` if there is no such setting.
pub(super) fn kind(key: &str) -> Option<Kind> {
    static KINDS: LazyLock<BTreeMap<&'static str, Kind>> = LazyLock::new(|| {
        let kinds = names().iter().map(|name| (*name, kind_of(name)));
        kinds.collect()
    });
    KINDS.get(key).copied()
}

/// The names of all settings, in the order of their declaration.
pub(super) fn names() -> &'static [&'static str] {
    let names = Cell::new(&[][..]);
    // This always fails: the probe refuses once it knows the names.
    let _ = NodeConfig::deserialize(Names(&names));
    names.get()
}

fn kind_of(name: &'static str) -> Kind {
    let kind = Cell::new(Kind::Text);
    let settings = MapDeserializer::new(std::iter::once((name, Value(&kind))));
    let _ = NodeConfig::deserialize(settings);
    kind.get()
}

fn refused<T>() -> Result<T, Error> {
    Err(Error::custom("a probe has no values"))
}

/// A probe in the place of all settings.
struct Names<'a>(&'a Cell<&'static [&'static str]>);

impl<'de> Deserializer<'de> for Names<'_> {
    type Error = Error;

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        fields: &'static [&'static str],
        _visitor: V,
    ) -> Result<V::Value, Error> {
        self.0.set(fields);
        refused()
    }

    fn deserialize_any<V: Visitor<'de>>(self, _visitor: V) -> Result<V::Value, Error> {
        refused()
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf
        option unit unit_struct newtype_struct seq tuple tuple_struct map enum identifier
        ignored_any
    }
}

/// A probe in the place of one setting's value.
#[derive(Clone, Copy)]
struct Value<'a>(&'a Cell<Kind>);

impl<'de> IntoDeserializer<'de, Error> for Value<'_> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

/// The methods by which types ask for a value that is no text.
macro_rules! parsed {
    ($($method:ident)+) => {
        $(
            fn $method<V: Visitor<'de>>(self, _visitor: V) -> Result<V::Value, Error> {
                self.0.set(Kind::Parsed);
                refused()
            }
        )+
    };
}

impl<'de> Deserializer<'de> for Value<'_> {
    type Error = Error;

    parsed! {
        deserialize_bool deserialize_i64 deserialize_u16 deserialize_u32 deserialize_u64
        deserialize_f64 deserialize_seq deserialize_map
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_some(self)
    }

    /// A type that asks for a text, or accepts any value, gets a text.
    fn deserialize_any<V: Visitor<'de>>(self, _visitor: V) -> Result<V::Value, Error> {
        self.0.set(Kind::Text);
        refused()
    }

    forward_to_deserialize_any! {
        i8 i16 i32 i128 u8 u128 f32 char str string bytes byte_buf unit unit_struct
        newtype_struct tuple tuple_struct struct enum identifier ignored_any
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_follow_from_the_types_of_the_settings() {
        for (key, expected) in [
            ("name", Some(Kind::Text)),
            ("bind", Some(Kind::Text)),
            ("parent", Some(Kind::Text)),
            ("expect", Some(Kind::Text)),
            ("profile", Some(Kind::Text)),
            ("router", Some(Kind::Text)),
            ("metrics", Some(Kind::Text)),
            ("crl", Some(Kind::Text)),
            ("seeds", Some(Kind::Parsed)),
            ("advertise", Some(Kind::Parsed)),
            ("slot", Some(Kind::Parsed)),
            ("alone", Some(Kind::Parsed)),
            ("grace_seconds", Some(Kind::Parsed)),
            ("max_payload_bytes", Some(Kind::Parsed)),
            ("colour", None),
        ] {
            assert_eq!(kind(key), expected, "{key}");
        }
    }
}
