//! Builders of arrays, maps and structs from JSON columns.
//!
//! A JSON value is parsed completely before any part of it is appended. So child lengths always match the parent's
//! offsets.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::types::Utf8Type;
use arrow_array::{ArrayRef, ListArray, MapArray, StructArray};
use arrow_buffer::NullBuffer;
use arrow_schema::{ArrowError, DataType, FieldRef, Fields};
use hashbrown::HashMap;

use super::bytes::Bytes;
use super::nulls::Nulls;
use super::offsets::Offsets;
use super::{ColumnBuilder, Context, ValueOptions, conversion_fault, make_builder};
use crate::error::{Fault, Kind, Result};
use crate::mysql::number::ParseError;
use crate::value::Value;
use crate::wire::json::Cursor;

/// Parses the JSON text of a value. Broken JSON or another form is a type error of the value. Its byte positions are
/// not offsets in the message.
fn with_json<T>(
    value: &Value<'_>,
    target: &str,
    read: impl FnOnce(&mut Cursor<'_>) -> Result<T>,
) -> Result<T> {
    let (Value::Nested(_) | Value::Text(_) | Value::Escaped(_)) = value else {
        return Err(conversion_fault(value, ParseError::Type, target));
    };
    let text = value.text()?;
    // Validate the whole text before any part of it is appended.
    let mut check = Cursor::new(&text, false);
    let checked = check.skip().and_then(|()| {
        if check.peek().is_none() {
            Ok(())
        } else {
            Err(check.unexpected("the end"))
        }
    });
    checked
        .and_then(|()| read(&mut Cursor::new(&text, false)))
        .map_err(|fault| {
            let parts = fault.into_parts();
            if parts.kind == Kind::Syntax {
                conversion_fault(value, ParseError::Type, target)
            } else {
                Fault::new(parts.kind, parts.what)
            }
        })
}

/// Appends values to a child. Returns the first conversion error.
fn append_all<'v, 'a: 'v>(
    child: &mut dyn ColumnBuilder,
    values: impl Iterator<Item = &'v Value<'a>>,
    context: &Context,
) -> Result<()> {
    let context = context.inner();
    values
        .map(|value| child.append(value, &context))
        .reduce(Result::and)
        .unwrap_or(Ok(()))
}

/// Returns the number of elements including another row's, unless it overflows.
fn next_end(offsets: &Offsets, length: usize) -> Result<usize> {
    let end = offsets
        .end()
        .checked_add(length)
        .filter(|end| i32::try_from(*end).is_ok());
    end.ok_or_else(|| Fault::new(Kind::Size, Offsets::too_large()))
}

pub(super) struct Lists {
    item: FieldRef,
    child: Box<dyn ColumnBuilder>,
    offsets: Offsets,
}

impl Lists {
    pub fn new(item: FieldRef, options: &ValueOptions) -> Result<Self, String> {
        let child = make_builder(item.data_type(), options)?;
        Ok(Lists {
            item,
            child,
            offsets: Offsets::default(),
        })
    }
}

/// Returns the elements of a JSON array.
pub(super) fn elements<'a>(cursor: &mut Cursor<'a>) -> Result<Vec<Value<'a>>> {
    let mut values = Vec::new();
    let mut elements = cursor.array()?;
    while cursor.next_element(&mut elements)? {
        values.push(cursor.value()?);
    }
    Ok(values)
}

impl ColumnBuilder for Lists {
    fn push(&mut self, value: &Value<'_>, context: &Context) -> Result<()> {
        let (end, outcome) = with_json(value, "JSON array", |cursor| {
            let values = elements(cursor)?;
            let end = next_end(&self.offsets, values.len())?;
            Ok((end, append_all(self.child.as_mut(), values.iter(), context)))
        })?;
        outcome.inspect_err(|_| self.child.truncate(self.offsets.end()))?;
        self.offsets.push(end);
        Ok(())
    }

    fn push_nulls(&mut self, count: usize) {
        self.offsets.push_nulls(count);
    }

    fn truncate(&mut self, rows: usize) {
        let elements = self.offsets.truncate(rows);
        self.child.truncate(elements);
    }

    fn bytes(&self) -> usize {
        self.offsets.bytes() + self.child.bytes()
    }

    fn zero_dates(&self, rows: Range<usize>) -> usize {
        self.child.zero_dates(self.offsets.elements(rows))
    }

    fn finish(&mut self, parent: Option<&NullBuffer>) -> Result<ArrayRef, ArrowError> {
        let (offsets, nulls) = self.offsets.take(parent)?;
        Ok(Arc::new(ListArray::try_new(
            self.item.clone(),
            offsets,
            self.child.finish(None)?,
            nulls,
        )?))
    }
}

/// Builder of structs from JSON objects, by field name. Missing members are null, and other members are ignored.
pub(super) struct Structs {
    fields: Fields,
    children: Vec<Box<dyn ColumnBuilder>>,
    nulls: Nulls,
    rows: usize,
}

impl Structs {
    pub fn new(fields: Fields, options: &ValueOptions) -> Result<Self, String> {
        if fields.is_empty() {
            return Err("a struct needs at least one field".into());
        }
        let children = fields
            .iter()
            .map(|field| make_builder(field.data_type(), options))
            .collect::<Result<_, _>>()?;
        Ok(Structs {
            fields,
            children,
            nulls: Nulls::default(),
            rows: 0,
        })
    }

