//! CloudCanal's own JSON. The rows of a statement are one message, and both images are whole.

use super::canal::{Writes, value};
use super::{Did, Form, Row, Statement, boolean, by_column, members, names, object, raw};
use crate::json::{Json, null};
use crate::values::Cell;

fn images(statement: &Statement<'_>, form: &Form, cells: impl Fn(&Row) -> &[Cell]) -> Json {
    let image = |row| {
        members(
            statement.table.columns.iter().zip(cells(row)),
            form,
            |column, cell| value(column, cell, form, Writes::Labels),
        )
    };
    Json::Array(statement.rows.iter().map(image).collect())
}

fn action(did: Did) -> &'static str {
    match did {
        Did::Insert => "INSERT",
        Did::Update => "UPDATE",
        Did::Delete => "DELETE",
        Did::Other(which) => {
            ["ALTER", "TRUNCATE", "QUERY", "CREATE", "OTHER"][usize::from(which) % 5]
        }
    }
}

/// Writes a message. Older messages have `ddl` instead of `isDdl`, and omit members that are null.
pub fn write(statement: &Statement<'_>, form: &Form) -> Json {
    let (table, is_ddl) = (
        statement.table,
        matches!(statement.did, Did::Other(which) if which % 2 == 0),
    );
    let (before, data) = match statement.did {
        Did::Update => (
            images(statement, form, |row| &row.before),
            images(statement, form, |row| &row.after),
        ),
        Did::Other(_) => (null(), null()),
        _ => (
            if form.has(1) {
                null()
            } else {
                Json::Array(Vec::new())
            },
            images(statement, form, |row| statement.data(row)),
        ),
    };
    let entry = match statement.did {
        Did::Other(3) => "TRANSACTIONEND",
        Did::Other(5) => "HEARTBEAT",
        _ => "ROWDATA",
    };
    let mut message = object([
        ("action", form.text(action(statement.did))),
        ("before", before),
        ("bid", raw(statement.at / 3)),
        ("data", data),
        ("db", form.text(table.database)),
        (
            "dbValType",
            by_column(table, form, |column| form.text(column.declared.mysql)),
        ),
        (if form.has(0) { "ddl" } else { "isDdl" }, boolean(is_ddl)),
        ("entryType", form.text(entry)),
        ("execTs", raw(statement.second() * 1000)),
        (
            "jdbcType",
            by_column(table, form, |column| raw(column.declared.jdbc)),
        ),
        ("pks", names(table, form)),
        ("schema", form.text(table.database)),
        ("sendTs", raw(statement.sent())),
        (
            "sql",
            form.text(if is_ddl {
                "ALTER TABLE t ADD c int"
            } else {
                ""
            }),
        ),
        ("table", form.text(table.name)),
    ]);
    if let (Json::Object(members), true) = (&mut message, form.has(1)) {
        members.retain(|(_, value)| *value != null());
    }
    message
}
