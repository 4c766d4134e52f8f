//! ticdc-open: TiCDC's open protocol. A Kafka record holds many changes. Its key has the table and the time of each
//! change, its value the content.
//!
//! Key: a version as 8 bytes (1), then for each change the length as 8 bytes and JSON. Value: for each change the
//! length as 8 bytes and JSON. All numbers are big-endian.
//!
//! ```json
//! {"ts":450384410667647795,"scm":"shop","tbl":"orders","t":1}
//! {"u":{"id":{"t":8,"h":true,"f":11,"v":1},"total":{"t":246,"f":65,"v":"12.50"}},"p":{}}
//! ```
//!
//! `t` of a column is MySQL's type number. Text of blobs and of long texts is base64. Binary text is quoted like in Go
//! (`strconv.Quote`).

use serde::Deserialize;

use super::json_members::text as member_text;
use super::{Dialect, JSON_OPTIONS, Marks, Read, ReadContext, Wire};
use crate::error::{Fault, Kind, Result};
use crate::event::{Cells, Envelope, Events, Image, Op, Quirks, ValueFormat};
use crate::interner::{MemberNames, NameId, Quoting};
use crate::mysql::temporal::micros_of_commit_ts;
use crate::mysql::types::DeclaredType;
use crate::value::Value;
use crate::wire::binary_text::BinaryText;
use crate::wire::json::Cursor;
use crate::wire::json_de::{self, Context, CowStr, Part, RawValue, deserialize_part};
use crate::wire::utf8;

pub(super) const DIALECT: Dialect = Dialect {
    name: NAME,
    aliases: &[],
    producer: "TiCDC (open protocol)",
    wire: Wire::Json,
    description: "TiCDC's open protocol: many changes in one record, with the tables in its key",
    marks: Marks::Bytes(detect),
    quirks: |_| &OPEN,
    read: Read::Keyed(read),
    options: JSON_OPTIONS,
    template: None,
};

pub(super) const NAME: &str = "ticdc-open";

static OPEN: Quirks = Quirks {
    dialect: NAME,
    declares_lengths: false,
    format: ValueFormat::Text,
    quoting: Quoting::None,
};

/// Detects a record by its first length, which cannot exceed the value's length, and the object after it. Resolved
/// records have no object.
fn detect(value: &[u8]) -> bool {
    split(value).is_ok_and(|(part, rest)| {
        part.starts_with(b"{") && part.ends_with(b"}") && (rest.is_empty() || split(rest).is_ok())
    }) || value == [0; 8]
}

/// Returns whether bytes are a record's key: the protocol's version, and objects with their lengths in front.
pub(super) fn is_key(key: &[u8]) -> bool {
    heads(key)
        .and_then(split)
        .is_ok_and(|(part, _)| part.starts_with(b"{"))
}

/// Returns the part with a length in front, and the rest.
fn split(bytes: &[u8]) -> Result<(&[u8], &[u8])> {
    let Some((length, rest)) = bytes.split_first_chunk::<8>() else {
        return Err(Fault::new(Kind::Syntax, "ends within a length"));
    };
    let length = usize::try_from(u64::from_be_bytes(*length)).unwrap_or(usize::MAX);
    rest.split_at_checked(length)
        .ok_or_else(|| Fault::new(Kind::Syntax, "ends within a change"))
}

/// Bits of a column's `f`.
const IS_BINARY: i64 = 1;
const IS_PRIMARY_KEY: i64 = 1 << 3;
const IS_UNSIGNED: i64 = 1 << 7;

/// A change's part in the record's key.
#[derive(Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
struct Head<'a> {
    /// TiDB's commit time.
    ts: Option<i64>,
    #[serde(rename = "scm")]
    database: Option<CowStr<'a>>,
    #[serde(rename = "tbl")]
    table: Option<CowStr<'a>>,
    /// 1 is a row, 2 a DDL, 3 a watermark.
    #[serde(rename = "t")]
    kind: Option<i64>,
    #[serde(rename = "ohk")]
    keys_only: Option<bool>,
    #[serde(rename = "ccl")]
    claim_check: Option<CowStr<'a>>,
}

