//! Marks of deletes in rows without an envelope. Other sinks than Debezium write them, and Debezium's flattening with
//! another `add.fields.prefix`.
//!
//! ```json
//! {"id":7,"name":"x","_cdc":{"op":"D"}}
//! {"id":7,"name":"x","__DORIS_DELETE_SIGN__":"true"}
//! ```
//!
//! The option `op_column` names the member to read. A mark that the option does not name is an error, because the row
//! would become an update.

use std::borrow::Cow;

use crate::dialect::operations::any_case;
use crate::error::{Fault, Kind, Result, excerpt};
use crate::event::Op;
use crate::mysql::temporal::DateTimeText;
use crate::value::Value;
use crate::wire::json::Cursor;

/// The words of operations, and the values of a flag.
const OPERATIONS: [(&str, Op); 20] = [
    ("i", Op::Insert),
    ("c", Op::Insert),
    ("+i", Op::Insert),
    ("insert", Op::Insert),
    ("create", Op::Insert),
    ("r", Op::Snapshot),
    ("read", Op::Snapshot),
    ("u", Op::Update),
    ("+u", Op::Update),
    ("update", Op::Update),
    ("upsert", Op::Update),
    ("update_postimage", Op::Update),
    ("d", Op::Delete),
    ("-d", Op::Delete),
    ("delete", Op::Delete),
    ("false", Op::Update),
    ("0", Op::Update),
    ("", Op::Update),
    ("true", Op::Delete),
    ("1", Op::Delete),
];

/// Words that mark the row before an update.
const BEFORE: [&str; 2] = ["-u", "update_preimage"];

/// Operation of a row, from one of its members.
pub(super) struct Said<'a> {
    pub op: Op,
    /// True if it is the row before an update. The row after it is a separate message.
    pub is_before: bool,
    /// The word.
    pub operation: Option<Cow<'a, str>>,
}

/// Reads the operation of a row from the value of the path's first member.
pub(super) fn said<'a>(path: &str, name: &str, value: Value<'a>) -> Result<Said<'a>> {
    let value = match (
        path.strip_prefix(name)
            .and_then(|rest| rest.strip_prefix('.')),
        value,
    ) {
        (None, value) => value,
        (Some(inner), Value::Nested(json)) => {
            inner_value(json, inner).ok_or_else(|| missing(path))?
        }
        (Some(_), _) => return Err(missing(path)),
    };
    meaning(value).map_err(|fault| fault.within(path))
}

fn inner_value<'a>(json: &'a str, path: &str) -> Option<Value<'a>> {
    let mut cursor = Cursor::new(json, true);
    let mut members = cursor.object().ok()?;
    while let Some(name) = cursor.next_key(&mut members).ok()? {
        let name = name.unescaped();
        let value = cursor.value().ok()?;
        match (path.strip_prefix(&*name), value) {
            (Some(""), value) => return Some(value),
            (Some(rest), Value::Nested(json)) if rest.starts_with('.') => {
                return inner_value(json, rest.get(1..)?);
            }
            _ => {}
        }
    }
    None
}

/// Returns the fault of a row without the member that holds the operation.
#[cold]
pub(super) fn missing(path: &str) -> Fault {
    Fault::new(
        Kind::Envelope,
        "is missing: every row must have the member that op_column names, which may be null",
    )
    .within(path)
}

