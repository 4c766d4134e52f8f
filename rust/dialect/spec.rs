//! Description of a dialect's messages for [templates](crate::template).

use crate::event::{Envelope, Events, Op, Source};
use crate::interner::NameId;

/// Description of a dialect's messages for templates.
pub(crate) struct TemplateSpec {
    /// The names of the members that the ordinary reader reads.
    pub members: fn() -> &'static [&'static str],
    /// The members with varying values, by their path.
    pub placeholders: fn() -> &'static [(&'static str, Placeholder)],
    /// The member that may contain the whole message: paths in it are those of a message without it.
    pub wrapper: Option<&'static str>,
    /// The part of a message with the table's name, by which templates are looked up.
    pub table: Place,
    /// Parses an operation name.
    pub op: fn(&str) -> Option<Op>,
    /// True if messages end with the operation, because `data` precedes it.
    pub ends_with_op: bool,
    pub before: Before,
    /// True if deleted rows may be in the placeholder [`Placeholder::After`].
    pub has_deletes_in_data: bool,
    /// True if rows may be an array; else there is one row or none.
    pub has_arrays: bool,
    /// True if an empty object means no row.
    pub empty_is_null: bool,
    /// Reads the primary key from the Kafka key, if it is defined there.
    pub key_names: Option<KeyNames>,
    /// Classifies the members of flat messages, whose members are the row's columns, if the dialect has them. A message is flat if at
    /// least one of its members is not a column, and none is unclear.
    pub flat: Option<fn(&str) -> FlatMember>,
    /// True if a message of this connector has a text in place of a value that it lacks: the ordinary reader reads it.
    pub lacks_values: Option<fn(&Envelope<'_>, &str) -> bool>,
}

/// Kind of a flat message's member.
pub(crate) enum FlatMember {
    /// A column of the row.
    Column,
    /// The same, or a mark of deleted rows that only the ordinary reader reads.
    Mark,
    /// Constant in all messages of the table.
    Same,
    /// Varying.
    Placeholder(Placeholder),
    /// Its message falls back to the dialect's reader.
    Unclear,
}

/// Reads the names of the primary key's columns from a Kafka key.
pub(crate) type KeyNames = fn(&[u8], &mut Events<'_, '_, '_>) -> Option<Vec<NameId>>;

/// True if empty text is a value of a declared type; else it means NULL.
pub(crate) type MayBeEmpty = fn(Option<&str>) -> bool;

/// Content of an update's before image.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Before {
    /// The changed columns, which are merged onto the after image.
    Changes,
    /// The whole row.
    Row,
}

/// The part of a message with the table's name.
#[derive(Clone, Copy)]
pub(crate) enum Place {
    /// This many bytes at the beginning.
    Head(usize),
    /// This many bytes at the end.
    Tail(usize),
    /// This many bytes at the end, else at the beginning.
    Either(usize),
}

/// A varying value of a message.
#[derive(Clone, Copy)]
pub(crate) enum Placeholder {
    /// Rows after the change; for a delete the deleted rows, unless they are in [`Placeholder::Before`].
    After,
    /// Rows before the change.
    Before,
    /// A value of a flat message's row.
    Value,
    /// True if a flat message's row is deleted.
    Deleted,
    /// The columns of one row as a list, each with its value before an update; after the operation in the message.
    Columns(MayBeEmpty),
    /// The operation name.
    Operation,
    /// The digits of an integer.
    Digits(for<'a> fn(&mut Source<'a>, &'a str)),
    /// An integer.
    Integer(for<'a> fn(&mut Source<'a>, i64)),
    /// Text; the function returns whether it is accepted.
    Text(for<'a> fn(&mut Source<'a>, &'a str) -> bool),
    /// An object of names and declared types, in any order.
    DeclaredTypes,
    /// An object that is not requested.
    Object,
    /// Any value that is not requested.
    Any,
}
