//! Debezium's envelope from Kafka Connect's JSON converter: with the schema part, without it, unwrapped; and
//! CloudCanal's envelope.

use base64::Engine;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE};

use super::{
    Connect, Did, Form, Row, Statement, bare, boolean, labels, latin1, members, null, object, raw,
};
use crate::json::Json;
use crate::tables::{Column, Table};
use crate::values::{Cell, Kind};

/// Returns a value in Connect's form, or as text if it has no such form.
pub fn value(column: &Column, cell: &Cell, form: &Form) -> Json {
    match cell {
        Cell::Null => null(),
        Cell::Raw(raw) => super::raw(raw),
        Cell::Text(words) => {
            connect(column.declared.kind, words, form).unwrap_or_else(|| form.text(words))
        }
    }
}

fn connect(kind: Kind, words: &str, form: &Form) -> Option<Json> {
    let modes = form.connect;
    Some(match kind {
        Kind::Integer { most, .. } if most > i128::from(i64::MAX) => unsigned(words, form)?,
        Kind::Integer { .. } | Kind::Float | Kind::Year => bare(words, form),
        Kind::Decimal { scale, .. } => match Connect::DECIMAL[modes.decimal] {
            "precise" => form.text(&BASE64_STANDARD.encode(unscaled(words, scale)?)),
            "double" => bare(words, form),
            _ => return None,
        },
        Kind::Bytes { .. } => binary(&latin1(words)?, form),
        Kind::Date if Connect::TIME[modes.time] == "isostring" => form.text(&format!("{words}Z")),
        Kind::Date => raw(days(words)?),
        Kind::Clock { instant: true, .. } => {
            form.text(&format!("{}Z", words.replacen(' ', "T", 1)))
        }
        Kind::Clock { digits, .. } => clock(words, digits, form)?,
        Kind::Time { .. } => time(words, form)?,
        Kind::Bit { width: 1 } => boolean(words.parse::<u8>().ok()? != 0),
        Kind::Bit { width } => {
            let bytes = words.parse::<u64>().ok()?.to_le_bytes();
            form.text(&BASE64_STANDARD.encode(&bytes[..width.div_ceil(8) as usize]))
        }
        Kind::Enum(_) | Kind::Set(_) => form.text(&labels(kind, words)?.join(",")),
        Kind::Geometry => geometry(&latin1(words)?, form)?,
        Kind::Text | Kind::Json => return None,
    })
}

/// Returns a wrapped integer in mode `long`: negative from 2^63 on.
fn unsigned(words: &str, form: &Form) -> Option<Json> {
    let number: u64 = words.parse().ok()?;
    match Connect::UNSIGNED[form.connect.unsigned] {
        "long" => Some(raw(number as i64)),
        _ => Some(form.text(&BASE64_STANDARD.encode(shortest(number.into())))),
    }
}

/// Returns a decimal's integer without its point, in the fewest possible bytes.
fn unscaled(words: &str, scale: usize) -> Option<Vec<u8>> {
    let (whole, fraction) = words.split_once('.').unwrap_or((words, ""));
    let digits = format!("{whole}{fraction:0<scale$}");
    Some(shortest(digits.parse().ok()?))
}

/// Returns the two's complement, big-endian.
fn shortest(unscaled: i128) -> Vec<u8> {
    let bytes = unscaled.to_be_bytes();
    let fill = if unscaled < 0 { 0xFF } else { 0 };
    let needless = (0..15)
        .take_while(|at| bytes[*at] == fill && (bytes[at + 1] ^ fill) < 0x80)
        .count();
    bytes[needless..].to_vec()
}

fn binary(bytes: &[u8], form: &Form) -> Json {
    form.text(&match Connect::BINARY[form.connect.binary] {
        "hex" => bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
        "base64-url-safe" => BASE64_URL_SAFE.encode(bytes),
        _ => BASE64_STANDARD.encode(bytes),
    })
}

fn geometry(stored: &[u8], form: &Form) -> Option<Json> {
    let (srid, wkb) = stored.split_first_chunk::<4>()?;
    let wkb = form.text(&BASE64_STANDARD.encode(wkb));
    let srid = u32::from_le_bytes(*srid);
    Some(if form.has(3) {
        object([("wkb", wkb), ("srid", null())])
    } else {
        object([
            ("x", raw("1.0")),
            ("y", raw(2)),
            ("wkb", wkb),
            ("srid", raw(srid)),
        ])
    })
}

