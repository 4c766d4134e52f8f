//! Avro data as JSON text, in the form of Kafka Connect's JSON converter: bytes in base64, logical types as their
//! numbers.
//!
//! Avro's own JSON encoding, which console consumers print, differs: the value of a union is an object with one member,
//! whose name is the value's type. This module recognises it, but does not read it.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::avro::{Items, Reader};
use super::avro_schema::{Field, NamedKind, NamedType, Schema, Schemas};
use super::json::{Cursor, MAX_DEPTH, quoted};
use crate::error::{Fault, Kind, Result};
use crate::mysql::number::print_float;

/// Limit of the text in bytes: this multiple of the datum's size, plus [`MAX_SHORT`]. JSON repeats the field names for
/// each record, so a short datum can expand to a long text.
const MAX_GROWTH: usize = 256;
const MAX_SHORT: usize = 64 << 10;

/// Reads a value as JSON text.
pub(crate) fn to_json(
    schemas: &Schemas,
    schema: &Schema,
    reader: &mut Reader<'_>,
) -> Result<String> {
    let limit = reader
        .rest()
        .len()
        .saturating_mul(MAX_GROWTH)
        .saturating_add(MAX_SHORT);
    let mut writer = JsonWriter {
        schemas,
        text: String::new(),
        limit,
    };
    writer.value(schema, reader, MAX_DEPTH)?;
    Ok(writer.text)
}

/// Avro's types in a union, each with the possible first bytes of its values, and the packages of Connect's named
/// types.
const BRANCHES: [(&str, &[u8]); 9] = [
    ("string", b"\""),
    ("bytes", b"\""),
    ("boolean", b"tf"),
    ("int", b"-0123456789"),
    ("long", b"-0123456789"),
    ("float", b"-0123456789\""),
    ("double", b"-0123456789\""),
    ("array", b"["),
    ("map", b"{"),
];
const PACKAGES: [&str; 3] = [
    "io.debezium.",
    "io.confluent.connect.",
    "org.apache.kafka.connect.",
];

/// Returns whether the value at the cursor has the form of a union's value in Avro's JSON encoding: `{"string":"x"}`.
pub(crate) fn is_union(mut value: Cursor<'_>) -> bool {
    only_member(&mut value).is_some_and(|(name, first)| {
        let is_plain = BRANCHES
            .iter()
            .any(|(branch, begins)| name == *branch && begins.contains(&first));
        is_plain || PACKAGES.iter().any(|package| name.starts_with(package))
    })
}

/// Returns the name and the value's first byte of an object's only member.
fn only_member<'a>(value: &mut Cursor<'a>) -> Option<(Cow<'a, str>, u8)> {
    let mut members = value.object().ok()?;
    let name = value.next_key(&mut members).ok()??.decode().ok()?;
    let first = value.peek()?;
    value.skip().ok()?;
    match value.next_key(&mut members).ok()? {
        Some(_) => None,
        None => Some((name, first)),
    }
}

struct JsonWriter<'s> {
    schemas: &'s Schemas,
    text: String,
    limit: usize,
}

impl<'s> JsonWriter<'s> {
    fn push(&mut self, text: &str, reader: &Reader<'_>) -> Result<()> {
        if self.text.len().saturating_add(text.len()) > self.limit {
            return Err(Fault::new(
                Kind::Size,
                format!("takes more than {} bytes as JSON", self.limit),
            )
            .at(reader.at()));
        }
        self.text.push_str(text);
        Ok(())
    }

    fn value(&mut self, schema: &'s Schema, reader: &mut Reader<'_>, levels: u32) -> Result<()> {
        let Some(levels) = levels.checked_sub(1) else {
            let what = format!("nested deeper than {MAX_DEPTH} levels");
            return Err(Fault::new(Kind::Depth, what).at(reader.at()));
        };
        let text = match schema {
            Schema::Null => "null".into(),
            Schema::Boolean => reader.boolean()?.to_string(),
            Schema::Int => reader.int()?.to_string(),
            Schema::Long => reader.long()?.to_string(),
            Schema::Float => float(reader.float()?),
            Schema::Double => float(reader.double()?),
            Schema::Bytes => base64(reader.bytes()?),
            Schema::String => quoted(reader.text()?),
            Schema::Array(item) => return self.array(item, reader, levels),
            Schema::Map(value) => return self.map(value, reader, levels),
            Schema::Union(branches) => {
                return self.value(reader.pick(branches, "branch")?, reader, levels);
            }
            Schema::Annotated(plain, _) => return self.value(plain, reader, levels),
            Schema::Named(number) => {
                return self.named(self.schemas.numbered(*number), reader, levels);
            }
        };
        self.push(&text, reader)
    }

