//! Mapping of a change to output rows, by layout.

use hashbrown::HashSet;

use crate::event::{Events, Image, Op, Row};
use crate::interner::NameId;
use crate::options::Layout;
use crate::output::images::ImageByName;
use crate::value::Value;

/// Operation names of an update's two rows in the `changelog` layout.
pub(crate) const PREIMAGE: &str = "update_preimage";
pub(crate) const POSTIMAGE: &str = "update_postimage";

/// Images of an output row: before and after in the `change` layout, at most one of them in other layouts. In the
/// `upsert` layout, the deleted row is the second image.
pub(crate) type RowImages = [Option<Image>; 2];

/// Calls `push` with the operation name and images of each output row of an event's row.
pub(crate) fn rows<'a>(
    layout: Layout,
    event: &Row,
    events: &Events<'a>,
    keys: &mut KeyMoves<'a>,
    push: &mut impl FnMut(&'static str, RowImages),
) {
    let (before, after) = (event.before.clone(), event.after.clone());
    let deleted = |before| {
        if layout == Layout::Upsert {
            [None, before]
        } else {
            [before, None]
        }
    };
    match (layout, event.op) {
        (Layout::Change, op) => push(op.name(), [before, after]),
        (_, Op::Error) => push("error", [None, None]),
        (Layout::Changelog, Op::Update) => {
            // Without a before image, the update has only a postimage.
            if before.is_some() {
                push(PREIMAGE, [before, None]);
            }
            if after.is_some() {
                push(POSTIMAGE, [None, after]);
            }
        }
        // A producer may write the images of an update as two messages.
        (Layout::Upsert, Op::Update) if after.is_none() => push("delete", deleted(before)),
        (Layout::Upsert, Op::Update) if keys.moves(event, events) => {
            push("delete", deleted(before));
            push("insert", [None, after]);
        }
        (_, Op::Insert | Op::Snapshot) => push("insert", [None, after]),
        (_, Op::Update) => push("update", [None, after]),
        (_, Op::Delete) => push("delete", deleted(before)),
        (Layout::Upsert, Op::Truncate) => push("truncate", [None, None]),
        _ => {}
    }
}

/// Detects updates that change the primary key.
#[derive(Default)]
pub(crate) struct KeyMoves<'a> {
    before: ImageByName<'a>,
    after: ImageByName<'a>,
    /// The last envelope, and the names of its key.
    key: (Option<usize>, HashSet<NameId>),
}

impl<'a> KeyMoves<'a> {
    fn moves(&mut self, row: &Row, events: &Events<'a>) -> bool {
        let (Some(before), Some(after)) = (&row.before, &row.after) else {
            return false;
        };
        self.load_key(row, events);
        self.before.load(before, events);
        self.after.load(after, events);
        let mut names = self.before.order().filter(|name| self.key.1.contains(name));
        names.any(
            |name| match (self.before.value(name), self.after.value(name)) {
                (Value::Missing, _) | (_, Value::Missing) => false,
                (before, after) => !before.same(&after),
            },
        )
    }

    /// Loads the key of a row's envelope. The rows of a message share it.
    fn load_key(&mut self, row: &Row, events: &Events<'a>) {
        if row.envelope.is_some() && self.key.0 == row.envelope {
            return;
        }
        let names = events
            .envelope_of(row)
            .and_then(|envelope| events.primary_key_of(envelope))
            .unwrap_or_default();
        self.key.0 = row.envelope;
        self.key.1.clear();
        self.key.1.extend(names);
    }
}
