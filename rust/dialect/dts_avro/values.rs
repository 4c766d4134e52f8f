//! The values of row images: one of the records that DTS has for its types, each becoming what MySQL holds.

use std::borrow::Cow;

use bumpalo::Bump;

use super::ColumnDescriptor;
use super::parts::{ExpectedType, RecordPlan, Wanted};
use crate::error::{Fault, Kind, Result};
use crate::mysql::charset;
use crate::mysql::number::without_exponent;
use crate::mysql::temporal::DateTimeText;
use crate::mysql::types::{DeclaredType, Encoding, TypeFamily};
use crate::mysql::zone::Zone;
use crate::value::{Unread, Value};
use crate::wire::avro::Reader;
use crate::wire::avro_schema::{Schema, Schemas};
use crate::wire::utf8::{is_utf8, utf8};

/// What a value of an image may be.
#[derive(Debug)]
pub(super) enum CellEncoding {
    Null,
    Text,
    /// The symbols of `EmptyObject`.
    Empty(Vec<String>),
    Known(ValueRecord, RecordPlan),
    /// A type that is not DTS's, by its name.
    Unknown(String, Schema),
}

/// The records that DTS has for values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ValueRecord {
    Integer,
    Character,
    Decimal,
    Float,
    Timestamp,
    DateTime,
    Zoned,
    Text,
    Object,
    Geometry,
}

const CLOCK: [Wanted; 7] = [
    ("year", ExpectedType::Number),
    ("month", ExpectedType::Number),
    ("day", ExpectedType::Number),
    ("hour", ExpectedType::Number),
    ("minute", ExpectedType::Number),
    ("second", ExpectedType::Number),
    ("millis", ExpectedType::Number),
];
const ZONED: [Wanted; 7] = [
    ("value.year", ExpectedType::Number),
    ("value.month", ExpectedType::Number),
    ("value.day", ExpectedType::Number),
    ("value.hour", ExpectedType::Number),
    ("value.minute", ExpectedType::Number),
    ("value.second", ExpectedType::Number),
    ("value.millis", ExpectedType::Number),
];

const VALUE: Wanted = ("value", ExpectedType::Text);
const STORED: Wanted = ("value", ExpectedType::Bytes);

/// Each record's name, what it is, and what is wanted of it: bytes, then numbers.
const RECORDS: [(&str, ValueRecord, &[Wanted], &[Wanted]); 11] = [
    ("Integer", ValueRecord::Integer, &[VALUE], &[]),
    ("Character", ValueRecord::Character, &[STORED, ("charset", ExpectedType::Text)], &[]),
    ("Decimal", ValueRecord::Decimal, &[VALUE], &[]),
    ("Float", ValueRecord::Float, &[], &[("value", ExpectedType::Double)]),
    ("Timestamp", ValueRecord::Timestamp, &[], &[("timestamp", ExpectedType::Number), ("millis", ExpectedType::Number)]),
    ("DateTime", ValueRecord::DateTime, &[], &CLOCK),
    ("TimestampWithTimeZone", ValueRecord::Zoned, &[("timezone", ExpectedType::Text)], &ZONED),
    ("TextObject", ValueRecord::Text, &[VALUE], &[]),
    ("TextGeometry", ValueRecord::Text, &[VALUE], &[]),
    ("BinaryObject", ValueRecord::Object, &[STORED, ("type", ExpectedType::Text)], &[]),
    ("BinaryGeometry", ValueRecord::Geometry, &[STORED], &[]),
];

impl CellEncoding {
    pub fn compile(schemas: &Schemas, schema: &Schema) -> Result<Self, String> {
        let name = schemas.named(schema).map_or("", |named| &named.name);
        let record = RECORDS.iter().find(|(record, ..)| *record == name && schemas.fields(schema).is_some());
        Ok(match (schema, record) {
            (Schema::Null, _) => CellEncoding::Null,
            (Schema::String, _) => CellEncoding::Text,
            (named, _) if name == "EmptyObject" && schemas.symbols(named).is_some() => {
                CellEncoding::Empty(schemas.symbols(named).unwrap_or_default().to_vec())
            }
            (_, Some((_, record, bytes, numbers))) => CellEncoding::Known(*record, RecordPlan::compile(schemas, schema, bytes, numbers)?),
            _ => CellEncoding::Unknown(name.into(), schema.clone()),
        })
    }

