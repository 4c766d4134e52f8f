//! From events to a record batch: which rows, which columns, and what to do with the bad ones.

use std::ops::Range;

use arrow_array::{ArrayRef, BooleanArray};
use arrow_schema::ArrowError;

use crate::columns::{Forecast, RowDeclaration};
use crate::error::{Error, Fault, Kind};
use crate::event::{Envelope, Events, Image, Op, Quirks, ValueFormat};
use crate::interner::NameId;
use crate::options::{Layout, Mode};
use crate::output::builders::{Builder, Rows};
use crate::output::changes::{self, KeyMoves, PREIMAGE, RowImages};
use crate::output::envelope::{EnvelopeField, EnvelopeRow};
use crate::output::images::{ImageByName, Images, RowContext, cells_in_order, fill_row};
use crate::output::metrics::Metrics;
use crate::output::plan::{CellFault, Plan};
use crate::output::row::{EnvelopeRef, Input, OutputRow, Payloads, TableEnvelope};
use crate::value::Value;

/// The images before, in the `change` layout, or the table's rows, in the others.
pub(crate) const OUT_BEFORE: usize = 0;
/// The images after, in the `change` layout.
pub(crate) const OUT_AFTER: usize = 1;
/// Rows of the message that is being read that are put out later or elsewhere.
pub(crate) const PENDING_BEFORE: usize = 2;
pub(crate) const PENDING_AFTER: usize = 3;
/// For rows that nobody asks for.
pub(crate) const DISCARDED: usize = 4;

/// A record batch that is being built.
pub(crate) struct Batch<'p> {
    pub plan: &'p Plan,
    pub images: [Images; 5],
    builders: Vec<(EnvelopeField, Option<Builder>)>,
    /// The rows of the chunk of messages that is being read: those whose images have been appended.
    pub rows: Vec<OutputRow>,
    pub changed: Vec<NameId>,
    pub missing: Vec<usize>,
    types: Vec<usize>,
    /// How many of the events' rows were appended.
    appended: usize,
    /// For each row, the message it came from.
    origins: Vec<u64>,
    /// For each row, whether it stays; only where some do not.
    stays: Vec<bool>,
    pub metrics: Metrics,
    last_passed: Option<(String, String, bool)>,
}

/// What the rows of a chunk are compared with; kept from run to run of messages, as it grows with the names that are known.
#[derive(Default)]
pub(crate) struct Scratch<'a> {
    moves: KeyMoves<'a>,
    before: ImageByName<'a>,
    after: ImageByName<'a>,
    /// A row's values by column: as they are written, and as MySQL would write them.
    written: Vec<Value<'a>>,
    undone: Vec<Value<'a>>,
    /// Which columns take text as it is written, of rows like the last one.
    take_plain: (Option<RowDeclaration>, Vec<bool>),
}

/// A finished batch, before the kept columns of the input are added.
pub(crate) struct Finished {
    pub columns: Vec<ArrayRef>,
    pub origins: Vec<u64>,
    /// Which rows stay, where some do not.
    pub stays: Option<BooleanArray>,
    pub metrics: Metrics,
}

