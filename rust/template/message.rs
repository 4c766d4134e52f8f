//! Reading of a message with a template. Row values go to the column builders, metadata to the source.

use std::borrow::Cow;

use super::elements::{ImageWriter, ValueRange, read_range};
use super::row_image::{Env, RowPlan, SeenKeys, Span, SpansByCell, WalkResult};
use super::scalar::{integer, plain_text};
use super::{Segment, Template};
use crate::dialect::spec::{Before, Placeholder};
use crate::event::{Events, Op, Source};
use crate::interner::NameId;
use crate::mysql::types::DeclaredTypes;
use crate::options::Layout;
use crate::output::batch::{Batch, insert_missing};
use crate::output::budget::kept_bytes;
use crate::output::changes::{OutputRows, output_rows};
use crate::output::envelope::{EnvelopeField, EnvelopeRow};
use crate::output::images::{DISCARDED, Images, OUT_AFTER, OUT_BEFORE};
use crate::output::plan::Plan;
use crate::output::row::{EnvelopeRef, OutputRow, Payloads};
use crate::wire::json::same_values;

/// Maximum number of columns in a MySQL key.
const MAX_KEY_COLUMNS: usize = 16;

/// Length of the words `INSERT`, `UPDATE` and `DELETE`.
const OP_LENGTH: usize = 6;

/// Message that may match a template.
#[derive(Clone, Copy)]
pub(crate) struct Incoming<'a> {
    pub text: &'a str,
    /// Message key, if the user named its column.
    pub key: Option<&'a [u8]>,
    /// Index in the input.
    pub index: usize,
    /// Maximum number of rows, by its bytes before expansion.
    pub max_rows: usize,
    pub lenient: bool,
    /// True if its dialect was detected, false if the user named it.
    pub is_detected: bool,
}

/// Buffers for the rows of a message.
#[derive(Default)]
pub(super) struct Buffers {
    data: ImageRows,
    before: ImageRows,
    /// Seen keys of the declared types and of changes.
    seen: SeenKeys,
    /// Order of the declared types, if it differs from the template's.
    types: Vec<usize>,
    /// Value ranges of a flat message's row.
    values: Vec<Option<ValueRange>>,
}

impl Buffers {
    /// Number of rows in the message.
    pub fn count(&self) -> usize {
        self.data.count.max(self.before.count)
    }
}

/// Rows of `data` or of `old`.
#[derive(Default)]
struct ImageRows {
    count: usize,
    /// True if every row has every name.
    are_complete: bool,
    /// Value spans of each row, if requested.
    spans: PerRow<Span>,
    /// Requested columns that each row lacks, if requested.
    missing: PerRow<usize>,
    seen: SeenKeys,
}

/// Concatenated values of several rows, with offsets.
#[derive(Default)]
struct PerRow<T> {
    values: Vec<T>,
    ends: Vec<usize>,
}

impl<T> PerRow<T> {
    fn clear(&mut self) {
        self.values.clear();
        self.ends.clear();
    }

    fn end_row(&mut self) {
        self.ends.push(self.values.len());
    }

    /// Returns the values of a row; empty if values are not recorded.
    #[allow(
        clippy::indexing_slicing,
        reason = "the values of all rows are recorded, or of none"
    )]
    fn row(&self, row: usize) -> &[T] {
        if self.ends.is_empty() {
            return &[];
        }
        debug_assert!(row < self.ends.len());
        &self.values[row.checked_sub(1).map_or(0, |before| self.ends[before])..self.ends[row]]
    }
}

impl ImageRows {
    fn clear(&mut self) {
        (self.count, self.are_complete) = (0, true);
        self.spans.clear();
        self.missing.clear();
    }

    /// Ends a row; `None` if the message has more rows than it may.
    fn end_row(&mut self, plan: &RowPlan, walked: WalkResult, requested: Requested) -> Option<()> {
        self.count += 1;
        self.are_complete &= walked.is_complete;
        if requested.spans {
            self.spans.end_row();
        }
        if requested.missing {
            if !walked.is_complete || !plan.absent.is_empty() {
                let start = self.missing.values.len();
                self.missing
                    .values
                    .extend(plan.missing_columns(walked, &self.seen));
                self.missing.values.split_at_mut(start).1.sort_unstable();
            }
            self.missing.end_row();
        }
        (self.count <= requested.max_rows).then_some(())
    }
}

