//! Messages with a list of rows after the change and a list of rows before it.

use std::ops::Range;

use super::operations::no_row;
use crate::error::{Fault, Kind, Result};
use crate::event::{Cells, Envelope, Events, Image, Op};

/// The rows of a message: a list after the change and a list before it. Either list may be empty.
pub(super) struct ImageLists {
    pub data: Range<usize>,
    pub before: Range<usize>,
    /// Name of the member `before` in the dialect. The member `data` is always called `data`.
    pub before_name: &'static str,
}

impl ImageLists {
    /// Adds a message to the events. `images` pairs the images of each row.
    pub fn emit<'a>(
        self,
        op: Op,
        envelope: Envelope<'a>,
        events: &mut Events<'a>,
        images: impl Fn(
            Option<Cells>,
            Option<Cells>,
            &Events<'_>,
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
            // Each row needs its own before image. Another row's image does not apply to it.
            let (data, before) = (events.image(&data, row), events.image(&before, row));
            let (before, after) = images(data, before, events)?;
            events.row(op, envelope, before, after);
        }
        Ok(())
    }
}
