//! Packets of Entries from canal's Kafka producer: transactions with their marks, and one RowChange per statement.

use super::{Binlog, Column, Image, Row, Statement, text};

/// Packet.type
const MESSAGES: i64 = 7;
// Entry.entryType
const TRANSACTION_BEGIN: i64 = 1;
const ROW_DATA: i64 = 2;
const TRANSACTION_END: i64 = 3;

pub(super) fn write(binlog: &mut Binlog<'_>) -> Vec<Vec<u8>> {
    let mut entries = Vec::new();
    for _ in 0..1 + binlog.random.below(4) {
        transaction(binlog, &mut entries);
    }
    let mut packet = Vec::new();
    put_number(&mut packet, 2, 1);
    put_number(&mut packet, 3, MESSAGES);
    put_bytes(&mut packet, 5, &entries);
    vec![packet]
}

fn transaction(binlog: &mut Binlog<'_>, entries: &mut Vec<u8>) {
    let mut begin = Vec::new();
    put_number(&mut begin, 4, 136);
    put_entry(
        entries,
        &header(binlog.statements, ""),
        TRANSACTION_BEGIN,
        &begin,
    );
    for _ in 0..1 + binlog.random.below(5) {
        let statement = binlog.statement();
        put_entry(
            entries,
            &row_header(&statement),
            ROW_DATA,
            &row_change(&statement),
        );
    }
    let mut end = Vec::new();
    put_bytes(
        &mut end,
        2,
        (5_000 + binlog.statements).to_string().as_bytes(),
    );
    put_entry(
        entries,
        &header(binlog.statements, ""),
        TRANSACTION_END,
        &end,
    );
    binlog.truth.rows += 2; // the marks are rows too
}

/// Appends an Entry, as one of the packet's Messages.
fn put_entry(entries: &mut Vec<u8>, header: &[u8], kind: i64, content: &[u8]) {
    let mut entry = Vec::new();
    put_bytes(&mut entry, 1, header);
    put_number(&mut entry, 2, kind);
    put_bytes(&mut entry, 3, content);
    put_bytes(entries, 2, &entry);
}

/// Returns a Header. Marks of transactions have neither database nor table.
fn header(index: u64, table: &str) -> Vec<u8> {
    let mut header = Vec::new();
    put_number(&mut header, 1, 1); // version
    put_bytes(&mut header, 2, b"mysql-bin.000070");
    put_number(&mut header, 3, 4_000_000 + index as i64 * 700); // its offset
    put_number(&mut header, 4, 21); // server id
    put_bytes(&mut header, 5, b"UTF-8");
    put_number(&mut header, 6, (1_763_000_000 + index as i64 / 50) * 1000); // execution time
    put_number(&mut header, 7, 2); // MySQL
    put_bytes(&mut header, 8, if table.is_empty() { b"" } else { b"shop" });
    put_bytes(&mut header, 9, table.as_bytes());
    put_number(&mut header, 10, 700); // the event's length
    header
}

fn row_header(statement: &Statement<'_>) -> Vec<u8> {
    let mut header = header(statement.index, &statement.table.name);
    let mut pair = Vec::new();
    put_bytes(&mut pair, 1, b"rowsCount");
    put_bytes(&mut pair, 2, statement.rows.len().to_string().as_bytes());
    put_number(&mut header, 11, event_type(statement));
    put_bytes(&mut header, 12, &pair);
    header
}

fn event_type(statement: &Statement<'_>) -> i64 {
    match statement.kind {
        "INSERT" => 1,
        "UPDATE" => 2,
        _ => 3,
    }
}

fn row_change(statement: &Statement<'_>) -> Vec<u8> {
    let mut change = Vec::new();
    put_number(&mut change, 1, 1065); // table id
    put_number(&mut change, 2, event_type(statement));
    put_number(&mut change, 10, 0); // not a DDL
    for row in &statement.rows {
        put_bytes(&mut change, 12, &row_data(&statement.table.columns, row));
    }
    change
}

fn row_data(columns: &[Column], row: &Row) -> Vec<u8> {
    let mut data = Vec::new();
    let inserted = row.before.is_none();
    put_image(&mut data, 1, columns, row.before.as_ref(), |_| false);
    put_image(&mut data, 2, columns, row.after.as_ref(), |at| {
        inserted || row.changed(at)
    });
    data
}

fn put_image(
    data: &mut Vec<u8>,
    field: u64,
    columns: &[Column],
    image: Option<&Image>,
    updated: impl Fn(usize) -> bool,
) {
    let cells = image.map_or(&[][..], |image| &image.cells);
    for (at, (column, cell)) in columns.iter().zip(cells).enumerate() {
        put_bytes(data, field, &column_value(column, at, cell, updated(at)));
    }
}

/// Returns a Column.
fn column_value(column: &Column, at: usize, cell: &str, updated: bool) -> Vec<u8> {
    let (mut value, text) = (Vec::new(), text(cell));
    put_number(&mut value, 1, at as i64);
    put_number(&mut value, 2, i64::from(column.jdbc_type));
    put_bytes(&mut value, 3, column.name.as_bytes());
    put_number(&mut value, 4, i64::from(column.name == "id")); // the key
    put_number(&mut value, 5, i64::from(updated));
    put_number(&mut value, 6, i64::from(text.is_none()));
    if let Some(text) = text {
        put_bytes(&mut value, 8, text.as_bytes());
    }
    put_bytes(&mut value, 10, column.mysql_type.as_bytes());
    value
}

fn put_number(out: &mut Vec<u8>, field: u64, number: i64) {
    put_varint(out, field << 3);
    put_varint(out, number as u64); // a negative number takes ten bytes
}

fn put_bytes(out: &mut Vec<u8>, field: u64, bytes: &[u8]) {
    put_varint(out, field << 3 | 2);
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

fn put_varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}
