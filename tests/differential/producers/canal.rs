//! canal's FlatMessage, and the messages of TiCDC, the Tencent platform and CloudCanal in the same envelope.

use super::{
    Did, Form, Row, Statement, bare, boolean, by_column, is_number, labels, members, mixed, names,
    null, object, raw,
};
use crate::json::Json;
use crate::tables::Column;
use crate::values::Cell;

/// Encoding of values.
#[derive(Clone, Copy, PartialEq)]
pub enum Writes {
    /// All values as text, enums and sets as their numbers.
    Text,
    /// All values as text, enums and sets as their labels.
    Labels,
    /// Numbers as numbers.
    Typed,
}

pub fn value(column: &Column, cell: &Cell, form: &Form, writes: Writes) -> Json {
    let kind = column.declared.kind;
    match cell {
        Cell::Null => null(),
        Cell::Raw(raw) => super::raw(raw),
        Cell::Text(words) if writes == Writes::Typed && is_number(kind) => bare(words, form),
        Cell::Text(words) if writes != Writes::Text => labels(kind, words)
            .map_or_else(|| form.text(words), |labels| form.text(&labels.join(","))),
        Cell::Text(words) => form.text(words),
    }
}

/// Columns in an image of the row before the change.
#[derive(Clone, Copy, PartialEq)]
enum Old {
    Changed,
    Whole,
}

fn image(statement: &Statement<'_>, cells: &[Cell], form: &Form, writes: Writes) -> Json {
    members(
        statement.table.columns.iter().zip(cells),
        form,
        |column, cell| value(column, cell, form, writes),
    )
}

fn data(statement: &Statement<'_>, form: &Form, writes: Writes) -> Json {
    Json::Array(
        statement
            .rows
            .iter()
            .map(|row| image(statement, statement.data(row), form, writes))
            .collect(),
    )
}

fn old(statement: &Statement<'_>, form: &Form, writes: Writes, old: Old) -> Json {
    Json::Array(
        statement
            .rows
            .iter()
            .map(|row| old_image(statement, row, form, writes, old))
            .collect(),
    )
}

fn old_image(statement: &Statement<'_>, row: &Row, form: &Form, writes: Writes, old: Old) -> Json {
    let cells = statement
        .table
        .columns
        .iter()
        .zip(&row.before)
        .zip(&row.changed);
    let shown = cells
        .filter(|(_, changed)| old == Old::Whole || **changed)
        .map(|(cell, _)| cell);
    members(shown, form, |column, cell| {
        value(column, cell, form, writes)
    })
}

fn word(did: Did) -> &'static str {
    match did {
        Did::Insert => "INSERT",
        Did::Update => "UPDATE",
        Did::Delete => "DELETE",
        Did::Other(which) => [
            "ALTER",
            "TRUNCATE",
            "QUERY",
            "CREATE",
            "ERASE",
            "GTID",
            "XACOMMIT",
            "MHEARTBEAT",
            "TIDB_WATERMARK",
            "ROW",
            "INSERT",
        ][usize::from(which) % 11],
    }
}

/// Returns `isDdl` and the statement of a message that is not a row change.
fn ddl(statement: &Statement<'_>, form: &Form) -> (Json, Json) {
    match statement.did {
        Did::Other(which) => (
            boolean(which % 11 < 5),
            form.text(
                ["ALTER TABLE t ADD \"c\" int", "TRUNCATE t", "delete from t"]
                    [usize::from(which) % 3],
            ),
        ),
        _ => (boolean(false), form.text("")),
    }
}

fn is_other(statement: &Statement<'_>) -> bool {
    matches!(statement.did, Did::Other(_))
}

fn unless(nothing: bool, json: Json) -> Json {
    if nothing { null() } else { json }
}

/// Writes keys in alphabetical order, so that rows precede the operation.
pub fn canal(statement: &Statement<'_>, form: &Form) -> Json {
    let table = statement.table;
    let (is_ddl, sql) = ddl(statement, form);
    let whole = if form.has(1) {
        Old::Whole
    } else {
        Old::Changed
    };
    let gtid = if form.has(0) {
        format!("8a94f357-aab4-11df-86ab-c80aa9429562:{}", statement.at)
    } else {
        String::new()
    };
    object([
        (
            "data",
            unless(is_other(statement), data(statement, form, Writes::Text)),
        ),
        ("database", form.text(table.database)),
        ("es", raw(statement.second() * 1000)),
        ("gtid", form.text(&gtid)),
        ("id", raw(1 + statement.at / 3)),
        ("isDdl", is_ddl),
        (
            "mysqlType",
            unless(
                is_other(statement) || form.has(2),
                by_column(table, form, |column| form.text(column.declared.mysql)),
            ),
        ),
        (
            "old",
            unless(
                statement.did != Did::Update,
                old(statement, form, Writes::Text, whole),
            ),
        ),
        ("pkNames", unless(table.keys == 0, names(table, form))),
        ("sql", sql),
        (
            "sqlType",
            unless(
                is_other(statement),
                by_column(table, form, |column| raw(column.declared.jdbc)),
            ),
        ),
        ("table", form.text(table.name)),
        ("ts", raw(statement.sent())),
        ("type", form.text(word(statement.did))),
    ])
}

