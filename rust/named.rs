//! Enums whose variants have names that users see or give.

use std::fmt;

use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer};

/// Defines an enum with the name of each variant. Only this macro lists both.
macro_rules! named_enum {
    ($(#[$meta:meta])* pub enum $Enum:ident { $($(#[$attribute:meta])* $Variant:ident = $name:literal,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $Enum {
            $($(#[$attribute])* $Variant,)*
        }

        impl $Enum {
            /// Every variant with its name.
            pub const NAMES: &'static [(&'static str, $Enum)] = &[$(($name, $Enum::$Variant)),*];

            /// Returns the name of the variant.
            pub fn name(self) -> &'static str {
                match self {
                    $($Enum::$Variant => $name,)*
                }
            }
        }

        impl<'de> serde::Deserialize<'de> for $Enum {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                $crate::named::deserialize(deserializer, $Enum::NAMES)
            }
        }
    };
}

pub(crate) use named_enum;

/// Returns the value of a name, or an error that lists the names.
pub(crate) fn find<T: Copy>(name: &str, names: &[(&str, T)]) -> Result<T, String> {
    let found = names
        .iter()
        .find(|(allowed, _)| *allowed == name)
        .map(|(_, value)| *value);
    found.ok_or_else(|| unknown(name, names.iter().map(|(allowed, _)| *allowed)))
}

/// Returns the text of an error about an unknown name: the name that was probably meant, and all allowed names.
pub(crate) fn unknown<'a>(name: &str, allowed: impl Iterator<Item = &'a str>) -> String {
    let allowed: Vec<_> = allowed.collect();
    let meant = nearest(name, &allowed)
        .map(|meant| format!("did you mean {meant}? "))
        .unwrap_or_default();
    format!(
        "unknown {name:?}; {meant}expected one of {}",
        allowed.join(", ")
    )
}

/// Returns the name that was probably meant. Ignores case. The beginning of a name counts more than its end.
pub(crate) fn nearest<'a>(name: &str, allowed: &[&'a str]) -> Option<&'a str> {
    const LEAST: f64 = 0.8;
    let name: String = name
        .chars()
        .take(MAX_COMPARED)
        .collect::<String>()
        .to_lowercase();
    let scored = allowed.iter().map(|allowed| {
        let likeness = strsim::jaro_winkler(&name, &allowed.to_lowercase());
        (likeness, *allowed)
    });
    scored
        .filter(|(score, _)| *score >= LEAST)
        .max_by(|one, other| one.0.total_cmp(&other.0))
        .map(|(_, allowed)| allowed)
}

/// Longest compared name, in characters: the time of a comparison grows with the square of the length.
const MAX_COMPARED: usize = 100;

/// Deserializes a name into its value.
pub(crate) fn deserialize<'de, T: Copy, D: Deserializer<'de>>(
    deserializer: D,
    names: &[(&str, T)],
) -> Result<T, D::Error> {
    let name = String::deserialize(deserializer)?;
    find(&name, names).map_err(D::Error::custom)
}

/// Deserializes a sequence of names. Refuses a single text, which serde would read as a sequence of its characters.
pub(crate) fn sequence<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Vec<String>>, D::Error> {
    struct Sequence;

    impl<'de> Visitor<'de> for Sequence {
        type Value = Option<Vec<String>>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a sequence of names")
        }

        fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
            Ok(None)
        }

        fn visit_seq<A: serde::de::SeqAccess<'de>>(
            self,
            mut items: A,
        ) -> Result<Self::Value, A::Error> {
            let mut names = Vec::new();
            while let Some(name) = items.next_element()? {
                names.push(name);
            }
            Ok(Some(names))
        }
    }

    deserializer.deserialize_any(Sequence)
}