/// A change's part in the record's value.
#[derive(Default, Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
struct Payload<'a> {
    #[serde(default, rename = "u")]
    update: OpenImage,
    #[serde(default, rename = "p")]
    previous: OpenImage,
    #[serde(default, rename = "d")]
    delete: OpenImage,
    #[serde(rename = "q")]
    sql: Option<CowStr<'a>>,
}

/// A column of a row image: `{"t":15,"f":64,"v":"..."}`.
#[derive(Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
struct Column<'a> {
    /// MySQL's number of the type.
    #[serde(rename = "t")]
    number: Option<i64>,
    #[serde(rename = "f")]
    flags: Option<i64>,
    #[serde(default, rename = "v")]
    written: RawValue<'a>,
}

/// An object of columns, or null.
#[derive(Default)]
struct OpenImage(Option<Cells>);

const ROW_IMAGE: &str = "$columns";

deserialize_part!(OpenImage, ROW_IMAGE, |part| OpenImage(part.range()));

/// Reads one change. Row images declare the types of their columns and mark the columns of the key.
struct Reader<'r, 'a> {
    events: &'r mut Events<'a>,
    /// Encoding of bytes as text, if the user gives it.
    binary: Option<BinaryText>,
    primary_key: Vec<NameId>,
    /// Declared types of the image with most columns, and its number of columns. `p` may have few.
    types: Option<usize>,
    columns: usize,
}

impl<'a> Context<'a> for Reader<'_, 'a> {
    fn members(&mut self) -> &mut MemberNames {
        &mut self.events.members
    }

    fn read_part(&mut self, token: &'static str, cursor: &mut Cursor<'a>) -> Result<Part<'a>> {
        match token {
            ROW_IMAGE => Ok(self.row_image(cursor)?.map_or(Part::None, Part::Range)),
            token => self.events.read_part(token, cursor),
        }
    }
}

fn read<'a>(value: &'a [u8], reading: &ReadContext<'_, 'a>, events: &mut Events<'a>) -> Result<()> {
    let Some(key) = reading.key else {
        let what = "is missing; set the argument key to its column";
        return Err(Fault::new(Kind::Envelope, what).within("key"));
    };
    let mut heads = heads(key).map_err(|fault| fault.within("key"))?;
    let mut rest = value;
    while !heads.is_empty() {
        let (head, following) = split(heads).map_err(|fault| fault.within("key"))?;
        let head = text(head)
            .and_then(|head| read_head(head, events))
            .map_err(|fault| fault.without_byte().within("key"))?;
        let start = value.len() - rest.len();
        // Older versions write no length for a watermark.
        let (body, next) = if rest.is_empty() && head.kind == Some(3) {
            (rest, rest)
        } else {
            split(rest).map_err(|f| f.at(start))?
        };
        emit(head, body, reading, events).map_err(|fault| fault.shifted(start + 8))?;
        (heads, rest) = (following, next);
    }
    if rest.is_empty() {
        Ok(())
    } else {
        Err(Fault::new(Kind::Envelope, "has more changes than its key")
            .at(value.len() - rest.len()))
    }
}

/// Returns the part after the version.
fn heads(key: &[u8]) -> Result<&[u8]> {
    match key.split_first_chunk::<8>() {
        Some((version, heads)) if u64::from_be_bytes(*version) == 1 => Ok(heads),
        Some((version, _)) => Err(Fault::new(
            Kind::Envelope,
            format!("has version {}, not 1", u64::from_be_bytes(*version)),
        )),
        None => Err(Fault::new(Kind::Syntax, "ends within its version")),
    }
}

fn text(bytes: &[u8]) -> Result<&str> {
    utf8::text(bytes, "a change is not UTF-8")
}

