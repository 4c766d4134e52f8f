//! Builder of a record batch from events. It selects rows and columns, and handles bad rows by the mode.

use std::collections::BTreeMap;
use std::ops::Range;

use arrow_array::cast::AsArray;
use arrow_array::{ArrayRef, BooleanArray};
use arrow_schema::ArrowError;

use crate::columns::{Forecast, interleave_arrays};
use crate::error::{Error, Fault, Kind};
use crate::event::{Envelope, Events, Image, Op, Row};
use crate::interner::NameId;
use crate::options::{Layout, Mode};
use crate::output::budget::kept_bytes;
use crate::output::builders::{EnvelopeColumn, Rows, SharedArrays};
use crate::output::changes::{KeyMoves, output_rows};
use crate::output::converter::KnownConverters;
use crate::output::envelope::{EnvelopeField, EnvelopeRow};
use crate::output::images::{
    DISCARDED, ImageByName, Images, OUT_AFTER, OUT_BEFORE, cells_in_order, fill_row,
};
use crate::output::metrics::Metrics;
use crate::output::plan::Plan;
use crate::output::row::{EnvelopeRef, Input, OutputRow, Payloads, TableEnvelope};
use crate::value::Value;

/// Builder of a record batch.
pub(crate) struct Batch<'p> {
    pub plan: &'p Plan,
    pub images: [Images; 3],
    /// Image and row of each output row, in the layouts with one image.
    pub sources: Vec<(usize, usize)>,
    builders: Vec<(EnvelopeField, Option<EnvelopeColumn>)>,
    /// Rows of the current chunk of messages whose images have been appended.
    pub rows: Vec<OutputRow>,
    pub changed: Vec<NameId>,
    pub missing: Vec<usize>,
    /// Number of rows that lack each column of the table.
    missing_counts: Vec<u64>,
    /// Number of rows that have a row image.
    pub image_rows: u64,
    types: Vec<usize>,
    /// Number of the events' rows that have been appended.
    appended: usize,
    /// Index of the message of each row.
    origins: Vec<u64>,
    /// Filter mask: true for each kept row. Empty unless the mode drops rows.
    kept: Vec<bool>,
    pub metrics: Metrics,
    /// Filter result of the last database and table.
    last_filtered: Option<(String, String, bool)>,
}

/// Buffers that are reused for the rows of a chunk. They grow with the number of interned names.
#[derive(Default)]
pub(crate) struct Scratch<'a> {
    moves: KeyMoves<'a>,
    before: ImageByName<'a>,
    after: ImageByName<'a>,
    /// A row's values by column.
    row: Vec<Value<'a>>,
    /// Converters, which the next chunk can use too.
    pub converters: KnownConverters,
}

impl Scratch<'_> {
    pub fn new(converters: KnownConverters) -> Self {
        Scratch {
            converters,
            ..Scratch::default()
        }
    }
}

/// Messages whose rows exceed the budget.
#[derive(Default)]
struct Excess {
    /// Rows of each message, and the fault of exceeding the budget.
    messages: Vec<(Range<usize>, Fault)>,
    /// True if other messages would exceed the budget if all their rows were bad, because bad rows repeat the message.
    is_close: bool,
}

/// A value that could not be converted. Its cell is null.
pub(crate) struct CellFault {
    /// Index of the column; `None` for a map, whose columns have only names.
    pub column: Option<usize>,
    pub fault: Fault,
}

/// Numbers of items appended to a batch.
struct Position {
    images: [usize; 3],
    sources: usize,
    missing: usize,
    counts: Vec<u64>,
    image_rows: u64,
}

/// Finished columns of a batch, without the input columns of `keep`.
pub(crate) struct Finished {
    pub columns: Vec<ArrayRef>,
    pub origins: Vec<u64>,
    /// Filter mask in mode `DROPMALFORMED`.
    pub kept: Option<BooleanArray>,
    pub metrics: Metrics,
}

/// Images of an output row: before and after in the `change` layout, at most one of them in other layouts. In the
/// `upsert` layout, the deleted row is the second image.
type RowImages = [Option<Image>; 2];

