//! The schema part of a message: what Kafka Connect's JSON converter says of each column.

use std::borrow::Cow;

use crate::error::{Fault, Kind, Result};
use crate::event::Events;
use crate::mysql::types::{DeclaredType, Encoding, TypeFamily};
use crate::value::Value;
use crate::wire::json::{Cursor, Text};

/// The schema part, which is an object or null: the block of types that it declares, if it is asked for.
pub(super) fn schema_part(cursor: &mut Cursor<'_>, events: &mut Events<'_, '_, '_>) -> Result<Option<usize>> {
    if cursor.peek() == Some(b'n') {
        return cursor.null().map(|()| None);
    }
    if let Some(block) = events.types.schemas.eat(cursor) {
        return Ok(block);
    }
    let start = cursor.at();
    cursor.optional_object()?;
    let text = cursor.since(start);
    if let Some(block) = events.types.schemas.find(text) {
        return Ok(block);
    }
    let wanted = events.wants.types || events.wants.encodings;
    let broken = |_| Fault::new(Kind::Envelope, "is no schema of Kafka Connect").at(start);
    let block = if wanted { declare(text, start, events).map_err(broken)? } else { None };
    events.types.schemas.add(text, block);
    Ok(block)
}

/// Declares the columns of a row's schema: those of `after` or `before`, or of a row without an envelope its own.
fn declare(text: &str, start: usize, events: &mut Events<'_, '_, '_>) -> Result<Option<usize>> {
    let Some(fields) = Schema::read(text)?.fields else { return Ok(None) };
    let parts = schemas(fields)?;
    let row = ["after", "before"].iter().find_map(|name| parts.iter().find(|part| part.field.raw == *name && part.fields.is_some()));
    let columns = match row.and_then(|row| row.fields) {
        Some(fields) => schemas(fields)?,
        None => parts,
    };
    events.types.start();
    for column in &columns {
        let key = events.keys.intern(column.field).map_err(|fault| fault.at(start))?;
        let spelling = column.spelling();
        events.types.declare_as(key, events.keys.column(key), &column.distinct(&spelling), || column.declared(&spelling));
    }
    Ok(Some(events.types.finish(&[], SCHEMA_HINT)))
}

/// Parts tell blocks apart, so that no better hint is needed.
const SCHEMA_HINT: usize = usize::MAX;

/// A schema of Kafka Connect, as far as it says how values are written.
#[derive(Default)]
struct Schema<'t> {
    /// `int32`, `string`, `struct`, ...
    kind: &'t str,
    /// Of a logical type.
    name: &'t str,
    field: Text<'t>,
    /// The array of a struct's own schemas.
    fields: Option<&'t str>,
    parameters: Parameters<'t>,
}

#[derive(Default)]
struct Parameters<'t> {
    scale: Option<i32>,
    precision: Option<u32>,
    length: Option<u32>,
    /// Members of an enum or set.
    allowed: Option<Cow<'t, str>>,
    /// MySQL's own type (`column.propagate.source.type`).
    source_type: Option<Cow<'t, str>>,
    source_length: Option<Cow<'t, str>>,
    source_scale: Option<Cow<'t, str>>,
}

fn schemas(array: &str) -> Result<Vec<Schema<'_>>> {
    let mut cursor = Cursor::new(array, true);
    let mut found = Vec::new();
    let mut elements = cursor.array()?;
    while cursor.next_element(&mut elements)? {
        cursor.peek();
        let start = cursor.at();
        cursor.skip()?;
        found.push(Schema::read(cursor.since(start))?);
    }
    Ok(found)
}

impl<'t> Schema<'t> {
    fn read(text: &'t str) -> Result<Self> {
        let mut cursor = Cursor::new(text, true);
        let mut schema = Schema::default();
        let mut members = cursor.object()?;
        while let Some(name) = cursor.next_key(&mut members)? {
            match (name.raw, cursor.value()?) {
                ("type", Value::Text(kind)) => schema.kind = kind,
                ("name", Value::Text(name)) => schema.name = name,
                ("field", Value::Text(raw)) => schema.field = Text { raw, escaped: false },
                ("field", Value::Escaped(raw)) => schema.field = Text { raw, escaped: true },
                ("fields", Value::Nested(fields)) => schema.fields = Some(fields),
                ("parameters", Value::Nested(parameters)) => schema.parameters = Parameters::read(parameters)?,
                _ => {}
            }
        }
        Ok(schema)
    }

    /// The declared type as the message spells it: MySQL's own where the connector passes it on, else Connect's.
    fn spelling(&self) -> String {
        let parameters = &self.parameters;
        match (&parameters.source_type, &parameters.source_length, &parameters.source_scale) {
            (Some(word), Some(length), Some(scale)) => format!("{word}({length},{scale})"),
            (Some(word), Some(length), None) => format!("{word}({length})"),
            (Some(word), ..) => word.to_string(),
            _ if self.name.is_empty() => self.kind.to_owned(),
            _ => self.name.to_owned(),
        }
    }

    /// The spelling with all that makes a difference.
    fn distinct(&self, spelling: &str) -> String {
        let Parameters { scale, precision, length, allowed, .. } = &self.parameters;
        format!("{spelling}\0{}\0{}\0{scale:?}\0{precision:?}\0{length:?}\0{allowed:?}", self.kind, self.name)
    }

