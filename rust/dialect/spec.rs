//! What a dialect says of its messages, so that [templates](crate::template) of them can be made.

use crate::event::{Events, Op, Source};
use crate::interner::NameId;

/// What a dialect says of its messages for templates of them.
pub(crate) struct TemplateSpec {
    /// The members that the ordinary reader reads.
    pub members: fn() -> &'static [&'static str],
    /// The members whose values differ from message to message, by their path.
    pub holes: &'static [(&'static str, Hole)],
    /// Where the table's name is written, roughly: templates are found by it.
    pub table: Place,
    /// The row change that a word stands for.
    pub op: fn(&str) -> Option<Op>,
    /// The word at the end of a message, if `data` stands before the operation.
    pub ends_with_op: bool,
    pub before: Before,
    /// Whether the row of a delete may stand among those after the change.
    pub has_deletes_in_data: bool,
    /// Whether rows may stand in an array; else there is one, or none.
    pub has_arrays: bool,
    /// Whether an object without members stands for no row.
    pub empty_is_null: bool,
    /// The columns that a message's key names, where the key of a table comes from there.
    pub key_names: Option<KeyNames>,
    /// What the members of a message are that is a row itself, where there are such messages. A message is one if any of its
    /// members is no column, and none is unclear.
    pub flat: Option<fn(&str) -> FlatMember>,
}

/// What a member of a message is that is a row itself.
pub(crate) enum FlatMember {
    /// A column of the row.
    Column,
    /// The same in all messages of the table.
    Same,
    /// What differs from message to message.
    Hole(Hole),
    /// A message with it is for the ordinary reader.
    Unclear,
}

/// The columns that a message's key names.
pub(crate) type KeyNames = fn(&[u8], &mut Events<'_, '_, '_>) -> Option<Vec<NameId>>;

/// Whether empty text is a value of a declared type, or only another way to write NULL.
pub(crate) type MayBeEmpty = fn(Option<&str>) -> bool;

/// What the image before an update carries.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Before {
    /// What changed; it is merged onto the image after the update.
    Changes,
    /// The whole row.
    Row,
}

/// The part of a message that has the name of its table.
#[derive(Clone, Copy)]
pub(crate) enum Place {
    /// So many bytes at the beginning.
    Head(usize),
    /// So many bytes at the end.
    Tail(usize),
    /// So many bytes at the end, or at the beginning if they do not have it.
    Either(usize),
}

/// A value that differs from message to message.
#[derive(Clone, Copy)]
pub(crate) enum Hole {
    /// Rows after the change; of a delete, those that are gone, unless they are in the other hole.
    After,
    /// Rows before the change.
    Before,
    /// A value of the row that the message is itself.
    Value,
    /// Whether that row is gone.
    Deleted,
    /// The columns of one row, side by side, each with what was there before an update: behind the operation.
    Columns(MayBeEmpty),
    /// The word for what happened.
    Operation,
    /// An integer, as it is written.
    Digits(for<'a> fn(&mut Source<'a>, &'a str)),
    /// An integer.
    Integer(for<'a> fn(&mut Source<'a>, i64)),
    /// Text, if it is accepted.
    Text(for<'a> fn(&mut Source<'a>, &'a str) -> bool),
    /// An object of names and declared types, which may stand in any order.
    DeclaredTypes,
    /// An object that nobody asks for.
    Object,
    /// Anything: nobody asks for it.
    Any,
}
