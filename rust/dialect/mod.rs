//! What each vendor's envelope means: one file for each dialect, and the table of them.

mod canal_json;

use crate::error::Result;
use crate::event::{Events, Quirks};
use crate::keys::Quoting;

/// How messages of a dialect are written on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wire {
    /// JSON text.
    Json,
}

impl Wire {
    /// The word that users see.
    pub fn name(self) -> &'static str {
        match self {
            Wire::Json => "JSON",
        }
    }

    /// Whether bytes begin as this wire's messages do, so that they are not compressed.
    pub(crate) fn begins(self, bytes: &[u8]) -> bool {
        match self {
            Wire::Json => bytes.iter().find(|b| !b.is_ascii_whitespace()).is_some_and(|b| matches!(b, b'{' | b'[' | b'"' | b'n')),
        }
    }
}

/// One line of the table of dialects.
pub struct Dialect {
    /// The name by which users ask for it.
    pub name: &'static str,
    /// Other names, each for a producer whose messages cannot tell everything.
    pub aliases: &'static [&'static str],
    /// Who writes it.
    pub producer: &'static str,
    /// How it is written.
    pub wire: Wire,
    /// What it is, in a sentence.
    pub description: &'static str,
    /// Names of the envelope's fields.
    pub(crate) fields: &'static [&'static str],
    pub(crate) detect: fn(&str) -> bool,
    /// How the dialect of this name or alias writes values.
    pub(crate) variant: fn(&str) -> Variant,
    pub(crate) read: Read,
}

/// What a dialect's name says that its messages do not.
#[derive(Clone, Copy)]
pub(crate) struct Variant {
    pub quirks: &'static Quirks,
    pub quoting: Quoting,
}

impl Default for Variant {
    fn default() -> Self {
        static UNKNOWN: Quirks = Quirks { dialect: "auto", declares_lengths: false };
        Variant { quirks: &UNKNOWN, quoting: Quoting::Backticks }
    }
}

/// What is known before a message is read.
#[derive(Clone, Copy)]
pub(crate) struct Reading {
    pub variant: Variant,
    pub lenient: bool,
}

/// Reads one message into events.
pub(crate) type Read = for<'a> fn(&'a str, &Reading, &mut Events<'a, '_, '_>) -> Result<()>;

/// Every dialect. Names, detection, documentation and tests go by this table.
pub static DIALECTS: &[Dialect] = &[canal_json::DIALECT];

/// The dialect with this name or alias.
pub fn find(name: &str) -> Option<&'static Dialect> {
    DIALECTS.iter().find(|dialect| dialect.name == name || dialect.aliases.contains(&name))
}

/// The place of a dialect in [`DIALECTS`].
pub(crate) fn index(dialect: &Dialect) -> usize {
    DIALECTS.iter().position(|other| other.name == dialect.name).unwrap_or(0)
}

/// The dialect that a message is written in, by its first bytes and keys.
pub fn detect(message: &str) -> Option<&'static Dialect> {
    DIALECTS.iter().find(|dialect| (dialect.detect)(message))
}
