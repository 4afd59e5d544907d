//! Enums whose values people write by name: on command lines, in settings, in receipts.
//!
//! The macro [`named!`](crate::named!) derives all lists of such an enum from one: its values,
//! their names and their meanings. So a new value is in each of them.

/// Defines an enum with a name for each value, and with it `ALL`, `name`, `named`, `about` and
/// `names`. The doc comment of a value is its help for users.
///
/// ```
/// binomesh_overlay::named! {
///     /// Which way.
///     #[derive(Debug, Clone, Copy, PartialEq)]
///     pub enum Way {
///         /// To the left.
///         Left = "left",
///         /// To the right.
///         Right = "right",
///     }
/// }
/// assert_eq!(Way::named("right"), Some(Way::Right));
/// assert_eq!(Way::Left.about(), "To the left.");
/// assert_eq!(Way::names("or"), "left or right");
/// ```
#[macro_export]
macro_rules! named {
    (
        $(#[$outer:meta])*
        pub enum $name:ident {
            $( $(#[doc = $about:literal])+ $value:ident = $text:literal ),+ $(,)?
        }
    ) => {
        $(#[$outer])*
        pub enum $name {
            $( $(#[doc = $about])+ $value ),+
        }

        impl $name {
            /// Every value, in the order of their declaration.
            pub const ALL: [Self; [$($text),+].len()] = [$(Self::$value),+];

            /// The name that people write and read.
            pub const fn name(self) -> &'static str {
                match self {
                    $( Self::$value => $text ),+
                }
            }

            /// The meaning of the value, for users.
            pub fn about(self) -> &'static str {
                let text = match self {
                    $( Self::$value => concat!($($about),+) ),+
                };
                text.trim()
            }

            /// The value with this name.
            pub fn named(name: &str) -> Option<Self> {
                Self::ALL.into_iter().find(|value| value.name() == name)
            }

            /// All names as people list them, with the word `last` before the last name.
            pub fn names(last: &str) -> String {
                $crate::named::listed(&Self::ALL.map(Self::name), last)
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.name())
            }
        }
    };
}

/// Words as people list them: commas between them, and the word `last` before the last one.
pub fn listed(words: &[&str], last: &str) -> String {
    match words {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [others @ .., end] => format!("{} {last} {end}", others.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::listed;

    #[test]
    fn words_are_listed_with_commas_and_one_word_before_the_last() {
        for (words, text) in [
            (&[][..], ""),
            (&["a"], "a"),
            (&["a", "b"], "a or b"),
            (&["a", "b", "c"], "a, b or c"),
        ] {
            assert_eq!(listed(words, "or"), text);
        }
    }
}