fn meaning(value: Value<'_>) -> Result<Said<'_>> {
    let text = if value.is_null() {
        Cow::Borrowed("")
    } else {
        value.text()?
    };
    let is_before = BEFORE.iter().any(|word| word.eq_ignore_ascii_case(&text));
    let (op, operation) = match any_case(&text, &OPERATIONS) {
        _ if is_before => (Op::Update, Some(text)),
        Some(op) => (op, Some(text).filter(|text| !is_flag(text))),
        // The text is the time of the delete.
        None if is_time(&text) => (Op::Delete, None),
        None => {
            let what = format!(
                "{} is not an operation (I, U, D), true, false, or the time of a delete",
                excerpt(&text)
            );
            return Err(Fault::new(Kind::Envelope, what));
        }
    };
    Ok(Said {
        op,
        is_before,
        operation,
    })
}

fn is_flag(text: &str) -> bool {
    ["", "0", "1"].contains(&text)
        || text.eq_ignore_ascii_case("true")
        || text.eq_ignore_ascii_case("false")
}

fn is_time(text: &str) -> bool {
    let is_epoch = text.len() >= 10 && text.bytes().all(|byte| byte.is_ascii_digit());
    is_epoch || DateTimeText::parse(text).is_ok()
}

/// Kind of a mark's value.
#[derive(Clone, Copy, PartialEq)]
enum MarkKind {
    /// A word such as `D`.
    Word,
    /// True or false.
    Flag,
    /// Null, or a time.
    Time,
}

/// Returns the kind of mark that a member of this name would be in other sinks. `is_inner`: within an object of
/// metadata.
fn kind_of(name: &str, is_inner: bool) -> Option<MarkKind> {
    let name = name.to_ascii_lowercase();
    let mut words = name
        .rsplit(|c: char| !c.is_ascii_alphanumeric())
        .filter(|word| !word.is_empty());
    let is_metadata = is_inner || name.starts_with('_');
    match (words.next()?, words.next()) {
        ("op" | "rowkind", _) | ("kind", Some("row")) => Some(MarkKind::Word),
        ("deleted" | "isdeleted", _) | ("sign", Some("delete")) => Some(MarkKind::Flag),
        ("operation" | "action", _) | ("type", Some("change")) if is_metadata => {
            Some(MarkKind::Word)
        }
        ("at", Some("deleted")) if is_metadata => Some(MarkKind::Time),
        _ => None,
    }
}

fn marks_delete(kind: MarkKind, value: &Value<'_>) -> bool {
    let Ok(said) = meaning(*value) else {
        return false;
    };
    match kind {
        MarkKind::Word => said.is_before || said.op == Op::Delete && said.operation.is_some(),
        MarkKind::Flag | MarkKind::Time => said.op == Op::Delete,
    }
}

/// Returns whether Debezium's flattening with another prefix may have added a field, such as `cdc_deleted` with the
/// text `true` or `cdc_op` with `d`.
fn is_of_debezium(name: &str, value: &Value<'_>) -> bool {
    let prefix = name
        .strip_suffix("deleted")
        .or_else(|| name.strip_suffix("op"));
    let is_text = !matches!(
        value,
        Value::Bool(_) | Value::Number(_) | Value::Digits(_) | Value::Scaled(..)
    );
    is_text && prefix.is_some_and(|prefix| prefix.ends_with(|c: char| !c.is_ascii_alphanumeric()))
}

/// Returns whether the value may be a mark, by its first byte. Most values are not, so their names need no check.
fn may_mark(value: &Value<'_>) -> bool {
    match value {
        Value::Nested(_) | Value::Scaled(1, 0) => true,
        value => value
            .bytes()
            .first()
            .is_some_and(|first| b"dDuU-tT12".contains(first)),
    }
}

/// Returns whether a member of this name may mark deleted rows.
pub(super) fn may_be(name: &str) -> bool {
    is_metadata(name) || kind_of(name, false).is_some()
}

/// Returns whether a member may be an object of metadata.
fn is_metadata(name: &str) -> bool {
    name.starts_with('_') || ["meta", "metadata", "cdc"].contains(&name)
}

/// Returns the path of a member that marks a deleted row. `is_any`: marks of other sinks than Debezium count too.
pub(super) fn find(name: &str, value: &Value<'_>, is_any: bool) -> Option<String> {
    if !may_mark(value) {
        return None;
    }
    match value {
        Value::Nested(json) if is_any && is_metadata(name) => {
            let mut cursor = Cursor::new(json, true);
            let mut members = cursor.object().ok()?;
            while let Some(inner) = cursor.next_key(&mut members).ok()? {
                let inner = inner.unescaped();
                let value = cursor.value().ok()?;
                if may_mark(&value)
                    && kind_of(&inner, true).is_some_and(|kind| marks_delete(kind, &value))
                {
                    return Some(format!("{name}.{inner}"));
                }
            }
            None
        }
        Value::Nested(_) => None,
        _ => {
            let kind = kind_of(name, false)?;
            let is_mark = is_any || is_of_debezium(name, value);
            (is_mark && marks_delete(kind, value)).then(|| name.to_owned())
        }
    }
}

/// Returns the fault of a row with a mark that is not read.
#[cold]
pub(super) fn unread(path: &str) -> Fault {
    let what = format!(
        "marks a deleted row, which would be decoded as an update; set op_column={path:?}, or add the column to the schema if it belongs to the table"
    );
    Fault::new(Kind::Envelope, what).within(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_marks() {
        let marks = [
            "op",
            "_op",
            "cdc_op",
            "row_kind",
            "rowKind",
            "_ROW_KIND",
            "is_deleted",
            "isDeleted",
            "_fivetran_deleted",
            "__DORIS_DELETE_SIGN__",
        ];
        assert!(marks.iter().all(|name| kind_of(name, false).is_some()));
        for name in [
            "shop",
            "stop",
            "deleted_by",
            "deleted_at",
            "operation",
            "change_type",
            "kind",
            "sign",
            "",
            "_",
        ] {
            assert!(kind_of(name, false).is_none(), "{name}");
        }
        assert!(
            ["_ab_cdc_deleted_at", "_hoodie_operation", "_change_type"]
                .iter()
                .all(|name| kind_of(name, false).is_some())
        );
    }
}
