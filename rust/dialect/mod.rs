//! What each vendor's envelope means: one file for each dialect, and the table of them.

mod canal_json;
mod canal_protobuf;
pub(crate) mod claim_check;
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
mod river_json;
pub(crate) mod spec;
mod ticdc_open;
mod ticdc_simple;

use crate::error::Result;
use crate::event::{Events, Quirks};
use crate::options::Options;
use crate::wire::binary_text::BinaryText;
use crate::wire::json::BYTE_ORDER_MARK;

pub(crate) use debezium::debezium_avro::{
    NAME as DEBEZIUM_AVRO, is_known, is_tidb, read_deleted_row, schema_id,
};
pub(crate) use debezium::ticdc_avro::read_key;
pub(crate) use debezium::ticdc_rows::NAME as TICDC_AVRO;
pub(crate) use debezium::writer_schemas::{SchemaSnapshot, WriterSchemas};
pub(crate) use debezium::{DIALECT as DEBEZIUM_JSON, read_deleted};
pub(crate) use detect::{Mark, detect, is_known_json, is_mark_of_other, undetected, words_like};
use dts_avro::SchemaPlan;
pub(crate) use foreign::explained;
pub(crate) use river_json::OldValue;
use spec::TemplateSpec;
use ticdc_simple::TableSchemas;

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

/// Returns whether bytes begin as JSON messages do.
pub(crate) fn begins_like_json(bytes: &[u8]) -> bool {
    let bytes = bytes
        .strip_prefix(BYTE_ORDER_MARK.as_bytes())
        .unwrap_or(bytes);
    bytes
        .iter()
        .find(|b| !b.is_ascii_whitespace())
        .is_some_and(|b| matches!(b, b'{' | b'[' | b'"' | b'n'))
}

/// The JSON of a message: Confluent's converters write a zero byte and the id of a schema before it.
pub(crate) fn without_schema_id(message: &[u8]) -> &[u8] {
    match message {
        [0, _, _, _, _, json @ ..] if begins_like_json(json) => json,
        _ => message,
    }
}

/// Returns whether bytes begin as messages do that no compression writes: JSON, and TiCDC's simple protocol in Avro.
pub(crate) fn begins_like_message(bytes: &[u8]) -> bool {
    begins_like_json(without_schema_id(bytes)) || ticdc_simple::is_avro(bytes)
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
    /// How its messages are distinguished from others.
    pub(crate) marks: Marks,
    /// How the dialect of this name or alias writes values and names.
    pub(crate) quirks: fn(&str) -> &'static Quirks,
    pub(crate) read: Read,
    /// The options that have an effect on it, of those that only some dialects have.
    pub(crate) options: &'static [&'static str],
    /// What differs from message to message of a table, where messages may be read by templates.
    pub(crate) template: Option<&'static TemplateSpec>,
}

/// What only one dialect's messages have.
pub(crate) enum Marks {
    /// Members of the JSON object.
    Members(&'static [Mark]),
    /// The beginning of the bytes.
    Bytes(fn(&[u8]) -> bool),
    /// Of a dialect with two encodings: either.
    MembersOrBytes(&'static [Mark], fn(&[u8]) -> bool),
    /// The beginning of the bytes, which is read at once where messages are detected to be read.
    BytesOrRead(fn(&[u8]) -> bool, TryRead),
}

/// Reads a message whose dialect is not known yet. `None` if its first bytes are none of the dialect.
type TryRead = for<'a> fn(
    &'a [u8],
    &DialectOptions,
    &mut Events<'a, '_, '_>,
    &mut Caches<'a>,
) -> Option<Result<()>>;

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

/// What only some dialects ask for, checked.
pub(crate) struct DialectOptions {
    /// How bytes are written as text, if the user says so.
    pub binary: Option<BinaryText>,
    /// True if Debezium's messages are rows without an envelope.
    pub unwrapped: bool,
    /// The member of such rows that says what happened.
    pub op_column: Option<String>,
    /// Of each of the table's columns, whether its values may be JSON objects.
    pub has_objects: Vec<bool>,
    /// DTS's writer's schema, if it is none of the published ones.
    pub dts: Option<SchemaPlan>,
    /// Schemas of Debezium's messages in Avro.
    pub writer_schemas: WriterSchemas,
    /// Schemas of the tables in TiCDC's simple protocol.
    pub table_schemas: TableSchemas,
}

impl DialectOptions {
    /// Returns whether a row's member is the one that says what happened, or has it.
    pub fn is_op_column(&self, name: &str) -> bool {
        let rest = self
            .op_column
            .as_deref()
            .and_then(|path| path.strip_prefix(name));
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    }

