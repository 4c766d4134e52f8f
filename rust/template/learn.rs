//! Learns a template from a message.

use hashbrown::HashSet;

use super::elements::Elements;
use super::row_image::{Cell, Exact, ExpectedKeys, KeyLiteral, RowPlan};
use super::{Incoming, Segment, Template};
use crate::dialect::spec::{Before, FlatMember, MayBeEmpty, Placeholder, TemplateSpec};
use crate::dialect::{Dialect, is_mark_of_other, words_like};
use crate::event::{Envelope, Events, Op};
use crate::interner::NameId;
use crate::output::plan::Plan;
use crate::output::row::TableEnvelope;
use crate::wire::json::Cursor;

/// Splits a message into literals and placeholders.
struct TemplateBuilder<'t> {
    text: &'t str,
    spec: &'static TemplateSpec,
    dialect: &'static Dialect,
    /// True if the dialect was detected by the message.
    is_detected: bool,
    /// Operation names that do not change the dialect.
    operations: Option<Box<[Box<str>]>>,
    /// True if declared types are requested. Otherwise their order does not matter.
    compares_types: bool,
    segments: Vec<Segment>,
    /// Start of the current literal.
    literal_start: usize,
    sample_row: Option<&'t str>,
    /// The array of a row whose columns are elements.
    elements: Option<(&'t str, MayBeEmpty)>,
    /// Names of a flat message's row.
    flat_names: Vec<(KeyLiteral, NameId)>,
    /// True if the message has rows before the change.
    has_before: bool,
    types: (&'t str, Vec<KeyLiteral>),
}

/// Maximum nesting depth of members with placeholders.
const MAX_DEPTH: u32 = 4;

/// Learns a template from a message and the envelope that the ordinary reader found. The caller sets `passes`.
pub(super) fn learn(
    message: &Incoming<'_>,
    dialect: &'static Dialect,
    op: Op,
    envelope: &Envelope<'_>,
    plan: &Plan,
    events: &mut Events<'_>,
) -> Option<Template> {
    let Incoming {
        text, is_detected, ..
    } = *message;
    let spec = dialect.template?;
    let compares_types = events.needs.types;
    let (segments, types) = (Vec::new(), ("", Vec::new()));
    let mut builder = TemplateBuilder {
        text,
        spec,
        dialect,
        is_detected,
        operations: None,
        compares_types,
        segments,
        literal_start: 0,
        sample_row: None,
        elements: None,
        flat_names: Vec::new(),
        has_before: false,
        types,
    };
    let mut cursor = Cursor::new(text, false);
    match spec.flat.filter(|members| is_flat(text, *members)) {
        Some(members) => builder.flat(&mut cursor, members, events)?,
        None => builder.object(&mut cursor, "", MAX_DEPTH)?,
    }
    let tail = Exact::new(text.get(builder.literal_start..cursor.at())?.as_bytes());
    let is_flat = !builder.flat_names.is_empty();
    let are_updates = builder.are_updates(op);
    let (elements, names) = match builder.elements {
        Some((array, may_be_empty)) => Elements::learn(array, may_be_empty, events)?,
        None if is_flat => (Elements::default(), builder.flat_names),
        None => (Elements::default(), names(builder.sample_row?, events)?),
    };
    let row = row_plan(names, envelope, plan, events)?;
    let (exact, types) = builder.types;
    if !types.is_empty() {
        column_counts(&self::names(exact, events)?, plan, events)?;
    }
    Some(Template {
        spec,
        segments: builder.segments,
        tail,
        row,
        elements,
        is_flat,
        operations: builder.operations,
        types: (
            Exact::new(exact.as_bytes()),
            ExpectedKeys::new(types.into_iter().map(|literal| (literal, ())).collect()),
        ),
        envelope: TableEnvelope {
            envelope: envelope.shared(),
            primary_key: events.primary_key_of(envelope).map(Into::into),
        },
        passes: false,
        are_updates,
        has_matched: false,
        failures: 0,
    })
}

impl<'t> TemplateBuilder<'t> {
    /// Splits an object. `path` is the prefix of its members' paths.
    fn object(&mut self, cursor: &mut Cursor<'t>, path: &str, depth: u32) -> Option<()> {
        let mut seen = HashSet::new();
        let mut members = cursor.object().ok()?;
        while let Some(name) = cursor.next_key(&mut members).ok()? {
            // The ordinary reader handles duplicate or escaped names.
            if name.escaped || !seen.insert(name.raw) {
                return None;
            }
            self.member(cursor, &format!("{path}{}", name.raw), name.raw, depth)?;
        }
        Some(())
    }

    /// Splits a message that is a row itself.
    fn flat(
        &mut self,
        cursor: &mut Cursor<'t>,
        classify: fn(&str) -> FlatMember,
        events: &mut Events<'_>,
    ) -> Option<()> {
        let mut has_mark = false;
        let mut seen = HashSet::new();
        let mut members = cursor.object().ok()?;
        while cursor.next_member(&mut members).ok()? {
            cursor.peek();
            let start = cursor.at();
            let name = cursor.key().ok()?;
            // A column may have the name of a member that marks another dialect.
            if name.escaped || !seen.insert(name.raw) || is_mark_of_other(name.raw, self.dialect) {
                return None;
            }
            let key = cursor.since(start);
            let first = cursor.peek()?;
            let is_number = first.is_ascii_digit() || first == b'-';
            match classify(name.raw) {
                member @ (FlatMember::Column | FlatMember::Mark) => {
                    let literal = KeyLiteral::new(self.flat_names.len(), key, name.raw.len());
                    let id = events.keys.intern(name).ok()?;
                    has_mark |=
                        matches!(member, FlatMember::Mark) && events.keys.column(id).is_none();
                    self.flat_names.push((literal, id));
                    self.placeholder(cursor, Placeholder::Value)?;
                }
                FlatMember::Placeholder(
                    placeholder @ (Placeholder::Operation | Placeholder::Text(_)),
                ) if first == b'"' => self.placeholder(cursor, placeholder)?,
                FlatMember::Placeholder(placeholder @ Placeholder::Integer(_)) if is_number => {
                    self.placeholder(cursor, placeholder)?
                }
                FlatMember::Placeholder(Placeholder::Deleted) if first != b'n' => {
                    self.placeholder(cursor, Placeholder::Deleted)?
                }
                // The member is not requested, but the message is only valid if it is text or a number.
                FlatMember::Placeholder(Placeholder::Any) if first == b'"' => {
                    self.placeholder(cursor, Placeholder::Text(|_, _| true))?
                }
                FlatMember::Placeholder(Placeholder::Any) if is_number => {
                    self.placeholder(cursor, Placeholder::Integer(|_, _| {}))?
                }
                FlatMember::Same | FlatMember::Placeholder(Placeholder::Any) => {
                    cursor.skip().ok()?
                }
                FlatMember::Placeholder(Placeholder::Deleted) => return None,
                FlatMember::Placeholder(_) if first == b'n' => cursor.skip().ok()?,
                // If the value has another kind, the ordinary reader may take the field from another member.
                FlatMember::Placeholder(_) | FlatMember::Unclear => return None,
            }
        }
        let says_op = self.segments.iter().any(|segment| {
            matches!(
                segment.placeholder,
                Placeholder::Operation | Placeholder::Deleted
            )
        });
        if has_mark && !says_op {
            return None;
        }
        Some(())
    }

    fn member(
        &mut self,
        cursor: &mut Cursor<'t>,
        path: &str,
        name: &str,
        depth: u32,
    ) -> Option<()> {
        let first = cursor.peek()?;
        let start = cursor.at();
        let inner = self.inner_path(path);
        let placeholder = (self.spec.placeholders)()
            .iter()
            .find(|(member, _)| *member == inner)
            .map(|(_, placeholder)| *placeholder);
        if self.is_detected && path == name && matches!(placeholder, Some(Placeholder::Operation)) {
            self.operations = cursor
                .clone()
                .text()
                .ok()
                .and_then(|operation| words_like(name, operation.raw));
        }
        match placeholder {
            Some(Placeholder::DeclaredTypes) if first == b'{' && self.compares_types => {
                self.types(cursor)
            }
            Some(Placeholder::DeclaredTypes | Placeholder::Object) if first == b'{' => {
                self.placeholder(cursor, Placeholder::Object)
            }
            Some(placeholder @ (Placeholder::After | Placeholder::Before)) => {
                self.rows(cursor, placeholder)
            }
            Some(placeholder @ Placeholder::Columns(may_be_empty)) if first == b'[' => {
                self.placeholder(cursor, placeholder)?;
                self.elements = Some((self.text.get(start..self.literal_start)?, may_be_empty));
                Some(())
            }
            Some(placeholder @ (Placeholder::Operation | Placeholder::Text(_)))
                if first == b'"' =>
            {
                self.placeholder(cursor, placeholder)
            }
            Some(placeholder @ (Placeholder::Integer(_) | Placeholder::Digits(_)))
                if first.is_ascii_digit() || first == b'-' =>
            {
                self.placeholder(cursor, placeholder)
            }
            Some(Placeholder::Any) => self.placeholder(cursor, Placeholder::Any),
            // Null, or a value that the ordinary reader treats as null, is part of the literal.
            Some(_) => cursor.skip().ok(),
            None if first == b'{' && depth > 0 && self.has_placeholders(path) => {
                self.object(cursor, &format!("{path}."), depth - 1)
            }
            // Only top-level members are known to be unread.
            None if path != name
                || (self.spec.members)().contains(&name)
                || is_mark_of_other(name, self.dialect) =>
            {
                cursor.skip().ok()
            }
            None => self.placeholder(cursor, Placeholder::Any),
        }
    }

    /// Returns whether all messages with these members are updates, if that is known before their rows are read. Some
    /// producers write a member for the changes only in updates.
    fn are_updates(&self, op: Op) -> Option<bool> {
        let position = |is_placeholder: fn(&Placeholder) -> bool| {
            self.segments
                .iter()
                .position(|segment| is_placeholder(&segment.placeholder))
        };
        let rows = position(|placeholder| {
            matches!(placeholder, Placeholder::After | Placeholder::Before)
        })?;
        let is_known = position(|placeholder| matches!(placeholder, Placeholder::Operation))?
            < rows
            && self.spec.before == Before::Changes;
        let has_before_placeholder =
            position(|placeholder| matches!(placeholder, Placeholder::Before)).is_some();
        (is_known && (self.has_before || !has_before_placeholder)).then_some(op == Op::Update)
    }

    /// Returns whether an object contains placeholders.
    fn has_placeholders(&self, path: &str) -> bool {
        let inner = self.inner_path(path);
        self.spec.wrapper == Some(path)
            || (self.spec.placeholders)().iter().any(|(member, _)| {
                let rest = member.strip_prefix(inner);
                rest.is_some_and(|rest| rest.starts_with('.'))
            })
    }

    /// Returns the path of a member within the wrapper, if it is in one.
    fn inner_path<'p>(&self, path: &'p str) -> &'p str {
        let within = self
            .spec
            .wrapper
            .and_then(|wrapper| path.strip_prefix(wrapper));
        within
            .and_then(|rest| rest.strip_prefix('.'))
            .unwrap_or(path)
    }

    /// Ends the current literal and skips the value in the placeholder.
    fn placeholder(&mut self, cursor: &mut Cursor<'t>, placeholder: Placeholder) -> Option<()> {
        cursor.peek();
        let literal = Exact::new(self.text.get(self.literal_start..cursor.at())?.as_bytes());
        self.segments.push(Segment {
            literal,
            placeholder,
        });
        cursor.skip().ok()?;
        self.literal_start = cursor.at();
        Some(())
    }

    /// Adds a placeholder of rows. The message's first row is the sample for the names.
    fn rows(&mut self, cursor: &mut Cursor<'t>, placeholder: Placeholder) -> Option<()> {
        cursor.peek();
        let start = cursor.at();
        self.placeholder(cursor, placeholder)?;
        let rows = self.text.get(start..self.literal_start)?;
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
            self.has_before |= matches!(placeholder, Placeholder::Before);
            // Rows after the change have every name.
            if self.sample_row.is_none() || matches!(placeholder, Placeholder::After) {
                self.sample_row = rows.get(start..first.at());
            }
        }
        Some(())
    }

    /// Adds a placeholder of declared types. Each type is part of its key's literal.
    fn types(&mut self, cursor: &mut Cursor<'t>) -> Option<()> {
        let mut inner = cursor.clone();
        inner.peek();
        let block_start = inner.at();
        self.placeholder(cursor, Placeholder::DeclaredTypes)?;
        let (exact, literals) = &mut self.types;
        *exact = self.text.get(block_start..self.literal_start)?;
        literals.clear();
        let mut members = inner.object().ok()?;
        let mut start = inner.at();
        let mut seen = HashSet::new();
        while let Some(name) = inner.next_key(&mut members).ok()? {
            if name.escaped || !seen.insert(name.raw) {
                return None;
            }
            inner.skip().ok()?;
            let entry = self.text.get(start..inner.at())?;
            literals.push(KeyLiteral::new(
                literals.len(),
                entry.trim_start_matches(','),
                name.raw.len(),
            ));
            start = inner.at();
        }
        if literals.is_empty() {
            return None;
        }
        Some(())
    }
}