/// Returns days since 1970, by Howard Hinnant's `days_from_civil`.
fn days(words: &str) -> Option<i64> {
    let mut parts = words.splitn(3, '-').map(|part| part.parse::<i64>().ok());
    let (year, month, day) = (parts.next()??, parts.next()??, parts.next()??);
    let year = if month <= 2 { year - 1 } else { year };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    Some(era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468)
}

/// Returns the microseconds of a time of day, or of a TIME.
fn micros(words: &str) -> Option<i64> {
    let (sign, words) = words
        .strip_prefix('-')
        .map_or((1, words), |rest| (-1, rest));
    let (clock, fraction) = words.split_once('.').unwrap_or((words, "0"));
    let mut parts = clock.splitn(3, ':').map(|part| part.parse::<i64>().ok());
    let (hours, minutes, seconds) = (parts.next()??, parts.next()??, parts.next()??);
    let fraction: i64 = format!("{fraction:0<6}").get(..6)?.parse().ok()?;
    Some(sign * (((hours * 60 + minutes) * 60 + seconds) * 1_000_000 + fraction))
}

fn clock(words: &str, digits: usize, form: &Form) -> Option<Json> {
    let (date, time) = words.split_once(' ')?;
    let micros = days(date)? * 86_400_000_000 + micros(time)?;
    Some(match Connect::TIME[form.connect.time] {
        "isostring" => form.text(&format!("{date}T{time}Z")),
        "connect" => raw(micros / 1000),
        "microseconds" => raw(micros),
        _ if digits > 3 => raw(micros),
        _ => raw(micros / 1000),
    })
}

fn time(words: &str, form: &Form) -> Option<Json> {
    let micros = micros(words)?;
    Some(match Connect::TIME[form.connect.time] {
        "isostring" => form.text(&format!("{words}Z")),
        "connect" | "adaptive" => raw(micros / 1000),
        _ => raw(micros),
    })
}

fn image(table: &Table, cells: &[Cell], form: &Form) -> Json {
    members(table.columns.iter().zip(cells), form, |column, cell| {
        value(column, cell, form)
    })
}

fn op(did: Did) -> &'static str {
    match did {
        Did::Insert => "c",
        Did::Update => "u",
        Did::Delete => "d",
        Did::Other(which) => ["r", "t", "m", "a", "c"][usize::from(which) % 5],
    }
}

/// Returns `before` and `after`.
fn images(statement: &Statement<'_>, row: &Row, form: &Form) -> [Json; 2] {
    let image = |shown, cells| {
        if shown {
            image(statement.table, cells, form)
        } else {
            null()
        }
    };
    let is_read = matches!(statement.did, Did::Other(which) if which % 5 == 0);
    [
        image(
            matches!(statement.did, Did::Update | Did::Delete),
            &row.before,
        ),
        image(
            is_read || matches!(statement.did, Did::Insert | Did::Update),
            &row.after,
        ),
    ]
}

/// Returns a DDL, the beginning or end of a transaction, or a heartbeat; `None` for a change of rows.
fn other(statement: &Statement<'_>, form: &Form) -> Option<Json> {
    let Did::Other(which) = statement.did else {
        return None;
    };
    let source = source(statement, 0, form);
    match which % 16 {
        10 => Some(object([
            ("source", source),
            ("ts_ms", raw(statement.sent())),
            ("databaseName", form.text(statement.table.database)),
            ("schemaName", null()),
            ("ddl", form.text("ALTER TABLE t ADD c int")),
            ("tableChanges", Json::Array(Vec::new())),
        ])),
        11 => Some(object([
            ("status", form.text("BEGIN")),
            ("id", form.text("file=a,pos=4")),
            ("ts_ms", raw(statement.sent())),
        ])),
        12 => Some(object([
            ("status", form.text("END")),
            ("id", form.text("file=a,pos=4")),
            ("event_count", raw(2)),
        ])),
        13 => Some(object([("ts_ms", raw(statement.sent()))])),
        _ => None,
    }
}

fn source(statement: &Statement<'_>, row: usize, form: &Form) -> Json {
    let millis = statement.second() * 1000;
    let table = statement.table;
    object([
        ("version", form.text("3.5.0.Final")),
        ("connector", form.text("mysql")),
        ("name", form.text("server")),
        ("ts_ms", raw(millis)),
        ("snapshot", form.text("false")),
        ("db", form.text(table.database)),
        ("sequence", null()),
        ("ts_us", raw(millis * 1000)),
        ("ts_ns", raw(millis * 1_000_000)),
        ("table", form.text(table.name)),
        ("server_id", raw(21)),
        (
            "gtid",
            if form.has(1) {
                form.text(&format!("8a94f357:{}", statement.at))
            } else {
                null()
            },
        ),
        ("file", form.text("mysql-bin.000070")),
        ("pos", raw(4_000_000 + statement.at * 700)),
        ("row", raw(row)),
        ("thread", raw(136)),
        ("query", null()),
    ])
}

