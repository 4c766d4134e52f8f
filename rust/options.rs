//! The options of a decoder, and their validation.

use std::collections::BTreeMap;

use arrow_schema::Fields;
use regex::{Regex, RegexBuilder};
use serde::{Deserialize, Deserializer};

use crate::columns::ZeroDate;
use crate::mysql::zone::Zone;
use crate::named::{self, named_enum};
use crate::wire::binary_text::BinaryText;
use crate::wire::compression::Compression;

named_enum! {
    /// Handling of bad input, by Spark's names.
    #[derive(Default)]
    pub enum Mode {
        /// Bad rows are kept, with an error.
        #[default]
        Permissive = "PERMISSIVE",
        /// Bad rows are dropped and counted.
        DropMalformed = "DROPMALFORMED",
        /// The first bad row ends the decoding.
        FailFast = "FAILFAST",
    }
}

named_enum! {
    /// Layout of the output.
    #[derive(Default)]
    pub enum Layout {
        /// One row for each change or message; images are nested columns.
        #[default]
        Change = "change",
        /// Delta's change data feed: the table's columns at top level; an update is two rows.
        Changelog = "changelog",
        /// One row for each change, ready for MERGE: the table's columns at top level.
        Upsert = "upsert",
    }
}

/// The table's columns.
#[derive(Clone, Debug)]
pub enum TableSchema {
    /// As DDL text: `id bigint, total decimal(10,2)`.
    Ddl(String),
    /// As Arrow fields.
    Arrow(Fields),
}

/// A schema's id, its JSON text, and the texts of the schemas that it refers to.
pub type WriterSchemaText = (u32, String, Vec<String>);

/// The arguments of a decoder, by the names of the public contract.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// Name or alias of a dialect, or `auto`.
    pub dialect: String,
    /// The table's columns; without them row images are maps of text.
    #[serde(skip)]
    pub schema: Option<TableSchema>,
    /// A regular expression over the whole database name.
    pub database: Option<String>,
    /// A regular expression over the whole table name.
    pub table: Option<String>,
    /// Layout of the output.
    pub layout: Layout,
    /// Envelope columns of the output, in this order; by default the layout's columns.
    #[serde(deserialize_with = "named::sequence")]
    pub fields: Option<Vec<String>>,
    /// Name of one struct column for the table's columns, in the layouts that have the columns at top level.
    pub row_column: Option<String>,
    /// Input columns that are copied to the output rows.
    #[serde(deserialize_with = "names")]
    pub keep: Vec<String>,
    /// The input column that holds the message.
    pub value: String,
    /// The input column that holds the message's key.
    pub key: Option<String>,
    /// Handling of bad input.
    pub mode: Mode,
    /// Time zone of the producer's text without a zone.
    pub time_zone: String,
    /// Conversion of zero dates: `null`, `error` or `text`.
    pub zero_date: String,
    /// Labels of enum and set columns whose messages carry only numbers.
    #[serde(deserialize_with = "by_column")]
    pub labels: Vec<(String, Vec<String>)>,
    /// Compression of messages.
    pub compression: Compression,
    /// True if column names match case-sensitively.
    pub case_sensitive: bool,
    /// Other names of columns in messages, such as earlier names, each with its column of the schema.
    #[serde(deserialize_with = "by_column")]
    pub aliases: Vec<(String, String)>,
    /// True if it is an error when a message lacks a column of the schema.
    #[serde(rename = "missing", deserialize_with = "missing")]
    pub missing_is_error: bool,
    /// True if JSON strings may contain control characters.
    pub lenient: bool,
    /// Maximum size of a message's rows in the output, in bytes per byte of the message.
    pub max_expansion: usize,
    /// MySQL types of columns. They take precedence over the types that messages declare.
    #[serde(deserialize_with = "by_column")]
    pub column_types: Vec<(String, String)>,
    /// Debezium's `decimal.handling.mode`.
    pub decimal_handling_mode: Option<String>,
    /// Debezium's `time.precision.mode`.
    pub time_precision_mode: Option<String>,
    /// Encoding of bytes as text: Debezium's `binary.handling.mode`, for every JSON dialect.
    pub binary_handling_mode: Option<String>,
    /// Debezium's `bigint.unsigned.handling.mode`.
    pub bigint_unsigned_handling_mode: Option<String>,
    /// True if messages are rows without an envelope, the default output of Debezium's `ExtractNewRecordState`.
    pub unwrapped: bool,
    /// Member of such rows that holds the operation: its name, or `outer.inner`. If set, messages are rows.
    pub op_column: Option<String>,
    /// Writer schema of DTS's Avro records as JSON text, if it is not a published one.
    pub writer_schema: Option<String>,
    /// True if the caller fetches schemas from a registry.
    pub schema_registry: bool,
    /// Writer schemas of Debezium's Avro messages by id: the JSON text, and the texts of the schemas that it refers to.
    #[serde(deserialize_with = "schemas")]
    pub writer_schemas: Vec<WriterSchemaText>,
    /// Schemas of tables in TiCDC's simple protocol as JSON texts, copied from BOOTSTRAP and DDL messages.
    #[serde(deserialize_with = "names")]
    pub table_schemas: Vec<String>,
    /// True if messages may be decoded by templates of earlier ones. The output does not depend on it. Tests turn it
    /// off to compare both paths.
    #[serde(skip)]
    pub templates: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            dialect: "auto".into(),
            schema: None,
            database: None,
            table: None,
            layout: Layout::default(),
            fields: None,
            row_column: None,
            keep: Vec::new(),
            value: "value".into(),
            key: None,
            mode: Mode::default(),
            time_zone: "UTC".into(),
            zero_date: "null".into(),
            labels: Vec::new(),
            compression: Compression::default(),
            case_sensitive: true,
            aliases: Vec::new(),
            missing_is_error: false,
            lenient: false,
            max_expansion: 256,
            column_types: Vec::new(),
            decimal_handling_mode: None,
            time_precision_mode: None,
            binary_handling_mode: None,
            bigint_unsigned_handling_mode: None,
            unwrapped: false,
            op_column: None,
            writer_schema: None,
            schema_registry: false,
            writer_schemas: Vec::new(),
            table_schemas: Vec::new(),
            templates: true,
        }
    }
}

