//! Values of row images. Decodes DTS's value records to MySQL's values.

use std::borrow::Cow;

use bumpalo::Bump;

use super::ColumnDescriptor;
use super::parts::{ExpectedType, RecordPlan, RequestedField};
use crate::error::{Fault, Kind, Result};
use crate::mysql::charset;
use crate::mysql::number::without_exponent;
use crate::mysql::temporal::{DateTimeText, in_calendar};
use crate::mysql::types::{DeclaredType, Encoding, TypeFamily};
use crate::mysql::zone::Zone;
use crate::value::{Unread, Value};
use crate::wire::avro::Reader;
use crate::wire::avro_schema::{Schema, Schemas};
use crate::wire::utf8::{is_utf8, utf8};

/// Encoding of a cell.
#[derive(Debug)]
pub(super) enum CellEncoding {
    Null,
    Text,
    /// The symbols of `EmptyObject`.
    Empty(Vec<String>),
    Known(ValueRecord, RecordPlan),
    /// A type that DTS does not have, by its name.
    Unknown(String, Schema),
}

/// DTS's records for values.
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

const DATE_TIME_PARTS: [RequestedField; 7] = [
    ("year", ExpectedType::Number),
    ("month", ExpectedType::Number),
    ("day", ExpectedType::Number),
    ("hour", ExpectedType::Number),
    ("minute", ExpectedType::Number),
    ("second", ExpectedType::Number),
    ("millis", ExpectedType::Number),
];
const ZONED_PARTS: [RequestedField; 7] = [
    ("value.year", ExpectedType::Number),
    ("value.month", ExpectedType::Number),
    ("value.day", ExpectedType::Number),
    ("value.hour", ExpectedType::Number),
    ("value.minute", ExpectedType::Number),
    ("value.second", ExpectedType::Number),
    ("value.millis", ExpectedType::Number),
];

const VALUE: RequestedField = ("value", ExpectedType::Text);
const STORED: RequestedField = ("value", ExpectedType::Bytes);

/// Name of each record, its kind, and its requested fields: bytes, then numbers.
const RECORDS: [(&str, ValueRecord, &[RequestedField], &[RequestedField]); 11] = [
    ("Integer", ValueRecord::Integer, &[VALUE], &[]),
    (
        "Character",
        ValueRecord::Character,
        &[STORED, ("charset", ExpectedType::Text)],
        &[],
    ),
    ("Decimal", ValueRecord::Decimal, &[VALUE], &[]),
    (
        "Float",
        ValueRecord::Float,
        &[],
        &[("value", ExpectedType::Double)],
    ),
    (
        "Timestamp",
        ValueRecord::Timestamp,
        &[],
        &[
            ("timestamp", ExpectedType::Number),
            ("millis", ExpectedType::Number),
        ],
    ),
    ("DateTime", ValueRecord::DateTime, &[], &DATE_TIME_PARTS),
    (
        "TimestampWithTimeZone",
        ValueRecord::Zoned,
        &[("timezone", ExpectedType::Text)],
        &ZONED_PARTS,
    ),
    ("TextObject", ValueRecord::Text, &[VALUE], &[]),
    ("TextGeometry", ValueRecord::Text, &[VALUE], &[]),
    (
        "BinaryObject",
        ValueRecord::Object,
        &[STORED, ("type", ExpectedType::Text)],
        &[],
    ),
    ("BinaryGeometry", ValueRecord::Geometry, &[STORED], &[]),
];

impl CellEncoding {
    pub fn compile(schemas: &Schemas, schema: &Schema) -> Result<Self, String> {
        let name = schemas.named(schema).map_or("", |named| &named.name);
        let record = RECORDS
            .iter()
            .find(|(record, ..)| *record == name && schemas.fields(schema).is_some());
        Ok(match (schema, record) {
            (Schema::Null, _) => CellEncoding::Null,
            (Schema::String, _) => CellEncoding::Text,
            (named, _) if name == "EmptyObject" && schemas.symbols(named).is_some() => {
                CellEncoding::Empty(schemas.symbols(named).unwrap_or_default().to_vec())
            }
            (_, Some((_, record, bytes, numbers))) => CellEncoding::Known(
                *record,
                RecordPlan::compile(schemas, schema, bytes, numbers)?,
            ),
            _ => CellEncoding::Unknown(name.into(), schema.clone()),
        })
    }

