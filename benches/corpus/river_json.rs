//! KafkaRiverCanal: each row is a message, and each column an object with all data about it.

use super::{Binlog, Column, Row, Statement, list, quoted};

pub(super) fn write(binlog: &mut Binlog<'_>) -> Vec<Vec<u8>> {
    let statement = binlog.statement();
    statement
        .rows
        .iter()
        .map(|row| message(binlog, &statement, row).into_bytes())
        .collect()
}

fn message(binlog: &mut Binlog<'_>, statement: &Statement<'_>, row: &Row) -> String {
    let Statement {
        index, table, kind, ..
    } = statement;
    let columns: Vec<String> = table
        .columns
        .iter()
        .enumerate()
        .map(|(at, column)| cell(column, row, at))
        .collect();
    let (second, lag, event) = (
        1_763_000_000 + index / 50,
        binlog.lag(),
        kind[..1].to_lowercase(),
    );
    let (position, columns, name) = (4_000_000 + index * 700, list(&columns), &table.name);
    format!(
        r#"{{"binlog":"{position}@mysql-bin.000070","time":{second}000,"canalTime":{second}{lag},"db":"shop","#
    ) + &format!(r#""table":"{name}","event":"{event}","columns":{columns},"keys":["id"]}}"#)
}

fn cell(column: &Column, row: &Row, at: usize) -> String {
    let (value, changed) = (&row.data().cells[at], row.changed(at));
    let was = row
        .old()
        .filter(|_| changed)
        .map(|old| format!(r#""origin_val":{},"#, gson(&old.cells[at])));
    let updated = row.old().map(|_| format!(r#","updated":{changed}"#));
    format!(
        r#"{{"n":"{}","t":{},"v":{},"#,
        column.name,
        gson(&quoted(column.mysql_type)),
        gson(value)
    ) + &format!(
        r#"{}"null":{}{}}}"#,
        was.unwrap_or_default(),
        value == "null",
        updated.unwrap_or_default()
    )
}

/// Escapes like Gson, which escapes characters that could end an HTML attribute. The producer writes null as empty
/// text.
fn gson(cell: &str) -> String {
    if cell == "null" {
        quoted("")
    } else {
        cell.replace('\'', r"\u0027")
    }
}