    fn named(&mut self, named: &'s NamedType, reader: &mut Reader<'_>, levels: u32) -> Result<()> {
        let text = match &named.kind {
            NamedKind::Record(fields) => return self.record(fields, reader, levels),
            NamedKind::Enum(symbols) => quoted(reader.pick(symbols, "symbol")?),
            NamedKind::Fixed(length) => base64(reader.take(*length, "a fixed")?),
        };
        self.push(&text, reader)
    }

    fn record(&mut self, fields: &'s [Field], reader: &mut Reader<'_>, levels: u32) -> Result<()> {
        self.push("{", reader)?;
        for (index, field) in fields.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            self.push(&format!("{comma}{}:", quoted(&field.name)), reader)?;
            self.value(&field.schema, reader, levels)?;
        }
        self.push("}", reader)
    }

    fn array(&mut self, item: &'s Schema, reader: &mut Reader<'_>, levels: u32) -> Result<()> {
        self.push("[", reader)?;
        let (mut items, mut comma) = (Items::default(), "");
        while reader.next_item(&mut items)? {
            self.push(comma, reader)?;
            self.value(item, reader, levels)?;
            comma = ",";
        }
        self.push("]", reader)
    }

    fn map(&mut self, value: &'s Schema, reader: &mut Reader<'_>, levels: u32) -> Result<()> {
        self.push("{", reader)?;
        let (mut items, mut comma) = (Items::default(), "");
        while reader.next_item(&mut items)? {
            let name = quoted(reader.text()?);
            self.push(&format!("{comma}{name}:"), reader)?;
            self.value(value, reader, levels)?;
            comma = ",";
        }
        self.push("}", reader)
    }
}

fn base64(bytes: &[u8]) -> String {
    quoted(&STANDARD.encode(bytes))
}

/// Returns a float as JSON. JSON has no infinity and no NaN, so Connect's converter writes their names.
fn float<T: std::fmt::Display + std::fmt::LowerExp + Into<f64> + Copy>(number: T) -> String {
    if number.into().is_finite() {
        print_float(number)
    } else {
        quoted(&number.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(schema: &str, bytes: &[u8]) -> String {
        let (schemas, root) = Schemas::parse_annotated(schema, &[]).unwrap();
        let mut reader = Reader::new(bytes);
        match to_json(&schemas, &root, &mut reader) {
            Ok(text) => format!("{text} {}", reader.at()),
            Err(fault) => fault.into_parts().what,
        }
    }

    #[test]
    fn every_type() {
        let schema = r#"{"type":"record","name":"R","fields":[
            {"name":"a","type":["null",{"type":"array","items":{"type":"long","logicalType":"x"}}]},
            {"name":"m","type":{"type":"map","values":"boolean"}},{"name":"b","type":"bytes"},{"name":"s","type":"string"},
            {"name":"e","type":{"type":"enum","name":"E","symbols":["X","Y"]}},{"name":"f","type":{"type":"fixed","name":"F","size":2}},
            {"name":"d","type":"double"},{"name":"n","type":"null"}]}"#;
        let bytes = b"\x02\x04\x01\x02\x00\x02\x02k\x01\x00\x04\x00\xff\x04\"\n\x02ab\x00\x00\x00\x00\x00\x00\xf0\x7f";
        let expected = r#"{"a":[-1,1],"m":{"k":true},"b":"AP8=","s":"\"\u000a","e":"Y","f":"YWI=","d":"inf","n":null} 27"#;
        assert_eq!(json(schema, bytes), expected);
    }

    #[test]
    fn text_and_depth_are_bounded() {
        let name = "n".repeat(10_000);
        let many = format!(
            r#"{{"type":"array","items":{{"type":"record","name":"R","fields":[{{"name":"{name}","type":"int"}}]}}}}"#
        );
        let mut bytes = vec![100, 0];
        bytes.extend([2; 100]);
        assert!(
            json(&many, &bytes).starts_with("takes more than "),
            "{}",
            json(&many, &bytes)
        );
        let recursive = r#"{"type":"record","name":"R","fields":[{"name":"r","type":{"type":"array","items":"R"}}]}"#;
        assert_eq!(json(recursive, &[2; 1000]), "nested deeper than 128 levels");
    }
}