/// Metadata requested in addition to the images, and the number of rows that the message may have.
#[derive(Clone, Copy)]
struct Requested {
    spans: bool,
    missing: bool,
    max_rows: usize,
}

/// State of reading one message.
struct MessageReader<'r, 'p, 'a> {
    template: &'r Template,
    batch: &'r mut Batch<'p>,
    buffers: &'r mut Buffers,
    env: Env<'a>,
    requested: Requested,
    /// The operation as read, or as predicted from the message's end.
    op: Option<Op>,
    /// The operation that decided the rows' target images. Set once rows were read.
    routed_op: Option<Option<Op>>,
    source: &'r mut Source<'a>,
    /// True if a flat message's row is deleted.
    is_deleted: bool,
    has_data: bool,
    /// Start of the deferred changes. They wait for the rows onto which they are merged.
    deferred: Option<usize>,
}

impl Template {
    /// Reads a message and adds its rows, if it matches this template. Otherwise changes nothing.
    pub(super) fn read<'a>(
        &self,
        number: usize,
        message: &Incoming<'a>,
        batch: &mut Batch<'_>,
        events: &mut Events<'a>,
        payloads: &Payloads<'_>,
        buffers: &mut Buffers,
    ) -> Option<()> {
        let source = events.sources.len();
        // Create the source in place, because `push` would copy it.
        events.sources.resize_with(source + 1, Source::default);
        let starts = [
            batch.images[OUT_BEFORE].rows(),
            batch.images[OUT_AFTER].rows(),
        ];
        let op = self.scan(message, batch, events, buffers);
        let matched = match op {
            Some(op) if self.has_same_key(message, events) => Some(MatchedMessage {
                template: self,
                number,
                source,
                op,
                message,
                buffers,
                starts,
            }),
            _ => None,
        };
        let added = matched
            .filter(|matched| matched.fits(batch.plan, events, payloads))
            .and_then(|matched| matched.add(batch));
        if added.is_none() {
            events.sources.truncate(source);
            batch
                .images
                .iter_mut()
                .zip(starts)
                .for_each(|(images, rows)| images.truncate(rows));
        }
        added
    }

    /// Reads a message: appends its images and fills the last source.
    pub(super) fn scan<'a>(
        &self,
        message: &Incoming<'a>,
        batch: &mut Batch<'_>,
        events: &mut Events<'a>,
        buffers: &mut Buffers,
    ) -> Option<Op> {
        if self
            .spec
            .lacks_values
            .is_some_and(|lacks_values| lacks_values(&self.envelope.envelope, message.text))
        {
            return None;
        }
        buffers.data.clear();
        buffers.before.clear();
        buffers.types.clear();
        buffers.values.clear();
        let plan = batch.plan;
        let maps_before = plan.table.is_none() && plan.has_field(EnvelopeField::Before);
        let spans =
            plan.has_field(EnvelopeField::Changed) || maps_before || plan.layout == Layout::Upsert;
        let op = if self.spec.ends_with_op {
            self.op_at_end(message.text)
        } else {
            None
        };
        let may_be_update = op.is_none_or(|op| op == Op::Update);
        let mut reader = MessageReader {
            template: self,
            env: Env {
                text: message.text,
                lenient: message.lenient,
                arena: events.arena,
            },
            requested: Requested {
                spans: spans && self.passes && may_be_update,
                missing: batch.wants_missing() && self.passes,
                max_rows: self.max_rows(message, plan, &events.types),
            },
            op,
            batch,
            buffers,
            routed_op: None,
            source: events.sources.last_mut()?,
            is_deleted: false,
            has_data: false,
            deferred: None,
        };
        reader.envelope()?;
        if self.is_flat {
            reader.flat_row()?;
        }
        reader.checked_op()
    }

    /// Returns the maximum number of rows of a message, without regard to the texts that each row repeats.
    #[inline]
    fn max_rows(&self, message: &Incoming<'_>, plan: &Plan, types: &DeclaredTypes) -> usize {
        if plan.budget.always_fits(message.text.len()) {
            return usize::MAX;
        }
        let labels = self
            .envelope
            .envelope
            .types
            .map_or(0, |block| types.label_bytes(block));
        plan.budget
            .max_template_rows(message.text.len(), labels)
            .min(message.max_rows)
    }

    /// Returns the row operation in the last bytes: `..."UPDATE"}`.
    fn op_at_end(&self, text: &str) -> Option<Op> {
        let word = text.strip_suffix("\"}")?;
        (self.spec.op)(word.get(word.len().checked_sub(OP_LENGTH)?..)?)
    }

    /// Returns whether the message's key has the template's primary key columns.
    fn has_same_key(&self, message: &Incoming<'_>, events: &mut Events<'_>) -> bool {
        let Some(names) = self.spec.key_names else {
            return true;
        };
        events.set_quoting(self.envelope.envelope.quirks.quoting);
        let found = message.key.and_then(|key| names(key, events));
        found.as_deref() == self.envelope.primary_key.as_deref()
    }

    /// Compares the declared types, each exactly once and in any order.
    fn match_types(
        &self,
        text: &str,
        at: usize,
        seen: &mut SeenKeys,
        order: &mut Vec<usize>,
    ) -> Option<usize> {
        let (exact, keys) = &self.types;
        if let Some(end) = exact.eat(text.as_bytes(), at) {
            return Some(end);
        }
        // A type is part of its key's literal, so no value follows to skip.
        let walked = keys.walk(text.as_bytes(), at, seen, &mut |index| order.push(index))?;
        walked.is_complete.then_some(walked.end)
    }
}