/// Returns whether a message is a row itself.
fn is_flat(text: &str, classify: fn(&str) -> FlatMember) -> bool {
    let mut cursor = Cursor::new(text, true);
    let Ok(mut members) = cursor.object() else {
        return false;
    };
    let mut found = false;
    while let Ok(Some(name)) = cursor.next_key(&mut members) {
        match classify(name.raw) {
            FlatMember::Unclear => return false,
            FlatMember::Column | FlatMember::Mark => {}
            FlatMember::Same | FlatMember::Placeholder(_) => found = true,
        }
        if cursor.skip().is_err() {
            return false;
        }
    }
    found
}

/// Returns the names of a row.
fn names(row: &str, events: &mut Events<'_>) -> Option<Vec<(KeyLiteral, NameId)>> {
    let mut names: Vec<(KeyLiteral, NameId)> = Vec::new();
    let mut cursor = Cursor::new(row, true);
    let mut members = cursor.object().ok()?;
    while cursor.next_member(&mut members).ok()? {
        cursor.peek();
        let start = cursor.at();
        let name = cursor.key().ok()?;
        names.push((
            KeyLiteral::new(names.len(), cursor.since(start), name.raw.len()),
            events.keys.intern(name).ok()?,
        ));
        cursor.skip().ok()?;
    }
    Some(names)
}

