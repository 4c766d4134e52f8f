//! The schema part of a message, in which Kafka Connect's JSON converter declares each column.

use std::borrow::Cow;
use std::str::FromStr;

use serde::Deserialize;

use super::{NAME, ROUTED_FROM, added};
use crate::error::{Fault, Kind, Result};
use crate::event::Events;
use crate::mysql::types::{DeclaredType, Encoding, RowName, TypeFamily};
use crate::wire::json::Cursor;

/// Reads the schema part, an object or null. Returns the block of declared types, if types are needed.
pub(super) fn schema_part(
    cursor: &mut Cursor<'_>,
    events: &mut Events<'_>,
) -> Result<Option<usize>> {
    if cursor.peek() == Some(b'n') {
        return cursor.null().map(|()| None);
    }
    if let Some(block) = events.types.schemas.skip_cached(cursor) {
        return Ok(block);
    }
    let start = cursor.at();
    cursor.optional_object()?;
    let text = cursor.since(start);
    if let Some(block) = events.types.schemas.find(text) {
        return Ok(block);
    }
    let is_needed = events.needs.types || events.needs.encodings;
    let parsed = serde_json::from_str::<Schema>(text);
    let block = match &parsed {
        _ if !is_needed => None,
        Ok(schema) => schema.declare(events),
        Err(_) => {
            return Err(Fault::new(Kind::Envelope, "is not a Kafka Connect schema").at(start));
        }
    };
    events.types.schemas.add(
        text,
        block,
        parsed.ok().and_then(|schema| schema.row_name()),
    );
    Ok(block)
}

/// Hint for the lookup of schema parts, which needs none: their blocks are looked up by text.
const SCHEMA_HINT: usize = usize::MAX;

/// A schema of Kafka Connect: the members that determine the encoding of values.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Schema {
    /// `int32`, `string`, `struct`, ...
    #[serde(rename = "type")]
    pub kind: Option<String>,
    /// The name of a logical type.
    pub name: Option<String>,
    /// The name of the column, or of the envelope's member.
    pub field: Option<String>,
    /// The fields of a struct.
    pub fields: Option<Vec<Schema>>,
    /// TiDB's type. With `enable-tidb-extension`, TiCDC writes it here for all columns. Otherwise some columns have it
    /// as a parameter.
    pub tidb_type: Option<String>,
    /// Parameters. Connect's converter writes strings; other values are used as text.
    pub parameters: Option<serde_json::Map<String, serde_json::Value>>,
}

impl Schema {
    /// Declares the columns of a row, from the fields of `after` or `before`. The schema of a row without an envelope
    /// has the columns itself. The `data` of a CloudEvent is an envelope.
    fn declare(&self, events: &mut Events<'_>) -> Option<usize> {
        let message = match self.member("data") {
            Some(data) if self.member("specversion").is_some() => data,
            _ => self,
        };
        let envelope_row = ["after", "before"]
            .into_iter()
            .find_map(|name| message.member(name).filter(|row| row.fields.is_some()));
        let columns = envelope_row.unwrap_or(message).fields.as_ref()?;
        // Flink CDC declares both rows, but no `source` or a `source` without a connector. Its Bits are bytes.
        let source = message.member("source");
        let is_flink = message.member("before").is_some()
            && message.member("after").is_some()
            && source.is_none_or(|source| source.member("connector").is_none());
        events.types.start();
        for column in columns {
            let name = column.field.as_deref().unwrap_or_default();
            // A flat row has fields that the flattening added.
            if envelope_row.is_none() && (added(name).is_some() || name == ROUTED_FROM) {
                continue;
            }
            let key = events.keys.intern_plain(name);
            let spelling = column.spelling();
            let cache_key = column.cache_key(&spelling, is_flink);
            events
                .types
                .declare_as((key, events.keys.column(key)), NAME, &cache_key, || {
                    column.declared(&spelling, is_flink)
                });
        }
        Some(events.types.finish(&[], SCHEMA_HINT))
    }

    /// Returns the member of a struct.
    fn member(&self, name: &str) -> Option<&Schema> {
        self.fields
            .as_ref()?
            .iter()
            .find(|field| field.field.as_deref() == Some(name))
    }

