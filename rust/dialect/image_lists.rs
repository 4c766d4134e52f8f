//! Messages with a list of rows after the change, and one of rows before it.

use std::ops::Range;

use super::operations::no_row;
use crate::error::{Fault, Kind, Result};
use crate::event::{Cells, Envelope, Events, Image, Op};

/// The rows of a message, in one list after the change and in another one before it. Either may be empty.
pub(super) struct ImageLists {
    pub data: Range<usize>,
    pub before: Range<usize>,
    /// The dialect's name of the member `before`; that of `data` is `data`.
    pub before_name: &'static str,
}

impl ImageLists {
    /// Adds a message to the events. `images` pairs the images of each row.
    pub fn emit<'a>(
        self,
        op: Op,
        envelope: Envelope<'a>,
        events: &mut Events<'a, '_, '_>,
        images: impl Fn(
            Option<Cells>,
            Option<Cells>,
            &Events<'_, '_, '_>,
        ) -> Result<(Option<Image>, Option<Image>)>,
    ) -> Result<()> {
        if !op.is_row_change() {
            let envelope = events.envelope(envelope)?;
            events.row(op, envelope, None, None);
            return Ok(());
        }
        let (data, before) = (self.data, self.before);
        if !data.is_empty() && !before.is_empty() && data.len() != before.len() {
            let what = format!("has {} rows, data has {}", before.len(), data.len());
            return Err(Fault::new(Kind::Envelope, what).within(self.before_name));
        }
        let rows = data.len().max(before.len());
        if rows == 0 {
            return Err(no_row(op).within("data"));
        }
        let envelope = events.envelope(envelope)?;
        for row in 0..rows {
            // A row has its own image before the change: that of another row says nothing about it.
            let (data, before) = (events.image(&data, row), events.image(&before, row));
            let (before, after) = images(data, before, events)?;
            events.row(op, envelope, before, after);
        }
        Ok(())
    }
}
