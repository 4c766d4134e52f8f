//! Columns of row images: structs of the table's columns, or maps of text where no schema is given.

use std::sync::Arc;

use arrow_array::{ArrayRef, MapArray, StructArray};
use arrow_buffer::{NullBuffer, OffsetBuffer};
use arrow_schema::{ArrowError, DataType, FieldRef, Fields};

use crate::columns::{Bytes, ColumnBuilder, Context, Forecast, Nulls, RowDeclaration, ValueOptions, make_builder};
use crate::error::{Fault, Result};
use crate::event::{Events, Image};
use crate::interner::NameId;
use crate::mysql::types::DeclaredTypes;
use crate::output::fields::{map_entries, map_fields};
use crate::value::Value;

/// The columns of one image.
pub(crate) enum Images {
    /// The image is not asked for.
    None,
    Table(Table),
    Map(Map),
}

impl Images {
    /// How many rows were appended; of an image that is not asked for, none.
    pub fn rows(&self) -> usize {
        match self {
            Images::None => 0,
            Images::Table(table) => table.rows,
            Images::Map(map) => map.ends.len() - 1,
        }
    }

    /// Appends rows without the image.
    #[inline]
    pub fn push_nulls(&mut self, count: usize) {
        match self {
            Images::None => {}
            Images::Table(table) => table.push_nulls(count),
            Images::Map(map) => (0..count).for_each(|_| map.end_row(false)),
        }
    }

    /// Takes back what stands behind the first `rows`, a row that is half filled too.
    pub fn truncate(&mut self, rows: usize) {
        match self {
            Images::None => {}
            Images::Table(table) => table.truncate(rows),
            Images::Map(map) => map.truncate(rows),
        }
    }

    /// Makes room for what is to come.
    pub fn reserve(&mut self, forecast: Forecast) {
        match self {
            Images::None => {}
            Images::Table(table) => {
                table.begin_row();
                table.columns.iter_mut().for_each(|column| column.reserve(forecast));
            }
            Images::Map(map) => {
                map.keys.reserve(forecast);
                map.values.reserve(forecast);
            }
        }
    }

    /// Appends a row of other images of the same table, if they have it.
    pub fn copy_row(&mut self, other: &Images, row: usize) {
        if let (Images::Table(table), Images::Table(other)) = (self, other)
            && row < other.rows
        {
            table.copy_row(other, row);
        }
    }

    /// The images as one column.
    pub fn finish_struct(&mut self) -> Result<ArrayRef, ArrowError> {
        match self {
            Images::Table(table) => table.finish_struct(),
            Images::Map(map) => map.finish(),
            Images::None => Map::new().finish(),
        }
    }

    /// The table's columns, side by side.
    pub fn finish_columns(&mut self) -> Result<Vec<ArrayRef>, ArrowError> {
        match self {
            Images::Table(table) => table.finish_parts().map(|(columns, _)| columns),
            _ => Ok(Vec::new()),
        }
    }
}

/// What the conversion of a row's values depends on.
pub(crate) struct RowContext<'c> {
    pub row: RowDeclaration,
    pub types: &'c DeclaredTypes,
    /// By column.
    pub options: &'c [ValueOptions],
    /// For each column, whether it takes text as it is written: see [`ColumnBuilder::push_plain`].
    pub take_plain: &'c [bool],
}

impl<'c> RowContext<'c> {
    fn of_column(&self, column: usize) -> Context<'c> {
        let named = self.options.get(column).and_then(|options| options.declared.as_deref());
        Context::of_column(self.types, self.row.quirks, self.row.types, column, named)
    }
}

/// The table's columns of one image.
pub(crate) struct Table {
    fields: Fields,
    pub columns: Vec<Box<dyn ColumnBuilder>>,
    nulls: Nulls,
    rows: usize,
    /// Whether a row has begun and not ended.
    is_open: bool,
    /// How many rows the columns have: null rows are added to them only before the next one that is not null.
    filled: usize,
}

impl Table {
    pub fn new(fields: &Fields, options: &[ValueOptions]) -> Result<Self, String> {
        let made = fields.iter().zip(options);
        let made = made.map(|(field, options)| {
            make_builder(field.data_type(), options).map_err(|e| format!("schema: column {:?}: {e}", field.name()))
        });
        let columns = made.collect::<Result<_, _>>()?;
        Ok(Table { fields: fields.clone(), columns, nulls: Nulls::default(), rows: 0, is_open: false, filled: 0 })
    }

    fn push_nulls(&mut self, count: usize) {
        self.nulls.push(self.rows, count);
        self.rows += count;
    }

