//! A message in any of Debezium's forms, and its operation.

use std::borrow::Cow;
use std::ops::Range;

use super::unavailable::{drop_unavailable, may_lack_values};
use super::{NAME, UNWRAPPED, row_marks};
use crate::dialect::ReadContext;
use crate::dialect::operations::{any_case, no_image, unknown_word};
use crate::error::{Fault, Kind, Result, excerpt};
use crate::event::{Cells, Envelope, Events, Image, Op, Quirks};
use crate::interner::NameId;
use crate::value::Value;

pub(super) const OPERATIONS: [(&str, Op); 7] = [
    ("c", Op::Insert),
    // CloudCanal writes `i`.
    ("i", Op::Insert),
    ("u", Op::Update),
    ("d", Op::Delete),
    ("r", Op::Snapshot),
    ("t", Op::Truncate),
    // CloudCanal writes `a`.
    ("a", Op::Ddl),
];

/// A partially read message.
pub(super) struct Message<'a> {
    pub envelope: Envelope<'a>,
    pub before: Option<Cells>,
    pub after: Option<Cells>,
    /// `BEGIN` or `END` of a transaction.
    pub status: Option<Cow<'a, str>>,
    pub shape: Shape,
    /// True if it has members that an envelope does not have.
    pub others: bool,
    /// Value of a flat row's deletion mark.
    pub deleted: Option<bool>,
    /// Operation in the member of a flat row that the option `op_column` names.
    pub said: Option<Op>,
    /// True if a flat row is the row before an update.
    pub is_before: bool,
    /// Path of a member of a flat row that may mark a delete.
    pub mark: Option<String>,
    /// Reason why the operation of a flat row is unknown, unless the row tells whether it is deleted.
    pub unsaid: Option<Fault>,
}

/// Form of a message, according to its members.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    /// A form that Debezium does not write.
    Unknown,
    /// An envelope with at least a time. Heartbeats have only a time.
    Envelope,
    /// A wrapper with a payload that is null.
    Tombstone,
    /// A row without an envelope.
    Flat,
}

impl<'a> Message<'a> {
    pub fn empty(reading: &ReadContext<'_, 'a>) -> Self {
        let envelope = Envelope::empty(reading.quirks);
        Message {
            envelope,
            before: None,
            after: None,
            status: None,
            shape: Shape::Unknown,
            others: false,
            deleted: None,
            said: None,
            is_before: false,
            mark: None,
            unsaid: None,
        }
    }

    /// Handles a member of a row without an envelope. Returns whether it is a column, not only a mark.
    pub fn is_column(
        &mut self,
        key: NameId,
        value: Value<'a>,
        reading: &ReadContext<'_, 'a>,
        events: &Events<'_>,
    ) -> Result<bool> {
        let (name, is_requested) = (events.keys.name(key), events.keys.column(key).is_some());
        match reading.options.op_column.as_deref() {
            Some(path) if reading.options.is_op_column(name) => {
                let said = row_marks::said(path, name, value)?;
                (self.said, self.is_before) = (Some(said.op), said.is_before);
                self.envelope.source.operation = said.operation;
                return Ok(is_requested);
            }
            Some(_) => {}
            None if is_requested || self.mark.is_some() => {}
            None => self.mark = row_marks::find(name, &value, reading.options.unwrapped),
        }
        Ok(true)
    }

    /// Ends a row without an envelope. `cells` are its columns.
    pub fn end_row(&mut self, cells: Cells, reading: &ReadContext<'_, 'a>) {
        self.unsaid = match (&reading.options.op_column, &self.mark) {
            (Some(path), _) if self.said.is_none() => Some(row_marks::missing(path)),
            (None, Some(path)) if self.envelope.source.operation.is_none() => {
                Some(row_marks::unread(path))
            }
            _ => None,
        };
        let image = if self.is_before {
            &mut self.before
        } else {
            &mut self.after
        };
        *image = Some(cells);
    }