    fn declared(&self, spelling: &str) -> DeclaredType {
        let (base, form) = self.base();
        let own = self.parameters.source_type.as_deref().map(|word| DeclaredType::parse(&word.to_lowercase()));
        let mut declared = DeclaredType::connect(spelling, base, form);
        match (base, form) {
            (TypeFamily::Decimal, Encoding::Decimal(scale)) => {
                let scale = u32::try_from(scale).ok();
                declared.arguments =
                    self.parameters.precision.zip(scale).map(|(precision, scale)| vec![precision, scale]).unwrap_or_default();
            }
            (TypeFamily::Bit, _) => declared.arguments = vec![self.parameters.length.unwrap_or(1)],
            (TypeFamily::Enum | TypeFamily::Set, _) => {
                let allowed = self.parameters.allowed.as_deref().unwrap_or_default();
                declared.labels = labels(allowed);
            }
            (TypeFamily::Bigint, _) if own.as_ref().is_some_and(|own| own.unsigned) => {
                declared.unsigned = true;
                declared.encoding = Encoding::Unsigned;
            }
            (TypeFamily::Unknown, _) => {
                declared.family = own
                    .map_or(TypeFamily::Unknown, |own| if own.family == TypeFamily::Text { TypeFamily::Text } else { TypeFamily::Unknown })
            }
            _ => {}
        }
        declared
    }

    /// The family of types, and the form of its values. The names are those of Debezium's and Connect's logical types.
    fn base(&self) -> (TypeFamily, Encoding) {
        const MILLIS: i64 = 1000;
        const MICROS: i64 = 1_000_000;
        const NANOS: i64 = 1_000_000_000;
        match (self.name, self.kind) {
            ("io.debezium.time.Date" | "org.apache.kafka.connect.data.Date", _) => (TypeFamily::Date, Encoding::Days),
            ("io.debezium.time.Timestamp" | "org.apache.kafka.connect.data.Timestamp", _) => {
                (TypeFamily::Datetime, Encoding::DateTime(MILLIS))
            }
            ("io.debezium.time.MicroTimestamp", _) => (TypeFamily::Datetime, Encoding::DateTime(MICROS)),
            ("io.debezium.time.NanoTimestamp", _) => (TypeFamily::Datetime, Encoding::DateTime(NANOS)),
            ("io.debezium.time.Time" | "org.apache.kafka.connect.data.Time", _) => (TypeFamily::Time, Encoding::Time(MILLIS)),
            ("io.debezium.time.MicroTime", _) => (TypeFamily::Time, Encoding::Time(MICROS)),
            ("io.debezium.time.NanoTime", _) => (TypeFamily::Time, Encoding::Time(NANOS)),
            ("io.debezium.time.ZonedTimestamp", _) => (TypeFamily::Timestamp, Encoding::Zoned),
            ("io.debezium.time.IsoDate", _) => (TypeFamily::Date, Encoding::Iso),
            ("io.debezium.time.IsoTimestamp", _) => (TypeFamily::Datetime, Encoding::Iso),
            ("io.debezium.time.IsoTime" | "io.debezium.time.ZonedTime", _) => (TypeFamily::Time, Encoding::Iso),
            ("io.debezium.time.Year", _) => (TypeFamily::Year, Encoding::Plain),
            ("org.apache.kafka.connect.data.Decimal", _) => match self.parameters.scale {
                Some(scale) => (TypeFamily::Decimal, Encoding::Decimal(scale)),
                None => (TypeFamily::Decimal, Encoding::DecimalWithoutScale),
            },
            ("io.debezium.data.VariableScaleDecimal", _) => (TypeFamily::Decimal, Encoding::VariableDecimal),
            ("io.debezium.data.Bits", _) => (TypeFamily::Bit, Encoding::Bits),
            ("io.debezium.data.Enum", _) => (TypeFamily::Enum, Encoding::Plain),
            ("io.debezium.data.EnumSet", _) => (TypeFamily::Set, Encoding::Plain),
            ("io.debezium.data.Json", _) => (TypeFamily::Json, Encoding::Plain),
            (name, "struct") if name.starts_with("io.debezium.data.geometry.") => (TypeFamily::Blob, Encoding::Geometry),
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

/// The labels of an enum or set: joined by commas, of which one within a label has a backslash before it, as in the values.
fn labels(allowed: &str) -> Vec<String> {
    let mut labels: Vec<String> = Vec::new();
    for part in allowed.split(',').filter(|_| !allowed.is_empty()) {
        match labels.last_mut().filter(|label| label.ends_with('\\')) {
            Some(label) => *label = format!("{label},{part}"),
            None => labels.push(part.to_owned()),
        }
    }
    labels
}

impl<'t> Parameters<'t> {
    fn read(text: &'t str) -> Result<Self> {
        let mut cursor = Cursor::new(text, true);
        let mut parameters = Parameters::default();
        let mut members = cursor.object()?;
        while let Some(name) = cursor.next_key(&mut members)? {
            let value = cursor.value()?;
            let text = value.text()?;
            match name.raw {
                "scale" => parameters.scale = text.parse().ok(),
                "connect.decimal.precision" => parameters.precision = text.parse().ok(),
                "length" => parameters.length = text.parse().ok(),
                "allowed" => parameters.allowed = Some(text),
                "__debezium.source.column.type" => parameters.source_type = Some(text),
                "__debezium.source.column.length" => parameters.source_length = Some(text),
                "__debezium.source.column.scale" => parameters.source_scale = Some(text),
                _ => {}
            }
        }
        Ok(parameters)
    }
}
