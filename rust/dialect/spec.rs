//! Description of a dialect's messages for [templates](crate::template).

use crate::event::{Envelope, Events, Op, Source};
use crate::interner::NameId;

/// Description of a dialect's messages for templates.
pub(crate) struct TemplateSpec {
    /// The names of the members that the ordinary reader reads.
    pub members: fn() -> &'static [&'static str],
    /// The members with varying values, by their path.
    pub placeholders: fn() -> &'static [(&'static str, Placeholder)],
    /// Member that may contain the whole message. Paths omit it.
    pub wrapper: Option<&'static str>,
    /// The part of a message with the table's name. It is the key for the lookup of templates.
    pub table: Place,
    /// Parses an operation name.
    pub op: fn(&str) -> Option<Op>,
    /// True if messages end with the operation, because `data` precedes it.
    pub ends_with_op: bool,
    pub before: Before,
    /// True if deleted rows may be in the placeholder [`Placeholder::After`].
    pub has_deletes_in_data: bool,
    /// True if rows may be an array. Otherwise a message has at most one row.
    pub has_arrays: bool,
    /// True if an empty object means no row.
    pub empty_is_null: bool,
    /// Reads the primary key from the Kafka key, if it is defined there.
    pub key_names: Option<KeyNames>,
    /// Classifies the members of flat messages, if the dialect has them. The columns of a flat message's row are
    /// members of the message itself. A message is flat if at least one member is not a column, and no member is
    /// unclear.
    pub flat: Option<fn(&str) -> FlatMember>,
    /// Returns whether a message of this connector has a text in place of a value that it lacks. Then the ordinary
    /// reader reads it.
    pub lacks_values: Option<fn(&Envelope<'_>, &str) -> bool>,
}

/// Kind of a flat message's member.
pub(crate) enum FlatMember {
    /// A column of the row.
    Column,
    /// A column of the row, or a mark of deleted rows that only the ordinary reader reads.
    Mark,
    /// Constant in all messages of the table.
    Same,
    /// Varying.
    Placeholder(Placeholder),
    /// Unclear: the dialect's reader reads the message.
    Unclear,
}

/// Reads the names of the primary key's columns from a Kafka key.
pub(crate) type KeyNames = fn(&[u8], &mut Events<'_>) -> Option<Vec<NameId>>;

/// Returns whether empty text is a value of a declared type. Otherwise it means NULL.
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
    /// This many bytes at the end, otherwise at the beginning.
    Either(usize),
}

/// A varying value of a message.
#[derive(Clone, Copy)]
pub(crate) enum Placeholder {
    /// Rows after the change. A delete has its deleted rows here, unless they are in [`Placeholder::Before`].
    After,
    /// Rows before the change.
    Before,
    /// A value of a flat message's row.
    Value,
    /// Flag that a flat message's row is deleted.
    Deleted,
    /// The columns of one row as a list, each with its value before an update. In the message, the list follows the
    /// operation.
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