/// Writes `old` before `data`, types without parameters in random order, and `_tidb` last.
pub fn ticdc(statement: &Statement<'_>, form: &Form) -> Json {
    let table = statement.table;
    let (is_ddl, sql) = ddl(statement, form);
    let whole = if form.has(1) {
        Old::Changed
    } else {
        Old::Whole
    };
    let mut types = by_column(table, form, |column| form.text(&column.declared.bare()));
    if let Json::Object(members) = &mut types {
        shuffle(members, statement.at);
    }
    let mut message = object([
        ("id", raw(0)),
        ("database", form.text(table.database)),
        ("table", form.text(table.name)),
        ("pkNames", unless(table.keys == 0, names(table, form))),
        ("isDdl", is_ddl),
        ("type", form.text(word(statement.did))),
        ("es", raw(1_763_000_000_000 + statement.at * 7)),
        ("ts", raw(statement.sent())),
        ("sql", sql),
        (
            "sqlType",
            unless(
                is_other(statement),
                by_column(table, form, |column| raw(column.declared.jdbc)),
            ),
        ),
        ("mysqlType", unless(is_other(statement), types)),
        (
            "old",
            unless(
                statement.did != Did::Update,
                old(statement, form, Writes::Text, whole),
            ),
        ),
        (
            "data",
            unless(is_other(statement), data(statement, form, Writes::Text)),
        ),
    ]);
    if let (Json::Object(members), false) = (&mut message, form.has(0)) {
        let commit = 450_387_397_223_645_303 + statement.at * 1_835_008;
        let mut extension = vec![("\"commitTs\"".to_owned(), raw(commit))];
        if form.has(2) {
            extension.push((
                "\"onlyHandleKey\"".to_owned(),
                boolean(statement.at.is_multiple_of(4)),
            ));
        }
        members.push(("\"_tidb\"".to_owned(), Json::Object(extension)));
    }
    message
}

fn shuffle<T>(items: &mut [T], seed: u64) {
    for last in (1..items.len()).rev() {
        items.swap(last, mixed(seed * 64 + last as u64) as usize % (last + 1));
    }
}

/// Writes no types, numbers as numbers, and a whole `old`. The row of a DELETE is in `old`.
pub fn tencent(statement: &Statement<'_>, form: &Form) -> Json {
    let table = statement.table;
    let writes = if form.has(0) {
        Writes::Text
    } else {
        Writes::Typed
    };
    let (is_ddl, sql) = ddl(statement, form);
    let has_data = matches!(statement.did, Did::Insert | Did::Update);
    let has_old = matches!(statement.did, Did::Update | Did::Delete);
    object([
        ("data", unless(!has_data, data(statement, form, writes))),
        ("database", form.text(table.database)),
        (
            "es",
            raw(if form.has(1) {
                0
            } else {
                statement.second() * 1000
            }),
        ),
        ("id", raw(0)),
        ("isDdl", is_ddl),
        ("mysqlType", null()),
        (
            "old",
            unless(!has_old, old(statement, form, writes, Old::Whole)),
        ),
        ("pkNames", null()),
        ("sql", sql),
        ("sqlType", null()),
        ("table", form.text(table.name)),
        ("ts", raw(statement.sent())),
        ("type", form.text(word(statement.did))),
    ])
}

/// Writes empty arrays for null, and the labels of enums.
pub fn cloudcanal(statement: &Statement<'_>, form: &Form) -> Json {
    let table = statement.table;
    let (is_ddl, sql) = ddl(statement, form);
    let empty = || Json::Array(Vec::new());
    let mut message = object([
        (
            "data",
            if is_other(statement) {
                empty()
            } else {
                data(statement, form, Writes::Labels)
            },
        ),
        ("database", form.text(table.database)),
        ("es", raw(statement.second() * 1000)),
        ("id", raw(1 + statement.at)),
        ("isDdl", is_ddl),
        (
            "mysqlType",
            by_column(table, form, |column| form.text(column.declared.mysql)),
        ),
        (
            "old",
            if statement.did == Did::Update {
                old(statement, form, Writes::Labels, Old::Whole)
            } else {
                empty()
            },
        ),
        ("pkNames", names(table, form)),
        ("sql", sql),
        (
            "sqlType",
            by_column(table, form, |column| raw(column.declared.jdbc)),
        ),
        ("table", form.text(table.name)),
        ("ts", raw(statement.sent())),
        ("type", form.text(word(statement.did))),
    ]);
    if let (Json::Object(members), true) = (&mut message, is_other(statement)) {
        members.push((
            "\"tableChanges\"".to_owned(),
            Json::Array(vec![object([("type", form.text("ALTER"))])]),
        ));
    }
    message
}
