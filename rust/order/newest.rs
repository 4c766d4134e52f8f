//! The newest change of each key in a batch.

use arrow_array::{StructArray, TimestampMicrosecondArray, UInt32Array};
use arrow_schema::ArrowError;
use hashbrown::HashMap;

use super::rules::Order;
use super::{Keys, Orders};

/// The newest change of each key, in the order of the keys' first arrivals.
pub struct Newest {
    /// Its index.
    pub changes: UInt32Array,
    /// The event time of its order value: the latest of the changes that it replaced, and its own.
    pub event_times: TimestampMicrosecondArray,
}

/// Folds the changes of each key as they arrived in Kafka: by timestamp, offset and place in the message.
pub fn newest(keys: &StructArray, orders: &StructArray) -> Result<Newest, ArrowError> {
    let rows = Keys::new(keys)?.rows(keys)?;
    let orders = Orders::new(orders)?;
    let mut winners: HashMap<&[u8], usize> = HashMap::new();
    let mut newest: Vec<(u32, Order<'_>)> = Vec::new();
    for (index, order) in arrived(&orders) {
        debug_assert!((index as usize) < rows.num_rows(), "a key for each order value");
        let key = rows.row(index as usize).data();
        let winner = *winners.entry(key).or_insert(newest.len());
        match newest.get_mut(winner) {
            None => newest.push((index, order)),
            Some(last) if order.is_newer(Some(&last.1)) => *last = (index, order.not_before(Some(&last.1))),
            Some(_) => {}
        }
    }
    Ok(Newest {
        changes: newest.iter().map(|(index, _)| *index).collect(),
        event_times: newest.iter().map(|(_, order)| order.event_time).collect(),
    })
}

/// The changes in the order of their arrival. Those without a place are compared by all of their fields.
fn arrived<'a>(orders: &Orders<'a>) -> Vec<(u32, Order<'a>)> {
    let mut arrived: Vec<_> = (0..orders.len()).filter_map(|index| Some((index as u32, orders.get(index)?))).collect();
    arrived.sort_by_key(|(_, order)| (order.timestamp, order.offset, order.step, *order));
    arrived
}
