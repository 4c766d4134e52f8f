//! One message, read by a template: its rows go to the columns, what it says of itself to a source.

use std::borrow::Cow;

use super::elements::{Side, ValuePlace, place};
use super::row::{Env, Merge, Order, RowPlan, Seen, Span, Walked, by_cell};
use super::scalar::{integer, plain_text};
use super::{Part, Template};
use crate::dialect::spec::{Before, Hole};
use crate::event::{Events, Op, Source};
use crate::interner::NameId;
use crate::options::Layout;
use crate::output::batch::{Batch, DISCARDED, OUT_AFTER, OUT_BEFORE, PENDING_AFTER, PENDING_BEFORE};
use crate::output::changes::{POSTIMAGE, PREIMAGE};
use crate::output::envelope::EnvelopeField;
use crate::output::images::Images;
use crate::output::row::{EnvelopeRef, OutputRow};
use crate::wire::json::same_values;

/// A message that may be one of a template.
#[derive(Clone, Copy)]
pub(crate) struct Incoming<'a> {
    pub text: &'a str,
    /// Its key, if the user named the column that holds it.
    pub key: Option<&'a [u8]>,
    /// Its index in the input.
    pub index: usize,
    pub lenient: bool,
}

/// Room for the rows of a message.
#[derive(Default)]
pub(super) struct Buffers {
    data: RowParts,
    before: RowParts,
    merge: Merge,
    /// In which order the types are declared, if it is another one than the template's.
    types: Vec<usize>,
    /// Where the values are of a row that is the message itself.
    values: Vec<Option<ValuePlace>>,
}

impl Buffers {
    /// How many rows the message has.
    pub fn count(&self) -> usize {
        self.data.count.max(self.before.count)
    }
}

/// The rows of `data` or of `old`.
#[derive(Default)]
struct RowParts {
    count: usize,
    /// Whether each row has each name, and in order.
    are_complete: bool,
    are_ordered: bool,
    /// Where the values of each row are, if anybody wants to know.
    spans: Parts<Span>,
    /// The asked columns that each row lacks, if anybody wants to know.
    missing: Parts<usize>,
    seen: Seen,
}

/// The parts of several rows, one behind the other.
struct Parts<T> {
    all: Vec<T>,
    ends: Vec<usize>,
}

impl<T> Default for Parts<T> {
    fn default() -> Self {
        Parts { all: Vec::new(), ends: Vec::new() }
    }
}

impl<T> Parts<T> {
    fn clear(&mut self) {
        self.all.clear();
        self.ends.clear();
    }

    fn end_row(&mut self) {
        self.ends.push(self.all.len());
    }

    fn row(&self, row: usize) -> &[T] {
        let start = row.checked_sub(1).map_or(Some(&0), |before| self.ends.get(before));
        start.zip(self.ends.get(row)).and_then(|(start, end)| self.all.get(*start..*end)).unwrap_or_default()
    }
}

impl RowParts {
    fn clear(&mut self) {
        (self.count, self.are_complete, self.are_ordered) = (0, true, true);
        self.spans.clear();
        self.missing.clear();
    }

    fn end_row(&mut self, plan: &RowPlan, walked: Walked, wants: Wants) {
        self.count += 1;
        self.are_complete &= walked.is_complete;
        self.are_ordered &= walked.is_ordered;
        if wants.spans {
            self.spans.end_row();
        }
        if wants.missing {
            let start = self.missing.all.len();
            self.missing.all.extend(plan.lacking(walked, &self.seen));
            self.missing.all.get_mut(start..).unwrap_or_default().sort_unstable();
            self.missing.end_row();
        }
    }
}

/// What is asked for beside the images.
#[derive(Clone, Copy)]
struct Wants {
    spans: bool,
    missing: bool,
}

/// A message while it is read.
struct MessageReader<'r, 'p, 'a> {
    template: &'r Template,
    batch: &'r mut Batch<'p>,
    room: &'r mut Buffers,
    env: Env<'r, 'a>,
    wants: Wants,
    /// As it is read, or as the message's end lets guess.
    op: Option<Op>,
    /// The operation by which it was decided where the rows go, once there are any.
    routed: Option<Option<Op>>,
    source: &'r mut Source<'a>,
    /// Whether the row that is the message itself is gone.
    is_deleted: bool,
    has_data: bool,
    /// Where changes are that wait for the rows that they are merged onto.
    waiting: Option<usize>,
    /// Whether the changes were whole rows, and read before the rows that they would have been merged onto.
    is_unmerged: bool,
}