fn emit<'a>(
    head: Head<'a>,
    body: &'a [u8],
    reading: &ReadContext<'_, 'a>,
    events: &mut Events<'a>,
) -> Result<()> {
    let mut envelope = Envelope::empty(reading.quirks);
    envelope.source.event_time = head.ts.and_then(micros_of_commit_ts);
    envelope.database = member_text(head.database);
    envelope.table = member_text(head.table);
    envelope.handle_key_only = head.keys_only;
    envelope.claim_check = member_text(head.claim_check);
    let mut reader = Reader {
        events,
        binary: reading.options.binary,
        primary_key: Vec::new(),
        types: None,
        columns: 0,
    };
    let body = if body.is_empty() {
        Payload::default()
    } else {
        reader.payload(text(body)?, reading.lenient)?
    };
    let Reader {
        events,
        primary_key,
        types,
        ..
    } = reader;
    let sql = member_text(body.sql);
    let (op, before, after) = match (head.kind, body.update.0, body.delete.0) {
        (Some(1), Some(update), _) if body.previous.0.is_some() => {
            // With `only-output-updated-columns`, `p` has only the columns that changed.
            let before = body
                .previous
                .0
                .map(|previous| Image::merged(update.clone(), previous));
            (Op::Update, before, Some(Image::whole(update)))
        }
        (Some(1), Some(update), _) => (Op::Insert, None, Some(Image::whole(update))),
        (Some(1), None, Some(delete)) => (Op::Delete, Some(Image::whole(delete)), None),
        (Some(1), None, None) => {
            return Err(Fault::new(Kind::Envelope, "a row change without u or d"));
        }
        (Some(2), ..) => (
            Op::of_statement(sql.as_deref().unwrap_or_default()),
            None,
            None,
        ),
        (Some(3), ..) => (Op::Watermark, None, None),
        (Some(_), ..) => (Op::Other, None, None),
        (None, ..) => {
            return Err(Fault::new(Kind::Envelope, "is missing")
                .within("t")
                .within("key"));
        }
    };
    if op == Op::Watermark {
        envelope.source.watermark_ts = head.ts
    } else {
        envelope.source.commit_ts = head.ts
    }
    envelope.sql = sql;
    envelope.types = types;
    let first = events.names.len();
    events.names.extend(primary_key);
    envelope.primary_key = Some(first..events.names.len()).filter(|names| !names.is_empty());
    let envelope = events.envelope(envelope)?;
    events.row(op, envelope, before, after);
    Ok(())
}

fn read_head<'a>(text: &'a str, events: &mut Events<'a>) -> Result<Head<'a>> {
    json_de::read(&mut Cursor::new(text, false), events)
}

impl<'a> Reader<'_, 'a> {
    fn payload(&mut self, text: &'a str, lenient: bool) -> Result<Payload<'a>> {
        let mut cursor = Cursor::new(text, lenient);
        let payload = json_de::read(&mut cursor, self)?;
        match cursor.peek() {
            None => Ok(payload),
            Some(_) => Err(cursor.unexpected("the end of the change")),
        }
    }

    /// Reads an object of columns, or null. Declares their types.
    fn row_image(&mut self, cursor: &mut Cursor<'a>) -> Result<Option<Cells>> {
        if cursor.peek() == Some(b'n') {
            return cursor.null().map(|()| None);
        }
        let start = self.events.cells.len();
        let (mut key, mut columns) = (NameId::START, 0);
        self.events.types.start();
        let mut members = cursor.object()?;
        while cursor.next_member(&mut members)? {
            columns += 1;
            key = self.events.keys.read(cursor, key)?;
            self.column(key, cursor)
                .map_err(|fault| fault.within(self.events.keys.name(key)))?;
        }
        if self.events.needs.types && columns >= self.columns {
            (self.types, self.columns) =
                (Some(self.events.types.finish(&[], key.index())), columns);
        }
        Ok(Some(start..self.events.cells.len()))
    }

    fn column(&mut self, key: NameId, cursor: &mut Cursor<'a>) -> Result<()> {
        let events = &mut *self.events;
        let column: Column<'a> = json_de::read(cursor, events)?;
        if column.flags() & IS_PRIMARY_KEY != 0 && !self.primary_key.contains(&key) {
            self.primary_key.push(key);
        }
        if events.needs.types {
            let spelling = column.number().to_string();
            let distinct = format!("{spelling} {}", column.flags() & (IS_BINARY | IS_UNSIGNED));
            events
                .types
                .declare_as((key, events.keys.column(key)), NAME, &distinct, || {
                    column.declared(&spelling)
                });
        }
        if events.wants_cell(key) {
            let value = column.value(self.binary, events.arena)?;
            events.cells.push((key, value));
        }
        Ok(())
    }
}