fn transaction(statement: &Statement<'_>, row: usize, form: &Form) -> Json {
    if !form.has(2) {
        return null();
    }
    let id = format!(
        "file=mysql-bin.000070,pos={}",
        4_000_000 + statement.at / 4 * 700
    );
    object([
        ("id", form.text(&id)),
        ("total_order", raw(row + 1)),
        ("data_collection_order", raw(1)),
    ])
}

fn payloads(statement: &Statement<'_>, form: &Form) -> Vec<Json> {
    if let Some(other) = other(statement, form) {
        return vec![other];
    }
    let payload = |(at, row): (usize, &Row)| {
        let [before, after] = images(statement, row, form);
        let sent = statement.sent();
        object([
            ("before", before),
            ("after", after),
            ("source", source(statement, at, form)),
            ("transaction", transaction(statement, at, form)),
            ("op", form.text(op(statement.did))),
            ("ts_ms", raw(sent)),
            ("ts_us", raw(sent * 1000 + statement.at % 1000)),
            ("ts_ns", raw((sent * 1000 + statement.at % 1000) * 1000)),
        ])
    };
    statement.rows.iter().enumerate().map(payload).collect()
}

pub fn write(statement: &Statement<'_>, form: &Form) -> Vec<Json> {
    payloads(statement, form)
}

pub fn with_schema(statement: &Statement<'_>, form: &Form) -> Vec<Json> {
    let wrapped = |payload| {
        object([
            ("schema", schema(statement.table, form)),
            ("payload", payload),
        ])
    };
    payloads(statement, form).into_iter().map(wrapped).collect()
}

/// Writes `op` first, and an empty object for a missing image.
pub fn cloudcanal(statement: &Statement<'_>, form: &Form) -> Vec<Json> {
    let empty = |image: Json| if image == null() { object([]) } else { image };
    let table = statement.table;
    let message = |row: &Row| {
        let [before, after] = images(statement, row, form).map(empty);
        let source = object([
            ("ts_ms", raw(statement.second() * 1000)),
            ("db", form.text(table.database)),
            ("table", form.text(table.name)),
            ("connector", form.text("MySQL")),
            ("gtid", null()),
            ("file", form.text("mysql-bin.000003")),
            ("pos", raw(45_088_623 + statement.at)),
            ("server_id", raw(223_344)),
        ]);
        let op = if form.has(1) && statement.did == Did::Insert {
            "i"
        } else {
            op(statement.did)
        };
        let payload = object([
            ("op", form.text(op)),
            ("ts_ms", raw(statement.sent())),
            ("after", after),
            ("before", before),
            ("source", source),
        ]);
        if form.has(0) {
            payload
        } else {
            object([("schema", schema(table, form)), ("payload", payload)])
        }
    };
    statement.rows.iter().map(message).collect()
}

/// Writes the row alone, with the fields that `ExtractNewRecordState` adds.
pub fn flat(statement: &Statement<'_>, form: &Form) -> Vec<Json> {
    let message = |row: &Row| {
        let mut message = image(statement.table, statement.data(row), form);
        let Json::Object(members) = &mut message else {
            return message;
        };
        let mut add = |name: &str, value| members.push((format!("\"__{name}\""), value));
        add(
            "deleted",
            form.text(if statement.did == Did::Delete {
                "true"
            } else {
                "false"
            }),
        );
        add("op", form.text(op(statement.did)));
        if !form.has(0) {
            add("db", form.text(statement.table.database));
            add("table", form.text(statement.table.name));
            add("source_ts_ms", raw(statement.second() * 1000));
        }
        if form.has(1) {
            object([
                (
                    "schema",
                    structure(&columns(statement.table, form), "row", form),
                ),
                ("payload", message),
            ])
        } else {
            message
        }
    };
    statement.rows.iter().map(message).collect()
}

fn columns(table: &Table, form: &Form) -> Vec<Json> {
    table
        .columns
        .iter()
        .map(|column| field(column, form))
        .collect()
}

fn schema(table: &Table, form: &Form) -> Json {
    let columns = columns(table, form);
    let simple = |kind: &str, name: &str| {
        object([
            ("type", form.text(kind)),
            ("optional", boolean(false)),
            ("field", form.text(name)),
        ])
    };
    let fields = vec![
        structure(&columns, "before", form),
        structure(&columns, "after", form),
        simple("string", "op"),
        simple("int64", "ts_ms"),
    ];
    structure(&fields, "envelope", form)
}

