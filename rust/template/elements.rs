//! A row whose columns are the elements of an array, as river-json writes it: each says its name, its type, its value, whether that
//! is null, and what was there before an update.
//!
//! A table's rows have the same columns in the same order, so that the names and types are compared in one go with what stands
//! around them. The other members of an element may be left out, and stand in any order.

use std::borrow::Cow;

use super::row::{Cell, Env, Exact, Literal, RowPlan, Span, Walked, note, push_value};
use super::scalar::plain_string;
use crate::dialect::Was;
use crate::dialect::spec::MayBeEmpty;
use crate::event::Events;
use crate::output::images::Images;
use crate::wire::json::Cursor;

/// The columns of a row, in their order.
#[derive(Default)]
pub(super) struct Elements(Vec<Element>);

struct Element {
    /// What stands between the members that differ and those of the element before.
    literal: Exact,
    /// Whether empty text is a value of the type, or only another way to write NULL.
    may_be_empty: bool,
}

/// The members that differ from row to row; what else an element has stands before them.
const MEMBERS: [&str; 4] = ["v", "null", "updated", "origin_val"];

impl Elements {
    /// The columns of an array, with their names.
    pub fn learn(array: &str, may_be_empty: MayBeEmpty, events: &mut Events<'_, '_, '_>) -> Option<(Elements, Vec<(Literal, Cell)>)> {
        let (mut all, mut cells) = (Vec::new(), Vec::new());
        let mut cursor = Cursor::new(array, true);
        let mut elements = cursor.array().ok()?;
        let mut start = 0;
        while cursor.next_element(&mut elements).ok()? {
            let learnt = Learnt::read(&mut cursor)?;
            let literal = Exact::new(array.get(start..learnt.end)?.as_bytes());
            all.push(Element { literal, may_be_empty: may_be_empty(learnt.declared.as_deref()) });
            let mut name = Cursor::new(learnt.name, true);
            let text = name.text().ok()?;
            cells.push((Literal::new(cells.len(), learnt.name, text.raw.len()), Cell::new(text, events)?));
            start = cursor.at();
        }
        Some((Elements(all), cells))
    }

    /// Reads a row: its values, and those that were there before, where anybody wants them. Returns where the array ends.
    pub fn read(&self, at: usize, plan: &RowPlan, env: &Env<'_, '_>, now: &mut Side<'_>, mut was: Option<&mut Side<'_>>) -> Option<Walked> {
        let text = env.text.as_bytes();
        let mut at = at;
        now.begin();
        was.iter_mut().for_each(|was| was.begin());
        for (index, (element, cell)) in self.0.iter().zip(plan.cells.iter()).enumerate() {
            let (found, end) = Found::read(element.literal.eat(text, at)?, env)?;
            now.push(plan, (index, cell), found.now(), env)?;
            if let Some(was) = &mut was {
                was.push(plan, (index, cell), found.was(text, element.may_be_empty), env)?;
            }
            at = end;
        }
        now.end(plan)?;
        was.map_or(Some(()), |was| was.end(plan))?;
        (text.get(at) == Some(&b']')).then_some(Walked { end: at + 1, is_ordered: true, is_complete: true })
    }
}

/// An element of the message that a template is made of.
struct Learnt<'t> {
    /// With its quotes.
    name: &'t str,
    declared: Option<Cow<'t, str>>,
    /// Where the members end that do not differ.
    end: usize,
}