    /// Adds the message to the events. Calls `primary_key` for a row change.
    pub fn emit(
        mut self,
        primary_key: impl FnOnce(&mut Events<'a>) -> Result<Option<Range<usize>>>,
        events: &mut Events<'a>,
    ) -> Result<()> {
        if let Some(fault) = self.unsaid.take()
            && self.deleted.is_none()
        {
            return Err(fault);
        }
        let op = self.op()?;
        if op == Op::Tombstone {
            events.push_message(op, None);
            return Ok(());
        }
        if self.envelope.source.operation.is_none() {
            self.envelope.source.operation = self.status.take();
        }
        let (mut before, mut after) = (None, None);
        if op == Op::Watermark {
            // A watermark concerns all tables. TiCDC writes empty names.
            (self.envelope.database, self.envelope.table) = (None, None);
            self.envelope.source.watermark_ts = self.envelope.source.commit_ts.take();
        }
        if op.is_row_change() {
            if may_lack_values(&self.envelope) {
                [&mut self.before, &mut self.after]
                    .into_iter()
                    .flatten()
                    .for_each(|cells| drop_unavailable(cells, events));
            }
            (before, after) = self.images(op)?;
            if self.envelope.primary_key.is_none() {
                self.envelope.primary_key = primary_key(events)?;
            }
        }
        let envelope = events.envelope(self.envelope)?;
        events.row(op, envelope, before, after);
        Ok(())
    }

    fn op(&self) -> Result<Op> {
        Ok(
            match (self.shape, self.envelope.source.operation.as_deref()) {
                (Shape::Tombstone, _) => Op::Tombstone,
                (Shape::Flat, _) if self.deleted == Some(true) => Op::Delete,
                (Shape::Flat, _) if self.said.is_some() => self.said.unwrap_or(Op::Update),
                // A row without an operation was inserted or updated. It exists, so it counts as an update.
                (Shape::Flat, None) => Op::Update,
                (_, Some(word)) => self.op_of(word)?,
                (Shape::Unknown, None) => {
                    return Err(no_envelope(self.envelope.quirks));
                }
                (_, None) => self.without_op()?,
            },
        )
    }

    fn op_of(&self, word: &str) -> Result<Op> {
        match any_case(word, &OPERATIONS) {
            Some(op) => Ok(op),
            // A message that an application wrote into the log of the database. TiCDC uses it for a watermark.
            None if word.eq_ignore_ascii_case("m") => Ok(if self.is_ticdc() {
                Op::Watermark
            } else {
                Op::Other
            }),
            None if self.before.is_some() || self.after.is_some() => {
                Err(unknown_word(word).within("op"))
            }
            None => Err(self.no_operation(word)),
        }
    }

    #[cold]
    fn no_operation(&self, word: &str) -> Fault {
        let hint = if self.others { UNWRAPPED } else { "" };
        let what = format!(
            "{} is not a Debezium operation, and the message has no row image{hint}",
            excerpt(word)
        );
        Fault::new(Kind::Envelope, what).within("op")
    }

    fn is_ticdc(&self) -> bool {
        self.envelope.connector.as_deref() == Some("TiCDC")
    }

    /// Returns the operation of a message without `op`: DDL, a transaction or a heartbeat.
    fn without_op(&self) -> Result<Op> {
        if let Some(sql) = &self.envelope.sql {
            return Ok(Op::of_statement(sql));
        }
        match self.status.as_deref() {
            Some("BEGIN") => return Ok(Op::Begin),
            Some("END") => return Ok(Op::Commit),
            _ => {}
        }
        if self.envelope.table_changes.is_some() {
            return Ok(Op::Ddl);
        }
        // A heartbeat has a time and nothing else.
        let says_more =
            self.others || self.status.is_some() || self.before.is_some() || self.after.is_some();
        let names_more = self.envelope.database.is_some()
            || self.envelope.table.is_some()
            || self.envelope.source.event_time.is_some();
        if says_more || names_more || self.envelope.source.produced_time.is_none() {
            let hint = if self.others { UNWRAPPED } else { "" };
            return Err(Fault::new(Kind::Envelope, format!("is missing{hint}")).within("op"));
        }
        Ok(Op::Heartbeat)
    }

    /// Returns the images. The before image is whole, so nothing is merged onto it. CloudCanal writes an empty object
    /// for a missing image.
    fn images(&self, op: Op) -> Result<(Option<Image>, Option<Image>)> {
        let before = self.before.clone().map(Image::whole);
        let after = self.after.clone().map(Image::whole);
        match (op, self.shape) {
            (Op::Delete, Shape::Flat) => Ok((after, None)),
            (Op::Delete, _) if before.is_none() => Err(no_image(op).within("before")),
            (Op::Delete, _) => Ok((before, None)),
            (Op::Update, Shape::Flat) if self.is_before => Ok((before, None)),
            _ if after.is_none() => Err(no_image(op).within("after")),
            (Op::Update, _) => Ok((before, after)),
            _ => Ok((None, after)),
        }
    }
}

#[cold]
pub(super) fn no_envelope(quirks: &Quirks) -> Fault {
    // The schema of an Avro message says whether it is a row.
    let hint = if quirks.dialect == NAME {
        UNWRAPPED
    } else {
        ""
    };
    Fault::new(
        Kind::Envelope,
        format!("not a Debezium envelope: no member \"op\"{hint}"),
    )
}