    /// Reads the value of a column, or skips it if it is not requested.
    #[inline(always)]
    pub fn read<'a>(
        &self,
        reader: &mut Reader<'a>,
        schemas: &Schemas,
        column: &ColumnDescriptor,
        arena: &'a Bump,
    ) -> Result<Value<'a>> {
        let start = reader.at();
        let decoded = match self {
            CellEncoding::Null => return Ok(Value::Null),
            CellEncoding::Known(record, plan) => {
                record.read(plan, reader, schemas, column, arena)?
            }
            CellEncoding::Text => Ok(Value::Text(reader.text()?)),
            CellEncoding::Empty(symbols) => {
                let symbol = reader.index(symbols.len(), "symbol")?;
                empty(symbols.get(symbol).map_or("", String::as_str))
            }
            CellEncoding::Unknown(name, schema) => {
                schemas.skip(schema, reader)?;
                Err(type_error(format!(
                    "Avro type {name:?} is not a DTS value type"
                )))
            }
        };
        match decoded {
            Ok(value) => Ok(value),
            Err(bad) => Ok(bad.into_value(reader.since(start), arena)),
        }
    }
}

/// Error of decoding a value, before its bytes are known.
struct BadValue<'a> {
    kind: Kind,
    why: String,
    /// The stored bytes, if they are not valid text.
    bytes: Option<&'a [u8]>,
}

type Decoded<'a> = std::result::Result<Value<'a>, Box<BadValue<'a>>>;

impl<'a> BadValue<'a> {
    #[cold]
    fn into_value(self, raw: &'a [u8], arena: &'a Bump) -> Value<'a> {
        let why = arena.alloc_str(&self.why);
        Value::Unread(arena.alloc(Unread {
            kind: self.kind,
            why,
            bytes: self.bytes.unwrap_or(raw),
        }))
    }
}

#[cold]
fn type_error<'a>(why: impl Into<String>) -> Box<BadValue<'a>> {
    Box::new(BadValue {
        kind: Kind::Type,
        why: why.into(),
        bytes: None,
    })
}

#[cold]
fn range_error<'a>(why: impl Into<String>) -> Box<BadValue<'a>> {
    Box::new(BadValue {
        kind: Kind::Range,
        why: why.into(),
        bytes: None,
    })
}

/// Error of bytes that are not valid text.
#[cold]
fn encoding_error<'a>(why: String, bytes: &'a [u8]) -> Box<BadValue<'a>> {
    Box::new(BadValue {
        kind: Kind::Encoding,
        why,
        bytes: Some(bytes),
    })
}

fn empty<'a>(symbol: &str) -> Decoded<'a> {
    match symbol {
        // The image omits the column, for example with binlog_row_image=MINIMAL.
        "NONE" => Ok(Value::Missing),
        "NULL" => Ok(Value::Null),
        other => Err(type_error(format!("unknown EmptyObject {other:?}"))),
    }
}

