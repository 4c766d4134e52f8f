//! Rows whose columns are array elements (river-json). An element has a column's name, type, value, NULL flag, and
//! value before an update.
//!
//! All rows of a table have the same columns in the same order, so names and types are part of the literals. The
//! varying members of an element are optional, and may come in any order.

use std::borrow::Cow;

use super::row_image::{
    Cell, Env, Exact, KeyLiteral, RowPlan, Span, WalkResult, push_value, record_span,
};
use super::scalar::plain_string;
use crate::dialect::OldValue;
use crate::dialect::spec::MayBeEmpty;
use crate::event::Events;
use crate::interner::NameId;
use crate::output::images::Images;
use crate::wire::json::Cursor;

/// Columns of a row, in order.
#[derive(Default)]
pub(super) struct Elements(Vec<Element>);

struct Element {
    /// Bytes between the varying members of the previous element and of this one.
    literal: Exact,
    /// True if empty text is a value of the type. Otherwise it is another spelling of NULL.
    may_be_empty: bool,
}

/// The members that vary between rows. An element's other members come first.
const VARYING_MEMBERS: [&str; 4] = ["v", "null", "updated", "origin_val"];

impl Elements {
    /// Learns the columns of an array, with their names.
    pub fn learn(
        array: &str,
        may_be_empty: MayBeEmpty,
        events: &mut Events<'_>,
    ) -> Option<(Elements, Vec<(KeyLiteral, NameId)>)> {
        let (mut all, mut cells) = (Vec::new(), Vec::new());
        let mut cursor = Cursor::new(array, true);
        let mut elements = cursor.array().ok()?;
        let mut start = 0;
        while cursor.next_element(&mut elements).ok()? {
            let sample = SampleElement::read(&mut cursor)?;
            let literal = Exact::new(array.get(start..sample.end)?.as_bytes());
            all.push(Element {
                literal,
                may_be_empty: may_be_empty(sample.declared.as_deref()),
            });
            let mut name = Cursor::new(sample.name, true);
            let text = name.text().ok()?;
            cells.push((
                KeyLiteral::new(cells.len(), sample.name, text.raw.len()),
                events.keys.intern(text).ok()?,
            ));
            start = cursor.at();
        }
        Some((Elements(all), cells))
    }

    /// Reads a row: its after image, and its before image if requested. Returns the end of the array.
    pub fn read(
        &self,
        at: usize,
        plan: &RowPlan,
        env: &Env<'_>,
        after: &mut ImageWriter<'_>,
        mut before: Option<&mut ImageWriter<'_>>,
    ) -> Option<WalkResult> {
        let text = env.text.as_bytes();
        let mut at = at;
        after.begin_row();
        before.iter_mut().for_each(|before| before.begin_row());
        for (index, (element, cell)) in self.0.iter().zip(plan.cells.iter()).enumerate() {
            let (values, end) = ElementValues::read(element.literal.eat(text, at)?, env)?;
            after.push(plan, (index, cell), values.after(), env)?;
            if let Some(before) = &mut before {
                before.push(
                    plan,
                    (index, cell),
                    values.before(text, element.may_be_empty),
                    env,
                )?;
            }
            at = end;
        }
        after.end_row(plan)?;
        if let Some(before) = before {
            before.end_row(plan)?;
        }
        (text.get(at) == Some(&b']')).then_some(WalkResult {
            end: at + 1,
            is_complete: true,
        })
    }
}

/// Element of the message from which a template is learned.
struct SampleElement<'t> {
    /// Name with its quotes.
    name: &'t str,
    declared: Option<Cow<'t, str>>,
    /// End of the constant members.
    end: usize,
}

impl<'t> SampleElement<'t> {
    fn read(cursor: &mut Cursor<'t>) -> Option<Self> {
        let (mut name, mut declared, mut end) = (None, None, None);
        let mut seen = Vec::new();
        let mut last = 0;
        let mut members = cursor.object().ok()?;
        while let Some(key) = cursor.next_key(&mut members).ok()? {
            // The ordinary reader handles duplicate or escaped names.
            if key.escaped || seen.contains(&key.raw) {
                return None;
            }
            seen.push(key.raw);
            let is_end = end.is_some();
            match key.raw {
                member if VARYING_MEMBERS.contains(&member) => {
                    end.get_or_insert(last);
                    cursor.skip().ok()?;
                }
                _ if is_end => return None,
                "n" => {
                    cursor.peek();
                    let start = cursor.at();
                    cursor.text().ok()?;
                    name = Some(cursor.since(start));
                }
                "t" => declared = cursor.optional_text().ok()?,
                _ => cursor.skip().ok()?,
            }
            last = cursor.at();
        }
        Some(SampleElement {
            name: name?,
            declared,
            end: end.unwrap_or(last),
        })
    }
}

/// Start and end of a value in the message.
pub(super) type ValueRange = (usize, usize);

/// Bit flags of the varying members.
const VALUE: u8 = 1;
const NULL: u8 = 2;
const UPDATED: u8 = 4;
const ORIGIN: u8 = 8;

/// Values of an element. JSON null is `None`.
#[derive(Default)]
struct ElementValues {
    value: Option<ValueRange>,
    origin: Option<ValueRange>,
    is_null: bool,
    updated: bool,
}

