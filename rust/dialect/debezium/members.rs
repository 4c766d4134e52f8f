//! Members of Debezium's envelope, and the fields that they set: one table for envelopes, flattened rows, CloudEvents
//! and Avro.

use std::borrow::Cow;

use bumpalo::Bump;
use serde::Deserialize;

use super::debezium_message::Message;
use super::{ImageMember, Payload, SchemaPart, TransactionPart};
use crate::dialect::json_members::Names;
use crate::dialect::spec::{FlatMember, Placeholder};
use crate::error::{Fault, Kind, Result};
use crate::event::{Envelope, Source};
use crate::value::Value;
use crate::wire::json_de::{CowStr, RawNested};

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

/// Declares the scalar members of an envelope: their lines of [`MEMBERS`], and the structs that read them from JSON. The
/// `others` of such a struct have a value of their own. The `unread` members set nothing.
macro_rules! members {
    ($(
        $(#[$of:meta])*
        $record:ident $path:literal {
            $($(#[$doc:meta])* $name:ident: $type:ty = $make:ident($sets:expr),)*
        }
        others { $($others:tt)* }
        unread [$($unread:ident)*]
    )*) => {
        $(
            $(#[$of])*
            #[derive(Deserialize)]
            #[serde(bound(deserialize = "'de: 'a"))]
            pub(super) struct $record<'a> {
                $($(#[$doc])* pub $name: Option<$type>,)*
                $($others)*
            }

            impl<'a> $record<'a> {
                /// Sets the fields of its scalar members. Returns whether it has one.
                #[inline]
                pub fn fill(self, message: &mut Message<'a>, arena: &'a Bump) -> bool {
                    let mut has_any = false;
                    $(if let Some(scalar) = self.$name {
                        const SETS: Sets = $sets;
                        scalar.set(SETS, message, arena);
                        has_any = true;
                    })*
                    has_any
                }
            }
        )*

        /// The order determines the search by a name without its record: `__ts_ms` is the envelope's time, `__db` is
        /// the name in `source`.
        static MEMBERS: &[Member] = &[movable("deleted", Sets::Deleted), $(
            $($make(concat!($path, stringify!($name)), $sets),)*
            $(movable(concat!($path, stringify!($unread)), Nothing),)*
        )*];
    };
}

members! {
    /// The payload, or the wrapper around it.
    #[expect(non_snake_case, reason = "as Debezium spells them")]
    Members "" {
        /// `c` or `i` (CloudCanal), `u`, `d`, `r`, `t`, `m`; `a` (CloudCanal) is a DDL.
        op: CowStr<'a> = movable(Sets::Operation),
        /// Time when the message was made: milliseconds.
        ts_ms: i64 = movable(SourceNumber(produced::<MILLIS>)),
        ts_us: i64 = movable(SourceNumber(produced::<MICROS>)),
        ts_ns: i64 = movable(SourceNumber(produced::<NANOS>)),
        /// Id of a transaction.
        id: CowStr<'a> = fixed(SourceText(transaction)),
        /// `BEGIN` or `END` of a transaction.
        status: CowStr<'a> = fixed(Sets::Status),
        /// Members of a schema change.
        databaseName: CowStr<'a> =
            fixed(Text(|envelope, name| _ = envelope.database.get_or_insert(name))),
        schemaName: CowStr<'a> =
            fixed(Text(|envelope, name| _ = envelope.schema.get_or_insert(name))),
        ddl: CowStr<'a> = fixed(text!(sql)),
    }
    others {
        #[serde(default)]
        pub before: ImageMember,
        #[serde(default)]
        pub after: ImageMember,
        pub source: Option<SourceMembers<'a>>,
        #[serde(default)]
        pub transaction: TransactionPart,
        #[serde(default)]
        pub schema: SchemaPart,
        #[serde(default, rename = "payload")]
        _payload: Payload,
        pub tableChanges: Option<RawNested<'a>>,
        /// Flink CDC's schema change: the text of a [`super::History`].
        pub historyRecord: Option<CowStr<'a>>,
        /// Key columns, which Paimon reads. Debezium does not write them.
        #[serde(default)]
        pub pkNames: Names,
    }
    unread []

    /// `source`.
    SourceMembers "source." {
        version: CowStr<'a> = movable(text!(version)),
        connector: CowStr<'a> = movable(text!(connector)),
        /// Time of the change: milliseconds.
        ts_ms: i64 = movable(SourceNumber(happened::<MILLIS>)),
        ts_us: i64 = movable(SourceNumber(happened::<MICROS>)),
        ts_ns: i64 = movable(SourceNumber(happened::<NANOS>)),
        db: CowStr<'a> = movable(text!(database)),
        schema: CowStr<'a> = movable(text!(schema)),
        table: CowStr<'a> = movable(text!(table)),
        server_id: i64 = movable(Number(|envelope, id| envelope.server_id = Some(id))),
        gtid: CowStr<'a> = movable(source_text!(gtid)),
        file: CowStr<'a> = movable(source_text!(file)),
        pos: i64 = movable(source_number!(position)),
        /// TiCDC's commit time.
        commit_ts: i64 = movable(source_number!(commit_ts)),
    }
    others {}
    unread [name snapshot row thread query sequence]

    /// `transaction`.
    Transaction "transaction." {
        id: CowStr<'a> = movable(source_text!(transaction_id)),
    }
    others {}
    unread [total_order data_collection_order]
}

/// The value of a scalar member. Its function is always inlined, so that a constant field costs no branch.
trait Scalar<'a> {
    /// Sets a field of the value's kind.
    fn set(self, sets: Sets, message: &mut Message<'a>, arena: &'a Bump);
}

impl<'a> Scalar<'a> for CowStr<'a> {
    #[inline(always)]
    fn set(self, sets: Sets, message: &mut Message<'a>, arena: &'a Bump) {
        let envelope = &mut message.envelope;
        match sets {
            Sets::Operation => envelope.source.operation = Some(self.0),
            Sets::Status => message.status = Some(self.0),
            Text(set) => set(envelope, self.0),
            SourceText(set) => _ = set(&mut envelope.source, in_arena(self.0, arena)),
            Sets::Deleted | Number(_) | SourceNumber(_) | Nothing => {}
        }
    }
}

impl<'a> Scalar<'a> for i64 {
    #[inline(always)]
    fn set(self, sets: Sets, message: &mut Message<'a>, _: &'a Bump) {
        match sets {
            Number(set) => set(&mut message.envelope, self),
            SourceNumber(set) => set(&mut message.envelope.source, self),
            _ => {}
        }
    }
}

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
        match self.sets {
            Sets::Deleted => message.deleted = Some(deletion(&value.text()?)?),
            Number(_) | SourceNumber(_) => {
                if let Some(number) = integer(value) {
                    number.set(self.sets, message, arena);
                }
            }
            sets => CowStr(value.text()?).set(sets, message, arena),
        }
        Ok(())
    }
}

/// Returns a text that lives as long as the message.
pub(super) fn in_arena<'a>(text: Cow<'a, str>, arena: &'a Bump) -> &'a str {
    match text {
        Cow::Borrowed(text) => text,
        Cow::Owned(text) => arena.alloc_str(&text),
    }
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
