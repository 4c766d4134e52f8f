//! From events to a record batch: which rows, which columns, and what to do with the bad ones.

use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef, BooleanArray, PrimitiveArray};
use arrow_schema::{DataType, FieldRef, Fields};

use crate::columns::{CellFault, SlotRow, Slots, ValueOptions};
use crate::decoder::Metrics;
use crate::envelope::{Builder, Outcome, Surroundings};
use crate::error::{Error, Fault, Kind};
use crate::event::{Envelope, Events, Image, Op, Quirks, Row, Value, Wants, Writes};
use crate::images::{Latest, Map, Table, fill_slots};
use crate::keys::KeyId;
use crate::layout::{EnvelopeField, KeyMoves, Layout, OutRow, map_type};
use crate::mysql::forms;
use crate::mysql::types::Declared;
use crate::options::{Filter, Mode, Options};

/// What to build, worked out once from the options.
pub(crate) struct Plan {
    pub layout: Layout,
    pub mode: Mode,
    /// The table's columns, if a schema is given.
    pub table: Option<Fields>,
    pub fields: Vec<EnvelopeField>,
    pub wants: Wants,
    pub filter: Filter,
    missing_is_error: bool,
    /// By column of the table.
    value_options: Vec<ValueOptions>,
}

impl Plan {
    pub fn new(options: &Options) -> Result<Self, String> {
        let table = options.table_fields()?;
        let fields = options.envelope_fields()?;
        let mut plan = Plan {
            layout: options.layout,
            mode: options.mode,
            value_options: value_options(options, table.as_ref())?,
            wants: Wants { every_cell: false, images: false, types: false, forms: false },
            filter: Filter::new(options)?,
            missing_is_error: options.missing_is_error,
            table,
            fields,
        };
        plan.wants = plan.wants();
        plan.images()?;
        Ok(plan)
    }

    fn wants(&self) -> Wants {
        use EnvelopeField as F;
        let any = |fields: &[F]| self.fields.iter().any(|field| fields.contains(field));
        let images = self.layout != Layout::Change || self.missing_is_error || any(&[F::Before, F::After, F::MissingColumns]);
        let maps = self.table.is_none() && any(&[F::Before, F::After]);
        let typed = self.table.iter().flatten().any(|field| depends_on_declared(field.data_type()));
        Wants {
            every_cell: maps || any(&[F::Changed]) || self.layout == Layout::Upsert,
            images,
            types: any(&[F::ColumnTypes]) || images && typed,
            forms: images && self.table.is_some(),
        }
    }

    /// The type of an image.
    pub fn image_type(&self) -> DataType {
        self.table.as_ref().map_or_else(|| map_type(DataType::Utf8), |table| DataType::Struct(table.clone()))
    }

    fn image(&self) -> Result<ImageColumns, String> {
        let Some(table) = &self.table else { return Ok(ImageColumns::Map(Box::new(Map::new()))) };
        Ok(ImageColumns::Table(Table::new(table, &self.value_options)?))
    }

    /// Columns for the two images of the `change` layout, or for the one of the others.
    fn images(&self) -> Result<[ImageColumns; 2], String> {
        if self.layout != Layout::Change {
            return Ok([self.image()?, ImageColumns::None]);
        }
        let asked = |field| if self.fields.contains(&field) { self.image() } else { Ok(ImageColumns::None) };
        Ok([asked(EnvelopeField::Before)?, asked(EnvelopeField::After)?])
    }