    /// Brings the columns up to the null rows before the next one.
    #[inline]
    pub fn begin_row(&mut self) {
        self.is_open = true;
        if self.filled < self.rows {
            self.columns.iter_mut().for_each(|column| column.pad(self.rows - self.filled));
            self.filled = self.rows;
        }
    }

    /// Ends a row for which each column was given one value.
    #[inline]
    pub fn end_row(&mut self) {
        self.rows += 1;
        self.filled += 1;
        self.is_open = false;
    }

    fn truncate(&mut self, rows: usize) {
        if self.rows <= rows && !self.is_open {
            return;
        }
        self.is_open = false;
        self.columns.iter_mut().for_each(|column| column.truncate(rows));
        self.nulls.truncate(rows);
        self.rows = self.rows.min(rows);
        self.filled = self.filled.min(rows);
    }

    /// Appends a row of another table of the same columns.
    fn copy_row(&mut self, other: &Table, row: usize) {
        if other.nulls.contains(row) {
            return self.push_nulls(1);
        }
        self.begin_row();
        self.columns.iter_mut().zip(&other.columns).for_each(|(column, other)| column.copy(other.as_ref(), row));
        self.end_row();
    }

    /// Which columns take text as it is written.
    pub fn take_plain(&self, row: &RowContext<'_>) -> Vec<bool> {
        self.columns.iter().enumerate().map(|(index, column)| column.has_fast_path(&row.of_column(index))).collect()
    }

    /// Appends a row of one value for each column. Returns the first that could not be converted, which is null.
    pub fn append<'v, 'a: 'v>(&mut self, values: impl Iterator<Item = &'v Value<'a>>, row: &RowContext<'_>) -> Option<(usize, Fault)> {
        self.begin_row();
        let mut first = None;
        for (index, ((column, value), takes_plain)) in self.columns.iter_mut().zip(values).zip(row.take_plain).enumerate() {
            if value.is_null() {
                column.push_nulls(1);
                continue;
            }
            if let (true, Some(text)) = (*takes_plain, value.plain())
                && column.push_plain(text)
            {
                continue;
            }
            if let Err(fault) = append_any(column.as_mut(), value, &row.of_column(index)) {
                first.get_or_insert((index, fault));
            }
        }
        self.end_row();
        first
    }

    /// The columns, and which rows are null.
    fn finish_parts(&mut self) -> Result<(Vec<ArrayRef>, Option<NullBuffer>), ArrowError> {
        self.begin_row();
        self.is_open = false;
        self.filled = 0;
        let nulls = self.nulls.finish(std::mem::take(&mut self.rows));
        let columns = self.columns.iter_mut().map(|column| column.finish(nulls.as_ref())).collect::<Result<_, _>>()?;
        Ok((columns, nulls))
    }

    fn finish_struct(&mut self) -> Result<ArrayRef, ArrowError> {
        let rows = self.rows;
        let (columns, nulls) = self.finish_parts()?;
        if self.fields.is_empty() {
            return Ok(Arc::new(StructArray::new_empty_fields(rows, nulls)));
        }
        Ok(Arc::new(StructArray::try_new(self.fields.clone(), columns, nulls)?))
    }
}

/// Appends a value that is not written in the usual way.
fn append_any(column: &mut dyn ColumnBuilder, value: &Value<'_>, context: &Context<'_>) -> Result<()> {
    match value {
        Value::Plain(_) | Value::Digits(_) => column.append(&value.as_text(), context),
        other => column.append(other, context),
    }
}

/// The cells of an image that has one for each column and in the columns' order, as most images have.
pub(crate) fn cells_in_order<'e, 'a>(image: &Image, width: usize, events: &'e Events<'a, '_, '_>) -> Option<&'e [(NameId, Value<'a>)]> {
    let cells = events.cells.get(image.base.clone()).filter(|cells| cells.len() == width && image.own.is_empty())?;
    let is_in_place = |(column, (key, value)): (usize, &(NameId, Value<'_>))| {
        events.keys.column(*key) == Some(column) && !matches!(value, Value::Missing)
    };
    cells.iter().enumerate().all(is_in_place).then_some(cells)
}

/// Lays the cells of an image out by column. What it does not carry is missing; where a name stands twice, the later cell counts.
pub(crate) fn fill_row<'a>(row: &mut Vec<Value<'a>>, width: usize, image: &Image, events: &Events<'a, '_, '_>) {
    row.clear();
    row.resize(width, Value::Missing);
    for cells in [&image.base, &image.own] {
        for (key, value) in events.cells.get(cells.clone()).unwrap_or_default() {
            if let Some(slot) = events.keys.column(*key).and_then(|column| row.get_mut(column)) {
                *slot = *value;
            }
        }
    }
}

