//! Maxwell's daemon, and TiCDC's maxwell protocol. Each row is a message, and values are JSON values.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;

use super::{
    Did, Form, Row, Statement, bare, is_number, labels, latin1, members, names, null, object, raw,
};
use crate::json::Json;
use crate::tables::Column;
use crate::values::{Cell, Kind};

/// Returns a value. `nested`: sets are arrays and JSON columns are JSON, like the daemon's.
fn value(column: &Column, cell: &Cell, form: &Form, nested: bool) -> Json {
    let kind = column.declared.kind;
    let words = match cell {
        Cell::Null => return null(),
        Cell::Raw(raw) => return super::raw(raw),
        Cell::Text(words) => words,
    };
    match kind {
        kind if is_number(kind) => bare(words, form),
        Kind::Bytes { .. } | Kind::Geometry => form.text(
            &latin1(words).map_or_else(|| words.clone(), |bytes| BASE64_STANDARD.encode(bytes)),
        ),
        Kind::Json if nested && form.has(2) => raw(words),
        Kind::Enum(_) | Kind::Set(_) if !nested => bare(words, form),
        Kind::Set(_) => match labels(kind, words) {
            Some(labels) => Json::Array(labels.into_iter().map(|label| form.text(label)).collect()),
            None => form.text(words),
        },
        Kind::Enum(_) => {
            labels(kind, words).map_or_else(|| form.text(words), |labels| form.text(labels[0]))
        }
        _ => form.text(words),
    }
}

/// Returns whether the daemon omits null columns (`output_nulls` is off).
pub fn omits_nulls(form: &Form) -> bool {
    form.producer == super::Producer::Maxwell && form.has(7)
}

fn image(statement: &Statement<'_>, cells: &[Cell], form: &Form, nested: bool) -> Json {
    let cells = statement
        .table
        .columns
        .iter()
        .zip(cells)
        .filter(|(_, cell)| !(omits_nulls(form) && matches!(cell, Cell::Null)));
    members(cells, form, |column, cell| {
        value(column, cell, form, nested)
    })
}

/// Returns the columns that an update changed, with their earlier values.
fn old(statement: &Statement<'_>, row: &Row, form: &Form, nested: bool) -> Json {
    let cells = statement
        .table
        .columns
        .iter()
        .zip(&row.before)
        .zip(&row.changed)
        .filter(|(_, changed)| **changed)
        .map(|(cell, _)| cell);
    let cells = cells.filter(|(_, cell)| !(omits_nulls(form) && matches!(cell, Cell::Null)));
    members(cells, form, |column, cell| {
        value(column, cell, form, nested)
    })
}

fn word(did: Did) -> &'static str {
    match did {
        Did::Insert => "insert",
        Did::Update => "update",
        Did::Delete => "delete",
        Did::Other(which) => [
            "table-alter",
            "bootstrap-insert",
            "heartbeat",
            "table-drop",
            "bootstrap-start",
            "other",
        ][usize::from(which) % 6],
    }
}

/// Returns a DDL or another message without a row.
fn other(statement: &Statement<'_>, form: &Form) -> Vec<Json> {
    let (table, kind) = (statement.table, word(statement.did));
    let mut message = object([
        ("type", form.text(kind)),
        ("database", form.text(table.database)),
        ("table", form.text(table.name)),
        ("ts", raw(statement.sent())),
    ]);
    if let Json::Object(members) = &mut message {
        match (kind, statement.rows.first()) {
            ("bootstrap-insert", Some(row)) => {
                members.push(("\"data\"".into(), image(statement, &row.after, form, true)))
            }
            ("table-alter", _) => {
                members.push(("\"old\"".into(), object([("table", form.text("t"))])));
                members.push(("\"def\"".into(), object([("table", form.text("t"))])));
                members.push(("\"sql\"".into(), form.text("ALTER TABLE t ADD c int")));
            }
            _ => {}
        }
    }
    vec![message]
}

pub fn daemon(statement: &Statement<'_>, form: &Form) -> Vec<Json> {
    if matches!(statement.did, Did::Other(_)) {
        return other(statement, form);
    }
    let last = statement.rows.len() - 1;
    statement
        .rows
        .iter()
        .enumerate()
        .map(|(at, row)| of_daemon(statement, row, form, (at < last).then_some(at)))
        .collect()
}

/// Writes a row of the daemon. Maxwell numbers a transaction's rows, except the last.
fn of_daemon(statement: &Statement<'_>, row: &Row, form: &Form, offset: Option<usize>) -> Json {
    let table = statement.table;
    let place = offset.map_or(("commit", raw(true)), |offset| ("xoffset", raw(offset)));
    let mut message = object([
        ("database", form.text(table.database)),
        ("table", form.text(table.name)),
        ("type", form.text(word(statement.did))),
        ("ts", raw(statement.second())),
        ("xid", raw(4000 + statement.at)),
        place,
        (
            "position",
            form.text(&format!(
                "mysql-bin.000070:{}",
                4_000_000 + statement.at * 700
            )),
        ),
        ("server_id", raw(12)),
        ("thread_id", raw(0)),
    ]);
    let Json::Object(members) = &mut message else {
        return message;
    };
    // Members that the daemon's settings leave out.
    let left_out = [
        (3, "\"position\""),
        (4, "\"server_id\""),
        (5, "\"xid\""),
        (6, "\"commit\""),
    ];
    members.retain(|(name, _)| {
        !left_out
            .iter()
            .any(|(bit, left_out)| form.has(*bit) && name == left_out)
    });
    if form.has(0) {
        members.push((
            "\"gtid\"".into(),
            form.text(&format!("8a94f357:{}", statement.at)),
        ));
    }
    if form.has(1) {
        members.push(("\"primary_key_columns\"".into(), names(table, form)));
    }
    members.push((
        "\"data\"".into(),
        image(statement, statement.data(row), form, true),
    ));
    if statement.did == Did::Update {
        members.push(("\"old\"".into(), old(statement, row, form, true)));
    }
    message
}

pub fn ticdc(statement: &Statement<'_>, form: &Form) -> Vec<Json> {
    if matches!(statement.did, Did::Other(_)) {
        return other(statement, form);
    }
    statement
        .rows
        .iter()
        .map(|row| of_ticdc(statement, row, form))
        .collect()
}

/// Writes a row of TiCDC. The row of a DELETE is in `old`.
fn of_ticdc(statement: &Statement<'_>, row: &Row, form: &Form) -> Json {
    let table = statement.table;
    let mut message = object([
        ("database", form.text(table.database)),
        ("table", form.text(table.name)),
        ("type", form.text(word(statement.did))),
        ("ts", raw(statement.second())),
    ]);
    let Json::Object(members) = &mut message else {
        return message;
    };
    if statement.did != Did::Delete {
        members.push(("\"data\"".into(), image(statement, &row.after, form, false)));
    }
    match statement.did {
        Did::Update => members.push(("\"old\"".into(), old(statement, row, form, false))),
        Did::Delete => members.push(("\"old\"".into(), image(statement, &row.before, form, false))),
        _ => {}
    }
    message
}