    /// Brings values in Kafka Connect's forms into MySQL's. One that cannot be is null, with a fault.
    fn undo_forms<'a>(&self, values: &mut [Value<'a>], rows: &[SlotRow], events: &Events<'a, '_, '_>, faults: &mut Vec<CellFault>) {
        let table = self.table.as_deref().unwrap_or_default();
        let by_row = values.chunks_exact_mut(table.len().max(1)).zip(rows).enumerate();
        for (row, (values, surroundings)) in by_row.filter(|(_, (_, row))| row.quirks.writes == Writes::Connect) {
            for (at, ((value, field), options)) in values.iter_mut().zip(table).zip(&self.value_options).enumerate() {
                let declared = surroundings.types.and_then(|block| events.types.of_column(block, at));
                let (named, modes) = (options.declared.as_deref(), options.modes);
                let column = forms::Column { declared, named, asked: field.data_type(), modes };
                *value = forms::undo(*value, &column, events.arena).unwrap_or_else(|fault| {
                    faults.push(CellFault { row, column: Some(at), fault });
                    Value::Null
                });
            }
        }
    }

    /// How many envelope columns come before the table's own.
    pub fn leading(&self) -> usize {
        usize::from(self.fields.first() == Some(&EnvelopeField::Op))
    }

    /// Whether an envelope column is put out.
    pub fn asks(&self, field: EnvelopeField) -> bool {
        self.fields.contains(&field)
    }
}

fn value_options(options: &Options, table: Option<&Fields>) -> Result<Vec<ValueOptions>, String> {
    let (zone, zero_date, modes) = (options.zone()?, options.zero_date()?, options.modes()?);
    let of_column = |field: &FieldRef| {
        let labels = options.labels.iter().find(|(name, _)| name == field.name());
        let declared = options.column_types.iter().find(|(name, _)| name == field.name());
        ValueOptions {
            zone: zone.clone(),
            zero_date,
            labels: labels.map(|(_, labels)| labels.as_slice()).unwrap_or_default().into(),
            declared: declared.map(|(_, text)| Declared::parse(text).into()),
            modes,
        }
    };
    Ok(table.into_iter().flatten().map(of_column).collect())
}

/// Whether a value's conversion to this type depends on the declared type of its column.
fn depends_on_declared(data_type: &DataType) -> bool {
    data_type.is_integer()
        || matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Binary | DataType::LargeBinary | DataType::Struct(_))
}

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
pub(crate) struct Bodies<'b> {
    pub first: usize,
    pub texts: &'b [&'b [u8]],
}

impl Bodies<'_> {
    /// Where a part of a message stands in it.
    fn byte(&self, message: usize, part: &[u8]) -> Option<usize> {
        let body = self.texts.get(message.checked_sub(self.first)?)?;
        let offset = (part.as_ptr() as usize).checked_sub(body.as_ptr() as usize)?;
        (offset < body.len()).then_some(offset)
    }
}

enum ImageColumns {
    None,
    Table(Table),
    Map(Box<Map>),
}

/// A record batch that is being built.
pub(crate) struct Batch<'p> {
    plan: &'p Plan,
    images: [ImageColumns; 2],
    builders: Vec<(EnvelopeField, Option<Builder>)>,
    /// For each row, the message it came from.
    origins: Vec<u64>,
    /// For each row, whether it stays; only where some do not.
    stays: Vec<bool>,
    metrics: Metrics,
    last_passed: Option<(String, String, bool)>,
}

/// A finished batch, before the kept columns of the input are added.
pub(crate) struct Finished {
    pub columns: Vec<ArrayRef>,
    pub origins: Vec<u64>,
    /// Which rows stay, where some do not.
    pub stays: Option<BooleanArray>,
    pub metrics: Metrics,
}

impl<'p> Batch<'p> {
    pub fn new(plan: &'p Plan) -> Result<Self, String> {
        let builders = plan.fields.iter().map(|field| (*field, Builder::new(*field))).collect();
        Ok(Batch {
            plan,
            images: plan.images()?,
            builders,
            origins: Vec::new(),
            stays: Vec::new(),
            metrics: Metrics::default(),
            last_passed: None,
        })
    }

