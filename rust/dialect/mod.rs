//! Vendors' envelopes: one file per dialect, and the table of dialects.

mod canal_json;
mod canal_protobuf;
mod claim_check;
mod cloudcanal_json;
mod dataworks_json;
mod debezium;
mod detect;
mod dms_json;
mod dts_avro;
mod foreign;
mod image_lists;
mod json_members;
mod maxwell_json;
mod operations;
mod payload;
mod river_json;
pub(crate) mod spec;
mod ticdc_open;
mod ticdc_simple;

use crate::error::Result;
use crate::event::{Events, Quirks};
use crate::named::unknown;
use crate::options::Options;
use crate::wire::binary_text::BinaryText;
use crate::wire::compression::Compression;
use crate::wire::json::BYTE_ORDER_MARK;

pub(crate) use debezium::writer_schemas::{SchemaSnapshot, WriterSchemas};
pub(crate) use detect::{Mark, is_known_json, is_mark_of_other, words_like};
use dts_avro::SchemaPlan;
pub(crate) use payload::Payload;
pub use payload::detect;
pub(crate) use river_json::OldValue;
use spec::TemplateSpec;
use ticdc_simple::TableSchemas;

/// Wire formats of messages.
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
    /// Returns the name that users see.
    pub fn name(self) -> &'static str {
        match self {
            Wire::Json => "JSON",
            Wire::Protobuf => "protobuf",
            Wire::Avro => "Avro",
        }
    }
}

/// Returns whether bytes begin like a JSON message.
fn begins_like_json(bytes: &[u8]) -> bool {
    let bytes = bytes
        .strip_prefix(BYTE_ORDER_MARK.as_bytes())
        .unwrap_or(bytes);
    bytes
        .iter()
        .find(|b| !b.is_ascii_whitespace())
        .is_some_and(|b| matches!(b, b'{' | b'[' | b'"' | b'n'))
}

/// Returns the JSON of a message. Confluent's converters write a zero byte and a schema id before it.
fn without_schema_id(message: &[u8]) -> &[u8] {
    match message {
        [0, _, _, _, _, json @ ..] if begins_like_json(json) => json,
        _ => message,
    }
}

/// One line of the table of dialects.
pub struct Dialect {
    /// Name by which users select it.
    pub name: &'static str,
    /// Other names, each for a producer whose messages lack some information.
    pub aliases: &'static [&'static str],
    /// Products that write it.
    pub producer: &'static str,
    /// Wire format.
    pub wire: Wire,
    /// Description in a sentence.
    pub description: &'static str,
    /// Marks that distinguish its messages from others.
    pub(crate) marks: Marks,
    /// Returns the encoding of values and names for this name or alias of the dialect.
    pub(crate) quirks: fn(&str) -> &'static Quirks,
    pub(crate) read: Read,
    /// Options that have an effect on it, of those that apply to some dialects only.
    pub(crate) options: &'static [&'static str],
    /// Varying parts of a table's messages, if templates may read them.
    pub(crate) template: Option<&'static TemplateSpec>,
}

/// Marks that only one dialect's messages have.
pub(crate) enum Marks {
    /// Members of the JSON object.
    Members(&'static [Mark]),
    /// The beginning of the bytes.
    Bytes(fn(&[u8]) -> bool),
    /// Either, for a dialect with two encodings.
    MembersOrBytes(&'static [Mark], fn(&[u8]) -> bool),
    /// The beginning of the bytes. If detection is for reading, the message is read at once.
    BytesOrRead(fn(&[u8]) -> bool, TryRead),
}

/// Reads a message of unknown dialect. `None` if its first bytes do not match the dialect.
type TryRead =
    for<'a> fn(&'a [u8], &DialectOptions, &mut Events<'a>, &mut Caches<'a>) -> Option<Result<()>>;

impl Marks {
    fn members(&self) -> &'static [Mark] {
        match self {
            Marks::Members(members) | Marks::MembersOrBytes(members, _) => members,
            Marks::Bytes(_) | Marks::BytesOrRead(..) => &[],
        }
    }

    fn matches(&self, bytes: &[u8]) -> bool {
        match self {
            Marks::Bytes(begins)
            | Marks::MembersOrBytes(_, begins)
            | Marks::BytesOrRead(begins, _) => begins(bytes),
            Marks::Members(_) => false,
        }
    }
}

/// The requested dialect, and validated options of single dialects.
pub(crate) struct DialectOptions {
    /// `None` detects the dialect of each message.
    pub dialect: Option<&'static Dialect>,
    /// Its name or alias.
    name: String,
    lenient: bool,
    compression: Compression,
    /// True if templates may read messages.
    has_templates: bool,
    /// Encoding of bytes as text, if the user gives it.
    pub binary: Option<BinaryText>,
    /// True if Debezium's messages are rows without an envelope.
    pub unwrapped: bool,
    /// Member of such rows that holds the operation.
    pub op_column: Option<String>,
    /// True for each of the table's columns whose values may be JSON objects.
    pub has_objects: Vec<bool>,
    /// Writer schema of DTS's records, if it is not a published one.
    pub dts: Option<SchemaPlan>,
    /// Schemas of Debezium's messages in Avro.
    pub writer_schemas: WriterSchemas,
    /// Schemas of the tables in TiCDC's simple protocol.
    pub table_schemas: TableSchemas,
}

impl DialectOptions {
    /// Returns whether a row's member holds the operation, directly or in a member of its own.
    pub fn is_op_column(&self, name: &str) -> bool {
        let rest = self
            .op_column
            .as_deref()
            .and_then(|path| path.strip_prefix(name));
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    }