impl<'a> Column<'a> {
    fn number(&self) -> i64 {
        self.number.unwrap_or(-1)
    }

    fn flags(&self) -> i64 {
        self.flags.unwrap_or(0)
    }

    fn is_binary(&self) -> bool {
        self.flags() & IS_BINARY != 0
    }

    fn declared(&self, spelling: &str) -> DeclaredType {
        DeclaredType::from_protocol(
            self.number(),
            self.is_binary(),
            self.flags() & IS_UNSIGNED != 0,
            spelling,
        )
    }

    /// Returns the value in MySQL's form.
    fn value(&self, binary: Option<BinaryText>, arena: &'a bumpalo::Bump) -> Result<Value<'a>> {
        let RawValue(written) = self.written;
        if !matches!(written, Value::Text(_) | Value::Escaped(_)) {
            return Ok(written);
        }
        let bytes = match self.number() {
            249..=252 => {
                let form = match binary {
                    Some(form) if self.is_binary() => form,
                    _ => BinaryText::Base64,
                };
                form.decode(&written.text()?).ok_or_else(|| {
                    let what = format!("the text of a blob is not {}", form.describe());
                    Fault::new(Kind::Type, what)
                })?
            }
            15 | 253 | 254 if self.is_binary() => match binary {
                Some(form) => form.read(&written.text()?)?,
                None => unquoted(&written.text()?),
            },
            _ => return Ok(written),
        };
        if self.is_binary() {
            return Ok(Value::Bytes(arena.alloc_slice_copy(&bytes)));
        }
        let text = String::from_utf8(bytes)
            .map_err(|_| Fault::new(Kind::Encoding, "the text of a column is not UTF-8"))?;
        Ok(Value::Text(arena.alloc_str(&text)))
    }
}

/// Returns the bytes of a text that Go quoted. Go writes letters for some control characters, `\x` for bytes, and `\u`
/// and `\U` for characters that it considers unprintable. A backslash before any other character is literal.
fn unquoted(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        let (plain, escape) = rest.split_at(at);
        bytes.extend_from_slice(plain.as_bytes());
        let letter = escape.as_bytes().get(1).copied();
        let digits = match letter {
            Some(b'x') => 2,
            Some(b'u') => 4,
            Some(b'U') => 8,
            _ => 0,
        };
        let code = escape
            .get(2..2 + digits)
            .and_then(|code| u32::from_str_radix(code, 16).ok());
        let (byte, length) = match (letter, code, code.and_then(char::from_u32)) {
            (Some(b'a'), ..) => (7, 2),
            (Some(b'b'), ..) => (8, 2),
            (Some(b'f'), ..) => (12, 2),
            (Some(b'n'), ..) => (b'\n', 2),
            (Some(b'r'), ..) => (b'\r', 2),
            (Some(b't'), ..) => (b'\t', 2),
            (Some(b'v'), ..) => (11, 2),
            (Some(quoted @ (b'\\' | b'"')), ..) => (quoted, 2),
            (Some(b'x'), Some(code), _) => (code as u8, 4),
            (Some(b'u' | b'U'), _, Some(c)) => {
                bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
                rest = escape.get(2 + digits..).unwrap_or_default();
                continue;
            }
            _ => (b'\\', 1),
        };
        bytes.push(byte);
        rest = escape.get(length..).unwrap_or_default();
    }
    bytes.extend_from_slice(rest.as_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_go_quoted() {
        assert_eq!(unquoted(r#"a\x00\xff\n\t\\\""#), b"a\0\xff\n\t\\\"");
        assert_eq!(
            unquoted(r"\u200b\U000e0001é"),
            "\u{200b}\u{e0001}é".as_bytes()
        );
        assert_eq!(unquoted(r"\q\x4"), br"\q\x4");
    }
}