impl<'a> MessageReader<'_, '_, 'a> {
    /// Compares the message with the template, placeholder by placeholder.
    fn envelope(&mut self) -> Option<()> {
        let template = self.template;
        let text = self.env.text.as_bytes();
        let mut at = 0;
        for Segment {
            literal,
            placeholder,
        } in &template.segments
        {
            at = self.placeholder(*placeholder, literal.eat(text, at)?)?;
        }
        at = template.tail.eat(text, at)?;
        let rest = text.get(at..)?;
        rest.iter()
            .all(|byte| matches!(byte, b' ' | b'\n' | b'\r' | b'\t'))
            .then_some(())
    }

    #[inline]
    fn placeholder(&mut self, placeholder: Placeholder, at: usize) -> Option<usize> {
        let text = self.env.text;
        match placeholder {
            Placeholder::Integer(set) => {
                let (number, end) = integer(text.as_bytes(), at)?;
                set(self.source, number);
                Some(end)
            }
            Placeholder::Digits(set) => {
                let (number, end) = integer(text.as_bytes(), at)?;
                if number <= 0 {
                    return None;
                }
                set(self.source, text.get(at..end)?);
                Some(end)
            }
            Placeholder::Text(set) => {
                let (word, end) = plain_text(text, at)?;
                set(self.source, word).then_some(end)
            }
            Placeholder::Operation => {
                let (word, end) = plain_text(text, at)?;
                if self
                    .template
                    .operations
                    .as_deref()
                    .is_some_and(|known| known.iter().all(|known| **known != *word))
                {
                    return None;
                }
                // The operation at the end of the message was read before.
                let is_read = end + 1 == text.len() && word.len() == OP_LENGTH;
                let op = match self.op {
                    Some(op) if is_read => op,
                    _ => (self.template.spec.op)(word)?,
                };
                if self
                    .template
                    .are_updates
                    .is_some_and(|are_updates| are_updates != (op == Op::Update))
                {
                    return None;
                }
                self.op = Some(op);
                self.source.operation = Some(Cow::Borrowed(word));
                Some(end)
            }
            Placeholder::After => self.after_rows(at),
            Placeholder::Before => self.before_rows(at),
            Placeholder::Columns(_) => self.element_row(at),
            Placeholder::Value => {
                let mut range = None;
                let end = read_range(at, &mut range, &self.env)?;
                self.buffers.values.push(range);
                Some(end)
            }
            Placeholder::Deleted => {
                let (is_deleted, end) = deletion_flag(text.as_bytes(), at)?;
                self.is_deleted = is_deleted;
                Some(end)
            }
            Placeholder::DeclaredTypes => {
                self.template
                    .match_types(text, at, &mut self.buffers.seen, &mut self.buffers.types)
            }
            Placeholder::Object if text.as_bytes().get(at) != Some(&b'{') => None,
            Placeholder::Object | Placeholder::Any => self.env.skip(at),
        }
    }