impl ValueRecord {
    /// Reads the record. The value of a column that is not requested may be null.
    #[inline(always)]
    fn read<'a>(
        self,
        plan: &RecordPlan,
        reader: &mut Reader<'a>,
        schemas: &Schemas,
        column: &ColumnDescriptor,
        arena: &'a Bump,
    ) -> Result<Decoded<'a>> {
        Ok(match self {
            ValueRecord::Integer
            | ValueRecord::Text
            | ValueRecord::Decimal
            | ValueRecord::Geometry => {
                let ([value], []) = plan.read(reader, schemas)?;
                match value {
                    Some(value) if column.is_requested => self.single(value, arena),
                    _ => Ok(Value::Null),
                }
            }
            ValueRecord::Character => {
                let ([value, charset], []) = plan.read(reader, schemas)?;
                match value {
                    Some(value) if column.is_requested => {
                        character(value, charset.unwrap_or_default(), arena)
                    }
                    _ => Ok(Value::Null),
                }
            }
            ValueRecord::Float => {
                let ([], [bits]) = plan.read(reader, schemas)?;
                Ok(match bits {
                    Some(bits) => float(f64::from_bits(bits as u64), column.type_number),
                    None => Value::Null,
                })
            }
            ValueRecord::Timestamp => {
                let ([], [seconds, micros]) = plan.read(reader, schemas)?;
                match seconds {
                    Some(seconds) => timestamp(seconds, micros.unwrap_or(0)),
                    None => Ok(Value::Null),
                }
            }
            ValueRecord::DateTime => {
                if plan.has_optional_numbers()
                    && let Some((value, length)) = usual_date_time(reader.rest())
                {
                    reader.advance(length);
                    return Ok(Ok(value));
                }
                let ([], date_time_parts) = plan.read(reader, schemas)?;
                if column.is_requested {
                    date_time(&date_time_parts, arena)
                } else {
                    Ok(Value::Null)
                }
            }
            ValueRecord::Object => {
                let ([value, expected], []) = plan.read(reader, schemas)?;
                Ok(match value {
                    Some(value) => object(value, expected.unwrap_or_default()),
                    None => Value::Null,
                })
            }
            ValueRecord::Zoned => {
                let ([zone], date_time_parts) = plan.read(reader, schemas)?;
                if column.is_requested {
                    zoned(&date_time_parts, zone.unwrap_or_default(), arena)
                } else {
                    Ok(Value::Null)
                }
            }
        })
    }

    /// Decodes a value of one field.
    #[inline(always)]
    fn single<'a>(self, value: &'a [u8], arena: &'a Bump) -> Decoded<'a> {
        if self == ValueRecord::Geometry {
            return Ok(Value::Bytes(value));
        }
        if !is_utf8(value) {
            return Err(encoding_error("the text is not UTF-8".into(), value));
        }
        Ok(match self {
            ValueRecord::Text => Value::Plain(value),
            // Java's BigDecimal prints some values with an exponent, MySQL never does.
            ValueRecord::Decimal if value.iter().any(|byte| byte | 0x20 == b'e') => {
                match utf8(value).and_then(without_exponent) {
                    Some(plain) => Value::Number(arena.alloc_str(&plain)),
                    None => Value::Digits(value),
                }
            }
            // The record's precision is the column's width in bytes. It is ignored.
            _ => Value::Digits(value),
        })
    }
}

/// Converts a double. DTS writes a FLOAT as the double with the same value.
fn float<'a>(double: f64, type_number: i32) -> Value<'a> {
    let single = double as f32;
    if type_number == FLOAT && f64::from(single) == double {
        Value::Single(single)
    } else {
        Value::Double(double)
    }
}

/// Decodes text in the column's own character set, or bytes.
#[inline(always)]
fn character<'a>(value: &'a [u8], charset: &[u8], arena: &'a Bump) -> Decoded<'a> {
    if charset::is_utf8(charset) && is_utf8(value) {
        return Ok(Value::Plain(value));
    }
    match charset::decode(charset, value) {
        Ok(Some(Cow::Borrowed(text))) => Ok(Value::Text(text)),
        Ok(Some(Cow::Owned(text))) => Ok(Value::Text(arena.alloc_str(&text))),
        Ok(None) => Ok(Value::Bytes(value)),
        Err(why) => Err(encoding_error(why, value)),
    }
}

/// Decodes a large object. A TEXT does not declare its character set, so only valid UTF-8 counts as text.
fn object<'a>(value: &'a [u8], expected: &[u8]) -> Value<'a> {
    let is_text = ["TEXT", "JSON", "ENUM", "SET", "XML"]
        .iter()
        .any(|text| expected.eq_ignore_ascii_case(text.as_bytes()));
    match utf8(value) {
        Some(text) if is_text => Value::Text(text),
        _ => Value::Bytes(value),
    }
}

