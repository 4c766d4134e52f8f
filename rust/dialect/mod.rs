//! What each vendor's envelope means: one file for each dialect, and the table of them.

mod canal_json;
mod canal_protobuf;
mod cloudcanal_json;
mod debezium_json;
mod detect;
mod dts_avro;
mod maxwell_json;
mod river_json;
mod ticdc_open;

use crate::error::Result;
use crate::event::{Events, Quirks, Writes};
use crate::keys::Quoting;
use crate::options::DialectOptions;
use crate::template::Spec;

pub(crate) use detect::{Mark, detect, is_mark_of_other, undetected};
pub(crate) use dts_avro::Plan as WriterSchema;
pub(crate) use river_json::Was;

/// How messages of a dialect are written on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wire {
    /// JSON text.
    Json,
    /// Protocol buffers.
    Protobuf,
    /// Avro data without a container.
    Avro,
}

impl Wire {
    /// The word that users see.
    pub fn name(self) -> &'static str {
        match self {
            Wire::Json => "JSON",
            Wire::Protobuf => "protobuf",
            Wire::Avro => "Avro",
        }
    }
}

/// Whether bytes begin as JSON messages do.
pub(crate) fn begins_like_json(bytes: &[u8]) -> bool {
    bytes.iter().find(|b| !b.is_ascii_whitespace()).is_some_and(|b| matches!(b, b'{' | b'[' | b'"' | b'n'))
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
    /// How its messages are told from others.
    pub(crate) marks: Marks,
    /// How the dialect of this name or alias writes values.
    pub(crate) variant: fn(&str) -> Variant,
    pub(crate) read: Read,
    /// What differs from message to message of a table, where messages may be read by templates.
    pub(crate) template: Option<&'static Spec>,
}

/// What only one dialect's messages have.
pub(crate) enum Marks {
    /// Members of the JSON object.
    Members(&'static [Mark]),
    /// The beginning of the bytes.
    Bytes(fn(&[u8]) -> bool),
}

/// What a dialect's name says that its messages do not.
#[derive(Clone, Copy)]
pub(crate) struct Variant {
    pub quirks: &'static Quirks,
    pub quoting: Quoting,
}

impl Default for Variant {
    fn default() -> Self {
        static UNKNOWN: Quirks = Quirks { dialect: "auto", declares_lengths: false, writes: Writes::Text };
        Variant { quirks: &UNKNOWN, quoting: Quoting::Backticks }
    }
}

/// What is known before a message is read.
#[derive(Clone, Copy)]
pub(crate) struct Reading<'r, 'a> {
    pub variant: Variant,
    pub lenient: bool,
    /// The message's key, if the user named its column.
    pub key: Option<&'a [u8]>,
    pub options: &'r DialectOptions,
}

/// Reads one message into events.
pub(crate) enum Read {
    Text(for<'a> fn(&'a str, &Reading<'_, 'a>, &mut Events<'a, '_, '_>) -> Result<()>),
    Bytes(for<'a> fn(&'a [u8], &Reading<'_, 'a>, &mut Events<'a, '_, '_>) -> Result<()>),
}

/// Every dialect. Names, detection, documentation and tests go by this table.
pub static DIALECTS: &[Dialect] = &[
    canal_json::DIALECT,
    canal_protobuf::DIALECT,
    cloudcanal_json::DIALECT,
    debezium_json::DIALECT,
    dts_avro::DIALECT,
    river_json::DIALECT,
    maxwell_json::DIALECT,
    ticdc_open::DIALECT,
];

/// The dialect with this name or alias.
pub fn find(name: &str) -> Option<&'static Dialect> {
    DIALECTS.iter().find(|dialect| dialect.name == name || dialect.aliases.contains(&name))
}

/// The place of a dialect in [`DIALECTS`].
pub(crate) fn index(dialect: &Dialect) -> usize {
    DIALECTS.iter().position(|other| other.name == dialect.name).unwrap_or(0)
}