    /// Reads the value of a column; one that nobody asks for is only stepped over.
    #[inline(always)]
    pub fn read<'a>(&self, reader: &mut Reader<'a>, schemas: &Schemas, column: &ColumnDescriptor, arena: &'a Bump) -> Result<Value<'a>> {
        let start = reader.at();
        let made = match self {
            CellEncoding::Null => return Ok(Value::Null),
            CellEncoding::Known(record, parts) => record.read(parts, reader, schemas, column, arena)?,
            CellEncoding::Text => Ok(Value::Text(reader.text()?)),
            CellEncoding::Empty(symbols) => {
                let symbol = reader.index(symbols.len(), "symbol")?;
                empty(symbols.get(symbol).map_or("", String::as_str))
            }
            CellEncoding::Unknown(name, schema) => {
                schemas.skip(schema, reader)?;
                Err(no(format!("a value of Avro type {name:?} is none of DTS's")))
            }
        };
        match made {
            Ok(value) => Ok(value),
            Err(odd) => Ok(odd.value(reader.since(start), arena)),
        }
    }
}

/// Why a value cannot be made out, before its place is known.
struct BadValue<'a> {
    kind: Kind,
    why: String,
    /// The stored bytes, where there are any.
    bytes: Option<&'a [u8]>,
}

type Made<'a> = std::result::Result<Value<'a>, Box<BadValue<'a>>>;

impl<'a> BadValue<'a> {
    #[cold]
    fn value(self, written: &'a [u8], arena: &'a Bump) -> Value<'a> {
        let why = arena.alloc_str(&self.why);
        Value::Unread(arena.alloc(Unread { kind: self.kind, why, bytes: self.bytes.unwrap_or(written) }))
    }
}

#[cold]
fn no<'a>(why: impl Into<String>) -> Box<BadValue<'a>> {
    Box::new(BadValue { kind: Kind::Type, why: why.into(), bytes: None })
}

#[cold]
fn beyond<'a>(why: impl Into<String>) -> Box<BadValue<'a>> {
    Box::new(BadValue { kind: Kind::Range, why: why.into(), bytes: None })
}

/// Bytes that are not the text that they should be.
#[cold]
fn undecoded<'a>(why: String, bytes: &'a [u8]) -> Box<BadValue<'a>> {
    Box::new(BadValue { kind: Kind::Encoding, why, bytes: Some(bytes) })
}

fn empty<'a>(symbol: &str) -> Made<'a> {
    match symbol {
        // The image does not have the column, as with binlog_row_image=MINIMAL.
        "NONE" => Ok(Value::Missing),
        "NULL" => Ok(Value::Null),
        other => Err(no(format!("an EmptyObject {other:?} is unknown"))),
    }
}