    /// `has_objects` says of each of the table's columns whether its values may be JSON objects.
    pub fn new(options: &Options, has_objects: Vec<bool>) -> Result<Self, String> {
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
        Ok(DialectOptions {
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

/// What is known before a message is read.
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
    Text(for<'a> fn(&'a str, &ReadContext<'_, 'a>, &mut Events<'a, '_, '_>) -> Result<()>),
    Bytes(
        for<'a> fn(
            &'a [u8],
            &ReadContext<'_, 'a>,
            &mut Events<'a, '_, '_>,
            &mut Caches<'a>,
        ) -> Result<()>,
    ),
    /// Of a message that is divided between key and value, which may be empty.
    Keyed(for<'a> fn(&'a [u8], &ReadContext<'_, 'a>, &mut Events<'a, '_, '_>) -> Result<()>),
}

/// What single dialects keep of the earlier messages of a call, as later ones repeat it. It refers to interned names and declared types.
#[derive(Default)]
pub(crate) struct KeptCaches {
    canal_protobuf: canal_protobuf::ColumnCache,
}

/// What they keep of the earlier messages of a chunk.
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

    /// Returns what is kept for the next chunk.
    pub fn into_kept(self) -> KeptCaches {
        self.kept
    }
}

/// The options of JSON dialects.
const JSON_OPTIONS: &[&str] = &["binary_handling_mode", "lenient"];

/// Every dialect. Names, detection, documentation and tests go by this table. Bytes are compared in this order: the first ones of
/// ticdc-simple leave less to chance than those of dts-avro.
pub static DIALECTS: &[Dialect] = &[
    canal_json::DIALECT,
    canal_protobuf::DIALECT,
    cloudcanal_json::DIALECT,
    debezium::DIALECT,
    ticdc_simple::DIALECT,
    dts_avro::DIALECT,
    // Records of DTS may begin like the id of a schema, so they are tried first.
    debezium::debezium_avro::DIALECT,
    debezium::ticdc_avro::DIALECT,
    river_json::DIALECT,
    maxwell_json::DIALECT,
    ticdc_open::DIALECT,
    dms_json::DIALECT,
    dataworks_json::DIALECT,
];

/// The dialect with this name or alias.
pub fn find(name: &str) -> Option<&'static Dialect> {
    DIALECTS
        .iter()
        .find(|dialect| dialect.name == name || dialect.aliases.contains(&name))
}

/// Checks that every option has an effect on the dialect that the user names.
pub(crate) fn check_effects(dialect: &Dialect, options: &Options) -> Result<(), String> {
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

/// What is found out about a message of no named dialect.
pub(crate) enum Found {
    Dialect(&'static Dialect),
    /// It has been read already.
    Read(Result<&'static Dialect>),
}

/// Detects the dialect of a message. A record of DTS is read at once, unless its first fields have a fault: then it is detected too.
pub(crate) fn detect_or_read<'a>(
    bytes: &'a [u8],
    options: &DialectOptions,
    events: &mut Events<'a, '_, '_>,
    caches: &mut Caches<'a>,
) -> Option<Found> {
    if begins_like_json(without_schema_id(bytes)) {
        return detect_with(options, bytes).map(Found::Dialect);
    }
    for dialect in DIALECTS {
        if let Marks::BytesOrRead(_, try_read) = dialect.marks
            && let Some(read) = try_read(bytes, options, events, caches)
        {
            return Some(Found::Read(read.map(|()| dialect)));
        }
        if dialect.marks.matches(bytes) {
            return Some(Found::Dialect(dialect));
        }
    }
    None
}

/// Detects the dialect of a record whose value is empty.
pub(crate) fn detect_by_key(key: &[u8]) -> Option<&'static Dialect> {
    ticdc_open::is_key(key).then_some(&ticdc_open::DIALECT)
}

/// Detects the dialect of a message. With the option `unwrapped`, other JSON objects are Debezium's rows.
fn detect_with(options: &DialectOptions, message: &[u8]) -> Option<&'static Dialect> {
    let row = || {
        (options.unwrapped && begins_like_json(without_schema_id(message)))
            .then_some(&debezium::DIALECT)
    };
    detect(message).or_else(row)
}
