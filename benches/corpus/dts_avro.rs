//! Aliyun DTS: one raw Avro datum per row, by the schema with `bornTimestamp` (`peers/dts_record.avsc`).

use super::{Binlog, Column, Image, Row, Statement, instant, text};

pub(super) fn write(binlog: &mut Binlog<'_>) -> Vec<Vec<u8>> {
    let statement = binlog.statement();
    statement
        .rows
        .iter()
        .map(|row| record(binlog, &statement, row))
        .collect()
}

fn record(binlog: &mut Binlog<'_>, statement: &Statement<'_>, row: &Row) -> Vec<u8> {
    let Statement { index, table, .. } = statement;
    let (mut out, second, lag) = (
        Vec::new(),
        1_763_000_000 + *index as i64 / 50,
        binlog.lag() as i64,
    );
    put_long(&mut out, 0); // version
    put_long(&mut out, 1_700_000 + *index as i64); // id
    put_long(&mut out, second);
    for position in [
        format!("{}@78", 4_000_000 + index * 700),
        format!("{}@78", 4_000_000 + index * 700 - 300),
    ] {
        put_text(&mut out, &position);
    }
    put_text(&mut out, "0"); // sourceTxid
    put_long(&mut out, 0); // source: MySQL
    put_text(&mut out, "8.0.28");
    put_long(&mut out, operation(statement));
    put_branch_text(&mut out, 1, &format!("shop.{}", table.name));
    put_long(&mut out, 0); // no processTimestamps
    put_tags(&mut out, second * 1000 + lag);
    put_fields(&mut out, &table.columns);
    put_image(&mut out, &table.columns, row.before.as_ref());
    put_image(&mut out, &table.columns, row.after.as_ref());
    put_long(&mut out, second * 1000); // bornTimestamp
    out
}

fn operation(statement: &Statement<'_>) -> i64 {
    match statement.kind {
        "INSERT" => 0,
        "UPDATE" => 1,
        _ => 2,
    }
}

fn put_tags(out: &mut Vec<u8>, read_at: i64) {
    let read_at = read_at.to_string();
    let tags = [
        ("thread_id", "164373"),
        ("readerThroughoutTime", &read_at),
        ("server_id", "26957161"),
        ("pk_uk_info", r#"{"PRIMARY":["id"]}"#),
        ("metaVersion", "827452312"),
    ];
    put_long(out, tags.len() as i64);
    for (key, value) in tags {
        put_text(out, key);
        put_text(out, value);
    }
    put_long(out, 0);
}

fn put_fields(out: &mut Vec<u8>, columns: &[Column]) {
    put_long(out, 2);
    put_long(out, columns.len() as i64);
    for column in columns {
        put_text(out, &column.name);
        put_long(out, type_number(column));
    }
    put_long(out, 0);
}

/// Returns MySQL's type number.
fn type_number(column: &Column) -> i64 {
    match column.base_type() {
        "tinyint" => 1,
        "int" => 3,
        "timestamp" => 7,
        "bigint" => 8,
        "date" => 10,
        "datetime" => 12,
        "decimal" => 246,
        "text" => 252,
        "char" => 254,
        _ => 253,
    }
}

fn put_image(out: &mut Vec<u8>, columns: &[Column], image: Option<&Image>) {
    let Some(image) = image else {
        return put_long(out, 0);
    };
    put_long(out, 2);
    put_long(out, columns.len() as i64);
    for (column, cell) in columns.iter().zip(&image.cells) {
        put_value(out, column, cell);
    }
    put_long(out, 0);
}

fn put_value(out: &mut Vec<u8>, column: &Column, cell: &str) {
    let Some(text) = text(cell) else {
        return put_long(out, 0);
    };
    match column.base_type() {
        "bigint" => put_integer(out, 8, &text),
        "int" => put_integer(out, 4, &text),
        "tinyint" => put_integer(out, 1, &text),
        "decimal" => put_decimal(out, &text),
        "date" => put_clock(out, &text, false),
        "datetime" => put_clock(out, &text, true),
        "timestamp" => put_timestamp(out, &text),
        _ => put_character(out, &text),
    }
}

/// Appends an Integer: the column's width in bytes, and the digits.
fn put_integer(out: &mut Vec<u8>, width: i64, text: &str) {
    put_long(out, 1);
    put_long(out, width);
    put_text(out, text);
}

/// Appends a Character. Avro encodes text and bytes in the same way.
fn put_character(out: &mut Vec<u8>, text: &str) {
    put_branch_text(out, 2, "utf8mb4");
    put_text(out, text);
}

/// Appends a Decimal: the digits, their number, and the number of fraction digits.
fn put_decimal(out: &mut Vec<u8>, text: &str) {
    put_branch_text(out, 3, text);
    put_long(out, text.len() as i64 - 1);
    put_long(out, 2);
}

/// Appends a Timestamp. `millis` holds microseconds.
fn put_timestamp(out: &mut Vec<u8>, text: &str) {
    let instant = instant(text);
    put_long(out, 5);
    put_long(out, instant.as_second());
    put_long(out, i64::from(instant.subsec_microsecond()));
}

/// Appends a DateTime. Each part may be null, and a date has no time of day.
fn put_clock(out: &mut Vec<u8>, text: &str, has_time: bool) {
    put_long(out, 6);
    for part in text.split(['-', ' ', ':']) {
        put_long(out, 1);
        put_long(out, part.parse().expect("parts of a time are numbers"));
    }
    let rest: &[i64] = if has_time { &[1, 0] } else { &[0, 0, 0, 0] }; // millis, or nothing
    rest.iter().for_each(|number| put_long(out, *number));
}

fn put_branch_text(out: &mut Vec<u8>, branch: i64, text: &str) {
    put_long(out, branch);
    put_text(out, text);
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    put_long(out, text.len() as i64);
    out.extend_from_slice(text.as_bytes());
}

/// Appends zigzag, seven bits per byte.
fn put_long(out: &mut Vec<u8>, number: i64) {
    let mut rest = ((number << 1) ^ (number >> 63)) as u64;
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}