impl ValueRecord {
    /// Reads the record; a column that nobody asks for gets no value.
    #[inline(always)]
    fn read<'a>(
        self,
        parts: &RecordPlan,
        reader: &mut Reader<'a>,
        schemas: &Schemas,
        column: &ColumnDescriptor,
        arena: &'a Bump,
    ) -> Result<Made<'a>> {
        Ok(match self {
            ValueRecord::Integer | ValueRecord::Text | ValueRecord::Decimal | ValueRecord::Geometry => {
                let ([value], []) = parts.read(reader, schemas)?;
                match value.filter(|_| column.is_wanted) {
                    Some(value) => self.written(value, arena),
                    None => Ok(Value::Null),
                }
            }
            ValueRecord::Character => {
                let ([value, charset], []) = parts.read(reader, schemas)?;
                match value.filter(|_| column.is_wanted) {
                    Some(value) => character(value, charset.unwrap_or_default(), arena),
                    None => Ok(Value::Null),
                }
            }
            ValueRecord::Float => {
                let ([], [bits]) = parts.read(reader, schemas)?;
                Ok(bits.map_or(Value::Null, |bits| float(f64::from_bits(bits as u64), column.type_number)))
            }
            ValueRecord::Timestamp => {
                let ([], [seconds, micros]) = parts.read(reader, schemas)?;
                seconds.map_or(Ok(Value::Null), |seconds| timestamp(seconds, micros.unwrap_or(0)))
            }
            ValueRecord::DateTime => {
                let ([], clock) = parts.read(reader, schemas)?;
                if column.is_wanted { date_time(&clock, arena) } else { Ok(Value::Null) }
            }
            ValueRecord::Object => {
                let ([value, expected], []) = parts.read(reader, schemas)?;
                Ok(value.map_or(Value::Null, |value| object(value, expected.unwrap_or_default())))
            }
            ValueRecord::Zoned => {
                let ([zone], clock) = parts.read(reader, schemas)?;
                if column.is_wanted { zoned(&clock, zone.unwrap_or_default(), arena) } else { Ok(Value::Null) }
            }
        })
    }

    /// A value that is written in one piece.
    #[inline(always)]
    fn written<'a>(self, value: &'a [u8], arena: &'a Bump) -> Made<'a> {
        if self == ValueRecord::Geometry {
            return Ok(Value::Bytes(value));
        }
        if !is_utf8(value) {
            return Err(undecoded("the text is not UTF-8".into(), value));
        }
        Ok(match self {
            ValueRecord::Text => Value::Plain(value),
            // Java's BigDecimal prints some values with an exponent, and MySQL none.
            ValueRecord::Decimal if value.iter().any(|byte| byte | 0x20 == b'e') => {
                let plain = utf8(value).and_then(without_exponent);
                plain.map_or(Value::Digits(value), |plain| Value::Number(arena.alloc_str(&plain)))
            }
            // Digits; their precision is the column's width in bytes.
            _ => Value::Digits(value),
        })
    }
}

/// A FLOAT comes as the double that equals it.
fn float<'a>(double: f64, type_number: i32) -> Value<'a> {
    let single = double as f32;
    if type_number == FLOAT && f64::from(single) == double { Value::Single(single) } else { Value::Double(double) }
}

/// Text in the column's own character set, or bytes.
#[inline(always)]
fn character<'a>(value: &'a [u8], charset: &[u8], arena: &'a Bump) -> Made<'a> {
    if charset::is_utf8(charset) && is_utf8(value) {
        return Ok(Value::Plain(value));
    }
    match charset::decode(charset, value) {
        Ok(Some(Cow::Borrowed(text))) => Ok(Value::Text(text)),
        Ok(Some(Cow::Owned(text))) => Ok(Value::Text(arena.alloc_str(&text))),
        Ok(None) => Ok(Value::Bytes(value)),
        Err(why) => Err(undecoded(why, value)),
    }
}

/// A large object. Of TEXT nothing says in which character set it is, so that only UTF-8 is known to be text.
fn object<'a>(value: &'a [u8], expected: &[u8]) -> Value<'a> {
    let is_text = ["TEXT", "JSON", "ENUM", "SET", "XML"].iter().any(|text| expected.eq_ignore_ascii_case(text.as_bytes()));
    let text = utf8(value).filter(|_| is_text);
    text.map_or(Value::Bytes(value), Value::Text)
}

const MICROS: i64 = 1_000_000;
const ZERO_DATE: &str = "0000-00-00 00:00:00";

/// Seconds since 1970, of the years 1 to 9999.
const SECONDS: std::ops::Range<i64> = -62_135_596_800..253_402_300_800;

/// Seconds since 1970 and, whatever the field's name, microseconds: the SDK's `TimestampStringAdapter` prints six digits.
fn timestamp<'a>(seconds: i64, micros: i64) -> Made<'a> {
    match micros {
        // MySQL stores its zero date as 0; a TIMESTAMP begins a second later.
        0 if seconds == 0 => Ok(Value::Text(ZERO_DATE)),
        micros @ 0..MICROS if SECONDS.contains(&seconds) => Ok(Value::Timestamp(seconds * MICROS + micros)),
        micros => Err(beyond(format!("{seconds} seconds and {micros} microseconds do not fit into a timestamp"))),
    }
}

