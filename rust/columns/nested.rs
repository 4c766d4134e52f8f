//! Arrays, maps and structs of JSON columns.
//!
//! A JSON value is read as a whole before any of it is appended, so that a child column never has more or fewer values
//! than its parent says.

use std::any::Any;
use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::{ArrayRef, ListArray, MapArray, StructArray};
use arrow_buffer::{NullBuffer, OffsetBuffer};
use arrow_schema::{ArrowError, DataType, FieldRef, Fields};
use hashbrown::HashMap;

use super::bytes::Bytes;
use super::nulls::Nulls;
use super::{Column, Context, ValueOptions, column, refused};
use crate::error::{Fault, Kind, Result};
use crate::mysql::number::Refusal;
use crate::value::Value;
use crate::wire::json::Cursor;

/// Reads the JSON text that a value is, or stands for. A text that is broken or of another shape is a value of the wrong
/// type: its bytes are those of the value, not of the message.
fn with_json<T>(value: &Value<'_>, asked: &str, read: impl FnOnce(&mut Cursor<'_>) -> Result<T>) -> Result<T> {
    let (Value::Nested(_) | Value::Text(_) | Value::Escaped(_)) = value else {
        return Err(refused(value, Refusal::Type, asked));
    };
    let text = value.text()?;
    // Known to be one JSON value before any of it is appended.
    let mut check = Cursor::new(&text, false);
    let checked = check.skip().and_then(|()| if check.peek().is_none() { Ok(()) } else { Err(check.unexpected("the end")) });
    checked.and_then(|()| read(&mut Cursor::new(&text, false))).map_err(|fault| {
        let parts = fault.into_parts();
        if parts.kind == Kind::Syntax { refused(value, Refusal::Type, asked) } else { Fault::new(parts.kind, parts.what) }
    })
}

/// Appends values to a child and keeps the first reason why one could not be converted.
fn append_all<'v, 'a: 'v>(child: &mut dyn Column, values: impl Iterator<Item = &'v Value<'a>>, context: &Context<'_>) -> Result<()> {
    let mut envelope_row = Ok(());
    for value in values {
        envelope_row = envelope_row.and(child.append(value, &context.inner()));
    }
    envelope_row
}

/// Where the values of a list or map end, and which are null.
struct Ends {
    ends: Vec<i32>,
    nulls: Nulls,
}

impl Ends {
    fn new() -> Self {
        Ends { ends: vec![0], nulls: Nulls::default() }
    }

    fn len(&self) -> usize {
        self.ends.len() - 1
    }

    fn last(&self) -> i32 {
        self.ends.last().copied().unwrap_or(0)
    }

    /// Where a value with so many elements would end, if they can be counted.
    fn after(&self, length: usize) -> Result<i32> {
        let end = i32::try_from(length).ok().and_then(|length| self.last().checked_add(length));
        end.ok_or_else(|| Fault::new(Kind::Size, format!("the batch's elements would exceed {}; decode fewer messages at once", i32::MAX)))
    }

    fn push(&mut self, end: i32, valid: bool) {
        if !valid {
            self.nulls.push(self.len(), 1);
        }
        self.ends.push(end);
    }

    fn push_nulls(&mut self, count: usize) {
        self.nulls.push(self.len(), count);
        self.ends.resize(self.ends.len() + count, self.last());
    }

    /// The elements of a value that is not null.
    fn get(&self, row: usize) -> Option<Range<usize>> {
        let place = |at: usize| self.ends.get(at).and_then(|end| usize::try_from(*end).ok());
        if self.nulls.contains(row) { None } else { Some(place(row)?..place(row + 1)?) }
    }

    /// Forgets the values from `rows` on, and returns how many elements are left.
    fn truncate(&mut self, rows: usize) -> usize {
        self.ends.truncate(rows + 1);
        self.nulls.truncate(rows);
        usize::try_from(self.last()).unwrap_or(0)
    }

    fn take(&mut self, parent: Option<&NullBuffer>) -> (OffsetBuffer<i32>, Option<NullBuffer>) {
        let nulls = self.nulls.finish_within(self.len(), parent);
        let ends = std::mem::replace(&mut self.ends, vec![0]);
        (OffsetBuffer::new(ends.into()), nulls)
    }
}

pub(super) struct Lists {
    item: FieldRef,
    child: Box<dyn Column>,
    ends: Ends,
}

impl Lists {
    pub fn new(item: FieldRef, options: &ValueOptions) -> Result<Self, String> {
        let child = column(item.data_type(), options)?;
        Ok(Lists { item, child, ends: Ends::new() })
    }
}

fn elements<'a>(cursor: &mut Cursor<'a>) -> Result<Vec<Value<'a>>> {
    let mut values = Vec::new();
    let mut elements = cursor.array()?;
    while cursor.next_element(&mut elements)? {
        values.push(cursor.value()?);
    }
    Ok(values)
}