    /// Reads the rows of a placeholder, each with `row`: an array of objects, one object, or null. Returns their end.
    fn each_row(
        &mut self,
        at: usize,
        mut row: impl FnMut(&mut Self, usize) -> Option<usize>,
    ) -> Option<usize> {
        let bytes = self.env.text.as_bytes();
        match bytes.get(at)? {
            b'{' if self.template.spec.empty_is_null && bytes.get(at + 1) == Some(&b'}') => {
                Some(at + 2)
            }
            b'{' => row(self, at),
            b'[' if !self.template.spec.has_arrays => None,
            b'[' if bytes.get(at + 1) == Some(&b']') => Some(at + 2),
            b'[' => {
                let mut at = at + 1;
                loop {
                    at = row(self, at)?;
                    match bytes.get(at)? {
                        b',' => at += 1,
                        b']' => return Some(at + 1),
                        _ => return None,
                    }
                }
            }
            _ if bytes.get(at..)?.starts_with(b"null") => Some(at + 4),
            _ => None,
        }
    }

    /// Returns the target images of rows before and after the change. The operation may be unknown, because some
    /// producers write it last.
    fn targets(&mut self) -> (usize, usize) {
        let op = *self.routed_op.get_or_insert(self.op);
        match (self.batch.plan.layout, op) {
            _ if !self.template.passes => (DISCARDED, DISCARDED),
            (Layout::Upsert, Some(Op::Delete)) => (OUT_AFTER, OUT_AFTER),
            (_, Some(Op::Delete)) => (OUT_BEFORE, OUT_BEFORE),
            (Layout::Upsert, Some(_)) => (DISCARDED, OUT_AFTER),
            _ => (OUT_BEFORE, OUT_AFTER),
        }
    }

    /// Reads rows after the change. A delete has its deleted rows here.
    fn after_rows(&mut self, at: usize) -> Option<usize> {
        let (_, target) = self.targets();
        let end = self.each_row(at, |reader, at| reader.full_row(at, target, true))?;
        self.has_data = true;
        match self.deferred.take() {
            Some(deferred) => self.merge_changes(deferred).map(|_| end),
            None => Some(end),
        }
    }

    /// Reads rows before the change.
    fn before_rows(&mut self, at: usize) -> Option<usize> {
        let (target, _) = self.targets();
        // Some producers write deleted rows here.
        let is_delete =
            self.op == Some(Op::Delete) && self.has_data && self.buffers.data.count == 0;
        if self.template.spec.before == Before::Row || is_delete {
            return self.each_row(at, |reader, at| reader.full_row(at, target, false));
        }
        if self.has_data {
            self.merge_changes(at)
        } else {
            self.early_changes(at, target)
        }
    }

    /// Reads a full row.
    fn full_row(&mut self, at: usize, target: usize, is_data: bool) -> Option<usize> {
        let MessageReader {
            template,
            batch,
            buffers,
            env,
            requested,
            ..
        } = self;
        let rows = if is_data {
            &mut buffers.data
        } else {
            &mut buffers.before
        };
        let spans = requested.spans.then_some(&mut rows.spans.values);
        let walked = match batch.image(target) {
            Images::Table(table) => template.row.read(at, table, &mut rows.seen, env, spans),
            Images::Map(map) => template.row.read_map(at, map, &mut rows.seen, env, spans),
            Images::None => template.row.skip(at, &mut rows.seen, env, spans),
        }?;
        rows.end_row(&template.row, walked, *requested)?;
        Some(walked.end)
    }

    /// Reads changes that come before the rows onto which they are merged. Full rows, the usual case, need no merge.
    /// Other rows are deferred.
    fn early_changes(&mut self, at: usize, target: usize) -> Option<usize> {
        let first = self.batch.image(target).rows();
        let end = self.each_row(at, |reader, at| reader.full_row(at, target, false));
        let rows = &mut self.buffers.before;
        // Entries of maps are in the order of the after image.
        if end.is_some()
            && rows.are_complete
            && (rows.count == 0 || self.batch.plan.table.is_some())
        {
            return end;
        }
        rows.clear();
        self.batch.image(target).truncate(first);
        self.deferred = Some(at);
        self.env.skip(at)
    }

