//! Order values in an Arrow struct.

use arrow_array::{
    Array, BooleanArray, Int32Array, Int64Array, StringArray, StructArray,
    TimestampMicrosecondArray,
};
use arrow_schema::ArrowError;

/// Defines the fields of an order value that decide, in their order. Only this macro lists them.
macro_rules! order_fields {
    ($($(#[$doc:meta])* $field:ident: $value:ty, $array:ident;)*) => {
        /// Fields of an order value. If no other rule decides, they order two values, from the first field to the last.
        /// The table decides nothing.
        pub const FIELDS: &[&str] = &[$(stringify!($field),)* "table"];

        /// The order value of a change. Times are microseconds since 1970. Unknown fields are older than any value.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub struct Order<'a> {
            $($(#[$doc])* pub $field: Option<$value>,)*
        }

        /// The order values of an array.
        pub struct Orders<'a> {
            array: &'a StructArray,
            $($field: &'a $array,)*
        }

        impl<'a> Orders<'a> {
            /// Reads the fields of a struct.
            pub fn new(array: &'a StructArray) -> Result<Self, ArrowError> {
                Ok(Orders {
                    array,
                    $($field: column(array, stringify!($field))?,)*
                })
            }

            /// Returns the order value at an index; `None` if it is null.
            pub fn get(&self, index: usize) -> Option<Order<'a>> {
                debug_assert!(index < self.len(), "order value {index} of {}", self.len());
                self.array.is_valid(index).then(|| Order {
                    $($field: self.$field.is_valid(index).then(|| self.$field.value(index)),)*
                })
            }
        }
    };
}

order_fields! {
    /// Time when the source executed the change.
    event_time: i64, TimestampMicrosecondArray;
    /// Time when the producer wrote the message, if the message has a batch.
    produced_time: i64, TimestampMicrosecondArray;
    /// Id of canal's batch.
    batch: i64, Int64Array;
    /// Timestamp of the Kafka record.
    timestamp: i64, TimestampMicrosecondArray;
    /// The record's offset.
    offset: i64, Int64Array;
    /// The place in the message.
    step: i64, Int64Array;
    /// TiDB's commit time.
    commit_ts: i64, Int64Array;
    /// True if the change leaves a row.
    is_row: bool, BooleanArray;
    /// The server and the name of its binlog files.
    log: &'a str, StringArray;
    /// The number of the binlog file.
    file: i64, Int64Array;
    /// The place in the file.
    at: i64, Int64Array;
    /// The record's topic.
    topic: &'a str, StringArray;
    /// The record's partition.
    partition: i32, Int32Array;
}

impl<'a> Orders<'a> {
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
}

/// Returns a field of the struct.
fn column<'a, A: Array + 'static>(array: &'a StructArray, name: &str) -> Result<&'a A, ArrowError> {
    let found = array.column_by_name(name);
    found
        .and_then(|found| found.as_any().downcast_ref())
        .ok_or_else(|| {
            ArrowError::InvalidArgumentError(format!(
                "order: the field {name} is missing, or has another type"
            ))
        })
}