fn structure(fields: &[Json], name: &str, form: &Form) -> Json {
    object([
        ("type", form.text("struct")),
        ("fields", Json::Array(fields.to_vec())),
        ("optional", boolean(true)),
        ("field", form.text(name)),
    ])
}

/// Returns a column's physical type, with the name of its logical type if it has one.
fn field(column: &Column, form: &Form) -> Json {
    let (kind, meaning) = types(column.declared.kind, form);
    let mut field = object([("type", form.text(kind)), ("optional", boolean(true))]);
    let Json::Object(members) = &mut field else {
        return field;
    };
    if !meaning.is_empty() {
        members.push(("\"name\"".into(), form.text(meaning)));
        members.push(("\"version\"".into(), raw(1)));
    }
    if let Some(parameters) = parameters(column.declared.kind, meaning, form) {
        members.push(("\"parameters\"".into(), parameters));
    }
    members.push(("\"field\"".into(), form.text(column.name)));
    field
}

fn types(kind: Kind, form: &Form) -> (&'static str, &'static str) {
    let modes = form.connect;
    let (is_iso, is_coarse) = (
        Connect::TIME[modes.time] == "isostring",
        Connect::TIME[modes.time] == "connect",
    );
    match kind {
        Kind::Integer { most, .. }
            if most > i128::from(i64::MAX) && Connect::UNSIGNED[modes.unsigned] == "precise" =>
        {
            ("bytes", DECIMAL)
        }
        Kind::Integer { most, .. } if most > i128::from(i32::MAX) => ("int64", ""),
        Kind::Integer { most, .. } if most > i128::from(i16::MAX) => ("int32", ""),
        Kind::Integer { .. } => ("int16", ""),
        Kind::Decimal { .. } => [("bytes", DECIMAL), ("string", ""), ("double", "")][modes.decimal],
        Kind::Float => ("double", ""),
        Kind::Text => ("string", ""),
        Kind::Bytes { .. } => (["bytes", "string", "string"][modes.binary], ""),
        Kind::Date if is_iso => ("string", "io.debezium.time.IsoDate"),
        Kind::Date if is_coarse => ("int32", "org.apache.kafka.connect.data.Date"),
        Kind::Date => ("int32", "io.debezium.time.Date"),
        Kind::Clock { instant: true, .. } => ("string", "io.debezium.time.ZonedTimestamp"),
        Kind::Clock { .. } if is_iso => ("string", "io.debezium.time.IsoTimestamp"),
        Kind::Clock { .. } if is_coarse => ("int64", "org.apache.kafka.connect.data.Timestamp"),
        Kind::Clock { digits, .. } if digits > 3 || Connect::TIME[modes.time] == "microseconds" => {
            ("int64", "io.debezium.time.MicroTimestamp")
        }
        Kind::Clock { .. } => ("int64", "io.debezium.time.Timestamp"),
        Kind::Time { .. } if is_iso => ("string", "io.debezium.time.IsoTime"),
        Kind::Time { .. } if is_coarse => ("int32", "org.apache.kafka.connect.data.Time"),
        Kind::Time { .. } if Connect::TIME[modes.time] == "adaptive" => {
            ("int32", "io.debezium.time.Time")
        }
        Kind::Time { .. } => ("int64", "io.debezium.time.MicroTime"),
        Kind::Year => ("int32", "io.debezium.time.Year"),
        Kind::Bit { width: 1 } => ("boolean", ""),
        Kind::Bit { .. } => ("bytes", "io.debezium.data.Bits"),
        Kind::Enum(_) => ("string", "io.debezium.data.Enum"),
        Kind::Set(_) => ("string", "io.debezium.data.EnumSet"),
        Kind::Json => ("string", "io.debezium.data.Json"),
        Kind::Geometry => ("struct", "io.debezium.data.geometry.Geometry"),
    }
}

const DECIMAL: &str = "org.apache.kafka.connect.data.Decimal";

fn parameters(kind: Kind, meaning: &str, form: &Form) -> Option<Json> {
    let parameter = |name: &str, value: String| Some(object([(name, form.text(&value))]));
    match kind {
        Kind::Decimal { scale, .. } if meaning == DECIMAL => parameter("scale", scale.to_string()),
        Kind::Integer { .. } if meaning == DECIMAL => parameter("scale", "0".into()),
        Kind::Bit { width } if width > 1 => parameter("length", width.to_string()),
        Kind::Enum(labels) | Kind::Set(labels) => parameter("allowed", labels.join(",")),
        _ => None,
    }
}