/// An image as a map of names to text.
pub(crate) struct Map {
    pub keys: Bytes<i32>,
    pub values: Bytes<i32>,
    ends: Vec<i32>,
    nulls: Nulls,
    entries: FieldRef,
    fields: Fields,
}

impl Map {
    pub fn new() -> Self {
        Map {
            keys: Bytes::default(),
            values: Bytes::default(),
            ends: vec![0],
            nulls: Nulls::default(),
            entries: map_entries(DataType::Utf8),
            fields: map_fields(DataType::Utf8),
        }
    }

    /// Appends an image. Returns why the first of its values that could not be converted is null.
    pub fn append<'a>(&mut self, image: &Image, latest: &mut ImageByName<'a>, events: &Events<'a, '_, '_>) -> Option<Fault> {
        let mut first = None;
        latest.load(image, events);
        for key in latest.order() {
            if let Err(fault) = self.push(events.keys.name(key), &latest.value(key)) {
                first.get_or_insert(fault.within(events.keys.name(key)));
            }
        }
        self.end_row(true);
        first
    }

    /// Appends a name and its value. A value that has no text is null, with the reason; one that does not fit is left out.
    #[inline]
    pub fn push(&mut self, name: &str, value: &Value<'_>) -> Result<()> {
        self.keys.push(name.as_bytes())?;
        self.push_value(value).inspect_err(|_| self.values.push_nulls(1))
    }

    /// Appends a value, whose name is appended too.
    #[inline]
    pub fn push_value(&mut self, value: &Value<'_>) -> Result<()> {
        match value {
            Value::Missing | Value::Null => self.values.push_nulls(1),
            Value::Escaped(raw) => self.values.push_unescaped(raw)?,
            Value::Plain(text) | Value::Digits(text) => self.values.push(text)?,
            other => self.values.push(other.text()?.as_bytes())?,
        }
        Ok(())
    }

    /// Ends a row, which has the names since the last one, or is null.
    #[inline]
    pub fn end_row(&mut self, valid: bool) {
        if !valid {
            self.nulls.push(self.ends.len() - 1, 1);
        }
        self.ends.push(self.keys.len() as i32);
    }

    fn truncate(&mut self, rows: usize) {
        self.ends.truncate(rows + 1);
        self.nulls.truncate(rows);
        let entries = self.ends.last().and_then(|end| usize::try_from(*end).ok()).unwrap_or(0);
        self.keys.truncate(entries);
        self.values.truncate(entries);
    }

    fn finish(&mut self) -> Result<ArrayRef, ArrowError> {
        let arrays = vec![self.keys.finish_text(None)?, self.values.finish_text(None)?];
        let ends = OffsetBuffer::new(std::mem::replace(&mut self.ends, vec![0]).into());
        let entries = StructArray::try_new(self.fields.clone(), arrays, None)?;
        let nulls = self.nulls.finish(ends.len() - 1);
        Ok(Arc::new(MapArray::try_new(self.entries.clone(), ends, entries, nulls, false)?))
    }
}

/// The cells of an image by name: where a name stands twice, the later value at the place of the first.
#[derive(Default)]
pub(crate) struct ImageByName<'a> {
    /// By key: the image that wrote it last, and what it wrote.
    values: Vec<(u32, Value<'a>)>,
    order: Vec<NameId>,
    image: u32,
}

impl<'a> ImageByName<'a> {
    /// Forgets the image before and takes this one.
    pub fn load(&mut self, image: &Image, events: &Events<'a, '_, '_>) {
        if self.values.len() < events.keys.len() {
            self.values.resize(events.keys.len(), (0, Value::Missing));
        }
        self.image += 1;
        self.order.clear();
        for (key, value) in image.cells().filter_map(|cell| events.cells.get(cell)) {
            if let Some(slot) = self.values.get_mut(key.index()) {
                if slot.0 != self.image {
                    self.order.push(*key);
                }
                *slot = (self.image, *value);
            }
        }
    }

    pub fn order(&self) -> impl Iterator<Item = NameId> + use<'_, 'a> {
        self.order.iter().copied()
    }

    /// Missing if the image does not carry the name.
    pub fn value(&self, key: NameId) -> Value<'a> {
        self.values.get(key.index()).filter(|(image, _)| *image == self.image).map_or(Value::Missing, |(_, value)| *value)
    }
}