impl Template {
    /// Reads a message and adds its rows, if it is one of this template. On `None` images may have been appended, which the caller
    /// takes back; nothing else has changed.
    pub(super) fn read<'a>(
        &self,
        number: usize,
        message: &Incoming<'a>,
        batch: &mut Batch<'_>,
        events: &mut Events<'a, '_, '_>,
        room: &mut Buffers,
    ) -> Option<()> {
        let source = events.sources.len();
        events.sources.push(Source::default());
        let op = self.walk(message, batch, events, room);
        let read = op.filter(|_| self.key_names(message, events)).map(|op| Read { template: self, number, source, op, message, room });
        let added = read.and_then(|read| read.add(batch));
        if added.is_none() {
            events.sources.truncate(source);
        }
        added
    }

    /// Reads a message: its images are appended, and the last source is filled.
    pub(super) fn walk<'a>(
        &self,
        message: &Incoming<'a>,
        batch: &mut Batch<'_>,
        events: &mut Events<'a, '_, '_>,
        room: &mut Buffers,
    ) -> Option<Op> {
        room.data.clear();
        room.before.clear();
        room.types.clear();
        room.values.clear();
        let plan = batch.plan;
        let maps_before = plan.table.is_none() && plan.has_field(EnvelopeField::Before);
        let spans = plan.has_field(EnvelopeField::Changed) || maps_before || plan.layout == Layout::Upsert;
        let op = if self.spec.ends_with_op { self.op_at_end(message.text) } else { None };
        let may_be_update = op.is_none_or(|op| op == Op::Update);
        let mut reading = MessageReader {
            template: self,
            env: Env { text: message.text, lenient: message.lenient, plan, types: events.types, arena: events.arena },
            wants: Wants { spans: spans && self.passes && may_be_update, missing: batch.wants_missing() && self.passes },
            op,
            batch,
            room,
            routed: None,
            source: events.sources.last_mut()?,
            is_deleted: false,
            has_data: false,
            waiting: None,
            is_unmerged: false,
        };
        reading.envelope()?;
        if self.is_flat {
            reading.flat_row()?;
        }
        reading.settle()
    }

    /// The row change that the last bytes tell of: `..."UPDATE"}`.
    fn op_at_end(&self, text: &str) -> Option<Op> {
        let word = text.strip_suffix("\"}")?;
        (self.spec.op)(word.get(word.len().checked_sub("INSERT".len())?..)?)
    }

    /// Whether the message's key names the columns that the template's did.
    fn key_names(&self, message: &Incoming<'_>, events: &mut Events<'_, '_, '_>) -> bool {
        let Some(names) = self.spec.key_names else { return true };
        let found = message.key.and_then(|key| names(key, events));
        found.as_deref() == self.envelope.primary_key.as_deref()
    }

    /// The declared types, in any order: each of them once, and no other.
    fn types(&self, text: &str, at: usize, seen: &mut Seen, order: &mut Vec<usize>) -> Option<usize> {
        let (whole, each) = &self.types;
        if let Some(end) = whole.eat(text.as_bytes(), at) {
            return Some(end);
        }
        // A type is part of its literal, so that nothing is left to step over.
        let walked = each.walk(text.as_bytes(), at, seen, &mut Order(order))?;
        walked.is_complete.then_some(walked.end)
    }
}

impl<'a> MessageReader<'_, '_, 'a> {
    /// Compares the message with the template, hole by hole.
    fn envelope(&mut self) -> Option<()> {
        let template = self.template;
        let text = self.env.text.as_bytes();
        let mut at = 0;
        for Part { literal, hole } in &template.parts {
            at = self.hole(*hole, literal.eat(text, at)?)?;
        }
        at = template.tail.eat(text, at)?;
        let rest = text.get(at..)?;
        rest.iter().all(|byte| matches!(byte, b' ' | b'\n' | b'\r' | b'\t')).then_some(())
    }