    #[allow(clippy::indexing_slicing, reason = "each field has a value")]
    fn members<'a>(&self, cursor: &mut Cursor<'a>) -> Result<Vec<Value<'a>>> {
        let mut values = vec![Value::Null; self.fields.len()];
        let mut members = cursor.object()?;
        while let Some(key) = cursor.next_key(&mut members)? {
            let value = cursor.value()?;
            let key = key.decode()?;
            let field = self.fields.iter().position(|field| *field.name() == key);
            if let Some(at) = field {
                values[at] = value;
            }
        }
        Ok(values)
    }
}

impl ColumnBuilder for Structs {
    fn push(&mut self, value: &Value<'_>, context: &Context) -> Result<()> {
        let outcome = with_json(value, "JSON object", |cursor| {
            let (values, context) = (self.members(cursor)?, context.inner());
            let members = self.children.iter_mut().zip(&values);
            Ok(members
                .map(|(child, value)| child.append(value, &context))
                .reduce(Result::and)
                .unwrap_or(Ok(())))
        })?;
        outcome.inspect_err(|_| self.truncate(self.rows))?;
        self.rows += 1;
        Ok(())
    }

    fn push_nulls(&mut self, count: usize) {
        self.children
            .iter_mut()
            .for_each(|child| child.push_nulls(count));
        self.nulls.push(self.rows, count);
        self.rows += count;
    }

    fn truncate(&mut self, rows: usize) {
        self.children
            .iter_mut()
            .for_each(|child| child.truncate(rows));
        self.nulls.truncate(rows);
        self.rows = rows.min(self.rows);
    }

    fn bytes(&self) -> usize {
        self.children.iter().map(|child| child.bytes()).sum()
    }

    fn zero_dates(&self, rows: Range<usize>) -> usize {
        self.children
            .iter()
            .map(|child| child.zero_dates(rows.clone()))
            .sum()
    }

    fn finish(&mut self, parent: Option<&NullBuffer>) -> Result<ArrayRef, ArrowError> {
        let nulls = self
            .nulls
            .finish_with_parent(std::mem::take(&mut self.rows), parent);
        let arrays = self
            .children
            .iter_mut()
            .map(|child| child.finish(nulls.as_ref()))
            .collect::<Result<_, _>>()?;
        Ok(Arc::new(StructArray::try_new(
            self.fields.clone(),
            arrays,
            nulls,
        )?))
    }
}

/// Builder of maps from JSON objects. The last value of a duplicate key wins, at the position of the first.
pub(super) struct Maps {
    entries: FieldRef,
    fields: Fields,
    keys: Bytes<i32>,
    values: Box<dyn ColumnBuilder>,
    offsets: Offsets,
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
            return Err(format!(
                "a map's keys must be strings, not {}",
                super::spell(key.data_type())
            ));
        }
        let values = make_builder(value.data_type(), options)?;
        Ok(Maps {
            entries,
            keys: Bytes::default(),
            values,
            offsets: Offsets::default(),
            fields,
        })
    }

    fn truncate_entries(&mut self, entries: usize) {
        self.keys.truncate(entries);
        self.values.truncate(entries);
    }
}

#[allow(
    clippy::indexing_slicing,
    reason = "`positions` has indices of `found`"
)]
fn members<'a>(cursor: &mut Cursor<'a>) -> Result<Vec<(Cow<'a, str>, Value<'a>)>> {
    let mut found: Vec<(Cow<'a, str>, Value<'a>)> = Vec::new();
    let mut positions: HashMap<Cow<'a, str>, usize> = HashMap::new();
    let mut members = cursor.object()?;
    while let Some(key) = cursor.next_key(&mut members)? {
        let (key, value) = (key.decode()?, cursor.value()?);
        match positions.get(&key) {
            Some(&at) => found[at].1 = value,
            None => {
                positions.insert(key.clone(), found.len());
                found.push((key, value));
            }
        }
    }
    Ok(found)
}

impl ColumnBuilder for Maps {
    fn push(&mut self, value: &Value<'_>, context: &Context) -> Result<()> {
        let appended = with_json(value, "JSON object", |cursor| {
            let members = members(cursor)?;
            let end = next_end(&self.offsets, members.len())?;
            members
                .iter()
                .try_for_each(|(key, _)| self.keys.push(key.as_bytes()))?;
            Ok(append_all(
                self.values.as_mut(),
                members.iter().map(|(_, value)| value),
                context,
            )
            .map(|()| end))
        });
        let end = appended
            .flatten()
            .inspect_err(|_| self.truncate_entries(self.offsets.end()))?;
        self.offsets.push(end);
        Ok(())
    }

    fn push_nulls(&mut self, count: usize) {
        self.offsets.push_nulls(count);
    }

    fn truncate(&mut self, rows: usize) {
        let entries = self.offsets.truncate(rows);
        self.truncate_entries(entries);
    }

    fn bytes(&self) -> usize {
        self.offsets.bytes() + self.keys.size() + self.values.bytes()
    }

    fn zero_dates(&self, rows: Range<usize>) -> usize {
        self.values.zero_dates(self.offsets.elements(rows))
    }

    fn finish(&mut self, parent: Option<&NullBuffer>) -> Result<ArrayRef, ArrowError> {
        let arrays = vec![
            self.keys.finish::<Utf8Type>(None)?,
            self.values.finish(None)?,
        ];
        let (offsets, nulls) = self.offsets.take(parent)?;
        let entries = StructArray::try_new(self.fields.clone(), arrays, None)?;
        Ok(Arc::new(MapArray::try_new(
            self.entries.clone(),
            offsets,
            entries,
            nulls,
            false,
        )?))
    }
}
