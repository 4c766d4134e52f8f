//! Builders of row images: structs of the table's columns, or maps of text without a schema.

use std::borrow::Cow;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Utf8Type;
use arrow_array::{ArrayRef, StructArray, new_null_array};
use arrow_buffer::NullBuffer;
use arrow_schema::{ArrowError, Fields};
use bumpalo::Bump;

use crate::columns::{
    Bytes, ColumnBuilder, Forecast, Nulls, Offsets, Overlay, ValueOptions, make_builder,
};
use crate::error::{Fault, Result};
use crate::event::{Events, Image};
use crate::interner::NameId;
use crate::output::converter::Converter;
use crate::output::fields::map_array;
use crate::value::Value;

/// Index of the images before the changes.
pub(crate) const OUT_BEFORE: usize = 0;
/// Index of the images after the changes, which include deleted rows in the `upsert` layout.
pub(crate) const OUT_AFTER: usize = 1;
/// Index of the rows that are not requested.
pub(crate) const DISCARDED: usize = 2;

/// Builder of one image column.
pub(crate) enum Images {
    /// The image is not requested.
    None,
    Table(Table),
    Map(Map),
}

impl Images {
    /// Returns the number of appended rows; 0 for an image that is not requested.
    pub fn rows(&self) -> usize {
        match self {
            Images::None => 0,
            Images::Table(table) => table.rows,
            Images::Map(map) => map.offsets.len(),
        }
    }

    /// Appends null rows.
    #[inline]
    pub fn push_nulls(&mut self, count: usize) {
        match self {
            Images::None => {}
            Images::Table(table) => table.push_nulls(count),
            Images::Map(map) => map.offsets.push_nulls(count),
        }
    }

    /// Truncates to the first `rows`. Drops a partially appended row too.
    pub fn truncate(&mut self, rows: usize) {
        match self {
            Images::None => {}
            Images::Table(table) => table.truncate(rows),
            Images::Map(map) => map.truncate(rows),
        }
    }

    /// Reserves capacity.
    pub fn reserve(&mut self, forecast: Forecast) {
        match self {
            Images::None => {}
            Images::Table(table) => {
                table.begin_row();
                table
                    .columns
                    .iter_mut()
                    .for_each(|column| column.reserve(forecast));
            }
            Images::Map(map) => {
                map.keys.reserve(forecast);
                map.values.reserve(forecast);
            }
        }
    }

    /// Returns the bytes of the appended rows.
    pub fn bytes(&self) -> usize {
        match self {
            Images::None => 0,
            Images::Table(table) => table.bytes(),
            Images::Map(map) => map.bytes(),
        }
    }

    /// Returns the approximate number of rows to copy from the base.
    pub fn copied_rows(&self) -> usize {
        let Images::Table(table) = self else { return 0 };
        let Some(own_rows) = &table.own_rows else {
            return 0;
        };
        let own = table.nulls.count() + own_rows.full.len();
        table.rows.saturating_sub(own)
    }

    /// Returns the number of values of each of the table's columns that were zero dates and became null.
    pub fn zero_dates(&self, base: &Images) -> Vec<u64> {
        match (self, base) {
            (Images::Table(table), Images::Table(base)) => table.zero_dates(Some(base)),
            (Images::Table(table), _) => table.zero_dates(None),
            _ => Vec::new(),
        }
    }

    /// Finishes the images as one column. Images that are changes are merged onto the `base`.
    pub fn finish_struct(&mut self, base: Option<&ArrayRef>) -> Result<ArrayRef, ArrowError> {
        match self {
            Images::Table(table) => table.finish_struct(base),
            Images::Map(map) => map.finish(),
            Images::None => Map::default().finish(),
        }
    }
}

/// Builders of the table's columns in one image.
pub(crate) struct Table {
    fields: Fields,
    pub columns: Vec<Box<dyn ColumnBuilder>>,
    nulls: Nulls,
    rows: usize,
    /// True if a row is partially appended.
    has_open_row: bool,
    /// Number of rows in the columns. Null rows are appended to them lazily, before the next valid row.
    column_rows: usize,
    /// Rows in which each column has its own value, if the images are changes of other images. The base has the other
    /// values.
    own_rows: Option<OwnRows>,
}

/// Rows in which each column has its own value.
#[derive(Default)]
struct OwnRows {
    /// Rows in which all columns have their own value.
    full: Vec<u32>,
    /// Other rows, by column.
    changed: Vec<Vec<u32>>,
}

