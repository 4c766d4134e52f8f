//! Columns of row images: structs of the table's columns, or maps of text where no schema is given.

use std::sync::Arc;

use arrow_array::builder::{NullBufferBuilder, StringBuilder};
use arrow_array::{ArrayRef, MapArray, StructArray};
use arrow_buffer::OffsetBuffer;
use arrow_schema::{DataType, FieldRef, Fields};

use crate::columns::{CellFault, Column, Slots, ValueOptions, column};
use crate::error::{Fault, Kind, Result};
use crate::event::{Events, Image, Value};
use crate::keys::KeyId;
use crate::layout::{map_entries, map_fields};

/// The table's columns of one image.
pub(crate) struct Table {
    fields: Fields,
    columns: Vec<Box<dyn Column>>,
    nulls: NullBufferBuilder,
}

impl Table {
    pub fn new(fields: &Fields, options: &[ValueOptions]) -> Result<Self, String> {
        let made = fields.iter().zip(options);
        let made =
            made.map(|(field, options)| column(field.data_type(), options).map_err(|e| format!("schema: column {:?}: {e}", field.name())));
        Ok(Table { fields: fields.clone(), columns: made.collect::<Result<_, _>>()?, nulls: NullBufferBuilder::new(0) })
    }

    /// Appends rows of slots; `present` tells which of them have the image.
    pub fn extend(&mut self, slots: &Slots<'_, '_>, present: impl Iterator<Item = bool>, faults: &mut Vec<CellFault>) {
        present.for_each(|present| self.nulls.append(present));
        for (index, column) in self.columns.iter_mut().enumerate() {
            column.extend(slots, index, faults);
        }
    }

    /// The columns, side by side.
    pub fn finish_columns(&mut self) -> Vec<ArrayRef> {
        self.columns.iter_mut().map(|column| column.finish()).collect()
    }

    /// The columns, as one struct.
    pub fn finish_struct(&mut self) -> ArrayRef {
        let columns = self.finish_columns();
        let nulls = self.nulls.finish();
        if self.fields.is_empty() {
            return Arc::new(StructArray::new_empty_fields(nulls.as_ref().map_or(0, |nulls| nulls.len()), nulls));
        }
        Arc::new(StructArray::new(self.fields.clone(), columns, nulls))
    }
}

/// Lays the rows' cells out by column. What an image does not carry is missing; a row without the image is null.
pub(crate) fn fill_slots<'a>(slots: &mut Vec<Value<'a>>, width: usize, images: &[Option<&Image>], events: &Events<'a, '_, '_>) {
    slots.clear();
    slots.reserve(images.len() * width);
    for image in images {
        let start = slots.len();
        let Some(image) = image else {
            slots.resize(start + width, Value::Null);
            continue;
        };
        slots.resize(start + width, Value::Missing);
        let row = slots.get_mut(start..).unwrap_or_default();
        for cells in [&image.base, &image.own] {
            for (key, value) in events.cells.get(cells.clone()).unwrap_or_default() {
                if let Some(slot) = events.keys.column(*key).and_then(|column| row.get_mut(column)) {
                    *slot = *value;
                }
            }
        }
    }
}

/// An image as a map of names to text.
pub(crate) struct Map {
    keys: StringBuilder,
    values: StringBuilder,
    ends: Vec<i32>,
    nulls: NullBufferBuilder,
    entries: FieldRef,
    fields: Fields,
}

impl Map {
    pub fn new() -> Self {
        Map {
            keys: StringBuilder::new(),
            values: StringBuilder::new(),
            ends: vec![0],
            nulls: NullBufferBuilder::new(0),
            entries: map_entries(DataType::Utf8),
            fields: map_fields(DataType::Utf8),
        }
    }

    /// Appends the image of each row.
    pub fn extend<'a>(&mut self, images: &[Option<&Image>], events: &Events<'a, '_, '_>, faults: &mut Vec<CellFault>) {
        let mut latest = Latest::new(events.keys.len());
        for (row, image) in images.iter().enumerate() {
            if let Some(image) = image {
                latest.overlay(image, events);
                for key in latest.order() {
                    if let Err(fault) = self.push(events.keys.name(key), &latest.value(key)) {
                        faults.push(CellFault { row, column: None, fault: fault.within(events.keys.name(key)) });
                    }
                }
            }
            self.nulls.append(image.is_some());
            self.ends.push((self.keys.offsets_slice().len() - 1) as i32);
        }
    }

    fn push(&mut self, name: &str, value: &Value<'_>) -> Result<()> {
        const LIMIT: usize = i32::MAX as usize;
        let held = self.values.values_slice().len().max(self.keys.values_slice().len());
        if held + value.raw().len() + name.len() > LIMIT {
            return Err(Fault::new(Kind::Size, format!("the batch's values would exceed {LIMIT} bytes; decode fewer messages at once")));
        }
        let text = value.text();
        self.keys.append_value(name);
        match (&text, value.is_null()) {
            (Ok(text), false) => self.values.append_value(text),
            _ => self.values.append_null(),
        }
        text.map(drop)
    }

    pub fn finish(&mut self) -> ArrayRef {
        let arrays: Vec<ArrayRef> = vec![Arc::new(self.keys.finish()), Arc::new(self.values.finish())];
        let ends = OffsetBuffer::new(std::mem::replace(&mut self.ends, vec![0]).into());
        let entries = StructArray::new(self.fields.clone(), arrays, None);
        Arc::new(MapArray::new(self.entries.clone(), ends, entries, self.nulls.finish(), false))
    }
}

/// The cells of an image by name: where a name stands twice, the later value at the place of the first.
pub(crate) struct Latest<'a> {
    /// By key: the image that wrote it last, and what it wrote.
    values: Vec<(u32, Value<'a>)>,
    order: Vec<KeyId>,
    image: u32,
}

impl<'a> Latest<'a> {
    pub fn new(keys: usize) -> Self {
        Latest { values: vec![(0, Value::Missing); keys], order: Vec::new(), image: 0 }
    }

    /// Forgets the image before and takes this one.
    pub fn overlay(&mut self, image: &Image, events: &Events<'a, '_, '_>) {
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

    pub fn order(&self) -> impl Iterator<Item = KeyId> + use<'_, 'a> {
        self.order.iter().copied()
    }

    /// Missing if the image does not carry the name.
    pub fn value(&self, key: KeyId) -> Value<'a> {
        self.values.get(key.index()).filter(|(image, _)| *image == self.image).map_or(Value::Missing, |(_, value)| *value)
    }
}
