//! Fast path for messages that resemble an earlier one. It compares them with a template instead of parsing them.
//!
//! Messages of a table differ in their rows and a few members. A [`Template`] is one message that the ordinary reader
//! has parsed, split into literals and placeholders. If a message matches the literals, its row values go directly to
//! the column builders.
//!
//! A template only accepts messages. Anything unexpected (another order, white space, an escape in a name, a value that
//! its column rejects) rolls back the appended rows and falls back to the ordinary reader. So one place handles errors
//! and rare forms.

mod cache;
mod elements;
mod learn;
mod message;
mod row_image;
mod scalar;

use crate::dialect::spec::{Placeholder, TemplateSpec};
use crate::output::row::TableEnvelope;

pub(crate) use cache::Templates;
use elements::Elements;
pub(crate) use message::Incoming;
use row_image::{Exact, RowPlan};

/// Template of a table's messages.
pub(crate) struct Template {
    spec: &'static TemplateSpec,
    segments: Vec<Segment>,
    /// Literal after the last placeholder.
    tail: Exact,
    row: RowPlan,
    /// Columns of a row that is an array of elements.
    elements: Elements,
    /// True if the message itself is the row (flat).
    is_flat: bool,
    /// Declared types, in any order: the whole block as one literal, and one literal per column.
    types: (Exact, row_image::ExpectedKeys<()>),
    /// Operation names that do not change the message's dialect, if such a name detected it.
    operations: Option<Box<[Box<str>]>>,
    /// Envelope without the source.
    pub envelope: TableEnvelope,
    /// True if the table is requested.
    passes: bool,
    /// True if the messages are updates. Known only if the operation precedes the rows and updates have other members.
    are_updates: Option<bool>,
    /// True if the template has matched a message, and its number of failures.
    has_matched: bool,
    failures: u8,
}

/// A literal and the placeholder after it.
struct Segment {
    literal: Exact,
    placeholder: Placeholder,
}