/// Returns the number of names of each requested column. The ordinary reader handles two names for one column, and two
/// spellings of one name.
#[allow(
    clippy::indexing_slicing,
    reason = "names know the columns of the plan's table"
)]
fn column_counts(
    names: &[(KeyLiteral, NameId)],
    plan: &Plan,
    events: &Events<'_>,
) -> Option<Vec<usize>> {
    let mut columns = vec![0; plan.width()];
    let ids: HashSet<_> = names.iter().map(|(_, id)| *id).collect();
    ids.iter()
        .filter_map(|id| events.keys.column(*id))
        .for_each(|column| columns[column] += 1);
    if ids.len() < names.len() || columns.iter().any(|count| *count > 1) {
        return None;
    }
    Some(columns)
}

/// Returns the plan of a row with these names.
fn row_plan(
    names: Vec<(KeyLiteral, NameId)>,
    envelope: &Envelope<'_>,
    plan: &Plan,
    events: &Events<'_>,
) -> Option<RowPlan> {
    if names.is_empty() {
        return None;
    }
    let columns = column_counts(&names, plan, events)?;
    let absent = columns
        .iter()
        .enumerate()
        .filter(|(_, count)| **count == 0)
        .map(|(column, _)| column)
        .collect();
    let cells = names.into_iter().map(|(key, id)| {
        let converter = events
            .keys
            .column(id)
            .map(|column| plan.columns.converter(column, envelope, &events.types));
        let cell = Cell {
            id,
            name: events.keys.name(id).into(),
            converter,
        };
        (key, cell)
    });
    Some(RowPlan::new(cells.collect(), absent, envelope))
}
