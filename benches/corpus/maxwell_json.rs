//! Maxwell: each row is a message. Numbers are JSON numbers, and `old` has the changed columns.

use super::{Binlog, Column, Row, Statement, bare, members, row_object};

pub(super) fn write(binlog: &mut Binlog<'_>) -> Vec<Vec<u8>> {
    let statement = binlog.statement();
    let last = statement.rows.len() - 1;
    let messages = statement.rows.iter().enumerate().map(|(at, row)| {
        // Maxwell numbers a transaction's rows, except the last.
        let place = if at == last {
            r#""commit":true"#.to_owned()
        } else {
            format!(r#""xoffset":{at}"#)
        };
        message(&statement, row, &place).into_bytes()
    });
    messages.collect()
}

fn message(statement: &Statement<'_>, row: &Row, place: &str) -> String {
    let Statement {
        index, table, kind, ..
    } = statement;
    let (kind, name, data) = (
        kind.to_lowercase(),
        &table.name,
        row_object(table, row.data(), value),
    );
    let (second, transaction, position) = (
        1_763_000_000 + index / 50,
        4_000 + index,
        4_000_000 + index * 700,
    );
    let old = row
        .old()
        .map(|_| format!(r#","old":{}"#, old(statement, row)))
        .unwrap_or_default();
    format!(
        r#"{{"database":"shop","table":"{name}","type":"{kind}","ts":{second},"xid":{transaction},{place},"#
    ) + &format!(
        r#""position":"mysql-bin.000070:{position}","server_id":12,"thread_id":0,"data":{data}{old}}}"#
    )
}

fn old(statement: &Statement<'_>, row: &Row) -> String {
    let old = row.old().expect("an update");
    let every = statement.table.columns.iter().zip(&old.cells).enumerate();
    let changed = every.filter(|(at, _)| row.changed(*at));
    let pairs: Vec<_> = changed
        .map(|(_, (column, cell))| (column.name.as_str(), value(column, cell)))
        .collect();
    members(&pairs)
}

fn value(column: &Column, cell: &str) -> String {
    match column.base_type() {
        "bigint" | "int" | "tinyint" | "decimal" => bare(cell).to_owned(),
        _ => cell.to_owned(),
    }
}
