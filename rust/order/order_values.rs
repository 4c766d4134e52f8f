//! Order values in an Arrow struct.

use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type, TimestampMicrosecondType};
use arrow_array::{
    Array, BooleanArray, Int32Array, Int64Array, StringArray, StructArray,
    TimestampMicrosecondArray,
};
use arrow_schema::ArrowError;

use super::rules::Order;

/// Fields of an order value. If no other rule decides, they order two values, from the first field to the last.
pub const FIELDS: [&str; 14] = [
    "event_time",
    "produced_time",
    "batch",
    "timestamp",
    "offset",
    "step",
    "commit_ts",
    "is_row",
    "log",
    "file",
    "at",
    "topic",
    "partition",
    "table",
];

/// The order values of an array.
pub struct Orders<'a> {
    array: &'a StructArray,
    event_time: &'a TimestampMicrosecondArray,
    produced_time: &'a TimestampMicrosecondArray,
    batch: &'a Int64Array,
    timestamp: &'a TimestampMicrosecondArray,
    offset: &'a Int64Array,
    step: &'a Int64Array,
    commit_ts: &'a Int64Array,
    is_row: &'a BooleanArray,
    log: &'a StringArray,
    file: &'a Int64Array,
    at: &'a Int64Array,
    topic: &'a StringArray,
    partition: &'a Int32Array,
}

impl<'a> Orders<'a> {
    /// Reads the fields of a struct.
    pub fn new(array: &'a StructArray) -> Result<Self, ArrowError> {
        let times = |name| {
            column(array, name, |found| {
                found.as_primitive_opt::<TimestampMicrosecondType>()
            })
        };
        let numbers = |name| column(array, name, |found| found.as_primitive_opt::<Int64Type>());
        let texts = |name| column(array, name, |found| found.as_string_opt::<i32>());
        Ok(Orders {
            array,
            event_time: times("event_time")?,
            produced_time: times("produced_time")?,
            batch: numbers("batch")?,
            timestamp: times("timestamp")?,
            offset: numbers("offset")?,
            step: numbers("step")?,
            commit_ts: numbers("commit_ts")?,
            is_row: column(array, "is_row", |found| found.as_boolean_opt())?,
            log: texts("log")?,
            file: numbers("file")?,
            at: numbers("at")?,
            topic: texts("topic")?,
            partition: column(array, "partition", |found| {
                found.as_primitive_opt::<Int32Type>()
            })?,
        })
    }

    /// Returns the number of order values.
    pub fn len(&self) -> usize {
        self.array.len()
    }

    /// Returns whether the array is empty.
    pub fn is_empty(&self) -> bool {
        self.array.is_empty()
    }

    /// Returns the order value at an index.
    ///
    /// # Errors
    ///
    /// Fails if it is null.
    pub fn known(&self, index: usize) -> Result<Order<'a>, ArrowError> {
        self.get(index).ok_or_else(|| {
            ArrowError::InvalidArgumentError(format!("order: value {index} is null"))
        })
    }

    /// Returns the order value at an index; `None` if it is null.
    pub fn get(&self, index: usize) -> Option<Order<'a>> {
        debug_assert!(index < self.len(), "order value {index} of {}", self.len());
        if self.array.is_null(index) {
            return None;
        }
        Some(Order {
            event_time: value(self.event_time, index, |array, at| array.value(at)),
            produced_time: value(self.produced_time, index, |array, at| array.value(at)),
            batch: value(self.batch, index, |array, at| array.value(at)),
            timestamp: value(self.timestamp, index, |array, at| array.value(at)),
            offset: value(self.offset, index, |array, at| array.value(at)),
            step: value(self.step, index, |array, at| array.value(at)),
            commit_ts: value(self.commit_ts, index, |array, at| array.value(at)),
            is_row: value(self.is_row, index, |array, at| array.value(at)),
            log: value(self.log, index, |array, at| array.value(at)),
            file: value(self.file, index, |array, at| array.value(at)),
            at: value(self.at, index, |array, at| array.value(at)),
            topic: value(self.topic, index, |array, at| array.value(at)),
            partition: value(self.partition, index, |array, at| array.value(at)),
        })
    }
}

/// Returns a field of the struct.
fn column<'a, T>(
    array: &'a StructArray,
    name: &str,
    read: impl Fn(&'a dyn Array) -> Option<T>,
) -> Result<T, ArrowError> {
    let found = array.column_by_name(name).and_then(|found| read(found));
    found.ok_or_else(|| {
        ArrowError::InvalidArgumentError(format!(
            "order: the field {name} is missing, or has another type"
        ))
    })
}

fn value<'a, A: Array, T>(
    array: &'a A,
    index: usize,
    read: impl Fn(&'a A, usize) -> T,
) -> Option<T> {
    array.is_valid(index).then(|| read(array, index))
}
