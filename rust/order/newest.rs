//! The newest change of each key in a batch.

use arrow_array::{BooleanArray, StructArray, TimestampMicrosecondArray, UInt32Array};
use arrow_schema::ArrowError;
use hashbrown::HashMap;
use hashbrown::hash_map::Entry;

use super::rules::Order;
use super::{Keys, Orders};

/// Results of the changes of a batch.
pub struct Newest {
    /// True if the change is the newest of its key.
    pub is_newest: BooleanArray,
    /// Event time of its order value: the latest of its own time and the times of the changes that it replaced.
    pub event_times: TimestampMicrosecondArray,
    /// Index of the change that it replaced. Null if it was the first change of its key, or replaced none.
    pub replaced: UInt32Array,
}

#[derive(Clone, Default)]
struct Folded {
    is_newest: bool,
    event_time: Option<i64>,
    replaced: Option<u32>,
}

/// Folds the changes of each key in the order of their arrival in Kafka: by timestamp, offset and place in the message.
#[expect(
    clippy::indexing_slicing,
    reason = "`arrived` has indices of `orders`, which has an order value for each key"
)]
pub fn newest(keys: &StructArray, orders: &StructArray) -> Result<Newest, ArrowError> {
    let rows = Keys::new(keys)?.rows(keys)?;
    let orders = Orders::new(orders)?;
    debug_assert_eq!(rows.num_rows(), orders.len(), "an order value for each key");
    let mut newest: HashMap<&[u8], (u32, Order<'_>)> = HashMap::new();
    let mut folded = vec![Folded::default(); orders.len()];
    for (index, order) in arrived(&orders)? {
        let change = &mut folded[index as usize];
        change.event_time = order.event_time;
        match newest.entry(rows.row(index as usize).data()) {
            Entry::Vacant(first) => {
                first.insert((index, order));
            }
            Entry::Occupied(mut last) if order.is_newer(Some(&last.get().1)) => {
                let order = order.not_before(Some(&last.get().1));
                change.event_time = order.event_time;
                change.replaced = Some(last.insert((index, order)).0);
            }
            Entry::Occupied(_) => {}
        }
    }
    for (index, _) in newest.values() {
        folded[*index as usize].is_newest = true;
    }
    Ok(Newest {
        is_newest: folded.iter().map(|change| Some(change.is_newest)).collect(),
        event_times: folded.iter().map(|change| change.event_time).collect(),
        replaced: folded.iter().map(|change| change.replaced).collect(),
    })
}

/// Returns the changes in the order of their arrival. All fields order the changes without a place.
fn arrived<'a>(orders: &Orders<'a>) -> Result<Vec<(u32, Order<'a>)>, ArrowError> {
    let found = (0..orders.len()).map(|index| Ok((index as u32, orders.known(index)?)));
    let mut arrived: Vec<_> = found.collect::<Result<_, ArrowError>>()?;
    arrived.sort_by_key(|(_, order)| (order.timestamp, order.offset, order.step, *order));
    Ok(arrived)
}
