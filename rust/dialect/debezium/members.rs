//! Scalar members of Debezium's envelope, and the fields that they set: one table for envelopes, flattened rows,
//! CloudEvents and Avro.

use std::borrow::Cow;

use bumpalo::Bump;

use super::debezium_message::Message;
use crate::dialect::spec::{FlatMember, Placeholder};
use crate::error::{Fault, Kind, Result};
use crate::event::{Envelope, Source};
use crate::value::Value;

/// A scalar member.
#[derive(Debug)]
pub(super) struct Member {
    /// Path in an envelope.
    path: &'static str,
    /// True if the flattening adds it to a row when `add.fields` names it.
    is_added: bool,
    sets: Sets,
}

/// The field that a member sets.
#[derive(Clone, Copy, Debug)]
enum Sets {
    Operation,
    /// Flag that a flattened row is deleted. Envelopes do not have it.
    Deleted,
    /// `BEGIN` or `END` of a transaction.
    Status,
    /// A text that the messages of a table share.
    Text(for<'a> fn(&mut Envelope<'a>, Cow<'a, str>)),
    /// A number that the messages of a table share.
    Number(for<'a> fn(&mut Envelope<'a>, i64)),
    /// A text that differs between messages; the function returns whether it is accepted.
    SourceText(for<'a> fn(&mut Source<'a>, &'a str) -> bool),
    /// A number that differs between messages.
    SourceNumber(for<'a> fn(&mut Source<'a>, i64)),
    /// No field. The value differs between messages.
    Nothing,
}

use Sets::{Nothing, Number, SourceNumber, SourceText, Text};

/// A member of envelopes only.
const fn fixed(path: &'static str, sets: Sets) -> Member {
    Member {
        path,
        is_added: false,
        sets,
    }
}

/// A member of envelopes that the flattening adds to rows.
const fn movable(path: &'static str, sets: Sets) -> Member {
    Member {
        path,
        is_added: true,
        sets,
    }
}

macro_rules! text {
    ($field:ident) => {
        Text(|envelope, text| envelope.$field = Some(text))
    };
}

macro_rules! source_text {
    ($field:ident) => {
        SourceText(|source, text| {
            source.$field = Some(Cow::Borrowed(text));
            true
        })
    };
}

macro_rules! source_number {
    ($field:ident) => {
        SourceNumber(|source, number| source.$field = Some(number))
    };
}

/// The order determines the search by a name without its record: `__ts_ms` is the envelope's time, `__db` is the name
/// in `source`.
static MEMBERS: [Member; 32] = [
    movable("op", Sets::Operation),
    movable("deleted", Sets::Deleted),
    movable("ts_ms", SourceNumber(produced::<MILLIS>)),
    movable("ts_us", SourceNumber(produced::<MICROS>)),
    movable("ts_ns", SourceNumber(produced::<NANOS>)),
    movable("source.version", text!(version)),
    movable("source.connector", text!(connector)),
    movable("source.name", Nothing),
    movable("source.ts_ms", SourceNumber(happened::<MILLIS>)),
    movable("source.ts_us", SourceNumber(happened::<MICROS>)),
    movable("source.ts_ns", SourceNumber(happened::<NANOS>)),
    movable("source.snapshot", Nothing),
    movable("source.db", text!(database)),
    movable("source.schema", text!(schema)),
    movable("source.table", text!(table)),
    movable(
        "source.server_id",
        Number(|envelope, id| envelope.server_id = Some(id)),
    ),
    movable("source.gtid", source_text!(gtid)),
    movable("source.file", source_text!(file)),
    movable("source.pos", source_number!(position)),
    movable("source.row", Nothing),
    movable("source.thread", Nothing),
    movable("source.query", Nothing),
    movable("source.sequence", Nothing),
    // Only TiCDC writes it.
    movable("source.commit_ts", source_number!(commit_ts)),
    movable("transaction.id", source_text!(transaction_id)),
    movable("transaction.total_order", Nothing),
    movable("transaction.data_collection_order", Nothing),
    // Members of a message about a transaction.
    fixed("id", SourceText(transaction)),
    fixed("status", Sets::Status),
    // Members of a schema change.
    fixed(
        "databaseName",
        Text(|envelope, name| _ = envelope.database.get_or_insert(name)),
    ),
    fixed(
        "schemaName",
        Text(|envelope, name| _ = envelope.schema.get_or_insert(name)),
    ),
    fixed("ddl", text!(sql)),
];

