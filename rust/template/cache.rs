//! Which template a message may be one of, and when it is worth to make another.

use std::sync::LazyLock;

use memchr::memmem::Finder;

use super::Template;
use super::learn::learn;
use super::message::{Buffers, Incoming};
use crate::dialect::Dialect;
use crate::dialect::spec::Place;
use crate::event::{Events, Source};
use crate::output::batch::{Batch, DISCARDED};
use crate::output::row::TableEnvelope;
use crate::wire::json;

/// The templates of a call, found by the name of the table, or of what stands in its place.
#[derive(Default)]
pub(crate) struct Templates {
    list: Vec<Template>,
    /// By a hash of dialect and table: the templates of a table, the one that was met last first. Several tables may share a slot.
    slots: Vec<Slot>,
    /// In `auto`: the dialect of the last message that began with these bytes.
    heads: Vec<(u64, &'static Dialect)>,
    room: Buffers,
    /// How far from the end of the last message its table's name began, or from its beginning, where the dialect has it there.
    distance: usize,
    /// What may be spent on templates, in [`COST`]s.
    credit: usize,
    /// How many messages were none of their table's templates, less those that were.
    misses: u32,
    /// How many messages are not tried.
    pause: u32,
}

/// Some templates of a table differ in what their messages lack.
#[derive(Clone, Copy, Default)]
struct Slot {
    /// Numbers of templates, from 1.
    templates: [u16; Slot::MOST],
    /// Whether a message of such a table was met: the first one makes no template, as there may be no other.
    is_known: bool,
    /// How many templates were made, or tried to be, less those that have read a message.
    idle: u8,
}

impl Slot {
    const MOST: usize = 6;
    /// How many templates may have been of no use before no more are made.
    const MOST_IDLE: u8 = 8;

    /// Moves a template to the front.
    fn touch(&mut self, at: usize) {
        if at == 0 {
            return;
        }
        if let Some(recent) = self.templates.get_mut(..=at) {
            recent.rotate_right(1);
        }
    }
}

const SLOTS: usize = 1 << 10;
/// What a template costs: as much as two or three messages take without one, so that one of 32 adds a tenth at the most.
const COST: usize = 32;
/// What may be spent at first.
const FIRST_CREDIT: usize = 8 * COST;
/// What a message that a template has read adds to what may be spent; any other adds one.
const GAIN: usize = 4;
/// How many messages more than not may be of no template before others are not tried.
const MOST_MISSES: u32 = 16;
/// How many messages are not tried then.
const PAUSE: u32 = 100;
/// How many messages are tried with a template that has read none yet.
const MOST_TRIES: u8 = 4;
/// How many templates are kept.
const MOST_TEMPLATES: usize = 1 << 14;

impl Templates {
    pub fn new() -> Self {
        Templates { credit: FIRST_CREDIT, slots: vec![Slot::default(); SLOTS], ..Templates::default() }
    }

    /// Forgets all templates: what they refer to is gone.
    pub fn clear(&mut self) {
        *self = Templates::new();
    }

    /// What the messages of a template's table say alike.
    pub fn envelope(&self, template: usize) -> Option<&TableEnvelope> {
        self.list.get(template).map(|template| &template.envelope)
    }

    /// The slot whose templates are worth a try.
    #[inline]
    pub fn find(&mut self, message: &Incoming<'_>, dialect: Option<&'static Dialect>) -> Option<usize> {
        if self.pause > 0 {
            self.pause -= 1;
            return None;
        }
        if self.list.is_empty() {
            return None;
        }
        let slot = self.slot(message.text, dialect.or_else(|| self.dialect(message.text))?);
        self.slots.get(slot).is_some_and(|slot| slot.templates != [0; Slot::MOST]).then_some(slot)
    }

