//! Order of changes: the order values of the tables that `replicate` maintains, and the outcome of a batch's changes.
//!
//! A change is applied if it is newer than the last known change of its key. Its order value is a struct ([`FIELDS`]),
//! stored with each row of a target and in its tombstones. [`rules`] compares two order values. The rules are not a
//! total order: A may be before B by time, B before C by time, and C before A by offset. So nothing sorts by them.
//! [`newest`] folds the changes of a key in the order of their arrival, with the same result as applying them one by
//! one.

pub mod bounds;
pub mod newest;
mod order_values;
pub mod outcome;
pub mod rules;

pub use order_values::{FIELDS, Orders};

use arrow_array::{Array, BooleanArray, StructArray};
use arrow_row::{RowConverter, Rows, SortField};
use arrow_schema::ArrowError;
use hashbrown::HashSet;

/// Converts the keys of several arrays of the same types to bytes. Equal keys have equal bytes.
struct Keys {
    converter: RowConverter,
}

impl Keys {
    fn new(keys: &StructArray) -> Result<Self, ArrowError> {
        let fields = keys
            .columns()
            .iter()
            .map(|column| SortField::new(column.data_type().clone()))
            .collect();
        Ok(Keys {
            converter: RowConverter::new(fields)?,
        })
    }

    fn rows(&self, keys: &StructArray) -> Result<Rows, ArrowError> {
        self.converter.convert_columns(keys.columns())
    }
}

/// A set of keys that filters the rows of a large table part by part.
pub struct KeySet {
    keys: Keys,
    found: HashSet<Box<[u8]>>,
}

impl KeySet {
    /// Returns the keys of an array.
    pub fn new(keys: &StructArray) -> Result<Self, ArrowError> {
        let converter = Keys::new(keys)?;
        let found = converter
            .rows(keys)?
            .iter()
            .map(|key| Box::from(key.data()))
            .collect();
        Ok(KeySet {
            keys: converter,
            found,
        })
    }

    /// Returns whether each key of another array of the same types is in the set.
    pub fn contains(&self, keys: &StructArray) -> Result<BooleanArray, ArrowError> {
        Ok(self
            .keys
            .rows(keys)?
            .iter()
            .map(|key| Some(self.found.contains(key.data())))
            .collect())
    }
}
