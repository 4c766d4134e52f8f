//! Arrays, maps and structs of JSON columns.
//!
//! A JSON value is read as a whole before any of it is appended, so that a child column never has more or fewer values
//! than its parent says.

use std::borrow::Cow;
use std::sync::Arc;

use arrow_array::builder::{NullBufferBuilder, StringBuilder};
use arrow_array::{ArrayRef, ListArray, MapArray, StructArray};
use arrow_buffer::OffsetBuffer;
use arrow_schema::{DataType, FieldRef, Fields};
use hashbrown::HashMap;

use super::{Column, Context, ValueOptions, check_size, column, refused};
use crate::error::{Fault, Kind, Result};
use crate::event::Value;
use crate::mysql::number::Refusal;
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
    let mut outcome = Ok(());
    for value in values {
        outcome = outcome.and(child.append(value, &context.inner()));
    }
    outcome
}

/// Ends of the values of a list or map.
struct Offsets(Vec<i32>);

impl Offsets {
    fn new() -> Self {
        Offsets(vec![0])
    }

    fn last(&self) -> i32 {
        self.0.last().copied().unwrap_or(0)
    }

    fn push(&mut self, end: i32) {
        self.0.push(end);
    }

    /// Adds a value with `length` elements, if they can be counted.
    fn extend(&mut self, length: usize) -> Result<()> {
        let end = i32::try_from(length).ok().and_then(|length| self.last().checked_add(length));
        self.push(end.ok_or_else(|| {
            Fault::new(Kind::Size, format!("the batch's elements would exceed {}; decode fewer messages at once", i32::MAX))
        })?);
        Ok(())
    }

    fn take(&mut self) -> OffsetBuffer<i32> {
        OffsetBuffer::new(std::mem::replace(&mut self.0, vec![0]).into())
    }
}

pub(super) struct Lists {
    item: FieldRef,
    child: Box<dyn Column>,
    offsets: Offsets,
    nulls: NullBufferBuilder,
}

impl Lists {
    pub fn new(item: FieldRef, options: &ValueOptions) -> Result<Self, String> {
        let child = column(item.data_type(), options)?;
        Ok(Lists { item, child, offsets: Offsets::new(), nulls: NullBufferBuilder::new(0) })
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
    fn append(&mut self, value: &Value<'_>, context: &Context<'_>) -> Result<()> {
        if value.is_null() {
            self.push_null();
            return Ok(());
        }
        self.push(value, context).inspect_err(|_| self.push_null())?
    }

    fn finish(&mut self) -> ArrayRef {
        Arc::new(ListArray::new(self.item.clone(), self.offsets.take(), self.child.finish(), self.nulls.finish()))
    }
}

impl Lists {
    fn push_null(&mut self) {
        self.offsets.push(self.offsets.last());
        self.nulls.append_null();
    }

    /// The outer result tells whether anything was appended, the inner one whether all of it could be converted. If not,
    /// the elements stay where they are, behind a null.
    fn push(&mut self, value: &Value<'_>, context: &Context<'_>) -> Result<Result<()>> {
        let outcome = with_json(value, "JSON array", |cursor| {
            let values = elements(cursor)?;
            self.offsets.extend(values.len())?;
            Ok(append_all(self.child.as_mut(), values.iter(), context))
        })?;
        self.nulls.append(outcome.is_ok());
        Ok(outcome)
    }
}

/// Structs: the members of a JSON object by name; what it lacks is null, what is not asked for is left out.
pub(super) struct Structs {
    fields: Fields,
    children: Vec<Box<dyn Column>>,
    nulls: NullBufferBuilder,
}

impl Structs {
    pub fn new(fields: Fields, options: &ValueOptions) -> Result<Self, String> {
        let children = fields.iter().map(|field| column(field.data_type(), options)).collect::<Result<_, _>>()?;
        Ok(Structs { fields, children, nulls: NullBufferBuilder::new(0) })
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
        let mut outcome = Ok(());
        for (child, value) in self.children.iter_mut().zip(values) {
            outcome = outcome.and(append_all(child.as_mut(), std::iter::once(value), context));
        }
        outcome
    }

    fn push_null(&mut self, context: &Context<'_>) {
        let nulls = vec![Value::Null; self.fields.len()];
        // Nulls can always be appended.
        drop(self.append_members(&nulls, context));
        self.nulls.append_null();
    }

    fn push(&mut self, value: &Value<'_>, context: &Context<'_>) -> Result<Result<()>> {
        let outcome = with_json(value, "JSON object", |cursor| {
            let values = self.members(cursor)?;
            Ok(self.append_members(&values, context))
        })?;
        self.nulls.append(outcome.is_ok());
        Ok(outcome)
    }
}

impl Column for Structs {
    fn append(&mut self, value: &Value<'_>, context: &Context<'_>) -> Result<()> {
        if value.is_null() {
            self.push_null(context);
            return Ok(());
        }
        self.push(value, context).inspect_err(|_| self.push_null(context))?
    }

    fn finish(&mut self) -> ArrayRef {
        let arrays = self.children.iter_mut().map(|child| child.finish()).collect();
        Arc::new(StructArray::new(self.fields.clone(), arrays, self.nulls.finish()))
    }
}

/// Maps: the members of a JSON object. Where a key stands twice, the later one counts, at the place of the first.
pub(super) struct Maps {
    entries: FieldRef,
    fields: Fields,
    keys: StringBuilder,
    values: Box<dyn Column>,
    offsets: Offsets,
    nulls: NullBufferBuilder,
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
        Ok(Maps { entries, keys: StringBuilder::new(), values, offsets: Offsets::new(), nulls: NullBufferBuilder::new(0), fields })
    }

    fn push_null(&mut self) {
        self.offsets.push(self.offsets.last());
        self.nulls.append_null();
    }

    fn push(&mut self, value: &Value<'_>, context: &Context<'_>) -> Result<Result<()>> {
        let outcome = with_json(value, "JSON object", |cursor| {
            let members = members(cursor)?;
            let bytes = members.iter().map(|(key, _)| key.len()).sum();
            check_size::<i32>(self.keys.values_slice().len(), bytes)?;
            self.offsets.extend(members.len())?;
            members.iter().for_each(|(key, _)| self.keys.append_value(key));
            Ok(append_all(self.values.as_mut(), members.iter().map(|(_, value)| value), context))
        })?;
        self.nulls.append(outcome.is_ok());
        Ok(outcome)
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
    fn append(&mut self, value: &Value<'_>, context: &Context<'_>) -> Result<()> {
        if value.is_null() {
            self.push_null();
            return Ok(());
        }
        self.push(value, context).inspect_err(|_| self.push_null())?
    }

    fn finish(&mut self) -> ArrayRef {
        let arrays: Vec<ArrayRef> = vec![Arc::new(self.keys.finish()), self.values.finish()];
        let entries = StructArray::new(self.fields.clone(), arrays, None);
        Arc::new(MapArray::new(self.entries.clone(), self.offsets.take(), entries, self.nulls.finish(), false))
    }
}
