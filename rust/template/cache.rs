//! Cache of templates. It looks up templates by table, and decides when to learn another one.

use std::sync::LazyLock;

use memchr::memmem::Finder;

use super::Template;
use super::learn::learn;
use super::message::{Buffers, Incoming};
use super::scalar::hash;
use crate::dialect::Dialect;
use crate::dialect::spec::Place;
use crate::event::{Events, Source};
use crate::output::batch::Batch;
use crate::output::row::{Payloads, TableEnvelope};

/// Templates of one call, looked up by the table's name.
#[derive(Default)]
pub(crate) struct Templates {
    templates: Vec<Template>,
    /// Hash table by dialect and table name. A slot has its most recently matched templates first. Several tables may
    /// share a slot.
    slots: Vec<Slot>,
    /// For `auto`: dialects by the first 8 bytes of their messages.
    prefixes: Vec<(u64, &'static Dialect)>,
    buffers: Buffers,
    /// Last position of a table's name from the message's start and from its end, by dialect.
    name_distances: Vec<(&'static Dialect, [usize; 2])>,
    /// Budget for learning templates, which cost [`TEMPLATE_COST`] each.
    credit: usize,
    /// Number of messages that no template of their table matched, minus matches.
    misses: u32,
    /// Number of messages that bypass the templates.
    bypass: u32,
}

/// Templates of a table. They differ in the members that their messages omit.
#[derive(Clone, Copy, Default)]
struct Slot {
    /// Numbers of templates, from 1.
    templates: [u16; Slot::CAPACITY],
    /// True if a message of this slot was seen before. The first message is not learned, because it may be the only
    /// one.
    is_seen: bool,
    /// Number of templates learned or attempted, minus the templates that have matched a message.
    unmatched: u8,
}

impl Slot {
    const CAPACITY: usize = 6;
    /// Maximum number of unmatched templates. Beyond it, no more templates are learned.
    const MAX_UNMATCHED: u8 = 8;
}

const SLOT_COUNT: usize = 1 << 10;
/// Cost of a template. Learning takes as long as the ordinary reader needs for two or three messages, so one template
/// per 32 messages adds a tenth at most.
const TEMPLATE_COST: usize = 32;
/// Budget at the start.
const INITIAL_CREDIT: usize = 8 * TEMPLATE_COST;
/// Budget gained per matched message. Every other message gains one.
const MATCH_CREDIT: usize = 4;
/// Surplus of misses after which messages bypass the templates.
const MAX_MISSES: u32 = 16;
/// Number of messages that then bypass the templates.
const BYPASS_LENGTH: u32 = 100;
/// Failures after which a template without a match is evicted.
const MAX_FAILURES: u8 = 4;
/// Maximum number of templates.
const MAX_TEMPLATES: usize = 1 << 14;

#[allow(
    clippy::indexing_slicing,
    reason = "slots come from `slot` and hold the numbers of these templates"
)]
impl Templates {
    pub fn new() -> Self {
        Templates {
            credit: INITIAL_CREDIT,
            slots: vec![Slot::default(); SLOT_COUNT],
            ..Templates::default()
        }
    }

    /// Drops all templates, because their ids are invalid.
    pub fn clear(&mut self) {
        *self = Templates::new();
    }

    /// Returns the envelope shared by the messages of a template.
    pub fn envelope(&self, template: usize) -> &TableEnvelope {
        &self.templates[template].envelope
    }

    /// Returns the slot of a message's table, if it has templates.
    #[inline]
    pub fn find(
        &mut self,
        message: &Incoming<'_>,
        dialect: Option<&'static Dialect>,
    ) -> Option<usize> {
        if self.bypass > 0 {
            self.bypass -= 1;
            return None;
        }
        if self.templates.is_empty() {
            return None;
        }
        let dialect = match dialect {
            Some(dialect) => dialect,
            None => {
                let prefix = prefix(message.text)?;
                self.prefixes.iter().find(|(known, _)| *known == prefix)?.1
            }
        };
        let slot = self.slot(message.text, dialect);
        (self.slots[slot].templates != [0; Slot::CAPACITY]).then_some(slot)
    }