    /// Reads changes and merges them onto the rows after the change.
    fn merge_changes(&mut self, at: usize) -> Option<usize> {
        let (target, _) = self.targets();
        let end = self.each_row(at, |reader, at| reader.merge_row(at, target))?;
        // A name that only the changes have would come last.
        if self.buffers.before.count > 0 && !self.buffers.data.are_complete {
            return None;
        }
        Some(end)
    }

    /// Reads a row of changes. The base image has the same number of rows, and the other values of this row.
    fn merge_row(&mut self, at: usize, target: usize) -> Option<usize> {
        let MessageReader {
            template,
            batch,
            buffers:
                Buffers {
                    data: after,
                    before,
                    seen,
                    ..
                },
            env,
            requested,
            ..
        } = self;
        if before.count >= after.count {
            return None;
        }
        let spans = &mut before.spans.values;
        let walked = match batch.image(target) {
            Images::Table(table) => {
                template
                    .row
                    .merge(at, table, seen, env, requested.spans.then_some(spans))
            }
            Images::Map(map) => {
                template
                    .row
                    .merge_map(at, map, after.spans.row(before.count), (seen, spans), env)
            }
            Images::None => template.row.skip(at, seen, env, Some(spans)),
        }?;
        before.count += 1;
        before.spans.end_row();
        // Record only columns that the row after the change lacks too. That row has every name.
        if requested.missing {
            before
                .missing
                .values
                .extend_from_slice(&template.row.absent);
            before.missing.end_row();
        }
        Some(walked.end)
    }

    /// Appends the row of a flat message. Its operation is known only after all members.
    fn flat_row(&mut self) -> Option<()> {
        let op = match self.source.operation {
            _ if self.is_deleted => Op::Delete,
            // Inserts and updates are indistinguishable here.
            None => Op::Update,
            Some(_) => self.op?,
        };
        self.op = Some(op);
        let (before, after) = self.targets();
        let MessageReader {
            template,
            batch,
            buffers:
                Buffers {
                    data,
                    before: old,
                    values,
                    ..
                },
            env,
            requested,
            ..
        } = self;
        let (target, rows) = if op == Op::Delete {
            (before, old)
        } else {
            (after, data)
        };
        let mut writer = ImageWriter {
            images: batch.image(target),
            spans: requested.spans.then_some(&mut rows.spans.values),
        };
        writer.begin_row();
        for (cell, value) in template.row.cells.iter().enumerate().zip(&*values) {
            writer.push(&template.row, cell, *value, env)?;
        }
        writer.end_row(&template.row)?;
        let walked = WalkResult {
            end: env.text.len(),
            is_complete: true,
        };
        rows.end_row(&template.row, walked, *requested)
    }

    /// Reads a row whose columns are elements, with its before image.
    fn element_row(&mut self, at: usize) -> Option<usize> {
        let op = self.op?;
        let (before, after) = self.targets();
        let MessageReader {
            template,
            batch,
            buffers,
            env,
            requested,
            ..
        } = self;
        let Buffers {
            data, before: old, ..
        } = buffers;
        let (images, rows, mut before_row) = match op {
            Op::Delete => (batch.image(before), old, None),
            Op::Update if before != after => {
                let [before_images, after_images] =
                    batch.images.get_disjoint_mut([before, after]).ok()?;
                (after_images, data, Some((before_images, old)))
            }
            _ => (batch.image(after), data, None),
        };
        let mut after_writer = ImageWriter {
            images,
            spans: requested.spans.then_some(&mut rows.spans.values),
        };
        let mut before_writer = before_row.as_mut().map(|(images, old)| ImageWriter {
            images,
            spans: requested.spans.then_some(&mut old.spans.values),
        });
        let walked = template.elements.read(
            at,
            &template.row,
            env,
            &mut after_writer,
            before_writer.as_mut(),
        )?;
        if let Some((_, old)) = before_row {
            old.end_row(&template.row, walked, *requested)?;
        }
        rows.end_row(&template.row, walked, *requested)?;
        Some(walked.end)
    }