const MICROS: i64 = 1_000_000;
const ZERO_DATE: &str = "0000-00-00 00:00:00";

/// Converts epoch seconds and microseconds. The field is named `millis`, but the SDK's `TimestampStringAdapter` prints
/// six digits.
fn timestamp<'a>(seconds: i64, micros: i64) -> Decoded<'a> {
    match micros {
        // MySQL stores its zero date as 0. A TIMESTAMP begins a second later.
        0 if seconds == 0 => Ok(Value::Text(ZERO_DATE)),
        micros @ 0..MICROS if in_calendar(seconds).is_ok() => {
            Ok(Value::Timestamp(seconds * MICROS + micros))
        }
        micros => Err(range_error(format!(
            "{seconds} seconds and {micros} microseconds do not fit into a timestamp"
        ))),
    }
}

/// Decodes a DATE, DATETIME, YEAR or TIME, by the parts that are present. `millis` is microseconds here too
/// (`DateTimeAdapter`).
fn date_time<'a>(parts: &[Option<i64>; 7], arena: &'a Bump) -> Decoded<'a> {
    match *parts {
        [Some(year), None, None, None, None, None, None | Some(0)] => year_value(year, arena),
        [
            None,
            None,
            None,
            Some(hour),
            Some(minute),
            Some(second),
            micros,
        ] => time([hour, minute, second, micros.unwrap_or(0)]),
        [
            Some(year),
            Some(month),
            Some(day),
            None,
            None,
            None,
            None | Some(0),
        ] => {
            let date = date_time_text([year, month, day, 0, 0, 0, 0])?;
            Ok(match date.days() {
                Ok(days) => Value::Date(days),
                Err(_) => Value::Text(arena.alloc_str(&print(&date, false))),
            })
        }
        [
            Some(year),
            Some(month),
            Some(day),
            Some(hour),
            Some(minute),
            Some(second),
            micros,
        ] => {
            let date_time =
                date_time_text([year, month, day, hour, minute, second, micros.unwrap_or(0)])?;
            let micros = i64::from(date_time.nanos / 1000);
            Ok(match date_time.seconds() {
                Ok(seconds) => Value::DateTime(seconds * MICROS + micros),
                Err(_) => Value::Text(arena.alloc_str(&print(&date_time, true))),
            })
        }
        _ => Err(type_error(format!(
            "a DateTime of {} is not a date, time or year",
            format_parts(parts)
        ))),
    }
}

/// Decodes a DATE, or a DATETIME without a fraction, whose year has two bytes and whose other parts have one byte each.
/// So each part has a fixed place. Returns the value with its length.
#[inline(always)]
fn usual_date_time<'a>(bytes: &[u8]) -> Option<(Value<'a>, usize)> {
    const SOME: u8 = 2;
    let [SOME, low, high, SOME, month, SOME, day, clock @ ..] = *bytes.first_chunk::<15>()? else {
        return None;
    };
    let (has_time, [hour, minute, second]) = match clock {
        [SOME, hour, SOME, minute, SOME, second, SOME, 0] => (true, [hour, minute, second]),
        [0, 0, 0, 0, ..] => (false, [0; 3]),
        _ => return None,
    };
    // Non-negative numbers: the year in two bytes, the others in one.
    let are_short =
        low & 0x81 == 0x80 && high < 0x80 && (month | day | hour | minute | second) & 0x81 == 0;
    let [month, day, hour, minute, second] =
        [month, day, hour, minute, second].map(|number| number / 2);
    let year = (u16::from(high) << 7 | u16::from(low & 0x7F)) / 2;
    let date = DateTimeText {
        year,
        month,
        day,
        hour,
        minute,
        second,
        nanos: 0,
        offset: None,
        has_time,
    };
    match has_time {
        _ if !are_short => None,
        true => Some((Value::DateTime(date.seconds().ok()? * MICROS), 15)),
        false => Some((Value::Date(date.days().ok()?), 11)),
    }
}