    /// Reads a message with a matching template of its slot. Changes nothing if none matches.
    pub fn read<'a>(
        &mut self,
        slot: usize,
        message: &Incoming<'a>,
        batch: &mut Batch<'_>,
        events: &mut Events<'a>,
        payloads: &Payloads<'_>,
    ) -> bool {
        for at in 0..Slot::CAPACITY {
            let Some(number) = usize::from(self.slots[slot].templates[at]).checked_sub(1) else {
                continue;
            };
            let template = &mut self.templates[number];
            if template
                .read(number, message, batch, events, payloads, &mut self.buffers)
                .is_some()
            {
                let is_first_match = !std::mem::replace(&mut template.has_matched, true);
                self.record_match(slot, at, is_first_match);
                batch.metrics.templated += 1;
                return true;
            }
            template.failures = template.failures.saturating_add(1);
            // The learned message was the only one of its form.
            if !template.has_matched && template.failures >= MAX_FAILURES {
                self.slots[slot].templates[at] = 0;
            }
        }
        self.misses += 1;
        if self.misses >= MAX_MISSES {
            (self.misses, self.bypass) = (MAX_MISSES / 2, BYPASS_LENGTH);
        }
        false
    }

    fn record_match(&mut self, slot: usize, at: usize, is_first_match: bool) {
        self.misses = self.misses.saturating_sub(1);
        self.credit += MATCH_CREDIT;
        let slot = &mut self.slots[slot];
        slot.unmatched = slot.unmatched.saturating_sub(u8::from(is_first_match));
        // The next message is most likely of the same form.
        if at > 0 {
            slot.templates[..=at].rotate_right(1);
        }
    }

    /// Learns a template from the message that the ordinary reader has just read, if the budget allows it.
    pub fn learn<'a>(
        &mut self,
        message: &Incoming<'a>,
        dialect: &'static Dialect,
        batch: &mut Batch<'_>,
        events: &mut Events<'a>,
    ) {
        if dialect.template.is_none() || !message.text.starts_with('{') {
            return;
        }
        self.credit += 1;
        let slot = self.slot(message.text, dialect);
        let is_first = self.templates.is_empty();
        let entry = &mut self.slots[slot];
        let is_seen = std::mem::replace(&mut entry.is_seen, true);
        let may_learn = (is_first || is_seen) && entry.unmatched < Slot::MAX_UNMATCHED;
        if !may_learn || self.credit < TEMPLATE_COST || self.templates.len() >= MAX_TEMPLATES {
            return;
        }
        entry.unmatched += 1;
        self.credit -= TEMPLATE_COST;
        let Some(row) = events
            .rows
            .last()
            .filter(|row| row.fault.is_none() && row.op.is_row_change())
        else {
            return;
        };
        let (op, Some(envelope)) = (row.op, events.envelope_of(row).cloned()) else {
            return;
        };
        let count = row.index + 1;
        let passes = batch.passes(op, &envelope);
        let Some(mut template) = learn(message, dialect, op, &envelope, batch.plan, events) else {
            return;
        };
        // Verify the template against its own message, and discard the rows of this scan.
        events.sources.push(Source::default());
        let found = template.scan(message, batch, events, &mut self.buffers);
        let source = events.sources.pop();
        if found != Some(op)
            || source.as_ref() != Some(&envelope.source)
            || self.buffers.count() != count
        {
            return;
        }
        template.passes = passes;
        self.templates.push(template);
        let slot = &mut self.slots[slot];
        slot.templates.rotate_right(1);
        slot.templates[0] = self.templates.len() as u16;
        if let Some(prefix) = prefix(message.text)
            .filter(|prefix| self.prefixes.iter().all(|(known, _)| known != prefix))
        {
            self.prefixes.push((prefix, dialect));
        }
    }
}