    /// Returns the operation, if it is consistent with the rows and their target images.
    fn checked_op(&mut self) -> Option<Op> {
        let is_known = self.source.operation.is_some() || self.template.is_flat;
        let op = self.op?;
        if !is_known || self.deferred.is_some() || !self.source.has_times_in_calendar() {
            return None;
        }
        let (data, before) = (self.buffers.data.count, self.buffers.before.count);
        let fits = match op {
            Op::Delete if data > 0 => before == 0 && self.template.spec.has_deletes_in_data,
            Op::Delete => before > 0,
            Op::Update => data > 0 && (before == data || before == 0),
            _ => data > 0 && before == 0,
        };
        // The ordinary reader handles a column that only the changes have.
        let is_whole = before == 0
            || self.buffers.data.are_complete
            || self.template.spec.before == Before::Row;
        let is_routed = match self.routed_op? {
            Some(routed_op) => routed_op == op,
            None => op != Op::Delete || data == 0,
        };
        let is_missing = self.batch.plan.missing_is_error
            && !(self.buffers.data.missing.values.is_empty()
                && self.buffers.before.missing.values.is_empty());
        (fits && is_whole && is_routed && !is_missing).then_some(op)
    }
}

/// A message that matched a template.
struct MatchedMessage<'r, 'a> {
    template: &'r Template,
    number: usize,
    /// Index in [`Events::sources`].
    source: usize,
    op: Op,
    message: &'r Incoming<'a>,
    buffers: &'r Buffers,
    /// Number of rows of the images before the message.
    starts: [usize; 2],
}

impl MatchedMessage<'_, '_> {
    /// Returns whether the rows are within the budget. If not, the ordinary reader creates the error.
    #[allow(clippy::indexing_slicing, reason = "`source` is the message's own")]
    fn fits(&self, plan: &Plan, events: &Events<'_>, payloads: &Payloads<'_>) -> bool {
        let (length, kept) = (self.message.text.len(), &payloads.input.kept);
        let rows = self.buffers.count() * self.output_rows(plan.layout).iter().flatten().count();
        if rows <= 1 || !self.template.passes {
            return true;
        }
        if kept.is_empty() && plan.budget.rows_always_fit(rows, length) {
            return true;
        }
        let shared = &self.template.envelope;
        let row = OutputRow::new(
            self.message.index,
            self.op,
            self.op.name(),
            EnvelopeRef::None,
        );
        let row = EnvelopeRow {
            row: &row,
            envelope: Some(&shared.envelope),
            source: Some(&events.sources[self.source]),
            primary_key: shared.primary_key.as_deref(),
            corrupt: None,
            offset: None,
        };
        let bytes = rows * plan.budget.of_row(&plan.fields, &row, events)
            + (rows - 1) * kept_bytes(kept, self.message.index);
        bytes <= plan.budget.bytes(length)
    }

    /// Returns the output rows of each row. The ordinary reader reads updates that change a key.
    fn output_rows(&self, layout: Layout) -> OutputRows {
        let is_delete = self.op == Op::Delete;
        let has_before = is_delete || self.buffers.before.count > 0;
        output_rows(layout, self.op, (has_before, !is_delete), || false)
    }

    /// Adds the rows. Their images are already appended.
    fn add(&self, batch: &mut Batch<'_>) -> Option<()> {
        let count = self.buffers.count();
        if !self.template.passes {
            batch.metrics.filtered += count as u64;
            return Some(());
        }
        let has_before = self.op == Op::Update && self.buffers.before.count > 0;
        if has_before && batch.plan.layout == Layout::Upsert && self.changes_key(count) {
            return None;
        }
        let wants_changed = has_before && batch.plan.has_field(EnvelopeField::Changed);
        if wants_changed && !self.has_same_names() {
            return None;
        }
        let [before_start, after_start] = self.starts;
        let has_sources = batch.plan.layout != Layout::Change;
        let is_before = has_sources && batch.images[OUT_BEFORE].rows() > before_start;
        self.complete_images(count, batch);
        let envelope = EnvelopeRef::Table {
            table: self.number,
            source: self.source,
        };
        let types = batch.record_types(&self.buffers.types);
        let output_rows = self.output_rows(batch.plan.layout);
        for index in 0..count {
            let start = batch.changed.len();
            let changed = wants_changed.then(|| {
                batch.changed.extend(self.changed(index));
                start..batch.changed.len()
            });
            for &(word, with_before, with_after) in output_rows.iter().flatten() {
                if has_sources {
                    let (image, start) = if with_before && is_before {
                        (OUT_BEFORE, before_start)
                    } else {
                        (OUT_AFTER, after_start)
                    };
                    batch.add_source(image, start + index);
                }
                let missing = self.add_missing(index, with_before, with_after, batch);
                let changed = changed.clone();
                batch.rows.push(OutputRow {
                    message: self.message.index,
                    index,
                    op: self.op,
                    op_name: word,
                    envelope,
                    error: None,
                    changed,
                    missing,
                    types: types.clone(),
                });
                batch.keep_rows(1);
            }
        }
        Some(())
    }

