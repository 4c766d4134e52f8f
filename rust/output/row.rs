//! Output rows. A row has a message, a change in it, and references to its parts.

use std::ops::Range;

use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef, PrimitiveArray};
use hashbrown::HashMap;

use crate::dialect::SchemaSnapshot;
use crate::error::Error;
use crate::event::{Envelope, Op};
use crate::interner::NameId;

/// The messages of a call.
pub(crate) struct Input<'a> {
    pub messages: Vec<Option<&'a [u8]>>,
    /// Buffer with most of the messages in sequence.
    pub buffer: &'a [u8],
    /// Their keys, if option `key` names the column.
    pub keys: Option<Vec<Option<&'a [u8]>>>,
    /// Kafka offsets, if the input has them.
    pub offsets: Option<&'a PrimitiveArray<Int64Type>>,
    /// The columns that are copied to the output rows.
    pub kept: Vec<ArrayRef>,
    /// Schemas to which messages refer.
    pub schemas: &'a SchemaSnapshot,
    /// Reasons why stored messages could not be read, by the index of the message that refers to each.
    pub unread: HashMap<usize, &'a str>,
}

impl<'a> Input<'a> {
    /// Returns the bytes of a message before expansion.
    pub fn received(&self, message: usize) -> usize {
        self.message(message).map_or(0, <[u8]>::len)
    }

    /// Returns a message before expansion; `None` for null.
    #[allow(
        clippy::indexing_slicing,
        reason = "callers have indices of these messages"
    )]
    pub fn message(&self, message: usize) -> Option<&'a [u8]> {
        self.messages[message]
    }

    /// Replaces messages by the stored messages that they refer to.
    pub fn replace(&mut self, stored: &'a HashMap<usize, Result<&[u8], String>>) {
        for (index, stored) in stored {
            match (stored, self.messages.get_mut(*index)) {
                (Ok(stored), Some(message)) => *message = Some(stored),
                (Err(why), Some(_)) => drop(self.unread.insert(*index, why)),
                (_, None) => {}
            }
        }
    }

    #[allow(
        clippy::indexing_slicing,
        reason = "each message has a key, or none has"
    )]
    pub fn key(&self, message: usize) -> Option<&'a [u8]> {
        self.keys.as_ref()?[message]
    }

    /// Returns Kafka's offset of a message.
    pub fn offset(&self, message: usize) -> Option<i64> {
        self.offsets
            .filter(|offsets| offsets.is_valid(message))
            .map(|offsets| offsets.value(message))
    }
}

/// The expanded messages of a chunk.
pub(crate) struct Payloads<'b> {
    pub first: usize,
    pub texts: &'b [&'b [u8]],
    pub input: &'b Input<'b>,
}

impl Payloads<'_> {
    /// Returns an expanded message.
    #[allow(
        clippy::indexing_slicing,
        reason = "callers have indices of the chunk's messages"
    )]
    fn text(&self, message: usize) -> &[u8] {
        self.texts[message - self.first]
    }

    /// Returns the bytes of an expanded message.
    pub fn length(&self, message: usize) -> usize {
        self.text(message).len()
    }

    /// Returns the offset of a part in its message; `None` if the part was decoded from it.
    pub fn byte(&self, message: usize, part: &[u8]) -> Option<usize> {
        let body = self.text(message);
        let offset = (part.as_ptr() as usize).checked_sub(body.as_ptr() as usize)?;
        (offset < body.len()).then_some(offset)
    }
}

/// An output row. Its images are already appended to their columns.
pub(crate) struct OutputRow {
    /// Index of the message in the input.
    pub message: usize,
    /// Index of the change in its message.
    pub index: usize,
    pub op: Op,
    /// `op`, `_change_type` or `_op`.
    pub op_name: &'static str,
    pub envelope: EnvelopeRef,
    pub error: Option<Box<Error>>,
    /// Columns that an update changed: a range of the batch's list.
    pub changed: Option<Range<usize>>,
    /// The schema's columns that its images lack: a range of the batch's list.
    pub missing: Range<usize>,
    /// Order in which the message declares its types, unless it is the block's order: a range of the batch's list.
    pub types: Range<usize>,
}

impl OutputRow {
    /// Returns a row of a message's first change.
    pub fn new(message: usize, op: Op, op_name: &'static str, envelope: EnvelopeRef) -> Self {
        OutputRow {
            message,
            index: 0,
            op,
            op_name,
            envelope,
            error: None,
            changed: None,
            missing: 0..0,
            types: 0..0,
        }
    }
}

/// The envelope that the messages of a table share, without its source.
pub(crate) struct TableEnvelope {
    pub envelope: Envelope<'static>,
    pub primary_key: Option<Box<[NameId]>>,
}

/// Reference to the envelope of a row.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum EnvelopeRef {
    /// The message could not be read.
    None,
    /// An index in the events' envelopes.
    Event(usize),
    /// The envelope of a table. `source` is an index in the events' sources.
    Table { table: usize, source: usize },
}