fn names<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    named::sequence(deserializer).map(Option::unwrap_or_default)
}

/// Deserializes a list, or null.
fn schemas<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<WriterSchemaText>, D::Error> {
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}

/// Deserializes a mapping from names, or null.
fn by_column<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Vec<(String, T)>, D::Error> {
    let columns: Option<BTreeMap<String, T>> = Option::deserialize(deserializer)?;
    Ok(columns.into_iter().flatten().collect())
}

fn missing<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    named::deserialize(deserializer, &[("null", false), ("error", true)])
}

/// Returns the value for a name that the user gives as an argument.
pub(crate) fn named<T: Copy>(argument: &str, name: &str, names: &[(&str, T)]) -> Result<T, String> {
    named::find(name, names).map_err(|what| format!("{argument}: {what}"))
}

impl Options {
    pub(crate) fn zone(&self) -> Result<Zone, String> {
        Zone::parse(&self.time_zone).ok_or_else(|| {
            format!(
                "time_zone: unknown {:?}; expected UTC, an offset such as +08:00, or a name such as Asia/Shanghai",
                self.time_zone
            )
        })
    }

    pub(crate) fn zero_date(&self) -> Result<ZeroDate, String> {
        named(
            "zero_date",
            &self.zero_date,
            &[
                ("null", ZeroDate::Null),
                ("error", ZeroDate::Error),
                ("text", ZeroDate::Text),
            ],
        )
    }

    pub(crate) fn binary_text(&self) -> Result<Option<BinaryText>, String> {
        self.binary_handling_mode
            .as_deref()
            .map(|name| named("binary_handling_mode", name, &BinaryText::NAMES))
            .transpose()
    }

    /// Returns the options that are set and have an effect on some dialects only.
    pub(crate) fn of_dialects(&self) -> impl Iterator<Item = &'static str> {
        let set = [
            (
                "bigint_unsigned_handling_mode",
                self.bigint_unsigned_handling_mode.is_some(),
            ),
            ("binary_handling_mode", self.binary_handling_mode.is_some()),
            (
                "decimal_handling_mode",
                self.decimal_handling_mode.is_some(),
            ),
            ("lenient", self.lenient),
            ("schema_registry", self.schema_registry),
            ("time_precision_mode", self.time_precision_mode.is_some()),
            ("table_schemas", !self.table_schemas.is_empty()),
            ("op_column", self.op_column.is_some()),
            ("unwrapped", self.unwrapped),
            ("writer_schema", self.writer_schema.is_some()),
            ("writer_schemas", !self.writer_schemas.is_empty()),
        ];
        set.into_iter()
            .filter(|(_, is_set)| *is_set)
            .map(|(name, _)| name)
    }
}

/// Filter of databases and tables by regular expressions over the whole name.
#[derive(Debug, Default)]
pub(crate) struct Filter {
    database: Option<Regex>,
    table: Option<Regex>,
}

impl Filter {
    pub fn new(options: &Options) -> Result<Self, String> {
        Ok(Filter {
            database: anchored("database", options.database.as_deref())?,
            table: anchored("table", options.table.as_deref())?,
        })
    }

    pub fn is_open(&self) -> bool {
        self.database.is_none() && self.table.is_none()
    }

    /// Returns whether messages of this table pass. A message with neither database nor table (a watermark, a
    /// heartbeat) concerns every table and passes.
    pub fn passes(&self, database: &str, table: &str) -> bool {
        if database.is_empty() && table.is_empty() {
            return true;
        }
        matches(self.database.as_ref(), database) && matches(self.table.as_ref(), table)
    }
}

fn matches(filter: Option<&Regex>, name: &str) -> bool {
    filter.is_none_or(|filter| filter.is_match(name))
}

fn anchored(argument: &str, pattern: Option<&str>) -> Result<Option<Regex>, String> {
    let Some(pattern) = pattern else {
        return Ok(None);
    };
    // Compile the expression alone first: an invalid expression must not become valid within the parentheses. In
    // verbose mode, it may end with a comment, which extends to the next line.
    let regex = compile(pattern).and_then(|_| {
        compile(&format!(r"\A(?:{pattern})\z"))
            .or_else(|_| compile(&format!("\\A(?:{pattern}\n)\\z")))
    });
    regex
        .map(Some)
        .map_err(|error| format!("{argument}: {error}"))
}

fn compile(pattern: &str) -> Result<Regex, regex::Error> {
    // A name may contain a newline, which `.` must match like any other character.
    RegexBuilder::new(pattern)
        .dot_matches_new_line(true)
        .build()
}
