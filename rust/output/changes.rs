//! Mapping of a change to output rows, by layout.

use hashbrown::HashSet;

use crate::event::{Events, Op, Row};
use crate::interner::NameId;
use crate::options::Layout;
use crate::output::images::ImageByName;
use crate::value::Value;

/// Operation names of an update's two rows in the `changelog` layout.
pub(crate) const PREIMAGE: &str = "update_preimage";
pub(crate) const POSTIMAGE: &str = "update_postimage";

/// Output rows of a change: operation name, and whether the row has the image before and after.
pub(crate) type OutputRows = [Option<(&'static str, bool, bool)>; 2];

/// Returns the output rows of a change. `before` and `after` tell which images it has, `moves` whether its key changes.
#[inline]
pub(crate) fn output_rows(
    layout: Layout,
    op: Op,
    (before, after): (bool, bool),
    moves: impl FnOnce() -> bool,
) -> OutputRows {
    let one = |word, before, after| [Some((word, before, after)), None];
    match (layout, op) {
        (Layout::Change, op) => one(op.name(), before, after),
        (_, Op::Error) => one("error", false, false),
        (Layout::Changelog, Op::Update) => [
            before.then_some((PREIMAGE, true, false)),
            after.then_some((POSTIMAGE, false, true)),
        ],
        // A producer may write the images of an update as two messages.
        (Layout::Upsert, Op::Update) if !after => one("delete", before, false),
        (Layout::Upsert, Op::Update) if moves() => [
            Some(("delete", before, false)),
            Some(("insert", false, true)),
        ],
        (_, Op::Insert | Op::Snapshot) => one("insert", false, after),
        (_, Op::Update) => one("update", false, after),
        (_, Op::Delete) => one("delete", before, false),
        (Layout::Upsert, Op::Truncate) => one("truncate", false, false),
        _ => [None, None],
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
    /// Returns whether a row's images have different values in the primary key.
    pub fn moves(&mut self, row: &Row, events: &Events<'a>) -> bool {
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