impl ElementValues {
    /// Reads the members from `at` on. Returns the values with the element's end.
    #[inline]
    fn read(at: usize, env: &Env<'_>) -> Option<(ElementValues, usize)> {
        let text = env.text.as_bytes();
        let mut values = ElementValues::default();
        if !text.get(at..)?.starts_with(b",\"v\":") {
            return values.read_unordered(at, 0, env);
        }
        let at = read_range(at + 5, &mut values.value, env)?;
        let rest = text.get(at..)?;
        // After most values, one comparison covers the rest.
        const COMMON: [&[u8]; 2] = [b",\"null\":false}", b",\"null\":false,\"updated\":false}"];
        match () {
            () if rest.starts_with(COMMON[0]) => Some((values, at + COMMON[0].len())),
            () if rest.starts_with(COMMON[1]) => Some((values, at + COMMON[1].len())),
            () => values.read_unordered(at, VALUE, env),
        }
    }

    /// Reads the remaining members in any order. `seen` has the members that were already read.
    #[inline(never)]
    fn read_unordered(
        mut self,
        mut at: usize,
        mut seen: u8,
        env: &Env<'_>,
    ) -> Option<(ElementValues, usize)> {
        let text = env.text.as_bytes();
        loop {
            let rest = text.get(at..)?;
            let (member, length) = match rest {
                [b'}', ..] => return Some((self, at + 1)),
                _ if rest.starts_with(b",\"v\":") => (VALUE, 5),
                _ if rest.starts_with(b",\"null\":") => (NULL, 8),
                _ if rest.starts_with(b",\"updated\":") => (UPDATED, 11),
                _ if rest.starts_with(b",\"origin_val\":") => (ORIGIN, 14),
                _ => return None,
            };
            // The ordinary reader resolves duplicate members.
            if seen & member != 0 {
                return None;
            }
            seen |= member;
            at += length;
            at = match member {
                VALUE => read_range(at, &mut self.value, env)?,
                NULL => boolean(text, at, &mut self.is_null)?,
                UPDATED => boolean(text, at, &mut self.updated)?,
                _ => read_range(at, &mut self.origin, env)?,
            };
        }
    }

    #[inline]
    fn after(&self) -> Option<ValueRange> {
        if self.is_null { None } else { self.value }
    }

    #[inline]
    fn before(&self, text: &[u8], may_be_empty: bool) -> Option<ValueRange> {
        let is_empty = self
            .origin
            .map(|(start, end)| end - start == 2 && text.get(start) == Some(&b'"'));
        match OldValue::of(is_empty, self.updated, || may_be_empty) {
            OldValue::Null => None,
            OldValue::Unchanged => self.after(),
            OldValue::Origin => self.origin,
        }
    }
}

/// Stores the range of the value at `at`, unless it is null. Returns the value's end.
#[inline]
pub(super) fn read_range(
    at: usize,
    range: &mut Option<ValueRange>,
    env: &Env<'_>,
) -> Option<usize> {
    let text = env.text.as_bytes();
    let end = match plain_string(text, at) {
        Some((_, end)) => end,
        // After white space, the first byte does not tell the value's kind.
        None if *text.get(at)? <= b' ' => return None,
        None => env.skip(at)?,
    };
    if text.get(at) != Some(&b'n') {
        *range = Some((at, end));
    }
    Some(end)
}

/// Reads a boolean. Returns its end.
#[inline]
fn boolean(text: &[u8], at: usize, flag: &mut bool) -> Option<usize> {
    let rest = text.get(at..)?;
    *flag = rest.starts_with(b"true");
    match flag {
        true => Some(at + 4),
        false => rest.starts_with(b"false").then_some(at + 5),
    }
}

/// Writer of a row's values to an image.
pub(super) struct ImageWriter<'i> {
    pub images: &'i mut Images,
    /// Spans of the values, if requested. Null has an empty span, which differs from every value's span.
    pub spans: Option<&'i mut Vec<Span>>,
}

impl ImageWriter<'_> {
    /// Starts a row.
    pub fn begin_row(&mut self) {
        if let Images::Table(table) = self.images {
            table.begin_row();
        }
    }

    /// Appends a value of the row, or null.
    #[inline]
    #[allow(
        clippy::indexing_slicing,
        reason = "cells know the columns of the table"
    )]
    pub fn push(
        &mut self,
        plan: &RowPlan,
        (index, cell): (usize, &Cell),
        value: Option<ValueRange>,
        env: &Env<'_>,
    ) -> Option<()> {
        let (start, end) = value.unwrap_or_default();
        record_span(&mut self.spans, index, start, end);
        match (&mut *self.images, value) {
            (Images::Table(_), _) if cell.converter.is_none() => {}
            (_, Some(_)) if plan.has_unread_object(start, env) => return None,
            (Images::None, _) => {}
            (Images::Table(table), Some(_)) => {
                plan.cell(cell, start, &mut table.columns, env)?;
            }
            (Images::Table(table), None) => table.columns[cell.column()?].push_nulls(1),
            (Images::Map(map), Some(_)) => drop(push_value(start, map, env)?),
            (Images::Map(map), None) => map.values.push_nulls(1),
        }
        Some(())
    }

    /// Ends a row that has each name of the plan.
    #[allow(clippy::indexing_slicing, reason = "absent columns are the table's")]
    pub fn end_row(&mut self, plan: &RowPlan) -> Option<()> {
        match self.images {
            Images::None => {}
            Images::Table(table) => {
                for column in &plan.absent {
                    table.columns[*column].push_nulls(1);
                }
                table.end_row();
            }
            Images::Map(map) => {
                plan.push_names(plan.cells.iter().count(), map)?;
                map.end_row();
            }
        }
        Some(())
    }
}