impl OwnRows {
    /// Returns the rows of a column, in order.
    #[allow(clippy::indexing_slicing, reason = "each column has a list")]
    fn of_column(&self, column: usize) -> Cow<'_, [u32]> {
        let changed = self.changed[column].as_slice();
        if changed.is_empty() {
            return self.full.as_slice().into();
        }
        let mut rows = [self.full.as_slice(), changed].concat();
        rows.sort();
        rows.into()
    }

    /// Truncates to the rows before `end`. Returns the remaining number of values of each column.
    fn truncate(&mut self, end: usize) -> impl Iterator<Item = usize> {
        let full = truncate_rows(&mut self.full, end);
        self.changed
            .iter_mut()
            .map(move |changed| full + truncate_rows(changed, end))
    }
}

fn truncate_rows(rows: &mut Vec<u32>, end: usize) -> usize {
    rows.truncate(rows.partition_point(|row| (*row as usize) < end));
    rows.len()
}

impl Table {
    /// Creates the builders. `are_changes`: rows may be changes of the same row of another builder.
    pub fn new(
        fields: &Fields,
        options: &[ValueOptions],
        are_changes: bool,
    ) -> Result<Self, String> {
        let columns = fields.iter().zip(options);
        let columns = columns.map(|(field, options)| {
            make_builder(field.data_type(), options)
                .map_err(|e| format!("schema: column {:?}: {e}", field.name()))
        });
        let (columns, fields, nulls) = (
            columns.collect::<Result<_, _>>()?,
            fields.clone(),
            Nulls::default(),
        );
        let own_rows = are_changes.then(|| OwnRows {
            full: Vec::new(),
            changed: vec![Vec::new(); fields.len()],
        });
        Ok(Table {
            fields,
            columns,
            nulls,
            rows: 0,
            has_open_row: false,
            column_rows: 0,
            own_rows,
        })
    }

    fn push_nulls(&mut self, count: usize) {
        self.nulls.push(self.rows, count);
        self.rows += count;
    }

    /// Begins a row. Pads the columns with the pending null rows.
    #[inline]
    pub fn begin_row(&mut self) {
        self.has_open_row = true;
        if self.column_rows < self.rows {
            if self.own_rows.is_none() {
                self.columns
                    .iter_mut()
                    .for_each(|column| column.pad(self.rows - self.column_rows));
            }
            self.column_rows = self.rows;
        }
    }

    /// Ends a row. Each column has received one value.
    #[inline]
    pub fn end_row(&mut self) {
        if let Some(own_rows) = &mut self.own_rows {
            own_rows.full.push(self.rows as u32);
        }
        self.end_changes();
    }

    /// Ends a row of changes. Columns that [`Table::changes`] did not receive have the base's values.
    #[inline]
    pub fn end_changes(&mut self) {
        self.rows += 1;
        self.column_rows += 1;
        self.has_open_row = false;
    }