    #[inline]
    fn hole(&mut self, hole: Hole, at: usize) -> Option<usize> {
        let text = self.env.text;
        match hole {
            Hole::Integer(set) => {
                let (number, end) = integer(text.as_bytes(), at)?;
                set(self.source, number);
                Some(end)
            }
            Hole::Digits(set) => {
                let (number, end) = integer(text.as_bytes(), at)?;
                set(self.source, text.get(at..end).filter(|_| number > 0)?);
                Some(end)
            }
            Hole::Text(set) => {
                let (word, end) = plain_text(text, at)?;
                set(self.source, word).then_some(end)
            }
            Hole::Operation => {
                let (word, end) = plain_text(text, at)?;
                let op = (self.template.spec.op)(word)?;
                if self.template.are_updates.is_some_and(|are_updates| are_updates != (op == Op::Update)) {
                    return None;
                }
                self.op = Some(op);
                self.source.operation = Some(Cow::Borrowed(word));
                Some(end)
            }
            Hole::After => self.data(at),
            Hole::Before => self.before(at),
            Hole::Columns(_) => self.columns(at),
            Hole::Value => {
                let mut found = None;
                let end = place(at, &mut found, &self.env)?;
                self.room.values.push(found);
                Some(end)
            }
            Hole::Deleted => {
                let (is_deleted, end) = deleted(text.as_bytes(), at)?;
                self.is_deleted = is_deleted;
                Some(end)
            }
            Hole::DeclaredTypes => self.template.types(text, at, &mut self.room.merge.seen, &mut self.room.types),
            Hole::Object if text.as_bytes().get(at) != Some(&b'{') => None,
            Hole::Object | Hole::Any => self.env.skip(at),
        }
    }

    /// The rows of a hole, each read by `row`: an array of objects, one object, or null. Returns where they end.
    fn rows(&mut self, at: usize, mut row: impl FnMut(&mut Self, usize) -> Option<usize>) -> Option<usize> {
        let bytes = self.env.text.as_bytes();
        match bytes.get(at)? {
            b'{' if self.template.spec.empty_is_null && bytes.get(at + 1) == Some(&b'}') => Some(at + 2),
            b'{' => row(self, at),
            b'[' if !self.template.spec.has_arrays => None,
            b'[' if bytes.get(at + 1) == Some(&b']') => Some(at + 2),
            b'[' => {
                let mut at = at + 1;
                loop {
                    at = row(self, at)?;
                    match bytes.get(at)? {
                        b',' => at += 1,
                        b']' => return Some(at + 1),
                        _ => return None,
                    }
                }
            }
            _ => bytes.get(at..)?.starts_with(b"null").then_some(at + 4),
        }
    }

    /// Which images the rows before and after the change go to. Without the operation, which some write behind the rows, those
    /// before the change are kept aside where both end in the same columns.
    fn targets(&mut self) -> (usize, usize) {
        let op = *self.routed.get_or_insert(self.op);
        let has_before = self.room.before.count > 0;
        match (self.batch.plan.layout, op) {
            _ if !self.template.passes => (DISCARDED, DISCARDED),
            (_, Some(Op::Delete)) => (OUT_BEFORE, OUT_BEFORE),
            // Changes are merged onto the rows after them, whether these are asked for or not.
            (Layout::Change, _) if self.batch.plan.has_field(EnvelopeField::After) => (OUT_BEFORE, OUT_AFTER),
            (Layout::Change, _) => (OUT_BEFORE, PENDING_AFTER),
            (Layout::Changelog, Some(Op::Update)) => (PENDING_BEFORE, PENDING_AFTER),
            (Layout::Upsert, Some(Op::Update)) => (DISCARDED, OUT_BEFORE),
            (_, Some(_)) => (OUT_BEFORE, OUT_BEFORE),
            (_, None) => (PENDING_BEFORE, if has_before { PENDING_AFTER } else { OUT_BEFORE }),
        }
    }

    /// Rows after the change; of a delete, those that are gone.
    fn data(&mut self, at: usize) -> Option<usize> {
        let (_, target) = self.targets();
        let end = self.rows(at, |reading, at| reading.whole_row(at, target, true))?;
        self.has_data = true;
        match self.waiting.take() {
            Some(waiting) => self.merge_rows(waiting).map(|_| end),
            None => Some(end),
        }
    }

    /// Rows before the change.
    fn before(&mut self, at: usize) -> Option<usize> {
        let (target, _) = self.targets();
        // Some producers write what is gone here.
        let is_delete = self.op == Some(Op::Delete) && self.has_data && self.room.data.count == 0;
        if self.template.spec.before == Before::Row || is_delete {
            return self.rows(at, |reading, at| reading.whole_row(at, target, false));
        }
        if self.has_data { self.merge_rows(at) } else { self.before_data(at, target) }
    }