/// A date, a clock, a year or a TIME, by the parts that it has. `millis` holds microseconds here too: `DateTimeAdapter`.
fn date_time<'a>(parts: &[Option<i64>; 7], arena: &'a Bump) -> Made<'a> {
    match *parts {
        [Some(year), None, None, None, None, None, None | Some(0)] => year_of(year, arena),
        [None, None, None, Some(hour), Some(minute), Some(second), micros] => time([hour, minute, second, micros.unwrap_or(0)]),
        [Some(year), Some(month), Some(day), None, None, None, None | Some(0)] => {
            let date = written([year, month, day, 0, 0, 0, 0])?;
            Ok(date.days().map_or_else(|_| Value::Text(arena.alloc_str(&print(&date, false))), Value::Date))
        }
        [Some(year), Some(month), Some(day), Some(hour), Some(minute), Some(second), micros] => {
            let clock = written([year, month, day, hour, minute, second, micros.unwrap_or(0)])?;
            let micros = |seconds| seconds * MICROS + i64::from(clock.nanos / 1000);
            Ok(clock
                .seconds()
                .map_or_else(|_| Value::Text(arena.alloc_str(&print(&clock, true))), |seconds| Value::DateTime(micros(seconds))))
        }
        _ => Err(no(format!("a DateTime of {} is no date, time or year", shown(parts)))),
    }
}

#[cold]
fn shown(parts: &[Option<i64>; 7]) -> String {
    let parts = CLOCK.iter().zip(parts).filter_map(|((name, _), part)| Some(format!("{name} {}", (*part)?)));
    parts.collect::<Vec<_>>().join(", ")
}

/// MySQL prints the year 0 with four digits.
fn year_of<'a>(year: i64, arena: &'a Bump) -> Made<'a> {
    match year {
        0..10_000 => Ok(Value::Number(arena.alloc_str(&format!("{year:04}")))),
        other => Err(beyond(format!("{other} does not fit into a year"))),
    }
}

/// A TIME; where it is negative, every part of it is: the SDK's `TimeAdapter`.
fn time<'a>(parts: [i64; 4]) -> Made<'a> {
    let [hour, minute, second, micros] = parts;
    let fits = hour.abs() <= 838 && minute.abs() < 60 && second.abs() < 60 && micros.abs() < MICROS;
    let one_sign = parts.iter().all(|part| *part >= 0) || parts.iter().all(|part| *part <= 0);
    if !fits || !one_sign {
        return Err(beyond(format!("hour {hour}, minute {minute}, second {second}, {micros} microseconds do not fit into a time")));
    }
    Ok(Value::Time(((hour * 60 + minute) * 60 + second) * MICROS + micros))
}

fn written<'a>(parts: [i64; 7]) -> std::result::Result<DateTimeText, Box<BadValue<'a>>> {
    let [year, month, day, hour, minute, second, micros] = parts;
    let two_digits = |part: i64| u8::try_from(part).ok().filter(|part| *part < 100);
    let made = || {
        Some(DateTimeText {
            year: u16::try_from(year).ok().filter(|year| *year < 10_000)?,
            month: two_digits(month)?,
            day: two_digits(day)?,
            hour: two_digits(hour)?,
            minute: two_digits(minute)?,
            second: two_digits(second)?,
            nanos: u32::try_from(micros).ok().filter(|micros| i64::from(*micros) < MICROS)? * 1000,
            offset: None,
            has_time: true,
        })
    };
    made().ok_or_else(|| beyond(format!("a DateTime of {} does not fit into a date", shown(&parts.map(Some)))))
}

/// A zero date, or another that the calendar lacks, as MySQL prints it.
#[cold]
fn print(written: &DateTimeText, has_time: bool) -> String {
    let DateTimeText { year, month, day, hour, minute, second, nanos, .. } = written;
    let date = format!("{year:04}-{month:02}-{day:02}");
    match nanos / 1000 {
        _ if !has_time => date,
        0 => format!("{date} {hour:02}:{minute:02}:{second:02}"),
        micros => format!("{date} {hour:02}:{minute:02}:{second:02}.{micros:06}"),
    }
}