/// Some rows of events that give rows of the output: each by its number, with its word and its images.
type Taken = Vec<(usize, &'static str, RowImages)>;

impl<'p> Batch<'p> {
    pub fn new(plan: &'p Plan) -> Result<Self, String> {
        let builders = plan.fields.iter().map(|field| (*field, field.content().and_then(Builder::new))).collect();
        Ok(Batch {
            plan,
            images: plan.images()?,
            builders,
            rows: Vec::new(),
            changed: Vec::new(),
            missing: Vec::new(),
            types: Vec::new(),
            appended: 0,
            origins: Vec::new(),
            stays: Vec::new(),
            metrics: Metrics::default(),
            last_passed: None,
        })
    }

    /// Appends what the events have said since the last time: all but their envelopes. Fails with the first bad row in mode
    /// `FAILFAST`.
    pub fn append<'a>(&mut self, events: &mut Events<'a, '_, '_>, scratch: &mut Scratch<'a>, payloads: &Payloads<'_>) -> Result<(), Error> {
        if self.appended == events.rows.len() {
            return Ok(());
        }
        let taken = self.take_rows(events, scratch);
        self.appended = events.rows.len();
        let first = self.rows.len() - taken.len();
        self.append_images(first, &taken, events, scratch, payloads);
        let rows = self.rows.get_mut(first..).unwrap_or_default();
        if self.plan.mode == Mode::FailFast
            && let Some(error) = rows.iter_mut().find_map(|row| row.error.take())
        {
            return Err(*error);
        }
        for error in rows.iter().filter_map(|row| row.error.as_ref()) {
            *self.metrics.errors.entry(error.kind.name()).or_default() += 1;
        }
        if self.plan.mode == Mode::DropMalformed {
            self.drop_bad(first, &taken);
        }
        if self.plan.asks(EnvelopeField::Changed) {
            self.note_changes(first, &taken, events, scratch);
        }
        Ok(())
    }

    /// The output's rows, without those of other tables.
    fn take_rows<'a>(&mut self, events: &mut Events<'a, '_, '_>, scratch: &mut Scratch<'a>) -> Taken {
        let mut taken = Vec::new();
        for index in self.appended..events.rows.len() {
            let Some(row) = events.rows.get(index) else { break };
            let envelope = row.envelope.and_then(|envelope| events.envelopes.get(envelope));
            if envelope.is_none_or(|envelope| self.passes(envelope)) {
                changes::rows(self.plan.layout, row, events, &mut scratch.moves, &mut |word, images| taken.push((index, word, images)));
            } else {
                self.metrics.filtered += 1;
            }
        }
        for (index, word, _) in &taken {
            let Some(row) = events.rows.get_mut(*index) else { continue };
            // Only one row of the output is of an event that could not be read.
            let error = row.fault.take().map(|fault| Box::new(fault.into_error(row.dialect, None, row.message)));
            self.rows.push(OutputRow {
                message: row.message,
                index: row.index,
                op: row.op,
                word,
                envelope: row.envelope.map_or(EnvelopeRef::Nowhere, EnvelopeRef::Event),
                error,
                changed: None,
                missing: 0..0,
                types: 0..0,
            });
        }
        taken
    }

    /// The filter, remembered for the last table because it is usually the next one too.
    pub fn passes(&mut self, envelope: &Envelope<'_>) -> bool {
        if self.plan.filter.is_open() {
            return true;
        }
        let database = envelope.database.as_deref().unwrap_or_default();
        let table = envelope.table.as_deref().unwrap_or_default();
        if let Some((last_database, last_table, passed)) = &self.last_passed
            && last_database == database
            && last_table == table
        {
            return *passed;
        }
        let passes = self.plan.filter.passes(database, table);
        self.last_passed = Some((database.to_owned(), table.to_owned(), passes));
        passes
    }

    /// Whether anybody wants to know which columns a row's images lack.
    pub fn wants_missing(&self) -> bool {
        self.plan.missing_is_error || self.plan.asks(EnvelopeField::MissingColumns)
    }

    /// Appends both images of the rows from `first` on.
    fn append_images<'a>(
        &mut self,
        first: usize,
        taken: &Taken,
        events: &Events<'a, '_, '_>,
        scratch: &mut Scratch<'a>,
        payloads: &Payloads<'_>,
    ) {
        let wants_missing = self.wants_missing();
        for (at, (index, word, images)) in taken.iter().enumerate() {
            let surroundings = row_declaration(*index, events);
            let start = self.missing.len();
            let mut error = None;
            for (place, (columns, image)) in self.images.iter_mut().zip(images).enumerate() {
                let Some(image) = image else {
                    columns.push_nulls(1);
                    continue;
                };
                let cells = cells_in_order(image, self.plan.width(), events).filter(|_| surroundings.quirks.format != ValueFormat::Connect);
                if cells.is_none() && (wants_missing || matches!(columns, Images::Table(_))) {
                    fill_row(&mut scratch.written, self.plan.width(), image, events);
                    if wants_missing {
                        note_missing(&scratch.written, start, &mut self.missing);
                    }
                }
                let fault = append_image(columns, image, cells, self.plan, surroundings, scratch, events);
                if let (Some(CellFault { column, fault }), None) = (fault, &error) {
                    let name = column.and_then(|column| self.plan.table.as_ref()?.get(column)).map(|field| field.name().clone());
                    let value = column.and_then(|column| match cells {
                        Some(cells) => cells.get(column).map(|(_, value)| value),
                        None => scratch.written.get(column),
                    });
                    error = Some(Box::new(cell_error(fault, side(place, word, images), name, value, *index, events, payloads)));
                }
            }
            let Some(row) = self.rows.get_mut(first + at) else { continue };
            row.missing = start..self.missing.len();
            let lacking = self.missing.get(start).filter(|_| self.plan.missing_is_error);
            if let (Some(field), None) = (lacking.and_then(|column| self.plan.table.as_ref()?.get(*column)), &error) {
                let fault = Fault::new(Kind::Missing, "the message does not carry this column");
                let side = if images[1].is_some() { "after" } else { side(0, word, images) };
                error = Some(Box::new(cell_error(fault, side, Some(field.name().clone()), None, *index, events, payloads)));
            }
            if row.error.is_none() {
                row.error = error;
            }
        }
    }

    /// In mode `DROPMALFORMED`, marks the bad rows, with the others of their changes.
    fn drop_bad(&mut self, first: usize, taken: &Taken) {
        let rows = self.rows.get(first..).unwrap_or_default();
        let mut bad: Vec<usize> = taken.iter().zip(rows).filter(|(_, row)| row.error.is_some()).map(|((index, ..), _)| *index).collect();
        bad.dedup();
        self.metrics.dropped += bad.len() as u64;
        self.stays.extend(taken.iter().map(|(index, ..)| bad.binary_search(index).is_err()));
    }

    /// For each update, notes the columns whose value differs between its images.
    fn note_changes<'a>(&mut self, first: usize, taken: &Taken, events: &Events<'a, '_, '_>, scratch: &mut Scratch<'a>) {
        let Scratch { before, after, .. } = scratch;
        for ((index, ..), out) in taken.iter().zip(self.rows.iter_mut().skip(first)) {
            let row = events.rows.get(*index).filter(|row| row.op == Op::Update);
            let Some((old, new)) = row.and_then(|row| row.before.as_ref().zip(row.after.as_ref())) else { continue };
            before.load(old, events);
            after.load(new, events);
            let start = self.changed.len();
            let differs = |key: &NameId| !before.value(*key).same(&after.value(*key));
            let only_before = before.order().filter(|key| matches!(after.value(*key), Value::Missing));
            self.changed.extend(after.order().chain(only_before).filter(differs));
            out.changed = Some(start..self.changed.len());
        }
    }

    /// Appends the envelopes of all rows of the chunk.
    pub fn end_chunk<'t>(&mut self, events: &Events<'_, '_, '_>, table: impl Fn(usize) -> Option<&'t TableEnvelope>, input: &Input<'_>) {
        let columns = self.plan.table.as_deref().unwrap_or_default();
        let rows: Vec<EnvelopeRow<'_, '_>> = self.rows.iter().map(|row| envelope_row(row, events, &table, input)).collect();
        let rows = Rows::new(rows, events, columns, [&self.missing, &self.types], &self.changed, input);
        for (_, builder) in &mut self.builders {
            builder.iter_mut().for_each(|builder| builder.extend(&rows));
        }
        self.origins.extend(self.rows.iter().map(|row| row.message as u64));
        self.rows.clear();
        self.changed.clear();
        self.missing.clear();
        self.types.clear();
        self.appended = 0;
    }

    /// Makes room for so many more bytes of messages, after the first so many.
    pub fn reserve(&mut self, read: usize, left: usize) {
        let columns = self.plan.table.as_ref().map_or(2, |table| table.len()).max(1);
        // Rows take about as much room as their text, and a column may have most of it.
        let forecast = Forecast { growth: left as f64 * 1.1 / read.max(1) as f64, max_bytes: left.saturating_mul(4) / columns };
        self.images.iter_mut().for_each(|images| images.reserve(forecast));
        self.builders.iter_mut().filter_map(|(_, builder)| builder.as_mut()).for_each(|builder| builder.reserve(forecast));
    }

    /// Keeps the order in which a message declares its types, if anybody asks for them.
    pub fn note_types(&mut self, order: &[usize]) -> Range<usize> {
        let start = self.types.len();
        if self.plan.asks(EnvelopeField::ColumnTypes) {
            self.types.extend_from_slice(order);
        }
        start..self.types.len()
    }

    /// Marks rows that cannot be bad as ones that stay.
    pub fn keep_rows(&mut self, count: usize) {
        if self.plan.mode == Mode::DropMalformed {
            self.stays.resize(self.stays.len() + count, true);
        }
    }

    /// The columns in the layout's order.
    pub fn finish(mut self, messages: usize) -> Result<Finished, ArrowError> {
        let mut columns = Vec::new();
        let leading = self.plan.leading();
        for (at, (field, builder)) in self.builders.iter_mut().enumerate() {
            if at == leading && self.plan.layout != Layout::Change {
                columns.extend(self.images[0].finish_columns()?);
            }
            columns.push(match builder {
                Some(builder) => builder.finish()?,
                None => self.images[usize::from(*field == EnvelopeField::After)].finish_struct()?,
            });
        }
        if self.builders.len() <= leading && self.plan.layout != Layout::Change {
            columns.extend(self.images[0].finish_columns()?);
        }
        let stays = (self.plan.mode == Mode::DropMalformed).then(|| BooleanArray::from(std::mem::take(&mut self.stays)));
        self.metrics.messages = messages as u64;
        self.metrics.rows = stays.as_ref().map_or(self.origins.len(), BooleanArray::true_count) as u64;
        Ok(Finished { columns, origins: self.origins, stays, metrics: self.metrics })
    }
}