impl Column for Lists {
    fn read(&mut self, _: &[u8], _: usize) -> Option<usize> {
        None
    }

    fn append(&mut self, value: &Value<'_>, context: &Context<'_>) -> Result<()> {
        if value.is_null() {
            self.ends.push_nulls(1);
            return Ok(());
        }
        self.push(value, context).inspect_err(|_| self.ends.push_nulls(1))?
    }

    fn push_nulls(&mut self, count: usize) {
        self.ends.push_nulls(count);
    }

    fn copy(&mut self, other: &dyn Column, row: usize) {
        let other = (other as &dyn Any).downcast_ref::<Self>();
        let Some((other, elements)) = other.and_then(|other| Some((other, other.ends.get(row)?))) else { return self.push_nulls(1) };
        let Ok(end) = self.ends.after(elements.len()) else { return self.push_nulls(1) };
        elements.for_each(|element| self.child.copy(other.child.as_ref(), element));
        self.ends.push(end, true);
    }

    fn truncate(&mut self, rows: usize) {
        let elements = self.ends.truncate(rows);
        self.child.truncate(elements);
    }

    fn finish(&mut self, parent: Option<&NullBuffer>) -> Result<ArrayRef, ArrowError> {
        let (ends, nulls) = self.ends.take(parent);
        Ok(Arc::new(ListArray::try_new(self.item.clone(), ends, self.child.finish(None)?, nulls)?))
    }
}

impl Lists {
    /// The outer result tells whether anything was appended, the inner one whether all of it could be converted. If not,
    /// the elements stay where they are, behind a null.
    fn push(&mut self, value: &Value<'_>, context: &Context<'_>) -> Result<Result<()>> {
        let (end, envelope_row) = with_json(value, "JSON array", |cursor| {
            let values = elements(cursor)?;
            let end = self.ends.after(values.len())?;
            Ok((end, append_all(self.child.as_mut(), values.iter(), context)))
        })?;
        self.ends.push(end, envelope_row.is_ok());
        Ok(envelope_row)
    }
}

/// Structs: the members of a JSON object by name; what it lacks is null, what is not asked for is left out.
pub(super) struct Structs {
    fields: Fields,
    children: Vec<Box<dyn Column>>,
    nulls: Nulls,
    rows: usize,
}

impl Structs {
    pub fn new(fields: Fields, options: &ValueOptions) -> Result<Self, String> {
        if fields.is_empty() {
            return Err("a struct needs at least one field".into());
        }
        let children = fields.iter().map(|field| column(field.data_type(), options)).collect::<Result<_, _>>()?;
        Ok(Structs { fields, children, nulls: Nulls::default(), rows: 0 })
    }

    fn members<'a>(&self, cursor: &mut Cursor<'a>) -> Result<Vec<Value<'a>>> {
        let mut values = vec![Value::Null; self.fields.len()];
        let mut members = cursor.object()?;
        while let Some(key) = cursor.next_key(&mut members)? {
            let value = cursor.value()?;
            let key = key.decode()?;
            let field = self.fields.iter().position(|field| *field.name() == key);
            if let Some(slot) = field.and_then(|at| values.get_mut(at)) {
                *slot = value;
            }
        }
        Ok(values)
    }

    fn append_members(&mut self, values: &[Value<'_>], context: &Context<'_>) -> Result<()> {
        let mut envelope_row = Ok(());
        for (child, value) in self.children.iter_mut().zip(values) {
            envelope_row = envelope_row.and(append_all(child.as_mut(), std::iter::once(value), context));
        }
        envelope_row
    }

    fn end(&mut self, valid: bool) {
        if !valid {
            self.nulls.push(self.rows, 1);
        }
        self.rows += 1;
    }

    fn push(&mut self, value: &Value<'_>, context: &Context<'_>) -> Result<Result<()>> {
        let envelope_row = with_json(value, "JSON object", |cursor| {
            let values = self.members(cursor)?;
            Ok(self.append_members(&values, context))
        })?;
        self.end(envelope_row.is_ok());
        Ok(envelope_row)
    }
}

impl Column for Structs {
    fn read(&mut self, _: &[u8], _: usize) -> Option<usize> {
        None
    }

    fn append(&mut self, value: &Value<'_>, context: &Context<'_>) -> Result<()> {
        if value.is_null() {
            self.push_nulls(1);
            return Ok(());
        }
        self.push(value, context).inspect_err(|_| self.push_nulls(1))?
    }

    fn push_nulls(&mut self, count: usize) {
        self.children.iter_mut().for_each(|child| child.push_nulls(count));
        self.nulls.push(self.rows, count);
        self.rows += count;
    }

