//! A row of the output: which message it is of, and where its parts are.

use std::ops::Range;

use arrow_array::types::Int64Type;
use arrow_array::{Array, PrimitiveArray};

use crate::error::Error;
use crate::event::{Envelope, Op, Source};
use crate::interner::NameId;
use crate::output::changes::POSTIMAGE;

/// The messages of a call.
pub(crate) struct Input<'a> {
    pub messages: Vec<Option<&'a [u8]>>,
    /// Their keys, if the user named the column that holds them.
    pub keys: Option<Vec<Option<&'a [u8]>>>,
    /// Kafka's offsets, where the input has them.
    pub offsets: Option<&'a PrimitiveArray<Int64Type>>,
}

impl<'a> Input<'a> {
    pub fn key(&self, message: usize) -> Option<&'a [u8]> {
        *self.keys.as_ref()?.get(message)?
    }

    fn offset(&self, message: usize) -> Option<i64> {
        self.offsets.filter(|offsets| message < offsets.len() && offsets.is_valid(message)).map(|offsets| offsets.value(message))
    }
}

/// The expanded messages of a chunk.
pub(crate) struct Payloads<'b> {
    pub first: usize,
    pub texts: &'b [&'b [u8]],
}

impl Payloads<'_> {
    /// Where a part of a message stands in it.
    pub fn byte(&self, message: usize, part: &[u8]) -> Option<usize> {
        let body = self.texts.get(message.checked_sub(self.first)?)?;
        let offset = (part.as_ptr() as usize).checked_sub(body.as_ptr() as usize)?;
        (offset < body.len()).then_some(offset)
    }
}

/// One row of the output, whose images are in their columns already.
pub(crate) struct OutputRow {
    /// Index of the message in the input.
    pub message: usize,
    /// Index of the change in its message.
    pub index: usize,
    pub op: Op,
    /// `op`, `_change_type` or `_op`.
    pub word: &'static str,
    pub envelope: EnvelopeRef,
    pub error: Option<Box<Error>>,
    /// The columns that an update changed: a part of [`Batch::changed`].
    pub changed: Option<Range<usize>>,
    /// The schema's columns that its images lack: a part of [`Batch::missing`].
    pub missing: Range<usize>,
    /// In which order the message declares its types, if it is not that of its block: a part of [`Batch::types`].
    pub types: Range<usize>,
}

/// What the messages of a table say alike: their envelope without its source.
pub(crate) struct TableEnvelope {
    pub envelope: Envelope<'static>,
    pub primary_key: Option<Box<[NameId]>>,
}

/// Where the envelope of a row is.
#[derive(Clone, Copy)]
pub(crate) enum EnvelopeRef {
    /// The message could not be read.
    Nowhere,
    /// In [`Events::envelopes`].
    Event(usize),
    /// The one of a table, but for its source, which is in [`Events::sources`].
    Table { table: usize, source: usize },
}

/// What orders the changes of a key: TiDB's commit time, else Kafka's offset, else the time and place of the message.
pub(crate) fn sequence(row: &OutputRow, source: Option<&Source<'_>>, input: &Input<'_>) -> [i64; 3] {
    let place = row.message as i64;
    let offset = input.offset(row.message);
    let second_half = row.op == Op::Update && (row.word == "insert" || row.word == POSTIMAGE);
    let within = row.index as i64 * 2 + i64::from(second_half);
    match (source.and_then(|source| source.commit_ts), offset) {
        (Some(commit_ts), offset) => [commit_ts, offset.unwrap_or(place), within],
        (None, Some(offset)) => [offset, 0, within],
        (None, None) => [source.and_then(|source| source.event_time).unwrap_or(0), place, within],
    }
}