/// Which image a row's columns are of. The layouts with one image put the before image of a delete or of an update's first half
/// there.
fn side(at: usize, word: &str, images: &RowImages) -> &'static str {
    if at == 0 && (images[1].is_some() || word == "delete" || word == PREIMAGE) { "before" } else { "after" }
}

/// For rows without an envelope, which have no values.
static NO_QUIRKS: Quirks = Quirks { dialect: "", declares_lengths: false, format: ValueFormat::Text };

fn row_declaration(row: usize, events: &Events<'_, '_, '_>) -> RowDeclaration {
    let envelope = events.rows.get(row).and_then(|row| events.envelopes.get(row.envelope?));
    envelope.map_or(RowDeclaration { quirks: &NO_QUIRKS, types: None }, |envelope| RowDeclaration {
        quirks: envelope.quirks,
        types: envelope.types,
    })
}

/// Appends a row's image, and tells which of its values could not be converted, the first if there are several.
///
/// Its values are `cells`, or else laid out in `scratch`.
fn append_image<'a>(
    columns: &mut Images,
    image: &Image,
    cells: Option<&[(NameId, Value<'a>)]>,
    plan: &Plan,
    row: RowDeclaration,
    scratch: &mut Scratch<'a>,
    events: &Events<'a, '_, '_>,
) -> Option<CellFault> {
    let Scratch { after, written, undone, take_plain, .. } = scratch;
    let table = match columns {
        Images::None => return None,
        Images::Map(map) => return map.append(image, after, events).map(|fault| CellFault { column: None, fault }),
        Images::Table(table) => table,
    };
    let mut context = RowContext { row, types: events.types, options: &plan.value_options, take_plain: &[] };
    if take_plain.0 != Some(row) {
        *take_plain = (Some(row), table.take_plain(&context));
    }
    context.take_plain = &take_plain.1;
    let (refused, unread) = match (cells, row.quirks.format) {
        (Some(cells), _) => (table.append(cells.iter().map(|(_, value)| value), &context), None),
        // Errors tell where a value stands as it is written.
        (None, ValueFormat::Connect) => {
            undone.clone_from(written);
            let unread = plan.decode_connect_values(undone, row, events);
            (table.append(undone.iter(), &context), unread)
        }
        (None, _) => (table.append(written.iter(), &context), None),
    };
    unread.or(refused.map(|(column, fault)| CellFault { column: Some(column), fault }))
}

/// Adds the columns that are missing from a row to what is known of it from `start` on, in the schema's order.
fn note_missing(values: &[Value<'_>], start: usize, missing: &mut Vec<usize>) {
    for (column, _) in values.iter().enumerate().filter(|(_, value)| matches!(value, Value::Missing)) {
        if let Err(at) = missing.get(start..).unwrap_or_default().binary_search(&column) {
            missing.insert(start + at, column);
        }
    }
}

/// The error of one value: image, column and byte are known here.
fn cell_error(
    fault: Fault,
    side: &str,
    column: Option<String>,
    value: Option<&Value<'_>>,
    row: usize,
    events: &Events<'_, '_, '_>,
    payloads: &Payloads<'_>,
) -> Error {
    let row = events.rows.get(row);
    let message = row.map_or(0, |row| row.message);
    let fault = match &column {
        Some(name) => fault.within(name),
        None => fault,
    };
    let byte = value.and_then(|value| payloads.byte(message, value.bytes()));
    let mut error = fault.within(side).into_error(row.map_or("", |row| row.dialect), column, message);
    error.byte = byte;
    error
}

/// A row with its envelope, which is the message's own or that of its template.
fn envelope_row<'r, 't: 'r, 'a>(
    row: &'r OutputRow,
    events: &'r Events<'a, '_, '_>,
    tables: &impl Fn(usize) -> Option<&'t TableEnvelope>,
    input: &Input<'r>,
) -> EnvelopeRow<'r, 'a> {
    let corrupt = row.error.as_ref().and_then(|_| *input.messages.get(row.message)?);
    match row.envelope {
        EnvelopeRef::Nowhere => EnvelopeRow { row, envelope: None, source: None, primary_key: None, corrupt },
        EnvelopeRef::Event(envelope) => {
            let envelope = events.envelopes.get(envelope);
            let primary_key = envelope.and_then(|envelope| events.names.get(envelope.primary_key.clone()?));
            EnvelopeRow { row, envelope, source: envelope.map(|envelope| &envelope.source), primary_key, corrupt }
        }
        EnvelopeRef::Table { table, source } => {
            let table = tables(table);
            let envelope = table.map(|table| &table.envelope);
            let primary_key = table.and_then(|table| table.primary_key.as_deref());
            EnvelopeRow { row, envelope, source: events.sources.get(source), primary_key, corrupt }
        }
    }
}