    /// Returns the name of a row without an envelope. Debezium calls its schema `server.database.table.Value`, and the
    /// key's schema `server.database.table.Key`. With more dots, the beginning of the database is unknown.
    fn row_name(&self) -> Option<RowName> {
        let path = [".Value", ".Key"]
            .into_iter()
            .find_map(|suffix| self.name().strip_suffix(suffix))?;
        if self.kind() != "struct"
            || self
                .member("after")
                .is_some_and(|after| after.fields.is_some())
        {
            return None;
        }
        Some(match path.split('.').collect::<Vec<_>>()[..] {
            [_, database, table] => RowName {
                database: Some(database.into()),
                table: Some(table.into()),
            },
            _ => RowName::default(),
        })
    }

    fn kind(&self) -> &str {
        self.kind.as_deref().unwrap_or_default()
    }

    fn name(&self) -> &str {
        self.name.as_deref().unwrap_or_default()
    }

    fn parameter(&self, name: &str) -> Option<Cow<'_, str>> {
        Some(match self.parameters.as_ref()?.get(name)? {
            serde_json::Value::String(text) => Cow::Borrowed(text),
            other => Cow::Owned(other.to_string()),
        })
    }

    /// Returns TiDB's type, if TiCDC wrote the schema.
    pub fn tidb_type(&self) -> Option<Cow<'_, str>> {
        self.tidb_type
            .as_deref()
            .map(Cow::Borrowed)
            .or_else(|| self.parameter("tidb_type"))
    }

    /// Returns the labels of an enum or set.
    pub fn labels(&self) -> Vec<String> {
        labels(&self.parameter("allowed").unwrap_or_default())
    }

    pub fn number<T: FromStr>(&self, name: &str) -> Option<T> {
        self.parameter(name)?.parse().ok()
    }

    /// Returns MySQL's type (`column.propagate.source.type`).
    fn source_type(&self) -> Option<Cow<'_, str>> {
        self.parameter("__debezium.source.column.type")
    }

    /// Returns the text of the declared type: MySQL's if the connector propagates it, otherwise Connect's.
    pub fn spelling(&self) -> String {
        if let Some(tidb_type) = self.tidb_type() {
            return tidb_spelling(&tidb_type, self);
        }
        let (length, scale) = (
            self.parameter("__debezium.source.column.length"),
            self.parameter("__debezium.source.column.scale"),
        );
        match (self.source_type(), length, scale) {
            (Some(word), Some(length), Some(scale)) => format!("{word}({length},{scale})"),
            (Some(word), Some(length), None) => format!("{word}({length})"),
            (Some(word), ..) => word.into_owned(),
            _ if self.name().is_empty() => self.kind().to_owned(),
            _ => self.name().to_owned(),
        }
    }

    /// Returns the cache key of the declared type: the spelling and everything else that determines it.
    pub fn cache_key(&self, spelling: &str, is_flink: bool) -> String {
        let parameters = ["scale", "connect.decimal.precision", "length", "allowed"]
            .map(|name| self.parameter(name));
        // Debug quotes the texts, so that one text cannot look like two.
        format!(
            "{:?}",
            (
                spelling,
                self.source_type(),
                self.kind(),
                self.name(),
                parameters,
                is_flink
            )
        )
    }

    /// Returns whether Bits are the bytes of a binary column, with a length in bytes. Flink CDC uses this name for
    /// BINARY and VARBINARY. A `bit(n)` has at most 64 bits.
    fn is_binary_as_bits(&self, is_flink: bool) -> bool {
        self.name() == "io.debezium.data.Bits"
            && (is_flink
                || self
                    .parameter("length")
                    .is_some_and(|length| !length.parse().is_ok_and(|length: u64| length <= 64)))
    }

    pub fn declared(&self, spelling: &str, is_flink: bool) -> DeclaredType {
        let (family, encoding) = if self.is_binary_as_bits(is_flink) {
            (TypeFamily::Blob, Encoding::Base64)
        } else {
            self.encoding()
        };
        let source_type = self
            .source_type()
            .map(|word| DeclaredType::parse(&word.to_lowercase()));
        let tidb_type = self.tidb_type.as_deref().map(DeclaredType::parse);
        let is_unsigned = source_type
            .as_ref()
            .is_some_and(|source_type| source_type.unsigned)
            || tidb_type.as_ref().is_some_and(|tidb_type| {
                tidb_type.unsigned && tidb_type.family == TypeFamily::Bigint
            });
        let mut declared = DeclaredType::connect(spelling, family, encoding);
        match (family, encoding) {
            (TypeFamily::Decimal, Encoding::Decimal(scale)) => {
                let scale = u32::try_from(scale).ok();
                declared.arguments = self
                    .number("connect.decimal.precision")
                    .zip(scale)
                    .map(|(precision, scale)| vec![precision, scale])
                    .unwrap_or_default();
            }
            (TypeFamily::Bit, _) => declared.arguments = vec![self.number("length").unwrap_or(1)],
            (TypeFamily::Enum | TypeFamily::Set, _) => {
                declared.labels = self.labels();
            }
            (TypeFamily::Bigint, _) if is_unsigned => {
                declared.unsigned = true;
                declared.encoding = Encoding::Unsigned;
            }
            // TiCDC writes bytes as base64, but declares text.
            (TypeFamily::Unknown, _) if tidb_type.as_ref().is_some_and(DeclaredType::is_bytes) => {
                (declared.family, declared.encoding) = (TypeFamily::Blob, Encoding::Base64);
            }
            (TypeFamily::Unknown, _) => {
                let is_text =
                    source_type.is_some_and(|source_type| source_type.family == TypeFamily::Text);
                declared.family = if is_text {
                    TypeFamily::Text
                } else {
                    TypeFamily::Unknown
                };
            }
            _ => {}
        }
        declared
    }

    /// Returns the type family and the encoding of values, by the names of Debezium's and Connect's logical types.
    pub fn encoding(&self) -> (TypeFamily, Encoding) {
        const MILLIS: i64 = 1000;
        const MICROS: i64 = 1_000_000;
        const NANOS: i64 = 1_000_000_000;
        match (self.name(), self.kind()) {
            ("io.debezium.time.Date" | "org.apache.kafka.connect.data.Date", _) => {
                (TypeFamily::Date, Encoding::Days)
            }
            ("io.debezium.time.Timestamp" | "org.apache.kafka.connect.data.Timestamp", _) => {
                (TypeFamily::Datetime, Encoding::DateTime(MILLIS))
            }
            ("io.debezium.time.MicroTimestamp", _) => {
                (TypeFamily::Datetime, Encoding::DateTime(MICROS))
            }
            ("io.debezium.time.NanoTimestamp", _) => {
                (TypeFamily::Datetime, Encoding::DateTime(NANOS))
            }
            ("io.debezium.time.Time" | "org.apache.kafka.connect.data.Time", _) => {
                (TypeFamily::Time, Encoding::Time(MILLIS))
            }
            ("io.debezium.time.MicroTime", _) => (TypeFamily::Time, Encoding::Time(MICROS)),
            ("io.debezium.time.NanoTime", _) => (TypeFamily::Time, Encoding::Time(NANOS)),
            ("io.debezium.time.ZonedTimestamp", _) => (TypeFamily::Timestamp, Encoding::Zoned),
            ("io.debezium.time.IsoDate", _) => (TypeFamily::Date, Encoding::Iso),
            ("io.debezium.time.IsoTimestamp", _) => (TypeFamily::Datetime, Encoding::Iso),
            ("io.debezium.time.IsoTime", _) => (TypeFamily::Time, Encoding::Iso),
            ("io.debezium.time.ZonedTime", _) => (TypeFamily::Time, Encoding::ZonedTime),
            // Avro's logical types, if the schema lacks Connect's.
            ("date", "int32") => (TypeFamily::Date, Encoding::Days),
            ("time-millis", "int32") => (TypeFamily::Time, Encoding::Time(MILLIS)),
            ("time-micros", "int64") => (TypeFamily::Time, Encoding::Time(MICROS)),
            ("timestamp-millis", "int64") => (TypeFamily::Timestamp, Encoding::Instant(MILLIS)),
            ("timestamp-micros", "int64") => (TypeFamily::Timestamp, Encoding::Instant(MICROS)),
            ("timestamp-nanos", "int64") => (TypeFamily::Timestamp, Encoding::Instant(NANOS)),
            ("local-timestamp-millis", "int64") => {
                (TypeFamily::Datetime, Encoding::DateTime(MILLIS))
            }
            ("local-timestamp-micros", "int64") => {
                (TypeFamily::Datetime, Encoding::DateTime(MICROS))
            }
            ("local-timestamp-nanos", "int64") => (TypeFamily::Datetime, Encoding::DateTime(NANOS)),
            ("decimal", "bytes") => (
                TypeFamily::Decimal,
                Encoding::Decimal(self.number("scale").unwrap_or(0)),
            ),
            ("io.debezium.time.Year", _) => (TypeFamily::Year, Encoding::Plain),
            ("org.apache.kafka.connect.data.Decimal", _) => match self.number("scale") {
                Some(scale) => (TypeFamily::Decimal, Encoding::Decimal(scale)),
                None => (TypeFamily::Decimal, Encoding::DecimalWithoutScale),
            },
            ("io.debezium.data.VariableScaleDecimal", _) => {
                (TypeFamily::Decimal, Encoding::VariableDecimal)
            }
            ("io.debezium.data.Bits", _) => (TypeFamily::Bit, Encoding::Bits),
            ("io.debezium.data.Enum", _) => (TypeFamily::Enum, Encoding::Plain),
            ("io.debezium.data.EnumSet", _) => (TypeFamily::Set, Encoding::Plain),
            ("io.debezium.data.Json", _) => (TypeFamily::Json, Encoding::Plain),
            (name, "struct") if name.starts_with("io.debezium.data.geometry.") => {
                (TypeFamily::Blob, Encoding::Geometry)
            }
            (_, "int8") => (TypeFamily::Tinyint, Encoding::Plain),
            (_, "int16") => (TypeFamily::Smallint, Encoding::Plain),
            (_, "int32") => (TypeFamily::Int, Encoding::Plain),
            (_, "int64") => (TypeFamily::Bigint, Encoding::Plain),
            (_, "float" | "float32") => (TypeFamily::Float, Encoding::Plain),
            (_, "double" | "float64") => (TypeFamily::Double, Encoding::Plain),
            (_, "boolean") => (TypeFamily::Bit, Encoding::Bits),
            (_, "bytes") => (TypeFamily::Blob, Encoding::Base64),
            _ => (TypeFamily::Unknown, Encoding::Plain),
        }
    }
}