    /// Appends what a chunk of messages said. Fails with the first bad row in mode `FAILFAST`.
    pub fn append(&mut self, events: &mut Events<'_, '_, '_>, bodies: &Bodies<'_>, input: &Input<'_>) -> Result<(), Error> {
        let out = self.out_rows(events);
        let mut errors: Vec<Option<Error>> = out.iter().map(|out| unreadable(out, events)).collect();
        let missing = self.append_images(&out, events, bodies, &mut errors);
        if self.plan.mode == Mode::FailFast
            && let Some(error) = errors.iter_mut().find_map(Option::take)
        {
            return Err(error);
        }
        self.count(&out, &errors, events);
        self.append_envelopes(&out, &errors, &missing, events, input);
        Ok(())
    }

    /// The output's rows, without those of other tables.
    fn out_rows(&mut self, events: &Events<'_, '_, '_>) -> Vec<OutRow> {
        let mut out = Vec::with_capacity(events.rows.len());
        let mut keys = KeyMoves::new(self.plan.layout, events);
        for (index, row) in events.rows.iter().enumerate() {
            let envelope = row.envelope.and_then(|envelope| events.envelopes.get(envelope));
            if envelope.is_none_or(|envelope| self.passes(envelope)) {
                self.plan.layout.rows(index, row, events, &mut keys, &mut out);
            } else {
                self.metrics.filtered += 1;
            }
        }
        out
    }