    /// Returns the destination of a row of changes. A caller that appends a value to a column also appends the row to
    /// its list.
    #[inline]
    pub fn changes(&mut self) -> Option<Changes<'_>> {
        Some((
            &mut self.columns,
            &mut self.own_rows.as_mut()?.changed,
            self.rows as u32,
        ))
    }

    fn bytes(&self) -> usize {
        let unwritten = (self.rows - self.column_rows) * self.columns.len() * size_of::<u64>();
        self.columns
            .iter()
            .map(|column| column.bytes())
            .sum::<usize>()
            + unwritten
    }

    fn truncate(&mut self, rows: usize) {
        if self.rows <= rows && !self.has_open_row {
            return;
        }
        self.has_open_row = false;
        match &mut self.own_rows {
            None => self
                .columns
                .iter_mut()
                .for_each(|column| column.truncate(rows)),
            Some(own_rows) => self
                .columns
                .iter_mut()
                .zip(own_rows.truncate(rows))
                .for_each(|(column, own)| column.truncate(own)),
        }
        self.nulls.truncate(rows);
        self.rows = self.rows.min(rows);
        self.column_rows = self.column_rows.min(rows);
    }

    /// Counts the zero dates of each column that became null.
    fn zero_dates(&self, base: Option<&Table>) -> Vec<u64> {
        let columns = self.columns.iter().enumerate();
        let zero_dates = columns.map(|(at, column)| {
            let copied = base.map_or(0, |base| self.copied_zero_dates(at, base));
            column.zero_dates(0..self.rows) as u64 + copied
        });
        zero_dates.collect()
    }

    #[allow(
        clippy::indexing_slicing,
        reason = "both images have the table's columns"
    )]
    fn copied_zero_dates(&self, column: usize, base: &Table) -> u64 {
        let base = Some(&base.columns[column]).filter(|base| base.zero_dates(0..self.rows) > 0);
        let (Some(base), Some(own_rows)) = (base, &self.own_rows) else {
            return 0;
        };
        let own_rows = own_rows.of_column(column);
        (0..self.rows)
            .filter(|row| {
                !self.nulls.contains(*row) && own_rows.binary_search(&(*row as u32)).is_err()
            })
            .map(|row| base.zero_dates(row..row + 1) as u64)
            .sum()
    }

    /// Appends a row with one value per column. A value that cannot be decoded or converted becomes null. Returns the
    /// first value that cannot be decoded, otherwise the first one that cannot be converted.
    pub fn append<'v, 'a: 'v>(
        &mut self,
        values: impl Iterator<Item = &'v Value<'a>>,
        converters: &[Converter],
        arena: &'a Bump,
    ) -> Option<(usize, Fault)> {
        self.begin_row();
        let mut faults = RowFaults::default();
        for ((column, value), converter) in self.columns.iter_mut().zip(values).zip(converters) {
            if !(converter.takes_any() && column.try_push(value)) {
                append_any(column.as_mut(), value, converter, arena, &mut faults);
            }
        }
        self.end_row();
        let [unread, refused] = faults;
        unread.or(refused)
    }

    fn finish_struct(&mut self, base: Option<&ArrayRef>) -> Result<ArrayRef, ArrowError> {
        self.begin_row();
        self.has_open_row = false;
        self.column_rows = 0;
        let (rows, is_empty) = (
            std::mem::take(&mut self.rows),
            self.nulls.all_null(self.rows),
        );
        let nulls = self.nulls.finish(rows);
        let columns: Result<_, ArrowError> = match (
            self.own_rows.take(),
            base.and_then(|base| base.as_struct_opt()),
        ) {
            _ if is_empty => self
                .fields
                .iter()
                .map(|field| Ok(new_null_array(field.data_type(), rows)))
                .collect(),
            (Some(own_rows), Some(base)) => {
                let valid_rows = valid_rows(rows, nulls.as_ref());
                let parts = self.columns.iter_mut().zip(base.columns()).enumerate();
                let columns = parts.map(|(at, (column, base))| {
                    let own_rows = &own_rows.of_column(at);
                    column.finish_over(&Overlay {
                        base,
                        own_rows,
                        valid_rows: &valid_rows,
                        parent: nulls.as_ref(),
                    })
                });
                columns.collect()
            }
            _ => self
                .columns
                .iter_mut()
                .map(|column| column.finish(nulls.as_ref()))
                .collect(),
        };
        Ok(Arc::new(StructArray::try_new_with_length(
            self.fields.clone(),
            columns?,
            nulls,
            rows,
        )?))
    }
}

fn valid_rows(rows: usize, nulls: Option<&NullBuffer>) -> Vec<u32> {
    match nulls {
        Some(nulls) => nulls.valid_indices().map(|row| row as u32).collect(),
        None => (0..rows as u32).collect(),
    }
}

/// Columns, the rows with a value for each column, and the next row.
pub(crate) type Changes<'t> = (&'t mut [Box<dyn ColumnBuilder>], &'t mut [Vec<u32>], u32);

/// The first value of a row that cannot be decoded, and the first value that its column rejects.
type RowFaults = [Option<(usize, Fault)>; 2];

/// Appends a value that is not raw text. Not inlined, so that raw text needs few registers.
#[inline(never)]
fn append_any<'a>(
    column: &mut dyn ColumnBuilder,
    value: &Value<'a>,
    converter: &Converter,
    arena: &'a Bump,
    faults: &mut RowFaults,
) {
    let (value, unread) = match converter.decode(*value, arena) {
        Ok(value) => (value, None),
        Err(fault) => (Value::Null, Some(fault)),
    };
    let refused = converter.append(&value, column).err();
    for (first, fault) in faults.iter_mut().zip([unread, refused]) {
        if let Some(fault) = fault {
            first.get_or_insert((converter.column, fault));
        }
    }
}