    /// Reads a row that is whole by itself.
    fn whole_row(&mut self, at: usize, target: usize, is_data: bool) -> Option<usize> {
        let MessageReader { template, batch, room, env, wants, .. } = self;
        let rows = if is_data { &mut room.data } else { &mut room.before };
        let spans = wants.spans.then_some(&mut rows.spans.all);
        let walked = match batch.images.get_mut(target)? {
            Images::Table(table) => template.row.read(at, table, &mut rows.seen, env, spans),
            Images::Map(map) => template.row.read_map(at, map, &mut rows.seen, env, spans),
            Images::None => template.row.skip(at, &mut rows.seen, env, spans),
        }?;
        rows.end_row(&template.row, walked, *wants);
        Some(walked.end)
    }

    /// Changes that stand before the rows that they are merged onto. Most are whole rows; others wait.
    fn before_data(&mut self, at: usize, target: usize) -> Option<usize> {
        let first = self.batch.images.get(target)?.rows();
        let end = self.rows(at, |reading, at| reading.whole_row(at, target, false));
        let rows = &mut self.room.before;
        // The names of a map stand in the order of the rows after the change.
        if end.is_some() && rows.are_complete && (rows.are_ordered || self.batch.plan.table.is_some()) {
            self.is_unmerged = rows.count > 0;
            return end;
        }
        rows.clear();
        self.batch.images.get_mut(target)?.truncate(first);
        self.waiting = Some(at);
        self.env.skip(at)
    }

    /// Changes, which are merged onto the rows that were read.
    fn merge_rows(&mut self, at: usize) -> Option<usize> {
        let (target, data) = self.targets();
        let end = self.rows(at, |reading, at| reading.merged_row(at, target, data))?;
        // A name that only the changes have would come behind the others.
        let has_all_names = self.room.before.count == 0 || self.room.data.are_complete;
        has_all_names.then_some(end)
    }

    fn merged_row(&mut self, at: usize, target: usize, data: usize) -> Option<usize> {
        let MessageReader { template, batch, room: Buffers { data: after, before, merge, .. }, env, wants, .. } = self;
        let row = before.count;
        if row >= after.count {
            return None;
        }
        merge.spans.clear();
        let walked = match batch.images.get_disjoint_mut([target, data]) {
            Ok([Images::Table(table), base @ Images::Table(_)]) => {
                // The rows after the change are the last ones of their image.
                let row = base.rows().checked_sub(after.count - row)?;
                let Images::Table(base) = base else { return None };
                template.row.merge(at, table, (base, row), merge, env)
            }
            Ok([Images::Map(map), _]) => template.row.merge_map(at, map, after.spans.row(row), merge, env),
            Ok([Images::None, _]) => template.row.skip(at, &mut merge.seen, env, Some(&mut merge.spans)),
            _ if target == DISCARDED => template.row.skip(at, &mut merge.seen, env, Some(&mut merge.spans)),
            _ => None,
        }?;
        before.count += 1;
        if wants.spans {
            before.spans.all.extend_from_slice(&merge.spans);
            before.spans.end_row();
        }
        // It lacks no more than the row that it was merged onto, which has every name.
        if wants.missing {
            before.missing.all.extend_from_slice(&template.row.absent);
            before.missing.end_row();
        }
        Some(walked.end)
    }

    /// The row that the message is itself: whether it is gone is known once all of it has been read.
    fn flat_row(&mut self) -> Option<()> {
        let op = match self.source.operation {
            _ if self.is_deleted => Op::Delete,
            // Whether it was inserted or updated is not known.
            None => Op::Update,
            Some(_) => self.op?,
        };
        self.op = Some(op);
        let (before, after) = self.targets();
        let MessageReader { template, batch, room: Buffers { data, before: old, values, .. }, env, wants, .. } = self;
        let (target, rows) = if op == Op::Delete { (before, old) } else { (after, data) };
        let mut side = Side { images: batch.images.get_mut(target)?, spans: wants.spans.then_some(&mut rows.spans.all) };
        side.begin();
        for (cell, value) in template.row.cells.iter().enumerate().zip(&*values) {
            side.push(&template.row, cell, *value, env)?;
        }
        side.end(&template.row)?;
        let walked = Walked { end: env.text.len(), is_ordered: true, is_complete: true };
        rows.end_row(&template.row, walked, *wants);
        Some(())
    }

