//! KafkaRiverCanal: each row is a message, and each column an object with all data about it.

use super::canal::{Writes, value};
use super::{Did, Form, Row, Statement, boolean, names, object, raw};
use crate::json::{Json, null};

pub fn write(statement: &Statement<'_>, form: &Form) -> Vec<Json> {
    statement
        .rows
        .iter()
        .map(|row| message(statement, row, form))
        .collect()
}

fn message(statement: &Statement<'_>, row: &Row, form: &Form) -> Json {
    let table = statement.table;
    let event = match statement.did {
        Did::Insert => "i",
        Did::Update => "u",
        Did::Delete => "d",
        Did::Other(_) => "x",
    };
    object([
        (
            "binlog",
            form.text(&format!(
                "{}@mysql-bin.000070",
                4_000_000 + statement.at * 700
            )),
        ),
        ("time", raw(statement.second() * 1000)),
        ("canalTime", raw(statement.sent())),
        ("db", form.text(table.database)),
        ("table", form.text(table.name)),
        ("event", form.text(event)),
        (
            "columns",
            Json::Array(
                (0..table.columns.len())
                    .map(|at| column(statement, row, at, form))
                    .collect(),
            ),
        ),
        ("keys", names(table, form)),
    ])
}

/// Returns a column. Nulls are empty text, null, or left out.
fn column(statement: &Statement<'_>, row: &Row, at: usize, form: &Form) -> Json {
    let column = &statement.table.columns[at];
    let written = |cell| value(column, cell, form, Writes::Labels);
    let (now, is_null) = (
        written(&statement.data(row)[at]),
        written(&statement.data(row)[at]) == null(),
    );
    let mut members = vec![
        ("\"n\"".to_owned(), form.text(column.name)),
        ("\"t\"".to_owned(), form.text(column.declared.mysql)),
    ];
    let mut push = |name: &str, value: Json| match (value == null(), form.style & 3) {
        (true, 0) => {}
        (true, 1) => members.push((format!("\"{name}\""), form.text(""))),
        _ => members.push((format!("\"{name}\""), value)),
    };
    push("v", now);
    let changed = statement.did == Did::Update && row.changed[at];
    if changed {
        push("origin_val", written(&row.before[at]));
    }
    push("null", boolean(is_null));
    if statement.did == Did::Update {
        push("updated", boolean(changed));
    }
    Json::Object(members)
}