/// Returns the first 8 bytes of a message.
fn prefix(text: &str) -> Option<u64> {
    text.as_bytes()
        .first_chunk::<8>()
        .map(|prefix| u64::from_le_bytes(*prefix))
}

impl Templates {
    /// Returns the slot of a message's table.
    fn slot(&mut self, text: &str, dialect: &'static Dialect) -> usize {
        let bytes = text.as_bytes();
        let name = self
            .name_start(bytes, dialect)
            .and_then(|name| bytes.get(name..))
            .unwrap_or_default();
        (hash(name, dialect.name.len() as u64) >> 40) as usize % SLOT_COUNT
    }

    /// Returns the position of the table's name.
    #[inline]
    fn name_start(&mut self, bytes: &[u8], dialect: &'static Dialect) -> Option<usize> {
        let place = dialect.template?.table;
        let distances = self.name_distances(dialect)?;
        cached_name_start(bytes, place, *distances).or_else(|| {
            let name = place.name_start(bytes)?;
            *distances = [name, bytes.len() - name];
            Some(name)
        })
    }

    #[inline]
    fn name_distances(&mut self, dialect: &'static Dialect) -> Option<&mut [usize; 2]> {
        let known = self
            .name_distances
            .iter()
            .position(|(known, _)| std::ptr::eq(*known, dialect));
        let at = known.unwrap_or_else(|| {
            self.name_distances.push((dialect, [0; 2]));
            self.name_distances.len() - 1
        });
        self.name_distances
            .get_mut(at)
            .map(|(_, distances)| distances)
    }
}

/// Returns the position of the table's name, if its distance from the message's start or end is the same as last time.
#[inline]
fn cached_name_start(
    bytes: &[u8],
    place: Place,
    [from_start, from_end]: [usize; 2],
) -> Option<usize> {
    let from_end = bytes.len().checked_sub(from_end);
    match place {
        Place::Head(_) => name_at(bytes, Some(from_start)),
        Place::Tail(_) => name_at(bytes, from_end),
        Place::Either(_) => name_at(bytes, from_end).or_else(|| name_at(bytes, Some(from_start))),
    }
}

/// Returns a position if the table's name starts there.
#[inline]
fn name_at(bytes: &[u8], at: Option<usize>) -> Option<usize> {
    at.filter(|at| {
        bytes
            .get(..*at)
            .is_some_and(|before| before.ends_with(TABLE_KEY_SUFFIX))
    })
}

/// The member before the table's name. All these dialects have it.
const TABLE_KEY: &[u8] = b"\"table\":\"";
static FINDER: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(TABLE_KEY));
/// Suffix of this member in flat messages, where the name has a prefix.
const TABLE_KEY_SUFFIX: &[u8] = b"table\":\"";
static SUFFIX_FINDER: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(TABLE_KEY_SUFFIX));

impl Place {
    /// Finds the start of the table's name.
    fn name_start(self, bytes: &[u8]) -> Option<usize> {
        let (Place::Head(length) | Place::Tail(length) | Place::Either(length)) = self;
        let tail = bytes.len().saturating_sub(length);
        match self {
            Place::Head(_) => name_start_in(bytes, 0, length),
            Place::Tail(_) => name_start_in(bytes, tail, length),
            Place::Either(_) => {
                name_start_in(bytes, tail, length).or_else(|| name_start_in(bytes, 0, length))
            }
        }
    }
}

/// Finds the start of the table's name within a window of a message.
fn name_start_in(bytes: &[u8], start: usize, length: usize) -> Option<usize> {
    let window = bytes.get(start..bytes.len().min(start + length))?;
    let at = FINDER.find(window).map(|at| at + TABLE_KEY.len());
    at.or_else(|| {
        SUFFIX_FINDER
            .find(window)
            .map(|at| at + TABLE_KEY_SUFFIX.len())
    })
    .map(|at| start + at)
}