fn transaction<'a>(source: &mut Source<'a>, id: &'a str) -> bool {
    source.transaction_id.get_or_insert(Cow::Borrowed(id));
    true
}

/// Units per second of a time.
const MILLIS: i64 = 1_000;
const MICROS: i64 = 1_000_000;
const NANOS: i64 = 1_000_000_000;

fn produced<const UNIT: i64>(source: &mut Source<'_>, time: i64) {
    finest::<UNIT>(&mut source.produced_time, time);
}

fn happened<const UNIT: i64>(source: &mut Source<'_>, time: i64) {
    finest::<UNIT>(&mut source.event_time, time);
}

/// Replaces a time by a finer one, in microseconds. Ignores zero.
fn finest<const UNIT: i64>(time: &mut Option<i64>, number: i64) {
    if number == 0 || UNIT == MILLIS && time.is_some() {
        return;
    }
    *time = Some(match UNIT {
        MILLIS => number.saturating_mul(1000),
        NANOS => number.div_euclid(1000),
        _ => number,
    });
}

/// Returns the finest of a time's members, in microseconds.
pub(super) fn finest_of(
    millis: Option<i64>,
    micros: Option<i64>,
    nanos: Option<i64>,
) -> Option<i64> {
    let mut time = None;
    finest::<MILLIS>(&mut time, millis.unwrap_or(0));
    finest::<MICROS>(&mut time, micros.unwrap_or(0));
    finest::<NANOS>(&mut time, nanos.unwrap_or(0));
    time
}

/// Finds a member by its path in an envelope.
pub(super) fn find(path: &str) -> Option<&'static Member> {
    MEMBERS
        .iter()
        .find(|member| member.path == path && member.is_of_envelopes())
}

/// Returns a member that sets nothing.
pub(super) fn ignored() -> &'static Member {
    static IGNORED: Member = fixed("", Nothing);
    &IGNORED
}

/// Finds the member that the flattening added to a row. The name is `__` and the path, or `__` and the name in the
/// envelope or in `source`.
pub(super) fn added(name: &str) -> Option<&'static Member> {
    let name = name.strip_prefix("__")?;
    MEMBERS.iter().find(|member| {
        let path = member.path;
        member.is_added
            && (path.strip_prefix("source.").unwrap_or(path) == name || is_joined(path, name))
    })
}

/// Returns whether a name is a path with `_` in place of its dot.
fn is_joined(path: &str, name: &str) -> bool {
    let (record, member) = path.split_once('.').unwrap_or_default();
    let rest = name
        .strip_prefix(record)
        .and_then(|rest| rest.strip_prefix('_'));
    !record.is_empty() && rest == Some(member)
}

/// Finds the member for an attribute of a CloudEvent: `iodebezium` and the member's name without `_`, such as
/// `iodebeziumtsms`.
pub(super) fn attribute(name: &str) -> Option<&'static Member> {
    match name.strip_prefix("iodebezium")? {
        "op" => find("op"),
        "txid" => find("transaction.id"),
        name => MEMBERS.iter().find(|member| {
            let own = member.path.strip_prefix("source.");
            own.is_some_and(|own| own.bytes().filter(|byte| *byte != b'_').eq(name.bytes()))
        }),
    }
}

/// Returns the members that differ between messages of a table, by their paths.
pub(super) fn placeholders() -> impl Iterator<Item = (&'static str, Placeholder)> {
    let of_envelopes = MEMBERS.iter().filter(|member| member.is_of_envelopes());
    of_envelopes.filter_map(|member| Some((member.path, member.placeholder()?)))
}