/// Splits the labels of an enum or set at commas. A backslash escapes a comma within a label; since Debezium 3.7 also a
/// backslash.
fn labels(allowed: &str) -> Vec<String> {
    let mut labels = vec![String::new(); usize::from(!allowed.is_empty())];
    let mut rest = allowed.chars().peekable();
    while let (Some(c), Some(label)) = (rest.next(), labels.last_mut()) {
        match c {
            '\\' => label.push(rest.next_if(|next| matches!(next, ',' | '\\')).unwrap_or(c)),
            ',' => labels.push(String::new()),
            _ => label.push(c),
        }
    }
    labels
}

/// Returns the text of MySQL's type, from TiDB's type and the parameters that TiCDC adds.
fn tidb_spelling(tidb_type: &str, column: &Schema) -> String {
    match (
        &*tidb_type.to_uppercase(),
        column.number::<u32>("connect.decimal.precision"),
        column.number::<u32>("scale"),
    ) {
        ("DECIMAL", Some(precision), Some(scale)) => format!("decimal({precision},{scale})"),
        ("BIT", ..) => format!("bit({})", column.number("length").unwrap_or(1)),
        ("ENUM" | "SET", ..) => {
            let mut labels = column.labels();
            for label in &mut labels {
                *label = format!("'{}'", label.replace('\\', "\\\\").replace('\'', "''"));
            }
            format!("{}({})", tidb_type.to_lowercase(), labels.join(","))
        }
        ("TIDBVECTORFLOAT32", ..) => "text".to_owned(),
        _ => tidb_type.to_lowercase(),
    }
}