    /// The filter, remembered for the last table because it is usually the next one too.
    fn passes(&mut self, envelope: &Envelope<'_>) -> bool {
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

    /// Appends both images of every row, and returns the columns that each row's images lack.
    fn append_images(
        &mut self,
        out: &[OutRow],
        events: &Events<'_, '_, '_>,
        bodies: &Bodies<'_>,
        errors: &mut [Option<Error>],
    ) -> Vec<Vec<usize>> {
        let wants_missing = self.plan.missing_is_error || self.plan.asks(EnvelopeField::MissingColumns);
        let mut missing = vec![Vec::new(); if wants_missing { out.len() } else { 0 }];
        let rows = slot_rows(out, events);
        let has_forms = rows.iter().any(|row| row.quirks.writes == Writes::Connect);
        let (mut values, mut written, mut faults) = (Vec::new(), Vec::new(), Vec::new());
        for (at, columns) in self.images.iter_mut().enumerate() {
            let images: Vec<Option<&Image>> = out.iter().map(|row| row.images.get(at)?.as_ref()).collect();
            let width = self.plan.table.as_ref().map_or(0, |table| table.len());
            if matches!(columns, ImageColumns::Table(_)) || wants_missing {
                fill_slots(&mut values, width, &images, events);
                note_missing(&values, width, &mut missing);
            }
            // Errors tell where a value stands as it is written.
            if has_forms && matches!(columns, ImageColumns::Table(_)) {
                written.clone_from(&values);
                self.plan.undo_forms(&mut values, &rows, events, &mut faults);
            }
            match columns {
                ImageColumns::None => {}
                ImageColumns::Table(table) => {
                    let slots = Slots { values: &values, width, rows: &rows, types: events.types, options: &self.plan.value_options };
                    table.extend(&slots, images.iter().map(Option::is_some), &mut faults);
                }
                ImageColumns::Map(map) => map.extend(&images, events, &mut faults),
            }
            for CellFault { row, column, fault } in faults.drain(..) {
                let Some((out, error)) = out.get(row).zip(errors.get_mut(row)) else { continue };
                error.get_or_insert_with(|| {
                    let name = column.and_then(|column| self.plan.table.as_ref()?.get(column)).map(|field| field.name().clone());
                    let values = if has_forms { &written } else { &values };
                    let value = column.and_then(|column| values.get(row * width + column));
                    cell_error(fault, at, name, value, out, events, bodies)
                });
            }
        }
        if self.plan.missing_is_error {
            self.refuse_missing(&missing, out, events, errors);
        }
        missing
    }

    fn refuse_missing(&self, missing: &[Vec<usize>], out: &[OutRow], events: &Events<'_, '_, '_>, errors: &mut [Option<Error>]) {
        for ((columns, out), error) in missing.iter().zip(out).zip(errors) {
            let field = columns.first().and_then(|column| self.plan.table.as_ref()?.get(*column));
            if let (Some(field), None) = (field, &error) {
                let fault = Fault::new(Kind::Missing, "the message does not carry this column");
                let at = usize::from(out.images[1].is_some());
                *error = Some(cell_error(fault, at, Some(field.name().clone()), None, out, events, &Bodies { first: 0, texts: &[] }));
            }
        }
    }

    /// Counts the rows and their errors; in mode `DROPMALFORMED`, marks the bad ones.
    fn count(&mut self, out: &[OutRow], errors: &[Option<Error>], events: &Events<'_, '_, '_>) {
        for error in errors.iter().flatten() {
            *self.metrics.errors.entry(error.kind.name()).or_default() += 1;
        }
        if self.plan.mode != Mode::DropMalformed {
            return;
        }
        let mut bad = vec![false; events.rows.len()];
        for (out, _) in out.iter().zip(errors).filter(|(_, error)| error.is_some()) {
            if let Some(bad) = bad.get_mut(out.row) {
                self.metrics.dropped += u64::from(!std::mem::replace(bad, true));
            }
        }
        self.stays.extend(out.iter().map(|out| bad.get(out.row) == Some(&false)));
    }

    fn append_envelopes(
        &mut self,
        out: &[OutRow],
        errors: &[Option<Error>],
        missing: &[Vec<usize>],
        events: &Events<'_, '_, '_>,
        input: &Input<'_>,
    ) {
        let changed = if self.plan.asks(EnvelopeField::Changed) { changed_columns(out, events) } else { Vec::new() };
        let mut rows = Vec::with_capacity(out.len());
        for (at, out) in out.iter().enumerate() {
            let Some(row) = events.rows.get(out.row) else { continue };
            let error = errors.get(at).and_then(Option::as_ref);
            let envelope = row.envelope.and_then(|envelope| events.envelopes.get(envelope));
            rows.push(Outcome {
                out,
                row,
                envelope,
                error,
                corrupt: error.and_then(|_| *input.messages.get(row.message)?),
                changed: changed.get(at).and_then(Option::as_deref),
                missing: missing.get(at).filter(|missing| !missing.is_empty()).map(Vec::as_slice),
                sequence: sequence(out, row, envelope, input),
            });
            self.origins.push(row.message as u64);
        }
        let columns = self.plan.table.as_deref().unwrap_or_default();
        let around = Surroundings { events, columns };
        for (_, builder) in &mut self.builders {
            if let Some(builder) = builder {
                builder.extend(&rows, &around);
            }
        }
    }

    /// The columns in the layout's order.
    pub fn finish(mut self, messages: usize) -> Finished {
        let mut columns = Vec::new();
        let leading = self.plan.leading();
        for (at, (field, builder)) in self.builders.iter_mut().enumerate() {
            if at == leading && self.plan.layout != Layout::Change {
                columns.extend(self.images[0].finish_columns());
            }
            columns.push(match builder {
                Some(builder) => builder.finish(),
                None => self.images[usize::from(*field == EnvelopeField::After)].finish_struct(),
            });
        }
        if self.builders.len() <= leading && self.plan.layout != Layout::Change {
            columns.extend(self.images[0].finish_columns());
        }
        let stays = (self.plan.mode == Mode::DropMalformed).then(|| BooleanArray::from(std::mem::take(&mut self.stays)));
        self.metrics.messages = messages as u64;
        self.metrics.rows = stays.as_ref().map_or(self.origins.len(), BooleanArray::true_count) as u64;
        Finished { columns, origins: self.origins, stays, metrics: self.metrics }
    }
}

impl ImageColumns {
    fn finish_struct(&mut self) -> ArrayRef {
        match self {
            ImageColumns::Table(table) => table.finish_struct(),
            ImageColumns::Map(map) => map.finish(),
            ImageColumns::None => Map::new().finish(),
        }
    }