impl<'t> Learnt<'t> {
    fn read(cursor: &mut Cursor<'t>) -> Option<Self> {
        let (mut name, mut declared, mut end) = (None, None, None);
        let mut seen = Vec::new();
        let mut last = 0;
        let mut members = cursor.object().ok()?;
        while let Some(key) = cursor.next_key(&mut members).ok()? {
            // A name that stands twice, or is written in another way, is for the ordinary reader.
            if key.escaped || seen.contains(&key.raw) {
                return None;
            }
            seen.push(key.raw);
            let is_end = end.is_some();
            match key.raw {
                member if MEMBERS.contains(&member) => {
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
        Some(Learnt { name: name?, declared, end: end.unwrap_or(last) })
    }
}

/// Where a value is written, and where it ends.
pub(super) type ValuePlace = (usize, usize);

/// The members that differ, a bit each.
const VALUE: u8 = 1;
const NULL: u8 = 2;
const UPDATED: u8 = 4;
const ORIGIN: u8 = 8;

/// What an element says of its values. Null is none.
#[derive(Default)]
struct Found {
    value: Option<ValuePlace>,
    origin: Option<ValuePlace>,
    is_null: bool,
    updated: bool,
}

impl Found {
    /// Reads the members from the one at `at` on, and returns where the element ends.
    #[inline]
    fn read(at: usize, env: &Env<'_, '_>) -> Option<(Found, usize)> {
        let text = env.text.as_bytes();
        let mut found = Found::default();
        if !text.get(at..)?.starts_with(b",\"v\":") {
            return found.others(at, 0, env);
        }
        let at = place(at + 5, &mut found.value, env)?;
        let rest = text.get(at..)?;
        // Most values are followed by one of these, and in one comparison.
        const USUAL: [&[u8]; 2] = [b",\"null\":false}", b",\"null\":false,\"updated\":false}"];
        match () {
            () if rest.starts_with(USUAL[0]) => Some((found, at + USUAL[0].len())),
            () if rest.starts_with(USUAL[1]) => Some((found, at + USUAL[1].len())),
            () => found.others(at, VALUE, env),
        }
    }

    /// Reads the members in any order, without those that were `seen`.
    #[inline(never)]
    fn others(mut self, mut at: usize, mut seen: u8, env: &Env<'_, '_>) -> Option<(Found, usize)> {
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
            // Of members that stand twice the ordinary reader knows which one counts.
            if seen & member != 0 {
                return None;
            }
            seen |= member;
            at += length;
            at = match member {
                VALUE => place(at, &mut self.value, env)?,
                NULL => boolean(text, at, &mut self.is_null)?,
                UPDATED => boolean(text, at, &mut self.updated)?,
                _ => place(at, &mut self.origin, env)?,
            };
        }
    }

    #[inline]
    fn now(&self) -> Option<ValuePlace> {
        self.value.filter(|_| !self.is_null)
    }

    #[inline]
    fn was(&self, text: &[u8], may_be_empty: bool) -> Option<ValuePlace> {
        let is_empty = self.origin.map(|(start, end)| end - start == 2 && text.get(start) == Some(&b'"'));
        match Was::of(is_empty, self.updated, || may_be_empty) {
            Was::Null => None,
            Was::AsNow => self.now(),
            Was::Origin => self.origin,
        }
    }
}

/// Notes where the value at `at` is, unless it is null, and returns where it ends.
#[inline]
pub(super) fn place(at: usize, found: &mut Option<ValuePlace>, env: &Env<'_, '_>) -> Option<usize> {
    let text = env.text.as_bytes();
    let end = match plain_string(text, at) {
        Some((_, end)) => end,
        // Behind white space it could not be told what the value is.
        None if *text.get(at)? <= b' ' => return None,
        None => env.skip(at)?,
    };
    if text.get(at) != Some(&b'n') {
        *found = Some((at, end));
    }
    Some(end)
}

/// Reads a flag, and returns where it ends.
#[inline]
fn boolean(text: &[u8], at: usize, found: &mut bool) -> Option<usize> {
    let rest = text.get(at..)?;
    *found = rest.starts_with(b"true");
    match found {
        true => Some(at + 4),
        false => rest.starts_with(b"false").then_some(at + 5),
    }
}

/// The image that a row's values go to.
pub(super) struct Side<'i> {
    pub images: &'i mut Images,
    /// Where the values are, if anybody wants to know. Null has no bytes, and so it is like no other value.
    pub spans: Option<&'i mut Vec<Span>>,
}

impl Side<'_> {
    /// Begins a row.
    pub fn begin(&mut self) {
        if let Images::Table(table) = self.images {
            table.begin_row();
        }
    }

    /// Appends a value of the row, or null.
    #[inline]
    pub fn push(&mut self, plan: &RowPlan, (index, cell): (usize, &Cell), value: Option<ValuePlace>, env: &Env<'_, '_>) -> Option<()> {
        let (start, end) = value.unwrap_or_default();
        note(&mut self.spans, index, start, end);
        match (&mut *self.images, value) {
            (Images::None, _) => {}
            (Images::Table(_), _) if cell.column.is_none() => {}
            (Images::Table(table), Some(_)) => drop(plan.cell(cell, start, &mut table.columns, env)?),
            (Images::Table(table), None) => table.columns.get_mut(cell.column?)?.push_nulls(1),
            (Images::Map(map), Some(_)) => drop(push_value(start, map, env)?),
            (Images::Map(map), None) => map.values.push_nulls(1),
        }
        Some(())
    }

    /// Ends a row that has each name of the plan.
    pub fn end(&mut self, plan: &RowPlan) -> Option<()> {
        match self.images {
            Images::None => {}
            Images::Table(table) => {
                for column in &plan.absent {
                    table.columns.get_mut(*column)?.push_nulls(1);
                }
                table.end_row();
            }
            Images::Map(map) => {
                plan.push_names(plan.cells.iter().count(), map)?;
                map.end_row(true);
            }
        }
        Some(())
    }
}