    fn copy(&mut self, other: &dyn Column, row: usize) {
        let other = (other as &dyn Any).downcast_ref::<Self>().filter(|other| !other.nulls.contains(row));
        let Some(other) = other else { return self.push_nulls(1) };
        self.children.iter_mut().zip(&other.children).for_each(|(child, other)| child.copy(other.as_ref(), row));
        self.end(true);
    }

    fn truncate(&mut self, rows: usize) {
        self.children.iter_mut().for_each(|child| child.truncate(rows));
        self.nulls.truncate(rows);
        self.rows = rows.min(self.rows);
    }

    fn finish(&mut self, parent: Option<&NullBuffer>) -> Result<ArrayRef, ArrowError> {
        let nulls = self.nulls.finish_within(std::mem::take(&mut self.rows), parent);
        let arrays = self.children.iter_mut().map(|child| child.finish(nulls.as_ref())).collect::<Result<_, _>>()?;
        Ok(Arc::new(StructArray::try_new(self.fields.clone(), arrays, nulls)?))
    }
}

/// Maps: the members of a JSON object. Where a key stands twice, the later one counts, at the place of the first.
pub(super) struct Maps {
    entries: FieldRef,
    fields: Fields,
    keys: Bytes<i32>,
    values: Box<dyn Column>,
    ends: Ends,
}

impl Maps {
    pub fn new(entries: FieldRef, options: &ValueOptions) -> Result<Self, String> {
        let DataType::Struct(fields) = entries.data_type().clone() else {
            return Err("a map's entries must be a struct".into());
        };
        let [key, value] = &*fields else {
            return Err("a map's entries must have a key and a value".into());
        };
        if key.data_type() != &DataType::Utf8 {
            return Err(format!("a map's keys must be strings, not {}", super::spell(key.data_type())));
        }
        let values = column(value.data_type(), options)?;
        Ok(Maps { entries, keys: Bytes::default(), values, ends: Ends::new(), fields })
    }

    fn push(&mut self, value: &Value<'_>, context: &Context<'_>) -> Result<Result<()>> {
        let (end, envelope_row) = with_json(value, "JSON object", |cursor| {
            let members = members(cursor)?;
            let end = self.ends.after(members.len())?;
            let held = self.keys.len();
            let keys = members.iter().try_for_each(|(key, _)| self.keys.push(key.as_bytes()));
            keys.inspect_err(|_| self.keys.truncate(held))?;
            Ok((end, append_all(self.values.as_mut(), members.iter().map(|(_, value)| value), context)))
        })?;
        self.ends.push(end, envelope_row.is_ok());
        Ok(envelope_row)
    }
}

fn members<'a>(cursor: &mut Cursor<'a>) -> Result<Vec<(Cow<'a, str>, Value<'a>)>> {
    let mut found: Vec<(Cow<'a, str>, Value<'a>)> = Vec::new();
    let mut places: HashMap<Cow<'a, str>, usize> = HashMap::new();
    let mut members = cursor.object()?;
    while let Some(key) = cursor.next_key(&mut members)? {
        let (key, value) = (key.decode()?, cursor.value()?);
        match places.get(&key).and_then(|&at| found.get_mut(at)) {
            Some(earlier) => earlier.1 = value,
            None => {
                places.insert(key.clone(), found.len());
                found.push((key, value));
            }
        }
    }
    Ok(found)
}

impl Column for Maps {
    fn read(&mut self, _: &[u8], _: usize) -> Option<usize> {
        None
    }

    fn append(&mut self, value: &Value<'_>, context: &Context<'_>) -> Result<()> {
        if value.is_null() {
            self.ends.push_nulls(1);
            return Ok(());
        }
        self.push(value, context).inspect_err(|_| self.ends.push_nulls(1))?
    }

    fn push_nulls(&mut self, count: usize) {
        self.ends.push_nulls(count);
    }

    fn copy(&mut self, other: &dyn Column, row: usize) {
        let other = (other as &dyn Any).downcast_ref::<Self>();
        let Some((other, entries)) = other.and_then(|other| Some((other, other.ends.get(row)?))) else { return self.push_nulls(1) };
        let Ok(end) = self.ends.after(entries.len()) else { return self.push_nulls(1) };
        for entry in entries {
            self.keys.copy(&other.keys, entry);
            self.values.copy(other.values.as_ref(), entry);
        }
        self.ends.push(end, true);
    }

    fn truncate(&mut self, rows: usize) {
        let entries = self.ends.truncate(rows);
        self.keys.truncate(entries);
        self.values.truncate(entries);
    }

    fn finish(&mut self, parent: Option<&NullBuffer>) -> Result<ArrayRef, ArrowError> {
        let arrays = vec![self.keys.finish_text(None)?, self.values.finish(None)?];
        let (ends, nulls) = self.ends.take(parent);
        let entries = StructArray::try_new(self.fields.clone(), arrays, None)?;
        Ok(Arc::new(MapArray::try_new(self.entries.clone(), ends, entries, nulls, false)?))
    }
}