    /// A row whose columns stand side by side, with what was there before an update.
    fn columns(&mut self, at: usize) -> Option<usize> {
        let op = self.op?;
        let (before, after) = self.targets();
        let MessageReader { template, batch, room, env, wants, .. } = self;
        let Buffers { data, before: old, .. } = room;
        let (images, rows, was) = match op {
            Op::Delete => (batch.images.get_mut(before)?, old, None),
            Op::Update if before != after => {
                let [was, now] = batch.images.get_disjoint_mut([before, after]).ok()?;
                (now, data, Some((was, old)))
            }
            _ => (batch.images.get_mut(after)?, data, None),
        };
        let mut now = Side { images, spans: wants.spans.then_some(&mut rows.spans.all) };
        let walked = match was {
            Some((images, old)) => {
                let mut was = Side { images, spans: wants.spans.then_some(&mut old.spans.all) };
                let walked = template.elements.read(at, &template.row, env, &mut now, Some(&mut was))?;
                old.end_row(&template.row, walked, *wants);
                walked
            }
            None => template.elements.read(at, &template.row, env, &mut now, None)?,
        };
        rows.end_row(&template.row, walked, *wants);
        Some(walked.end)
    }

    /// The operation, if the rows are those of it and have gone where they belong.
    fn settle(&mut self) -> Option<Op> {
        let is_known = self.source.operation.is_some() || self.template.is_flat;
        let op = self.op.filter(|_| is_known && self.waiting.is_none())?;
        let (data, before) = (self.room.data.count, self.room.before.count);
        let layout = self.batch.plan.layout;
        let fits = match op {
            Op::Delete if data > 0 => before == 0 && self.template.spec.has_deletes_in_data,
            Op::Delete => before > 0,
            Op::Update => data > 0 && (before == data || before == 0),
            _ => data > 0 && before == 0,
        };
        let is_routed = match self.routed? {
            Some(routed) => routed == op,
            None => match op {
                Op::Delete => data == 0,
                // The image before has to come first.
                Op::Update => layout != Layout::Changelog || self.batch.images.get(PENDING_AFTER)?.rows() == data,
                _ => true,
            },
        };
        // The names of a merged map stand in the order of the rows after the change.
        let is_map = self.batch.plan.table.is_none();
        let has_order = !(self.is_unmerged && is_map) || self.room.data.are_ordered && self.room.data.are_complete;
        let lacks = self.batch.plan.missing_is_error && !(self.room.data.missing.all.is_empty() && self.room.before.missing.all.is_empty());
        (fits && is_routed && has_order && !lacks).then_some(op)
    }
}

/// A message that was read.
struct Read<'r, 'a> {
    template: &'r Template,
    number: usize,
    /// Its number in [`Events::sources`].
    source: usize,
    op: Op,
    message: &'r Incoming<'a>,
    room: &'r Buffers,
}

impl Read<'_, '_> {
    /// Adds the rows, whose images have been appended.
    fn add(&self, batch: &mut Batch<'_>) -> Option<()> {
        let count = self.room.count();
        if !self.template.passes {
            batch.metrics.filtered += count as u64;
            return Some(());
        }
        let has_before = self.op == Op::Update && self.room.before.count > 0;
        if has_before && batch.plan.layout == Layout::Upsert && self.moves_key(count) {
            return None;
        }
        let mut changed = Vec::new();
        if has_before && batch.plan.has_field(EnvelopeField::Changed) {
            for row in 0..count {
                changed.push(self.changed(row)?);
            }
        }
        self.complete_images(count, batch);
        let envelope = EnvelopeRef::Table { table: self.number, source: self.source };
        let types = batch.record_types(&self.room.types);
        for index in 0..count {
            let start = batch.changed.len();
            let changed = changed.get(index).map(|changed| {
                batch.changed.extend(changed);
                start..batch.changed.len()
            });
            for (word, with_before, with_after) in words(self.op, batch.plan.layout, self.room.before.count > 0) {
                let missing = self.add_missing(index, with_before, with_after, batch);
                let changed = changed.clone();
                batch.rows.push(OutputRow {
                    message: self.message.index,
                    index,
                    op: self.op,
                    op_name: word,
                    envelope,
                    error: None,
                    changed,
                    missing,
                    types: types.clone(),
                });
                batch.keep_rows(1);
            }
        }
        Some(())
    }