/// Returns the cells of an image, if it has exactly one cell per column in the columns' order. Most images do.
pub(crate) fn cells_in_order<'e, 'a>(
    image: &Image,
    width: usize,
    events: &'e Events<'a>,
) -> Option<&'e [(NameId, Value<'a>)]> {
    let cells = Some(events.cells_of(&image.base))
        .filter(|cells| cells.len() == width && image.own.is_empty())?;
    let is_in_place = |(column, (key, value)): (usize, &(NameId, Value<'_>))| {
        events.keys.column(*key) == Some(column) && !matches!(value, Value::Missing)
    };
    debug_assert!(!image.is_in_order || cells.iter().enumerate().all(is_in_place));
    (image.is_in_order || cells.iter().enumerate().all(is_in_place)).then_some(cells)
}

/// Arranges the cells of an image by column. Absent columns are missing. The later cell of a duplicate name counts.
#[allow(
    clippy::indexing_slicing,
    reason = "names know the columns of the table that has this width"
)]
pub(crate) fn fill_row<'a>(
    row: &mut Vec<Value<'a>>,
    width: usize,
    image: &Image,
    events: &Events<'a>,
) {
    row.clear();
    row.resize(width, Value::Missing);
    for cells in [&image.base, &image.own] {
        for (key, value) in events.cells_of(cells) {
            if let Some(column) = events.keys.column(*key) {
                debug_assert!(column < width);
                row[column] = *value;
            }
        }
    }
}

/// Builder of images as maps from names to text.
#[derive(Default)]
pub(crate) struct Map {
    pub keys: Bytes<i32>,
    pub values: Bytes<i32>,
    offsets: Offsets,
}

impl Map {
    /// Appends an image. A value that cannot be converted becomes null. Returns the first fault.
    pub fn append<'a>(
        &mut self,
        image: &Image,
        by_name: &mut ImageByName<'a>,
        events: &Events<'a>,
    ) -> Option<Fault> {
        let mut first = None;
        by_name.load(image, events);
        for key in by_name.order() {
            if let Err(fault) = self.push(events.keys.name(key), &by_name.value(key)) {
                first.get_or_insert(fault.within(events.keys.name(key)));
            }
        }
        self.end_row();
        first
    }

    /// Appends a name and its value. A value without a text form becomes null and is a fault. An entry whose name does
    /// not fit is omitted.
    #[inline]
    pub fn push(&mut self, name: &str, value: &Value<'_>) -> Result<()> {
        self.keys.push(name.as_bytes())?;
        self.push_value(value)
            .inspect_err(|_| self.values.push_nulls(1))
    }

    /// Appends a value. The caller appends its name.
    #[inline]
    pub fn push_value(&mut self, value: &Value<'_>) -> Result<()> {
        match value {
            Value::Missing | Value::Null => self.values.push_nulls(1),
            Value::Escaped(raw) => self.values.push_unescaped(raw)?,
            Value::Plain(text) | Value::Digits(text) => self.values.push(text)?,
            Value::Short(text) => self.values.push_short(*text)?,
            other => self.values.push(other.text()?.as_bytes())?,
        }
        Ok(())
    }

    /// Ends a row. Its entries are the entries since the last row.
    #[inline]
    pub fn end_row(&mut self) {
        self.offsets.push(self.keys.len());
    }

    fn bytes(&self) -> usize {
        self.keys.size() + self.values.size() + self.offsets.bytes()
    }

    fn truncate(&mut self, rows: usize) {
        let entries = self.offsets.truncate(rows);
        self.keys.truncate(entries);
        self.values.truncate(entries);
    }

    fn finish(&mut self) -> Result<ArrayRef, ArrowError> {
        let (keys, values) = (
            self.keys.finish::<Utf8Type>(None)?,
            self.values.finish::<Utf8Type>(None)?,
        );
        let (offsets, nulls) = self.offsets.take(None)?;
        map_array(keys, values, offsets, nulls)
    }
}

/// Cells of an image by name. A duplicate name has the position of its first cell and the value of its last cell.
#[derive(Default)]
pub(crate) struct ImageByName<'a> {
    /// The last image that wrote each name, and the value.
    values: Vec<(u32, Value<'a>)>,
    order: Vec<NameId>,
    image: u32,
}

impl<'a> ImageByName<'a> {
    /// Replaces the previous image.
    #[allow(clippy::indexing_slicing, reason = "there is a value for each name")]
    pub fn load(&mut self, image: &Image, events: &Events<'a>) {
        if self.values.len() < events.keys.len() {
            self.values.resize(events.keys.len(), (0, Value::Missing));
        }
        self.image += 1;
        self.order.clear();
        for (key, value) in [&image.base, &image.own]
            .into_iter()
            .flat_map(|cells| events.cells_of(cells))
        {
            let slot = &mut self.values[key.index()];
            if slot.0 != self.image {
                self.order.push(*key);
            }
            *slot = (self.image, *value);
        }
    }

    pub fn order(&self) -> impl Iterator<Item = NameId> + use<'_, 'a> {
        self.order.iter().copied()
    }

    /// Returns the value, or `Missing` if the image does not carry the name.
    pub fn value(&self, key: NameId) -> Value<'a> {
        match self.values.get(key.index()) {
            Some((image, value)) if *image == self.image => *value,
            _ => Value::Missing,
        }
    }
}