/// Rows of events that become output rows: index of the event's row, operation name and images.
type SelectedRows = Vec<(usize, &'static str, RowImages)>;

impl<'p> Batch<'p> {
    pub fn new(plan: &'p Plan) -> Result<Self, String> {
        let builders = plan
            .fields
            .iter()
            .map(|field| (*field, EnvelopeColumn::new(field.content())))
            .collect();
        Ok(Batch {
            plan,
            images: plan.images()?,
            sources: Vec::new(),
            builders,
            rows: Vec::new(),
            changed: Vec::new(),
            missing: Vec::new(),
            missing_counts: vec![0; plan.width()],
            image_rows: 0,
            types: Vec::new(),
            appended: 0,
            origins: Vec::new(),
            kept: Vec::new(),
            metrics: Metrics::default(),
            last_filtered: None,
        })
    }

    /// Appends the images of the events since the last call, without their envelopes. In mode `FAILFAST`, fails with
    /// the first bad row.
    pub fn append<'a>(
        &mut self,
        events: &mut Events<'a>,
        scratch: &mut Scratch<'a>,
        payloads: &Payloads<'_>,
    ) -> Result<(), Error> {
        if self.appended == events.rows.len() {
            return Ok(());
        }
        let mut selected = self.select_rows(events, scratch);
        self.appended = events.rows.len();
        let first = self.rows.len() - selected.len();
        let Excess { messages, is_close } = self.excess(first, events, payloads);
        self.reject(first, messages, &mut selected, events);
        // Bad rows are known only after their images are appended.
        let before = is_close.then(|| self.position());
        self.append_images(first, &selected, events, scratch, payloads);
        if let Some(position) = before {
            let Excess { messages, .. } = self.excess(first, events, payloads);
            if !messages.is_empty() {
                self.return_to(position);
                self.reject(first, messages, &mut selected, events);
                self.append_images(first, &selected, events, scratch, payloads);
            }
        }
        let (_, rows) = self.rows.split_at_mut(first);
        if self.plan.mode == Mode::FailFast
            && let Some(error) = rows.iter_mut().find_map(|row| row.error.take())
        {
            return Err(*error);
        }
        for error in rows.iter().filter_map(|row| row.error.as_ref()) {
            *self.metrics.errors.entry(error.kind.name()).or_default() += 1;
        }
        if self.plan.mode == Mode::DropMalformed {
            self.drop_malformed(first, &selected);
        }
        if self.plan.has_field(EnvelopeField::Changed) {
            self.record_changes(first, &selected, events, scratch);
        }
        Ok(())
    }

    /// Selects the output rows. Filters out rows of other tables.
    #[allow(clippy::indexing_slicing, reason = "the selected rows are the events'")]
    fn select_rows<'a>(
        &mut self,
        events: &mut Events<'a>,
        scratch: &mut Scratch<'a>,
    ) -> SelectedRows {
        let mut selected = Vec::with_capacity(events.rows.len() - self.appended);
        for (index, row) in events.rows.iter().enumerate().skip(self.appended) {
            if events
                .envelope_of(row)
                .is_none_or(|envelope| self.passes(row.op, envelope))
            {
                let has_images = (row.before.is_some(), row.after.is_some());
                let moves = || scratch.moves.moves(row, events);
                let output_rows = output_rows(self.plan.layout, row.op, has_images, moves);
                for (op_name, with_before, with_after) in output_rows.into_iter().flatten() {
                    let before = row.before.clone().filter(|_| with_before);
                    let after = row.after.clone().filter(|_| with_after);
                    let is_deleted = self.plan.layout == Layout::Upsert && with_before;
                    let images = if is_deleted {
                        [None, before]
                    } else {
                        [before, after]
                    };
                    selected.push((index, op_name, images));
                }
            } else {
                self.metrics.filtered += 1;
            }
        }
        for (index, op_name, _) in &selected {
            let row = &mut events.rows[*index];
            // An unreadable event becomes exactly one output row.
            let error = row
                .fault
                .take()
                .map(|fault| Box::new(fault.into_error(row.dialect, None, row.message)));
            let envelope = row.envelope.map_or(EnvelopeRef::None, EnvelopeRef::Event);
            self.rows.push(OutputRow {
                index: row.index,
                error,
                ..OutputRow::new(row.message, row.op, op_name, envelope)
            });
        }
        selected
    }

    /// Returns the messages whose rows, from `first` on, exceed the budget.
    fn excess(&self, first: usize, events: &Events<'_>, payloads: &Payloads<'_>) -> Excess {
        let (budget, mut end) = (&self.plan.budget, 0);
        let mut excess = Excess::default();
        for rows in self
            .rows
            .split_at(first)
            .1
            .chunk_by(|one, other| one.message == other.message)
        {
            end += rows.len();
            let [OutputRow { message, .. }, _, ..] = rows else {
                continue;
            };
            let (length, input) = (payloads.length(*message), payloads.input);
            if input.kept.is_empty()
                && budget.rows_always_fit(rows.len(), length.max(input.received(*message)))
            {
                continue;
            }
            let corrupt = if self.plan.has_field(EnvelopeField::CorruptRecord) {
                input.received(*message)
            } else {
                0
            };
            let bad = rows.iter().filter(|row| row.error.is_some()).count();
            let kept = (rows.len() - 1) * kept_bytes(&input.kept, *message);
            let bytes = self.bytes_of(rows, events, input) + bad * corrupt + kept;
            if bytes > budget.bytes(length) {
                excess.messages.push((
                    end - rows.len()..end,
                    budget.exceeded(rows.len(), bytes, length),
                ));
            } else {
                excess.is_close |= bytes + (rows.len() - bad) * corrupt > budget.bytes(length);
            }
        }
        excess
    }

    /// Returns the bytes of some rows of events. Consecutive rows usually share an envelope.
    #[allow(clippy::indexing_slicing, reason = "a run has a row")]
    fn bytes_of(&self, rows: &[OutputRow], events: &Events<'_>, input: &Input<'_>) -> usize {
        let runs = rows.chunk_by(|one, other| one.envelope == other.envelope);
        let bytes = runs.map(|run| {
            let row = envelope_row(&run[0], events, &|_| None, input);
            let budget = &self.plan.budget;
            budget.of_row(&self.plan.fields, &row, events) * run.len()
        });
        bytes.sum()
    }

    /// Replaces the rows of each message that exceeds the budget by one error row.
    #[allow(
        clippy::indexing_slicing,
        reason = "the ranges and the selected rows are those of the events' last rows"
    )]
    fn reject(
        &mut self,
        first: usize,
        excess: Vec<(Range<usize>, Fault)>,
        selected: &mut SelectedRows,
        events: &Events<'_>,
    ) {
        for (rows, fault) in excess.into_iter().rev() {
            debug_assert!(rows.end <= selected.len() && first + selected.len() == self.rows.len());
            let index = selected[rows.start].0;
            let row = &events.rows[index];
            let error = Some(Box::new(fault.into_error(row.dialect, None, row.message)));
            let row = OutputRow {
                error,
                ..OutputRow::new(row.message, Op::Error, Op::Error.name(), EnvelopeRef::None)
            };
            selected.splice(rows.clone(), [(index, row.op_name, [None, None])]);
            self.rows
                .splice(first + rows.start..first + rows.end, [row]);
        }
    }

    /// Returns the images at an index of [`Plan::images`].
    #[allow(clippy::indexing_slicing, reason = "there are three places")]
    pub fn image(&mut self, place: usize) -> &mut Images {
        debug_assert!(place <= DISCARDED);
        &mut self.images[place]
    }

    /// Returns the current position.
    fn position(&self) -> Position {
        Position {
            images: self.images.each_ref().map(Images::rows),
            sources: self.sources.len(),
            missing: self.missing.len(),
            counts: self.missing_counts.clone(),
            image_rows: self.image_rows,
        }
    }

    /// Drops everything that was appended since a position.
    fn return_to(&mut self, position: Position) {
        self.images
            .iter_mut()
            .zip(position.images)
            .for_each(|(images, rows)| images.truncate(rows));
        self.sources.truncate(position.sources);
        self.missing.truncate(position.missing);
        self.missing_counts = position.counts;
        self.image_rows = position.image_rows;
    }

    /// Applies the filter. The result for the last table is cached, because consecutive rows usually share it.
    pub fn passes(&mut self, op: Op, envelope: &Envelope<'_>) -> bool {
        if self.plan.filter.is_open() {
            return true;
        }
        let database = envelope.database.as_deref().unwrap_or_default();
        let table = envelope.table.as_deref().unwrap_or_default();
        // A TRUNCATE without a table does not concern the requested table in particular.
        if op == Op::Truncate && table.is_empty() {
            return false;
        }
        if let Some((last_database, last_table, passed)) = &self.last_filtered
            && last_database == database
            && last_table == table
        {
            return *passed;
        }
        let passes = self.plan.filter.passes(database, table);
        self.last_filtered = Some((database.to_owned(), table.to_owned(), passes));
        passes
    }

    /// Returns whether the columns missing from a row's images are counted.
    pub fn wants_missing(&self) -> bool {
        self.plan.needs.images && self.plan.table.is_some()
    }

    /// Counts a row's missing columns, which are recorded from `start` on. Keeps them if they are requested.
    #[allow(
        clippy::indexing_slicing,
        reason = "missing columns are the table's, and each has a count"
    )]
    pub fn end_missing(&mut self, start: usize) -> Range<usize> {
        for column in &self.missing[start..] {
            self.missing_counts[*column] += 1;
        }
        if !self.plan.has_field(EnvelopeField::MissingColumns) {
            self.missing.truncate(start);
        }
        start..self.missing.len()
    }

    /// Appends both images of the rows, starting at `first`.
    #[allow(
        clippy::indexing_slicing,
        reason = "each selected row has an output row; faults have the column of a value"
    )]
    fn append_images<'a>(
        &mut self,
        first: usize,
        selected: &SelectedRows,
        events: &Events<'a>,
        scratch: &mut Scratch<'a>,
        payloads: &Payloads<'_>,
    ) {
        let wants_missing = self.wants_missing();
        for (at, (index, op_name, images)) in selected.iter().enumerate() {
            let event = &events.rows[*index];
            let start = self.missing.len();
            let mut error = None;
            let image = if images[0].is_some() {
                OUT_BEFORE
            } else {
                OUT_AFTER
            };
            self.add_source(image, self.images[image].rows());
            for (image_index, (columns, image)) in self.images.iter_mut().zip(images).enumerate() {
                let (Some(image), Some(envelope)) = (image, events.envelope_of(event)) else {
                    columns.push_nulls(1);
                    continue;
                };
                let cells = cells_in_order(image, self.plan.width(), events);
                if cells.is_none() && (wants_missing || matches!(columns, Images::Table(_))) {
                    fill_row(&mut scratch.row, self.plan.width(), image, events);
                    if wants_missing {
                        record_missing(&scratch.row, start, &mut self.missing);
                    }
                }
                let fault = if image_index == OUT_AFTER && self.plan.has_hidden_base() {
                    columns.push_nulls(1);
                    None
                } else {
                    append_image(columns, image, cells, self.plan, envelope, scratch, events)
                };
                if let (Some(CellFault { column, fault }), None) = (fault, &error) {
                    let name = column.map(|column| self.plan.column(column).to_owned());
                    let value = column.map(|column| match cells {
                        Some(cells) => &cells[column].1,
                        None => &scratch.row[column],
                    });
                    error = Some(Box::new(cell_error(
                        fault,
                        self.plan.side(image_index, op_name),
                        name,
                        value,
                        event,
                        payloads,
                    )));
                }
            }
            let missing_column = if self.plan.missing_is_error {
                self.missing.get(start).copied()
            } else {
                None
            };
            let missing = self.end_missing(start);
            self.image_rows += u64::from(images.iter().any(Option::is_some));
            let row = &mut self.rows[first + at];
            row.missing = missing;
            if let (Some(column), None) = (missing_column, &error) {
                let fault = Fault::new(Kind::Missing, "the message does not have this column");
                let side = self.plan.side(usize::from(images[1].is_some()), op_name);
                error = Some(Box::new(cell_error(
                    fault,
                    side,
                    Some(self.plan.column(column).to_owned()),
                    None,
                    event,
                    payloads,
                )));
            }
            if row.error.is_none() {
                row.error = error;
            }
        }
    }

    /// In mode `DROPMALFORMED`, marks the bad rows and the other rows of their changes as dropped.
    fn drop_malformed(&mut self, first: usize, selected: &SelectedRows) {
        let (_, rows) = self.rows.split_at(first);
        let mut bad: Vec<usize> = selected
            .iter()
            .zip(rows)
            .filter(|(_, row)| row.error.is_some())
            .map(|((index, ..), _)| *index)
            .collect();
        bad.dedup();
        self.metrics.dropped += bad.len() as u64;
        self.kept.extend(
            selected
                .iter()
                .map(|(index, ..)| bad.binary_search(index).is_err()),
        );
    }

    /// Records, for each update, the columns whose values differ between its images.
    #[allow(clippy::indexing_slicing, reason = "the selected rows are the events'")]
    fn record_changes<'a>(
        &mut self,
        first: usize,
        selected: &SelectedRows,
        events: &Events<'a>,
        scratch: &mut Scratch<'a>,
    ) {
        let Scratch { before, after, .. } = scratch;
        for ((index, ..), out) in selected.iter().zip(self.rows.iter_mut().skip(first)) {
            let row = Some(&events.rows[*index])
                .filter(|row| row.op == Op::Update && out.op == Op::Update);
            let Some((old, new)) = row.and_then(|row| row.before.as_ref().zip(row.after.as_ref()))
            else {
                continue;
            };
            before.load(old, events);
            after.load(new, events);
            let start = self.changed.len();
            let only_before = before
                .order()
                .filter(|key| matches!(after.value(*key), Value::Missing));
            let keys = after.order().chain(only_before);
            self.changed
                .extend(keys.filter(|key| !before.value(*key).same(&after.value(*key))));
            out.changed = Some(start..self.changed.len());
        }
    }

    /// Appends the envelopes of all rows of the chunk.
    pub fn end_chunk<'t>(
        &mut self,
        events: &Events<'_>,
        table: impl Fn(usize) -> &'t TableEnvelope,
        input: &Input<'_>,
    ) {
        let columns = self.plan.table.as_deref().unwrap_or_default();
        let rows: Vec<EnvelopeRow<'_, '_>> = self
            .rows
            .iter()
            .map(|row| envelope_row(row, events, &|number| Some(table(number)), input))
            .collect();
        let rows = Rows::new(
            rows,
            events,
            columns,
            [&self.missing, &self.types],
            &self.changed,
        );
        for (_, builder) in &mut self.builders {
            builder.iter_mut().for_each(|builder| builder.extend(&rows));
        }
        self.origins
            .extend(self.rows.iter().map(|row| row.message as u64));
        self.rows.clear();
        self.changed.clear();
        self.missing.clear();
        self.types.clear();
        self.appended = 0;
    }

    /// Forgets all references to declared types, whose ids become invalid.
    pub fn forget_types(&mut self) {
        self.builders
            .iter_mut()
            .filter_map(|(_, builder)| builder.as_mut())
            .for_each(EnvelopeColumn::forget_types);
    }

    /// Returns the bytes of the appended rows.
    pub fn bytes(&self) -> usize {
        let envelopes: usize = self
            .builders
            .iter()
            .filter_map(|(_, builder)| builder.as_ref())
            .map(EnvelopeColumn::bytes)
            .sum();
        self.images.iter().map(Images::bytes).sum::<usize>() + self.copied_bytes() + envelopes
    }

    /// Estimates the bytes of values that before images share with after images. These values are copied at the end.
    fn copied_bytes(&self) -> usize {
        let [before, after, ..] = &self.images;
        after.bytes() / after.rows().max(1) * before.copied_rows()
    }

    /// Reserves capacity for `left` more bytes of messages, extrapolated from the first `read` bytes.
    pub fn reserve(&mut self, read: usize, left: usize) {
        let columns = self
            .plan
            .table
            .as_ref()
            .map_or(2, |table| table.len())
            .max(1);
        // Rows take about as many bytes as their text. One column may hold most of them.
        let forecast = Forecast {
            growth: left as f64 * 1.1 / read.max(1) as f64,
            max_bytes: left.saturating_mul(4) / columns,
        };
        self.images
            .iter_mut()
            .for_each(|images| images.reserve(forecast));
        self.builders
            .iter_mut()
            .filter_map(|(_, builder)| builder.as_mut())
            .for_each(|builder| builder.reserve(forecast));
    }

    /// Records the place of an output row's image, in the layouts with one image.
    pub fn add_source(&mut self, image: usize, row: usize) {
        if self.plan.layout != Layout::Change {
            self.sources.push((image, row));
        }
    }

    /// Records the order in which a message declares its types, if they are requested.
    pub fn record_types(&mut self, order: &[usize]) -> Range<usize> {
        let start = self.types.len();
        if self.plan.has_field(EnvelopeField::ColumnTypes) {
            self.types.extend_from_slice(order);
        }
        start..self.types.len()
    }

    /// Marks rows that cannot be bad as kept.
    pub fn keep_rows(&mut self, count: usize) {
        if self.plan.mode == Mode::DropMalformed {
            self.kept.resize(self.kept.len() + count, true);
        }
    }

    /// Counts the zero dates that became null in the images of the output, by column.
    fn zero_dates(&self) -> BTreeMap<String, u64> {
        let [before, after, ..] = &self.images;
        let hidden = self.plan.has_hidden_base().then_some(&Images::None);
        let mut counts = BTreeMap::new();
        for (images, base) in [(before, after), (hidden.unwrap_or(after), &Images::None)] {
            let columns = self
                .plan
                .table
                .iter()
                .flat_map(|table| table.iter())
                .zip(images.zero_dates(base));
            for (field, count) in columns.filter(|(_, count)| *count > 0) {
                *counts.entry(field.name().clone()).or_default() += count;
            }
        }
        counts
    }

    /// Finishes the columns in the layout's order.
    #[allow(
        clippy::indexing_slicing,
        reason = "only images have no builder, and only layout `change` has columns of images"
    )]
    pub fn finish(mut self, messages: usize) -> Result<Finished, ArrowError> {
        self.metrics.zero_dates = self.zero_dates();
        let mut columns = Vec::new();
        let leading = self.plan.leading();
        let [before, after, ..] = &mut self.images;
        let (images, mut row) = match self.plan.layout {
            Layout::Change => (finish_images(before, after)?, Vec::new()),
            _ => (
                Vec::new(),
                finish_row(self.plan, before, after, &self.sources)?,
            ),
        };
        let mut shared = SharedArrays::default();
        for (at, (field, builder)) in self.builders.iter_mut().enumerate() {
            if at == leading {
                columns.append(&mut row);
            }
            columns.push(match builder {
                Some(builder) => builder.finish(&mut shared)?,
                None => {
                    let at = if *field == EnvelopeField::After {
                        OUT_AFTER
                    } else {
                        OUT_BEFORE
                    };
                    images[at].clone()
                }
            });
        }
        columns.append(&mut row);
        let kept = (self.plan.mode == Mode::DropMalformed)
            .then(|| BooleanArray::from(std::mem::take(&mut self.kept)));
        let counts = self
            .plan
            .table
            .iter()
            .flat_map(|table| table.iter())
            .zip(&self.missing_counts)
            .filter(|(_, count)| **count > 0);
        self.metrics.missing = counts
            .map(|(field, count)| (field.name().clone(), *count))
            .collect();
        self.metrics.image_rows = self.image_rows;
        self.metrics.messages = messages as u64;
        self.metrics.rows =
            kept.as_ref()
                .map_or(self.origins.len(), BooleanArray::true_count) as u64;
        Ok(Finished {
            columns,
            origins: self.origins,
            kept,
            metrics: self.metrics,
        })
    }
}