/// A clock in a zone.
fn zoned<'a>(parts: &[Option<i64>; 7], zone: &[u8], arena: &'a Bump) -> Made<'a> {
    let clock = match date_time(parts, arena)? {
        Value::DateTime(clock) => clock,
        // A zero date is one in every zone.
        Value::Text(text) => return Ok(Value::Text(text)),
        _ => return Err(no(format!("a TimestampWithTimeZone of {} is no moment", shown(parts)))),
    };
    let name = String::from_utf8_lossy(zone);
    let zone = zone_of(&name).ok_or_else(|| no(format!("unknown time zone {name:?}")))?;
    match zone.instant(clock.div_euclid(MICROS)) {
        Ok(seconds) => Ok(Value::Timestamp(seconds * MICROS + clock.rem_euclid(MICROS))),
        Err(_) => Err(beyond(format!("the time zone {name:?} skips or repeats the clock {}", shown(parts)))),
    }
}

/// A zone by its name, or an offset in one of the ways that the SDK's `DateTime` reads: `+08:00`, `GMT+8:00`, `UTC+8`.
fn zone_of(name: &str) -> Option<Zone> {
    let offset = name.strip_prefix("GMT").or_else(|| name.strip_prefix("UTC")).unwrap_or(name);
    match offset {
        "" if !name.is_empty() => Some(Zone::Utc),
        offset if offset.starts_with(['+', '-']) && !offset.contains(':') => Zone::parse(&format!("{offset}:00")),
        offset if offset.starts_with(['+', '-']) => Zone::parse(offset),
        _ => Zone::parse(name),
    }
}

/// MySQL's number of FLOAT.
const FLOAT: i32 = 4;

/// The type that one of MySQL's numbers stands for. It does not tell whether an integer is signed, so that the inferred type
/// has to hold both; nor text from bytes, nor any length.
pub(super) fn declared(type_number: i32) -> DeclaredType {
    let (family, encoding) = match type_number {
        0 | 246 => (TypeFamily::Decimal, Encoding::Plain),
        1 => (TypeFamily::Tinyint, Encoding::Plain),
        2 => (TypeFamily::Smallint, Encoding::Plain),
        3 => (TypeFamily::Int, Encoding::Plain),
        FLOAT => (TypeFamily::Float, Encoding::Plain),
        5 => (TypeFamily::Double, Encoding::Plain),
        7 | 17 => (TypeFamily::Timestamp, Encoding::Plain),
        8 => (TypeFamily::Bigint, Encoding::Plain),
        9 => (TypeFamily::Mediumint, Encoding::Plain),
        10 | 14 => (TypeFamily::Date, Encoding::Plain),
        11 | 19 => (TypeFamily::Time, Encoding::Plain),
        12 | 18 => (TypeFamily::Datetime, Encoding::Plain),
        13 => (TypeFamily::Year, Encoding::Plain),
        16 => (TypeFamily::Bit, Encoding::Plain),
        15 | 249..=254 => (TypeFamily::Characters, Encoding::Plain),
        245 => (TypeFamily::Json, Encoding::Plain),
        247 => (TypeFamily::Enum, Encoding::Plain),
        248 => (TypeFamily::Set, Encoding::Plain),
        255 => (TypeFamily::Geometry, Encoding::Wkb),
        _ => (TypeFamily::Unknown, Encoding::Plain),
    };
    let text = type_number.to_string().into();
    DeclaredType { text, family, unsigned: true, arguments: Vec::new(), labels: Vec::new(), encoding }
}

/// The fault of a list of values that does not go with the list of columns.
#[cold]
pub(super) fn miscounted(values: usize, columns: usize) -> Fault {
    let values = if values > columns { format!("more than {columns}") } else { values.to_string() };
    Fault::new(Kind::Envelope, format!("has {values} values for {columns} columns"))
}