#[cold]
fn format_parts(parts: &[Option<i64>; 7]) -> String {
    let parts = DATE_TIME_PARTS
        .iter()
        .zip(parts)
        .filter_map(|((name, _), part)| Some(format!("{name} {}", (*part)?)));
    parts.collect::<Vec<_>>().join(", ")
}

/// Converts a YEAR. MySQL prints the year 0 with four digits.
fn year_value<'a>(year: i64, arena: &'a Bump) -> Decoded<'a> {
    match year {
        0..10_000 => Ok(Value::Number(arena.alloc_str(&format!("{year:04}")))),
        other => Err(range_error(format!("{other} does not fit into a year"))),
    }
}

/// Converts a TIME. All parts of a negative TIME are negative (the SDK's `TimeAdapter`).
fn time<'a>(parts: [i64; 4]) -> Decoded<'a> {
    let [hour, minute, second, micros] = parts;
    let fits = hour.abs() <= 838 && minute.abs() < 60 && second.abs() < 60 && micros.abs() < MICROS;
    let one_sign = parts.iter().all(|part| *part >= 0) || parts.iter().all(|part| *part <= 0);
    if !fits || !one_sign {
        return Err(range_error(format!(
            "hour {hour}, minute {minute}, second {second}, {micros} microseconds do not fit into a time"
        )));
    }
    Ok(Value::Time(
        ((hour * 60 + minute) * 60 + second) * MICROS + micros,
    ))
}

fn date_time_text<'a>(parts: [i64; 7]) -> std::result::Result<DateTimeText, Box<BadValue<'a>>> {
    checked_date_time(parts).ok_or_else(|| {
        range_error(format!(
            "a DateTime of {} does not fit into a date",
            format_parts(&parts.map(Some))
        ))
    })
}

fn checked_date_time(
    [year, month, day, hour, minute, second, micros]: [i64; 7],
) -> Option<DateTimeText> {
    Some(DateTimeText {
        year: u16::try_from(year).ok().filter(|year| *year < 10_000)?,
        month: two_digits(month)?,
        day: two_digits(day)?,
        hour: two_digits(hour)?,
        minute: two_digits(minute)?,
        second: two_digits(second)?,
        nanos: u32::try_from(micros)
            .ok()
            .filter(|micros| i64::from(*micros) < MICROS)?
            * 1000,
        offset: None,
        has_time: true,
    })
}

fn two_digits(part: i64) -> Option<u8> {
    u8::try_from(part).ok().filter(|part| *part < 100)
}

/// Prints a date that does not exist in the calendar, such as a zero date, like MySQL.
#[cold]
fn print(text: &DateTimeText, has_time: bool) -> String {
    let DateTimeText {
        year,
        month,
        day,
        hour,
        minute,
        second,
        nanos,
        ..
    } = text;
    let date = format!("{year:04}-{month:02}-{day:02}");
    match nanos / 1000 {
        _ if !has_time => date,
        0 => format!("{date} {hour:02}:{minute:02}:{second:02}"),
        micros => format!("{date} {hour:02}:{minute:02}:{second:02}.{micros:06}"),
    }
}

/// Converts a local date-time in a zone.
fn zoned<'a>(parts: &[Option<i64>; 7], zone: &[u8], arena: &'a Bump) -> Decoded<'a> {
    let local = match date_time(parts, arena)? {
        Value::DateTime(micros) => micros,
        // A zero date is the same in every zone.
        Value::Text(text) => return Ok(Value::Text(text)),
        _ => {
            return Err(type_error(format!(
                "a TimestampWithTimeZone of {} is not a timestamp",
                format_parts(parts)
            )));
        }
    };
    let name = String::from_utf8_lossy(zone);
    let zone =
        parse_zone(&name).ok_or_else(|| type_error(format!("unknown time zone {name:?}")))?;
    let seconds = local.div_euclid(MICROS);
    zone.instant(seconds)
        .map(|instant| Value::Timestamp(instant * MICROS + local.rem_euclid(MICROS)))
        .map_err(|_| {
            // Offsets are shorter than a day.
            let is_at_an_end = [-86_400, 86_400]
                .iter()
                .any(|day| in_calendar(seconds + day).is_err());
            let what = if is_at_an_end {
                "is outside of the years 1 to 9999"
            } else {
                "does not exist or is ambiguous"
            };
            range_error(format!(
                "the local time {} {what} in the time zone {name:?}",
                format_parts(parts)
            ))
        })
}