    fn finish_columns(&mut self) -> Vec<ArrayRef> {
        match self {
            ImageColumns::Table(table) => table.finish_columns(),
            _ => Vec::new(),
        }
    }
}

/// For rows without an envelope, which have no values.
static NO_QUIRKS: Quirks = Quirks { dialect: "", declares_lengths: false, writes: Writes::Text };

fn slot_rows(out: &[OutRow], events: &Events<'_, '_, '_>) -> Vec<SlotRow> {
    let row = |out: &OutRow| {
        let envelope = events.envelopes.get(events.rows.get(out.row)?.envelope?)?;
        Some(SlotRow { quirks: envelope.quirks, types: envelope.types })
    };
    out.iter().map(|out| row(out).unwrap_or(SlotRow { quirks: &NO_QUIRKS, types: None })).collect()
}

/// The error of a message that could not be read.
fn unreadable(out: &OutRow, events: &mut Events<'_, '_, '_>) -> Option<Error> {
    let row = events.rows.get_mut(out.row)?;
    let fault = row.fault.take()?;
    Some(fault.into_error(row.dialect, None, row.message))
}

/// Adds the columns that are missing from each row to what is known of them, in the schema's order.
fn note_missing(values: &[Value<'_>], width: usize, missing: &mut [Vec<usize>]) {
    for (row, missing) in values.chunks_exact(width.max(1)).zip(missing) {
        for (column, _) in row.iter().enumerate().filter(|(_, value)| matches!(value, Value::Missing)) {
            if let Err(at) = missing.binary_search(&column) {
                missing.insert(at, column);
            }
        }
    }
}

/// The error of one value: image, column and byte are known here.
fn cell_error(
    fault: Fault,
    at: usize,
    column: Option<String>,
    value: Option<&Value<'_>>,
    out: &OutRow,
    events: &Events<'_, '_, '_>,
    bodies: &Bodies<'_>,
) -> Error {
    let row = events.rows.get(out.row);
    let message = row.map_or(0, |row| row.message);
    // The layouts with one image put the before image of a delete or of an update's first half there.
    let is_before = at == 0 && (out.images[1].is_some() || matches!(out.word, "delete" | "update_preimage"));
    let fault = match &column {
        Some(name) => fault.within(name),
        None => fault,
    };
    let fault = fault.within(if is_before { "before" } else { "after" });
    let byte = value.and_then(|value| bodies.byte(message, value.bytes()));
    let mut error = fault.into_error(row.map_or("", |row| row.dialect), column, message);
    error.byte = byte;
    error
}

/// For each update, the columns whose value differs between its images.
fn changed_columns(out: &[OutRow], events: &Events<'_, '_, '_>) -> Vec<Option<Vec<KeyId>>> {
    let (mut before, mut after) = (Latest::new(events.keys.len()), Latest::new(events.keys.len()));
    let mut changed = |out: &OutRow| {
        let row = events.rows.get(out.row).filter(|row| row.op == Op::Update)?;
        before.overlay(row.before.as_ref()?, events);
        after.overlay(row.after.as_ref()?, events);
        let differs = |key: &KeyId| !before.value(*key).same(&after.value(*key));
        let only_before = before.order().filter(|key| matches!(after.value(*key), Value::Missing));
        Some(after.order().chain(only_before).filter(differs).collect())
    };
    out.iter().map(&mut changed).collect()
}

/// What orders the changes of a key: TiDB's commit time, else Kafka's offset, else the time and place of the message.
fn sequence(out: &OutRow, row: &Row, envelope: Option<&Envelope<'_>>, input: &Input<'_>) -> [i64; 3] {
    let place = row.message as i64;
    let offset = input.offset(row.message);
    let second_half = row.op == Op::Update && matches!(out.word, "insert" | "update_postimage");
    let within = row.index as i64 * 2 + i64::from(second_half);
    match (envelope.and_then(|envelope| envelope.source.commit_ts), offset) {
        (Some(commit_ts), offset) => [commit_ts, offset.unwrap_or(place), within],
        (None, Some(offset)) => [offset, 0, within],
        (None, None) => [envelope.and_then(|envelope| envelope.event_time).unwrap_or(0), place, within],
    }
}