    /// The dialect of messages that begin like this one, where the user names none.
    fn dialect(&self, text: &str) -> Option<&'static Dialect> {
        let head = head(text)?;
        self.heads.iter().find(|(known, _)| *known == head).map(|(_, dialect)| *dialect)
    }

    /// Reads a message by a template of its slot, if it is one of any. If not, nothing has changed.
    pub fn read<'a>(&mut self, slot: usize, message: &Incoming<'a>, batch: &mut Batch<'_>, events: &mut Events<'a, '_, '_>) -> bool {
        let Some(templates) = self.slots.get(slot).map(|slot| slot.templates) else { return false };
        let rows = [0, 1].map(|image| batch.images.get(image).map_or(0, |images| images.rows()));
        for (at, number) in templates.iter().enumerate() {
            let Some(number) = usize::from(*number).checked_sub(1) else { continue };
            let Some(template) = self.list.get_mut(number) else { continue };
            if template.read(number, message, batch, events, &mut self.room).is_some() {
                let is_first_use = !std::mem::replace(&mut template.is_of_use, true);
                self.hit(slot, at, is_first_use);
                batch.metrics.templated += 1;
                return true;
            }
            take_back(rows, batch);
            template.tries = template.tries.saturating_add(1);
            // Its message was the only one of its form.
            if !template.is_of_use && template.tries >= MOST_TRIES {
                self.forget(slot, at);
            }
        }
        self.misses += 1;
        if self.misses >= MOST_MISSES {
            (self.misses, self.pause) = (MOST_MISSES / 2, PAUSE);
        }
        false
    }

    /// Takes a template out of a slot.
    fn forget(&mut self, slot: usize, at: usize) {
        if let Some(place) = self.slots.get_mut(slot).and_then(|slot| slot.templates.get_mut(at)) {
            *place = 0;
        }
    }

    fn hit(&mut self, slot: usize, at: usize, is_first_use: bool) {
        self.misses = self.misses.saturating_sub(1);
        self.credit += GAIN;
        if let Some(slot) = self.slots.get_mut(slot) {
            slot.idle = slot.idle.saturating_sub(u8::from(is_first_use));
            slot.touch(at);
        }
    }

    /// Makes a template of the message that the ordinary reader has just read, if it is worth it.
    pub fn learn<'a>(&mut self, message: &Incoming<'a>, dialect: &'static Dialect, batch: &mut Batch<'_>, events: &mut Events<'a, '_, '_>) {
        if dialect.template.is_none() || !message.text.starts_with('{') {
            return;
        }
        self.credit += 1;
        let slot = self.slot(message.text, dialect);
        let is_first = self.list.is_empty();
        let Some(known) = self.slots.get_mut(slot) else { return };
        let is_known = std::mem::replace(&mut known.is_known, true);
        let is_worth_it = (is_first || is_known) && known.idle < Slot::MOST_IDLE;
        if !is_worth_it || self.credit < COST || self.list.len() >= MOST_TEMPLATES {
            return;
        }
        known.idle += 1;
        self.credit -= COST;
        let Some(row) = events.rows.last().filter(|row| row.fault.is_none() && row.op.is_row_change()) else { return };
        let (op, Some(envelope)) = (row.op, row.envelope.and_then(|envelope| events.envelopes.get(envelope)).cloned()) else { return };
        let count = row.index + 1;
        let passes = batch.passes(&envelope);
        let Some(mut template) = learn(message.text, dialect, op, &envelope, batch.plan, &batch.images, events) else { return };
        // Nobody asks for the rows of this reading, which is to find what the other one has found.
        events.sources.push(Source::default());
        let found = template.walk(message, batch, events, &mut self.room);
        let source = events.sources.pop();
        if found != Some(op) || source.as_ref() != Some(&envelope.source) || self.room.count() != count {
            return;
        }
        template.passes = passes;
        self.add(slot, template);
        if let Some(head) = head(message.text).filter(|head| self.heads.iter().all(|(known, _)| known != head)) {
            self.heads.push((head, dialect));
        }
    }

    fn add(&mut self, slot: usize, template: Template) {
        self.list.push(template);
        let Ok(number) = u16::try_from(self.list.len()) else { return };
        if let Some(slot) = self.slots.get_mut(slot) {
            slot.templates.rotate_right(1);
            slot.templates[0] = number;
        }
    }
}