/// Parses the name of a zone, or an offset in a format of the SDK's `DateTime`: `+08:00`, `GMT+8:00`, `UTC+8`.
fn parse_zone(name: &str) -> Option<Zone> {
    let offset = name
        .strip_prefix("GMT")
        .or_else(|| name.strip_prefix("UTC"))
        .unwrap_or(name);
    match offset {
        "" if !name.is_empty() => Some(Zone::Utc),
        offset if offset.starts_with(['+', '-']) && !offset.contains(':') => {
            Zone::parse(&format!("{offset}:00"))
        }
        offset if offset.starts_with(['+', '-']) => Zone::parse(offset),
        _ => Zone::parse(name),
    }
}

/// MySQL's type number of FLOAT.
const FLOAT: i32 = 4;

/// Returns the declared type of a MySQL type number. The numbers do not distinguish signed from unsigned integers, so
/// the inferred type holds both. They do not distinguish text from bytes either, and have no length.
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
    DeclaredType {
        text,
        family,
        unsigned: true,
        arguments: Vec::new(),
        labels: Vec::new(),
        encoding,
    }
}

/// Returns the fault of an image with more or fewer values than columns.
#[cold]
pub(super) fn count_mismatch(values: usize, columns: usize) -> Fault {
    let values = if values > columns {
        format!("more than {columns}")
    } else {
        values.to_string()
    };
    Fault::new(
        Kind::Envelope,
        format!("has {values} values for {columns} columns"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Encodes zigzag, seven bits per byte.
    fn long(number: i64) -> Vec<u8> {
        let mut rest = (number << 1 ^ number >> 63) as u64;
        let mut out = Vec::new();
        while rest >= 0x80 {
            out.push(rest as u8 | 0x80);
            rest >>= 7;
        }
        out.push(rest as u8);
        out
    }

    fn record(parts: &[Option<i64>; 7]) -> Vec<u8> {
        parts
            .iter()
            .flat_map(|part| part.map_or_else(|| long(0), |part| [long(1), long(part)].concat()))
            .collect()
    }

    #[test]
    fn usual_dates_and_times_are_those_of_their_parts() {
        let (arena, mut usual) = (Bump::new(), 0);
        let years = [-1, 0, 1, 63, 64, 1970, 2024, 2100, 8191, 8192, 9999, 10_000];
        let dates = years
            .iter()
            .flat_map(|year| [-1, 0, 1, 2, 12, 13, 64].map(|month| (*year, month)));
        for (year, month) in dates {
            for day in [-1, 0, 1, 28, 29, 30, 31, 32, 65] {
                for clock in [
                    [0, 0, 0, 0],
                    [23, 59, 59, 0],
                    [24, 0, 0, 0],
                    [1, 60, 0, 0],
                    [1, 2, 60, 0],
                    [1, 2, 3, 1],
                    [-1, 2, 3, 0],
                ] {
                    let times = clock.map(Some);
                    for [hour, minute, second, micros] in [
                        times,
                        [None; 4],
                        [None, None, None, Some(0)],
                        [None, None, Some(0), None],
                    ] {
                        let parts = [
                            Some(year),
                            Some(month),
                            Some(day),
                            hour,
                            minute,
                            second,
                            micros,
                        ];
                        let bytes = record(&parts);
                        let Some((value, length)) =
                            usual_date_time(&[&bytes[..], &[0; 8]].concat())
                        else {
                            continue;
                        };
                        assert_eq!(
                            (Some(value), length),
                            (date_time(&parts, &arena).ok(), bytes.len()),
                            "{parts:?}"
                        );
                        usual += 1;
                    }
                }
            }
        }
        assert!(usual > 100);
    }
}