impl Member {
    fn is_of_envelopes(&self) -> bool {
        !matches!(self.sets, Sets::Deleted)
    }

    /// Returns the placeholder of a member that differs between messages of a table.
    fn placeholder(&self) -> Option<Placeholder> {
        match self.sets {
            Sets::Operation => Some(Placeholder::Operation),
            Sets::Deleted => Some(Placeholder::Deleted),
            SourceText(set) => Some(Placeholder::Text(set)),
            SourceNumber(set) => Some(Placeholder::Integer(set)),
            Nothing => Some(Placeholder::Any),
            Sets::Status | Text(_) | Number(_) => None,
        }
    }

    /// Returns the kind of a member that was added to a row.
    pub fn flat(&self) -> FlatMember {
        self.placeholder()
            .map_or(FlatMember::Same, FlatMember::Placeholder)
    }

    /// Sets the value of the member. Ignores null.
    pub fn set<'a>(
        &self,
        value: Value<'a>,
        message: &mut Message<'a>,
        arena: &'a Bump,
    ) -> Result<()> {
        if value.is_null() || matches!(self.sets, Nothing) {
            return Ok(());
        }
        let envelope = &mut message.envelope;
        match self.sets {
            Sets::Operation => envelope.source.operation = Some(value.text()?),
            Sets::Deleted => message.deleted = Some(deletion(&value.text()?)?),
            Sets::Status => message.status = Some(value.text()?),
            Text(set) => set(envelope, value.text()?),
            SourceText(set) => _ = set(&mut envelope.source, borrowed(value, arena)?),
            Number(set) => {
                if let Some(number) = integer(value) {
                    set(envelope, number);
                }
            }
            SourceNumber(set) => {
                if let Some(number) = integer(value) {
                    set(&mut envelope.source, number);
                }
            }
            Nothing => {}
        }
        Ok(())
    }
}

fn borrowed<'a>(value: Value<'a>, arena: &'a Bump) -> Result<&'a str> {
    Ok(match value.text()? {
        Cow::Borrowed(text) => text,
        Cow::Owned(text) => arena.alloc_str(&text),
    })
}

fn integer(value: Value<'_>) -> Option<i64> {
    match value {
        Value::Scaled(number, 0) => Some(number),
        other => other.raw().parse().ok(),
    }
}

/// Returns whether a row is deleted, from the text of `__deleted`.
fn deletion(text: &str) -> Result<bool> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "1" => Ok(true),
        "false" | "0" | "" => Ok(false),
        _ => Err(Fault::new(
            Kind::Envelope,
            format!("{text:?} is neither true nor false"),
        )),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::{Members, SourceMembers};
    use super::*;
    use crate::wire::json_de::member_names;

    /// Members with a value of their own, and members that only JSON has.
    const OTHERS: [&str; 9] = [
        "after",
        "before",
        "historyRecord",
        "payload",
        "pkNames",
        "schema",
        "source",
        "tableChanges",
        "transaction",
    ];

    fn read(record: &str) -> BTreeSet<&'static str> {
        let is_read = |member: &&Member| !matches!(member.sets, Nothing | Sets::Deleted);
        let paths = MEMBERS.iter().filter(is_read).map(|member| member.path);
        let names = paths.map(|path| path.split_once('.').unwrap_or(("", path)));
        names
            .filter_map(|(of, name)| (of == record).then_some(name))
            .collect()
    }

    #[test]
    fn structs_read_the_members_of_the_table() {
        let source: BTreeSet<_> = member_names::<SourceMembers<'static>>()
            .iter()
            .copied()
            .collect();
        assert_eq!(source, read("source"));
        let all = member_names::<Members<'static>>().iter().copied();
        let scalars: BTreeSet<_> = all.filter(|name| !OTHERS.contains(name)).collect();
        assert_eq!(scalars, read(""));
    }
}