/// Finishes the before images over the after images.
fn finish_images(before: &mut Images, after: &mut Images) -> Result<Vec<ArrayRef>, ArrowError> {
    let after = after.finish_struct(None)?;
    Ok(vec![before.finish_struct(Some(&after))?, after])
}

/// Finishes the table's columns, each row from its image. Returns one struct if it has a name.
fn finish_row(
    plan: &Plan,
    before: &mut Images,
    after: &mut Images,
    sources: &[(usize, usize)],
) -> Result<Vec<ArrayRef>, ArrowError> {
    let is_after = sources
        .iter()
        .enumerate()
        .all(|(row, source)| *source == (OUT_AFTER, row));
    let row = if is_after {
        after.finish_struct(None)?
    } else {
        let images = finish_images(before, after)?;
        interleave_arrays(
            &images.iter().map(AsRef::as_ref).collect::<Vec<_>>(),
            sources,
        )?
    };
    Ok(if plan.row_column.is_some() {
        vec![row]
    } else {
        row.as_struct().columns().to_vec()
    })
}

/// Appends a row's image. Returns the first value that could not be converted.
///
/// The values are `cells`, otherwise the values of `scratch`, by column.
fn append_image<'a>(
    columns: &mut Images,
    image: &Image,
    cells: Option<&[(NameId, Value<'a>)]>,
    plan: &Plan,
    envelope: &Envelope<'_>,
    scratch: &mut Scratch<'a>,
    events: &Events<'a>,
) -> Option<CellFault> {
    let table = match columns {
        Images::None => return None,
        Images::Map(map) => {
            return map
                .append(image, &mut scratch.after, events)
                .map(|fault| CellFault {
                    column: None,
                    fault,
                });
        }
        Images::Table(table) => table,
    };
    let converters = scratch
        .converters
        .get(envelope, &plan.columns, &events.types);
    let fault = match cells {
        Some(cells) => table.append(
            cells.iter().map(|(_, value)| value),
            converters,
            events.arena,
        ),
        None => table.append(scratch.row.iter(), converters, events.arena),
    };
    fault.map(|(column, fault)| CellFault {
        column: Some(column),
        fault,
    })
}

/// Adds a row's missing columns to the columns recorded from `start` on, in the schema's order and without duplicates.
fn record_missing(values: &[Value<'_>], start: usize, missing: &mut Vec<usize>) {
    for (column, _) in values
        .iter()
        .enumerate()
        .filter(|(_, value)| matches!(value, Value::Missing))
    {
        insert_missing(missing, start, column);
    }
}

/// Adds a missing column to the columns recorded from `start` on, unless it is there.
pub(crate) fn insert_missing(missing: &mut Vec<usize>, start: usize, column: usize) {
    if let Err(at) = missing.split_at(start).1.binary_search(&column) {
        missing.insert(start + at, column);
    }
}

/// Creates the error of one value, with its image, column and byte offset.
fn cell_error(
    fault: Fault,
    side: &str,
    column: Option<String>,
    value: Option<&Value<'_>>,
    row: &Row,
    payloads: &Payloads<'_>,
) -> Error {
    let fault = match &column {
        Some(name) => fault.within(name),
        None => fault,
    };
    let byte = value.and_then(|value| payloads.byte(row.message, value.bytes()));
    let mut error = fault
        .within(side)
        .into_error(row.dialect, column, row.message);
    error.byte = byte;
    error
}

/// Returns a row's envelope: the message's own, or the one that its template shares.
#[allow(
    clippy::indexing_slicing,
    reason = "references to envelopes and sources are made where these are appended"
)]
fn envelope_row<'r, 't: 'r, 'a>(
    row: &'r OutputRow,
    events: &'r Events<'a>,
    tables: &impl Fn(usize) -> Option<&'t TableEnvelope>,
    input: &Input<'r>,
) -> EnvelopeRow<'r, 'a> {
    let corrupt = row.error.as_ref().and_then(|_| input.message(row.message));
    let offset = input.offset(row.message);
    let (envelope, source, primary_key) = match row.envelope {
        EnvelopeRef::None => (None, None, None),
        EnvelopeRef::Event(envelope) => {
            let envelope = &events.envelopes[envelope];
            (
                Some(envelope),
                Some(&envelope.source),
                events.primary_key_of(envelope),
            )
        }
        EnvelopeRef::Table { table, source } => {
            let table = tables(table);
            let primary_key = table.and_then(|table| table.primary_key.as_deref());
            (
                table.map(|table| &table.envelope),
                Some(&events.sources[source]),
                primary_key,
            )
        }
    };
    EnvelopeRow {
        row,
        envelope,
        source,
        primary_key,
        corrupt,
        offset,
    }
}