    /// Appends the images that the rows do not have, and those that were kept aside.
    fn complete_images(&self, count: usize, batch: &mut Batch<'_>) {
        let layout = batch.plan.layout;
        let [before, after, aside_before, aside_after, _] = &mut batch.images;
        if layout == Layout::Change {
            match self.op {
                Op::Delete => after.push_nulls(count),
                _ if self.room.before.count == 0 => before.push_nulls(count),
                _ => {}
            }
        } else {
            for row in 0..count {
                if layout == Layout::Changelog || self.op == Op::Delete {
                    before.copy_row(aside_before, row);
                }
                before.copy_row(aside_after, row);
            }
        }
        for aside in [aside_before, aside_after] {
            if aside.rows() > 0 {
                aside.truncate(0);
            }
        }
    }

    /// Notes the asked columns that the images of a row lack, in the schema's order.
    fn add_missing(&self, row: usize, with_before: bool, with_after: bool, batch: &mut Batch<'_>) -> std::ops::Range<usize> {
        let missing = &mut batch.missing;
        let start = missing.len();
        // The row of a delete may have been written in either place.
        if with_before {
            missing.extend_from_slice(self.room.before.missing.row(row));
        }
        if with_after || self.op == Op::Delete {
            for column in self.room.data.missing.row(row) {
                if let Err(at) = missing.get(start..).unwrap_or_default().binary_search(column) {
                    missing.insert(start + at, *column);
                }
            }
        }
        start..missing.len()
    }

    /// Where the value of a name is, before and after the change.
    fn values(&self, row: usize) -> impl Iterator<Item = (Option<Span>, Span)> {
        let (before, after) = (self.room.before.spans.row(row), self.room.data.spans.row(row));
        let by_cell = by_cell(before);
        after.iter().map(move |after| (by_cell.get(after.cell).copied().flatten(), *after))
    }

    fn differs(&self, before: Span, after: Span) -> bool {
        let value = |span: Span| self.message.text.get(span.start..span.end).unwrap_or_default();
        !same_values(value(before), value(after))
    }

    /// The columns whose values differ between the images of a row, if each name is in both or does not differ.
    fn changed(&self, row: usize) -> Option<Vec<NameId>> {
        let is_merged = self.template.spec.before == Before::Changes;
        let mut changed = Vec::new();
        for (before, after) in self.values(row) {
            match before {
                Some(before) if self.differs(before, after) => changed.push(self.template.row.cells.get(after.cell)?.id),
                None if !is_merged => return None,
                _ => {}
            }
        }
        let are_complete = self.room.data.are_complete && (is_merged || self.room.before.are_complete);
        are_complete.then_some(changed)
    }

    /// Whether the key of any row changed.
    fn moves_key(&self, count: usize) -> bool {
        let key = self.template.envelope.primary_key.as_deref().unwrap_or_default();
        let is_key = |span: &Span| self.template.row.cells.get(span.cell).is_some_and(|cell| key.contains(&cell.id));
        (0..count)
            .any(|row| self.values(row).any(|(before, after)| before.is_some_and(|before| is_key(&after) && self.differs(before, after))))
    }
}

/// The rows that a change gives in a layout: the word of each, and whether it is of the image before and of the one after.
fn words(op: Op, layout: Layout, has_before: bool) -> impl Iterator<Item = (&'static str, bool, bool)> {
    let [first, second] = match (layout, op) {
        (Layout::Change, Op::Delete) => [Some((op.name(), true, false)), None],
        (Layout::Change, _) => [Some((op.name(), has_before, true)), None],
        (Layout::Changelog, Op::Update) => [has_before.then_some((PREIMAGE, true, false)), Some((POSTIMAGE, false, true))],
        (_, Op::Delete) => [Some(("delete", true, false)), None],
        (_, Op::Update) => [Some(("update", false, true)), None],
        _ => [Some(("insert", false, true)), None],
    };
    first.into_iter().chain(second)
}

/// The flag at `at`, as text or not, and where it ends.
fn deleted(text: &[u8], at: usize) -> Option<(bool, usize)> {
    let rest = text.get(at..)?;
    let forms: [(&[u8], bool); 4] = [(b"\"false\"", false), (b"\"true\"", true), (b"false", false), (b"true", true)];
    forms.iter().find(|(form, _)| rest.starts_with(form)).map(|(form, is_deleted)| (*is_deleted, at + form.len()))
}
