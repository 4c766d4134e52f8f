//! Messages that resemble an earlier one are compared with it instead of parsed.
//!
//! The messages of a table differ in their rows and in a few members. A [`Template`] is one message that the ordinary reader has
//! read, cut into the bytes between what differs, and the holes. A message whose bytes are those of a template gives its
//! rows straight to the columns, each value converted where it is written.
//!
//! A template may only say yes. Whatever it does not expect (another order, white space, an escape in a name, a value that its
//! column refuses) takes back what was written, and the ordinary reader reads the message: errors and rare forms have one
//! place where they are understood.

mod cache;
mod elements;
mod learn;
mod message;
mod row;
mod scalar;

use crate::dialect::spec::{Hole, TemplateSpec};
use crate::output::row::TableEnvelope;

pub(crate) use cache::Templates;
use elements::Elements;
pub(crate) use message::Incoming;
use row::{Exact, RowPlan};

/// A message of a table, without what differs in others.
pub(crate) struct Template {
    spec: &'static TemplateSpec,
    parts: Vec<Part>,
    /// The bytes behind the last hole.
    tail: Exact,
    row: RowPlan,
    /// The columns of the row, where they stand side by side.
    elements: Elements,
    /// Whether the message itself is the row.
    is_flat: bool,
    /// The declared types, where they may stand in any order: all of them as they were written, and each with its name.
    types: (Exact, row::Names<()>),
    /// What the message says of itself, but for its source.
    pub envelope: TableEnvelope,
    /// Whether the table is asked for.
    passes: bool,
    /// Whether its messages are updates, or are none, where they say so before their rows and have not the same members.
    are_updates: Option<bool>,
    /// Whether it has read a message, and how many it has not.
    is_of_use: bool,
    tries: u8,
}

/// Bytes, and the hole behind them.
struct Part {
    literal: Exact,
    hole: Hole,
}
