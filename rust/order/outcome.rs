//! Outcome of the newest change of each key. The change is written, or it is older than the known state.

use arrow_array::{Array, BooleanArray, StructArray, TimestampMicrosecondArray};
use arrow_schema::ArrowError;
use hashbrown::HashMap;

use super::rules::Order;
use super::{Keys, Orders};

/// The newest changes of a batch, one per key.
pub struct Changes<'a> {
    /// Their keys.
    pub keys: &'a StructArray,
    /// Their order values.
    pub orders: &'a StructArray,
    /// True for the changes that delete their row.
    pub deletes: &'a BooleanArray,
}

/// Known state of a table: keys with their order values.
#[derive(Clone, Copy)]
pub struct Known<'a> {
    /// The keys, with the same types as the changes' keys.
    pub keys: &'a StructArray,
    /// Their order values.
    pub orders: &'a StructArray,
}

/// The outcomes of changes.
pub struct Outcomes {
    /// True if the change is written. The others are older than the known state.
    pub is_applied: BooleanArray,
    /// True if the target has the row.
    pub is_known: BooleanArray,
    /// Event time to store with the change. It is not before the time of the row or the tombstone that the change
    /// replaces.
    pub event_times: TimestampMicrosecondArray,
}

/// Compares changes with the rows of a target, and with its tombstones.
///
/// # Errors
///
/// Fails if the keys have different types, an order array has a wrong type, or a change has no order value.
#[expect(
    clippy::indexing_slicing,
    reason = "`index` has places in `orders`, which has an order value for each key"
)]
pub fn outcomes(
    changes: &Changes<'_>,
    rows: Known<'_>,
    gone: Known<'_>,
) -> Result<Outcomes, ArrowError> {
    let keys = Keys::new(changes.keys)?;
    let wanted = keys.rows(changes.keys)?;
    let orders = Orders::new(changes.orders)?;
    debug_assert_eq!(
        wanted.num_rows(),
        orders.len(),
        "an order value for each key"
    );
    let index: HashMap<&[u8], usize> = wanted
        .iter()
        .enumerate()
        .map(|(at, key)| (key.data(), at))
        .collect();
    let mut found: Vec<Found<'_>> = vec![Found::default(); orders.len()];
    rows.read(&keys, |key, order| {
        if let Some(at) = index.get(key) {
            (found[*at].is_known, found[*at].row) = (true, order);
        }
    })?;
    let mut tombstones: Vec<(Order<'_>, usize)> = Vec::new();
    gone.read(&keys, |key, order| {
        tombstones.extend(order.zip(index.get(key).copied()))
    })?;
    // Fold the tombstones of a key in an order that does not depend on their storage.
    tombstones.sort();
    for (order, at) in tombstones {
        if order.is_newer(found[at].gone.as_ref()) {
            found[at].gone = Some(order);
        }
    }
    let decided = found.iter().enumerate().map(|(at, found)| {
        let is_delete = changes.deletes.is_valid(at) && changes.deletes.value(at);
        Ok(found.decide(&orders.known(at)?, is_delete))
    });
    let decided: Vec<Decided> = decided.collect::<Result<_, ArrowError>>()?;
    Ok(Outcomes {
        is_applied: decided.iter().map(|one| Some(one.is_applied)).collect(),
        is_known: found.iter().map(|one| Some(one.is_known)).collect(),
        event_times: decided.iter().map(|one| one.event_time).collect(),
    })
}

impl<'a> Known<'a> {
    fn read(
        self,
        keys: &Keys,
        mut each: impl FnMut(&[u8], Option<Order<'a>>),
    ) -> Result<(), ArrowError> {
        let orders = Orders::new(self.orders)?;
        let rows = keys.rows(self.keys)?;
        debug_assert_eq!(rows.num_rows(), orders.len(), "an order value for each key");
        rows.iter()
            .enumerate()
            .for_each(|(at, key)| each(key.data(), orders.get(at)));
        Ok(())
    }
}

/// Known state of a key.
#[derive(Clone, Copy, Default)]
struct Found<'a> {
    is_known: bool,
    row: Option<Order<'a>>,
    gone: Option<Order<'a>>,
}

struct Decided {
    is_applied: bool,
    event_time: Option<i64>,
}

impl Found<'_> {
    fn decide(&self, change: &Order<'_>, is_delete: bool) -> Decided {
        let latest = change
            .not_before(self.row.as_ref())
            .not_before(self.gone.as_ref());
        // A delete may equal its tombstone while its row still exists: its batch failed between the two writes. Then it
        // is applied.
        let is_repeated = is_delete && self.is_known && self.gone == Some(latest);
        let is_old = !change.is_newer(self.gone.as_ref()) && !is_repeated
            || self.is_known && !change.is_newer(self.row.as_ref());
        Decided {
            is_applied: !is_old,
            event_time: latest.event_time,
        }
    }
}