    /// Appends null images to the side that lacks images.
    fn complete_images(&self, count: usize, batch: &mut Batch<'_>) {
        // The operation of an update was unknown when its rows before the change were read.
        if batch.plan.layout == Layout::Upsert && self.op == Op::Update {
            batch.images[OUT_BEFORE].truncate(self.starts[OUT_BEFORE]);
        }
        for (images, start) in batch.images.iter_mut().zip(self.starts) {
            if images.rows() == start {
                images.push_nulls(count);
            }
        }
    }

    /// Counts a row with images, and appends their missing requested columns in schema order.
    fn add_missing(
        &self,
        row: usize,
        with_before: bool,
        with_after: bool,
        batch: &mut Batch<'_>,
    ) -> std::ops::Range<usize> {
        let [of_before, of_data] =
            [&self.buffers.before, &self.buffers.data].map(|rows| &rows.missing);
        let missing = &mut batch.missing;
        let start = missing.len();
        batch.image_rows += 1;
        if of_before.values.is_empty() && of_data.values.is_empty() {
            return start..start;
        }
        // The row of a delete may be on either side.
        if with_before {
            missing.extend_from_slice(of_before.row(row));
        }
        if with_after || self.op == Op::Delete {
            for column in of_data.row(row) {
                insert_missing(missing, start, *column);
            }
        }
        batch.end_missing(start)
    }

    /// Returns whether both images of each row have the same names.
    fn has_same_names(&self) -> bool {
        self.buffers.data.are_complete
            && (self.template.spec.before == Before::Changes || self.buffers.before.are_complete)
    }

    /// Returns the columns of a row that both images have and whose values differ.
    fn changed(&self, row: usize) -> impl Iterator<Item = NameId> {
        let before = SpansByCell::new(self.buffers.before.spans.row(row));
        let after = self.buffers.data.spans.row(row).iter();
        after
            .filter(move |after| {
                before
                    .get(after.cell)
                    .is_some_and(|before| self.differs(before, **after))
            })
            .map(|span| self.template.row.cells.item(span.cell).id)
    }

    #[allow(
        clippy::string_slice,
        reason = "spans are of values in the message's text"
    )]
    fn differs(&self, before: Span, after: Span) -> bool {
        let text = self.message.text;
        !same_values(
            &text[before.start..before.end],
            &text[after.start..after.end],
        )
    }

    /// Returns whether the key of any row changed.
    fn changes_key(&self, count: usize) -> bool {
        let key = self
            .template
            .envelope
            .primary_key
            .as_deref()
            .unwrap_or_default();
        // MySQL does not allow such a key. The ordinary reader looks up its names.
        if key.len() > MAX_KEY_COLUMNS {
            return true;
        }
        (0..count).any(|row| self.changed(row).any(|name| key.contains(&name)))
    }
}

/// Reads the deletion flag at `at`, a string or a boolean. Returns it with its end.
fn deletion_flag(text: &[u8], at: usize) -> Option<(bool, usize)> {
    let rest = text.get(at..)?;
    let spellings: [(&[u8], bool); 4] = [
        (b"\"false\"", false),
        (b"\"true\"", true),
        (b"false", false),
        (b"true", true),
    ];
    spellings
        .iter()
        .find(|(spelling, _)| rest.starts_with(spelling))
        .map(|(spelling, is_deleted)| (*is_deleted, at + spelling.len()))
}