/// Takes back what a message has left in the images.
fn take_back(rows: [usize; 2], batch: &mut Batch<'_>) {
    for (at, images) in batch.images.iter_mut().enumerate().take(DISCARDED) {
        images.truncate(rows.get(at).copied().unwrap_or(0));
    }
}

/// The first bytes of a message.
fn head(text: &str) -> Option<u64> {
    text.as_bytes().first_chunk::<8>().map(|head| u64::from_le_bytes(*head))
}

impl Templates {
    /// The slot of a message's table.
    fn slot(&mut self, text: &str, dialect: &'static Dialect) -> usize {
        let bytes = text.as_bytes();
        let place = dialect.template.map(|spec| spec.table);
        let name = self.name_as_before(bytes, place).or_else(|| {
            let name = place?.name(bytes)?;
            self.distance = if let Some(Place::Head(_)) = place { name } else { bytes.len() - name };
            Some(name)
        });
        let name = name.and_then(|name| bytes.get(name..)).unwrap_or_default();
        (hash(name, dialect.name.len() as u64) >> 40) as usize % SLOTS
    }

    /// Where the table's name begins, if that is as far from the message's beginning or end as it was last time.
    #[inline]
    fn name_as_before(&self, bytes: &[u8], place: Option<Place>) -> Option<usize> {
        let name = if let Some(Place::Head(_)) = place { self.distance } else { bytes.len().checked_sub(self.distance)? };
        bytes.get(..name)?.ends_with(END_OF_MEMBER).then_some(name)
    }
}

/// A hash of the bytes before the first quote, block by block.
#[inline]
fn hash(name: &[u8], mut hash: u64) -> u64 {
    /// No name is distinguished from others by more than its first 64 bytes.
    const MOST_BLOCKS: usize = 4;
    let (blocks, _) = name.as_chunks::<16>();
    for block in blocks.iter().take(MOST_BLOCKS) {
        let special = json::special_in(block);
        let bits = if special == 0 { u128::MAX } else { (1 << (8 * special.trailing_zeros())) - 1 };
        let lanes = u128::from_le_bytes(*block) & bits;
        hash = (hash ^ lanes as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29) ^ (lanes >> 64) as u64;
        hash = hash.wrapping_mul(0xD6E8_FEB8_6659_FD93);
        if special != 0 {
            break;
        }
    }
    hash
}

/// What stands before the table's name, in all of these dialects.
const MEMBER: &[u8] = b"\"table\":\"";
static FINDER: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(MEMBER));
/// The same where something stands before the member's name, as in rows without an envelope.
const END_OF_MEMBER: &[u8] = b"table\":\"";
static END_FINDER: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(END_OF_MEMBER));

impl Place {
    /// Where the table's name begins.
    fn name(self, bytes: &[u8]) -> Option<usize> {
        let head = |length| name_in(bytes, 0, length);
        let tail = |length| name_in(bytes, bytes.len().saturating_sub(length), length);
        match self {
            Place::Head(length) => head(length),
            Place::Tail(length) => tail(length),
            Place::Either(length) => tail(length).or_else(|| head(length)),
        }
    }
}

/// Where the table's name begins within a part of a message.
fn name_in(bytes: &[u8], start: usize, length: usize) -> Option<usize> {
    let window = bytes.get(start..bytes.len().min(start + length))?;
    let at = FINDER.find(window).map(|at| at + MEMBER.len());
    at.or_else(|| END_FINDER.find(window).map(|at| at + END_OF_MEMBER.len())).map(|at| start + at)
}