    /// Validates the options. `has_objects` is true for each of the table's columns whose values may be JSON objects.
    pub fn new(
        options: &Options,
        dialect: Option<&'static Dialect>,
        has_objects: Vec<bool>,
    ) -> Result<Self, String> {
        let schema = options
            .writer_schema
            .as_deref()
            .map(SchemaPlan::compile)
            .transpose();
        let dts = schema.map_err(|what| format!("writer_schema: {what}"))?;
        let writer_schemas = WriterSchemas::default();
        for (id, text, references) in &options.writer_schemas {
            writer_schemas
                .add(*id, text, references)
                .map_err(|what| format!("writer_schemas: {id}: {what}"))?;
        }
        let table_schemas = TableSchemas::parse(&options.table_schemas)
            .map_err(|what| format!("table_schemas{what}"))?;
        let (binary, op_column) = (options.binary_text()?, options.op_column.clone());
        let unwrapped = options.unwrapped || op_column.is_some();
        let has_template = dialect.is_none_or(|dialect| dialect.template.is_some());
        Ok(DialectOptions {
            dialect,
            name: options.dialect.clone(),
            lenient: options.lenient,
            compression: options.compression,
            // Templates do not know which member holds the operation.
            has_templates: options.templates && has_template && op_column.is_none(),
            binary,
            unwrapped,
            op_column,
            has_objects,
            dts,
            writer_schemas,
            table_schemas,
        })
    }
}

/// Context that is known before a message is read.
#[derive(Clone, Copy)]
pub(crate) struct ReadContext<'r, 'a> {
    pub quirks: &'static Quirks,
    pub lenient: bool,
    /// The message's key, if the user named its column.
    pub key: Option<&'a [u8]>,
    pub options: &'r DialectOptions,
}

/// Reads one message into events.
pub(crate) enum Read {
    Text(for<'a> fn(&'a str, &ReadContext<'_, 'a>, &mut Events<'a>) -> Result<()>),
    Bytes(
        for<'a> fn(&'a [u8], &ReadContext<'_, 'a>, &mut Events<'a>, &mut Caches<'a>) -> Result<()>,
    ),
    /// Reads a message that is divided between key and value. The value may be empty.
    Keyed(for<'a> fn(&'a [u8], &ReadContext<'_, 'a>, &mut Events<'a>) -> Result<()>),
}

/// Data that single dialects keep from the earlier messages of a call, because later ones repeat it. It refers to
/// interned names and declared types.
#[derive(Default)]
pub(crate) struct KeptCaches {
    canal_protobuf: canal_protobuf::ColumnCache,
}

/// Data that single dialects keep from the earlier messages of a chunk.
pub(crate) struct Caches<'a> {
    kept: KeptCaches,
    debezium_avro: debezium::debezium_avro::BoundSchemas<'a>,
    dts_avro: dts_avro::RecordCache<'a>,
}

impl<'a> Caches<'a> {
    pub fn new(schemas: &'a SchemaSnapshot, kept: KeptCaches) -> Self {
        Caches {
            kept,
            debezium_avro: debezium::debezium_avro::BoundSchemas::new(schemas),
            dts_avro: dts_avro::RecordCache::default(),
        }
    }

    /// Returns the data that the next chunk can use.
    pub fn into_kept(self) -> KeptCaches {
        self.kept
    }
}

/// The options of JSON dialects.
const JSON_OPTIONS: &[&str] = &["binary_handling_mode", "lenient"];

/// All dialects. Names, detection, documentation and tests follow this table. Detection compares bytes in this order: a
/// match of ticdc-simple is less likely to be a coincidence than a match of dts-avro.
pub static DIALECTS: &[Dialect] = &[
    canal_json::DIALECT,
    canal_protobuf::DIALECT,
    cloudcanal_json::DIALECT,
    debezium::DIALECT,
    ticdc_simple::DIALECT,
    dts_avro::DIALECT,
    // Records of DTS may begin like a schema id, so they are tried first.
    debezium::debezium_avro::DIALECT,
    debezium::ticdc_avro::DIALECT,
    river_json::DIALECT,
    maxwell_json::DIALECT,
    ticdc_open::DIALECT,
    dms_json::DIALECT,
    dataworks_json::DIALECT,
];

/// Returns the dialect with this name or alias.
pub fn find(name: &str) -> Option<&'static Dialect> {
    DIALECTS
        .iter()
        .find(|dialect| dialect.name == name || dialect.aliases.contains(&name))
}

/// Returns the dialect that the user names; `None` for `auto`. Checks that every option has an effect on it.
pub(crate) fn requested(options: &Options) -> Result<Option<&'static Dialect>, String> {
    if options.dialect == "auto" {
        return Ok(None);
    }
    let dialect = find(&options.dialect).ok_or_else(|| unknown_dialect(&options.dialect))?;
    check_effects(dialect, options).map(|()| Some(dialect))
}

fn unknown_dialect(name: &str) -> String {
    let names = DIALECTS
        .iter()
        .flat_map(|dialect| std::iter::once(&dialect.name).chain(dialect.aliases))
        .copied();
    let names = std::iter::once("auto").chain(names);
    format!("dialect: {}", unknown(name, names))
}

fn check_effects(dialect: &Dialect, options: &Options) -> Result<(), String> {
    let Some(option) = options
        .of_dialects()
        .find(|option| !dialect.options.contains(option))
    else {
        return Ok(());
    };
    let others: Vec<_> = DIALECTS
        .iter()
        .filter(|other| other.options.contains(&option))
        .map(|other| other.name)
        .collect();
    Err(format!(
        "{option}: has no effect on {}; it is an option of {}",
        dialect.name,
        others.join(", ")
    ))
}
