//! Making a template of a message.

use hashbrown::HashSet;

use super::elements::Elements;
use super::row::{Cell, Exact, Literal, Names, RowPlan};
use super::{Part, Template};
use crate::dialect::spec::{Before, FlatMember, Hole, MayBeEmpty, TemplateSpec};
use crate::dialect::{Dialect, is_mark_of_other};
use crate::event::{Envelope, Events, Op};
use crate::output::images::Images;
use crate::output::plan::Plan;
use crate::output::row::TableEnvelope;
use crate::wire::json::{Cursor, Text};

/// What is cut out of a message.
struct Cut<'t> {
    text: &'t str,
    spec: &'static TemplateSpec,
    dialect: &'static Dialect,
    /// Whether declared types are asked for; else their order does not matter.
    wants_types: bool,
    parts: Vec<Part>,
    /// Where the bytes begin that belong to the next part.
    from: usize,
    row: Option<&'t str>,
    /// The columns of the row, where they stand side by side.
    columns: Option<(&'t str, MayBeEmpty)>,
    /// The names of the row that the message is itself, each with its colon.
    flat: Vec<(&'t str, Text<'t>)>,
    /// Whether there are rows before the change.
    has_before: bool,
    types: (&'t str, Vec<Literal>),
}

/// How deep the members are nested that holes can be in.
const MOST_LEVELS: u32 = 4;

/// The template of a message that the ordinary reader has read, with the envelope that it found. Its table is not asked for yet.
pub(super) fn learn(
    text: &str,
    dialect: &'static Dialect,
    op: Op,
    envelope: &Envelope<'_>,
    plan: &Plan,
    images: &[Images],
    events: &mut Events<'_, '_, '_>,
) -> Option<Template> {
    let spec = dialect.template?;
    let wants_types = events.wants.types;
    let (parts, types) = (Vec::new(), ("", Vec::new()));
    let mut cut =
        Cut { text, spec, dialect, wants_types, parts, from: 0, row: None, columns: None, flat: Vec::new(), has_before: false, types };
    let mut cursor = Cursor::new(text, false);
    match spec.flat.filter(|members| is_flat(text, *members)) {
        Some(members) => cut.flat(&mut cursor, members)?,
        None => cut.object(&mut cursor, "", MOST_LEVELS)?,
    }
    let tail = Exact::new(text.get(cut.from..cursor.at())?.as_bytes());
    let is_flat = !cut.flat.is_empty();
    let (elements, cells) = match cut.columns {
        Some((columns, may_be_empty)) => Elements::learn(columns, may_be_empty, events)?,
        None if is_flat => (Elements::default(), flat_cells(&cut.flat, events)?),
        None => (Elements::default(), cells(cut.row?, events)?),
    };
    let row = row_plan(cells, envelope, plan, images, events)?;
    let are_updates = cut.are_updates(op);
    let (whole, types) = cut.types;
    let names = envelope.primary_key.clone().and_then(|names| events.names.get(names));
    Some(Template {
        spec,
        parts: cut.parts,
        tail,
        row,
        elements,
        is_flat,
        types: (Exact::new(whole.as_bytes()), Names::new(types.into_iter().map(|literal| (literal, ())).collect())),
        envelope: TableEnvelope { envelope: envelope.shared(), primary_key: names.map(Into::into) },
        passes: false,
        are_updates,
        is_of_use: false,
        tries: 0,
    })
}

impl<'t> Cut<'t> {
    /// Cuts an object whose members have this path before their names.
    fn object(&mut self, cursor: &mut Cursor<'t>, path: &str, levels: u32) -> Option<()> {
        let mut seen = HashSet::new();
        let mut members = cursor.object().ok()?;
        while let Some(name) = cursor.next_key(&mut members).ok()? {
            // A name that stands twice, or is written in another way, is for the ordinary reader.
            if name.escaped || !seen.insert(name.raw) {
                return None;
            }
            self.member(cursor, &format!("{path}{}", name.raw), name.raw, levels)?;
        }
        Some(())
    }

    /// Cuts a message that is a row itself.
    fn flat(&mut self, cursor: &mut Cursor<'t>, of: fn(&str) -> FlatMember) -> Option<()> {
        let mut seen = HashSet::new();
        let mut members = cursor.object().ok()?;
        while cursor.next_member(&mut members).ok()? {
            cursor.peek();
            let start = cursor.at();
            let name = cursor.key().ok()?;
            // A column may be called as what tells another dialect by its value.
            if name.escaped || !seen.insert(name.raw) || is_mark_of_other(name.raw, self.dialect) {
                return None;
            }
            let written = cursor.since(start);
            let first = cursor.peek()?;
            let is_number = first.is_ascii_digit() || first == b'-';
            match of(name.raw) {
                FlatMember::Column => {
                    self.flat.push((written, name));
                    self.hole(cursor, Hole::Value)?;
                }
                FlatMember::Hole(hole @ (Hole::Operation | Hole::Text(_))) if first == b'"' => self.hole(cursor, hole)?,
                FlatMember::Hole(hole @ Hole::Integer(_)) if is_number => self.hole(cursor, hole)?,
                FlatMember::Hole(Hole::Deleted) if first != b'n' => self.hole(cursor, Hole::Deleted)?,
                // Nobody asks for it, but it has to be text or a number.
                FlatMember::Hole(Hole::Any) if first == b'"' => self.hole(cursor, Hole::Text(|_, _| true))?,
                FlatMember::Hole(Hole::Any) if is_number => self.hole(cursor, Hole::Integer(|_, _| {}))?,
                FlatMember::Same | FlatMember::Hole(Hole::Any) => cursor.skip().ok()?,
                FlatMember::Hole(Hole::Deleted) => return None,
                FlatMember::Hole(_) if first == b'n' => cursor.skip().ok()?,
                // In another form it may be what the ordinary reader takes in place of the same from another member.
                FlatMember::Hole(_) | FlatMember::Unclear => return None,
            }
        }
        Some(())
    }

    fn member(&mut self, cursor: &mut Cursor<'t>, path: &str, name: &str, levels: u32) -> Option<()> {
        let first = cursor.peek()?;
        let start = cursor.at();
        let hole = self.spec.holes.iter().find(|(of, _)| *of == path).map(|(_, hole)| *hole);
        match hole {
            Some(Hole::DeclaredTypes) if first == b'{' && self.wants_types => self.types(cursor),
            Some(Hole::DeclaredTypes | Hole::Object) if first == b'{' => self.hole(cursor, Hole::Object),
            Some(hole @ (Hole::After | Hole::Before)) => self.rows(cursor, hole),
            Some(hole @ Hole::Columns(may_be_empty)) if first == b'[' => {
                self.hole(cursor, hole)?;
                self.columns = Some((self.text.get(start..self.from)?, may_be_empty));
                Some(())
            }
            Some(hole @ (Hole::Operation | Hole::Text(_))) if first == b'"' => self.hole(cursor, hole),
            Some(hole @ (Hole::Integer(_) | Hole::Digits(_))) if first.is_ascii_digit() || first == b'-' => self.hole(cursor, hole),
            Some(Hole::Any) => self.hole(cursor, Hole::Any),
            // Null, or what the ordinary reader takes for null: others may have it too.
            Some(_) => cursor.skip().ok(),
            None if first == b'{' && levels > 0 && self.has_holes(path) => self.object(cursor, &format!("{path}."), levels - 1),
            // Only of the outermost members is it known which of them nobody reads.
            None if path != name || (self.spec.members)().contains(&name) || is_mark_of_other(name, self.dialect) => cursor.skip().ok(),
            None => self.hole(cursor, Hole::Any),
        }
    }

    /// Whether the messages that have these members are updates, if that is known before their rows are read: some producers have a
    /// member for what changed in updates only.
    fn are_updates(&self, op: Op) -> Option<bool> {
        let at = |wanted: fn(&Hole) -> bool| self.parts.iter().position(|part| wanted(&part.hole));
        let rows = at(|hole| matches!(hole, Hole::After | Hole::Before))?;
        let is_known = at(|hole| matches!(hole, Hole::Operation))? < rows && self.spec.before == Before::Changes;
        let has_place = at(|hole| matches!(hole, Hole::Before)).is_some();
        (is_known && (self.has_before || !has_place)).then_some(op == Op::Update)
    }

    /// Whether an object has holes within.
    fn has_holes(&self, path: &str) -> bool {
        self.spec.holes.iter().any(|(of, _)| of.strip_prefix(path).is_some_and(|rest| rest.starts_with('.')))
    }

    /// Ends the bytes before a hole, and steps over what stands in it.
    fn hole(&mut self, cursor: &mut Cursor<'t>, hole: Hole) -> Option<()> {
        cursor.peek();
        let literal = Exact::new(self.text.get(self.from..cursor.at())?.as_bytes());
        self.parts.push(Part { literal, hole });
        cursor.skip().ok()?;
        self.from = cursor.at();
        Some(())
    }

    /// A hole of rows; the first row of the message tells the names.
    fn rows(&mut self, cursor: &mut Cursor<'t>, hole: Hole) -> Option<()> {
        cursor.peek();
        let start = cursor.at();
        self.hole(cursor, hole)?;
        let rows = self.text.get(start..self.from)?;
        let mut first = Cursor::new(rows, false);
        if first.peek() == Some(b'[') {
            let mut elements = first.array().ok()?;
            if !first.next_element(&mut elements).ok()? {
                return Some(());
            }
        }
        if first.peek() == Some(b'{') {
            let start = first.at();
            first.skip().ok()?;
            self.has_before |= matches!(hole, Hole::Before);
            // Rows after the change have every name.
            if self.row.is_none() || matches!(hole, Hole::After) {
                self.row = rows.get(start..first.at());
            }
        }
        Some(())
    }

    /// A hole of declared types. The type belongs to what is compared.
    fn types(&mut self, cursor: &mut Cursor<'t>) -> Option<()> {
        let mut inner = cursor.clone();
        inner.peek();
        let start_of_all = inner.at();
        self.hole(cursor, Hole::DeclaredTypes)?;
        let (whole, literals) = &mut self.types;
        *whole = self.text.get(start_of_all..self.from)?;
        literals.clear();
        let mut members = inner.object().ok()?;
        let mut start = inner.at();
        let mut seen = HashSet::new();
        while let Some(name) = inner.next_key(&mut members).ok()? {
            if name.escaped || !seen.insert(name.raw) {
                return None;
            }
            inner.skip().ok()?;
            let written = self.text.get(start..inner.at())?;
            literals.push(Literal::new(literals.len(), written.trim_start_matches(','), name.raw.len()));
            start = inner.at();
        }
        (!literals.is_empty()).then_some(())
    }
}

/// Whether a message is a row itself.
fn is_flat(text: &str, of: fn(&str) -> FlatMember) -> bool {
    let mut cursor = Cursor::new(text, true);
    let Ok(mut members) = cursor.object() else { return false };
    let mut found = false;
    while let Ok(Some(name)) = cursor.next_key(&mut members) {
        match of(name.raw) {
            FlatMember::Unclear => return false,
            FlatMember::Column => {}
            FlatMember::Same | FlatMember::Hole(_) => found = true,
        }
        if cursor.skip().is_err() {
            return false;
        }
    }
    found
}

/// The names of a row that is a message itself.
fn flat_cells(names: &[(&str, Text<'_>)], events: &mut Events<'_, '_, '_>) -> Option<Vec<(Literal, Cell)>> {
    let cell =
        |(at, (written, name)): (usize, &(&str, Text<'_>))| Some((Literal::new(at, written, name.raw.len()), Cell::new(*name, events)?));
    names.iter().enumerate().map(cell).collect()
}

/// The names of a row.
fn cells(row: &str, events: &mut Events<'_, '_, '_>) -> Option<Vec<(Literal, Cell)>> {
    let mut cells: Vec<(Literal, Cell)> = Vec::new();
    let mut cursor = Cursor::new(row, true);
    let mut members = cursor.object().ok()?;
    while cursor.next_member(&mut members).ok()? {
        cursor.peek();
        let start = cursor.at();
        let name = cursor.key().ok()?;
        cells.push((Literal::new(cells.len(), cursor.since(start), name.raw.len()), Cell::new(name, events)?));
        cursor.skip().ok()?;
    }
    Some(cells)
}

/// The names of a row, with the columns that they are.
fn row_plan(
    cells: Vec<(Literal, Cell)>,
    envelope: &Envelope<'_>,
    plan: &Plan,
    images: &[Images],
    events: &mut Events<'_, '_, '_>,
) -> Option<RowPlan> {
    let mut columns = vec![0; plan.table.as_ref().map_or(0, |table| table.len())];
    let mut ids = HashSet::new();
    for (_, cell) in &cells {
        ids.insert(cell.id);
        cell.column.and_then(|column| columns.get_mut(column)).into_iter().for_each(|count| *count += 1);
    }
    // Two names of one column, and one name written in two ways, are for the ordinary reader.
    if cells.is_empty() || ids.len() < cells.len() || columns.iter().any(|count| *count > 1) {
        return None;
    }
    let absent = columns.iter().enumerate().filter(|(_, count)| **count == 0).map(|(column, _)| column).collect();
    let mut found = RowPlan::new(cells, absent, envelope.quirks, envelope.types);
    found.note_readers(plan, images, events);
    Some(found)
}
