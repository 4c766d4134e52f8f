//! Kafka Connect's encodings of MySQL's values: epochs, base64 of decimals, bits and bytes, structs of geometries. Several vendors
//! write them.
//!
//! The schema part of a message declares the encoding of each column. Without it, the encoding follows from the connector's
//! settings and the requested type; an ambiguous value is an error, because a wrong guess would go unnoticed.

mod column;
mod decode;
mod modes;

use std::sync::Arc;

use arrow_schema::Fields;
use bumpalo::Bump;

use crate::error::Fault;
use crate::mysql::types::{DeclaredType, DeclaredTypes};
use crate::options::Options;
use crate::value::Value;
pub(crate) use column::Column;
pub(crate) use decode::{decimal_text, decode, iso, of_integer, short_decimal, sign_extended, unsigned, zoned};
use modes::Modes;

/// What the user says of the encodings of a table's columns.
pub(crate) struct Columns {
    requested: Fields,
    /// By column, for messages without a schema part.
    configured: Vec<Option<Arc<DeclaredType>>>,
    modes: Modes,
}

impl Columns {
    pub fn new(requested: Fields, configured: Vec<Option<Arc<DeclaredType>>>, options: &Options) -> Result<Self, String> {
        debug_assert_eq!(requested.len(), configured.len());
        Ok(Columns { requested, configured, modes: Modes::new(options)? })
    }

    /// A column of the rows that have a block of declared types.
    #[allow(clippy::indexing_slicing, reason = "callers ask for columns of the table")]
    pub fn get<'c>(&'c self, column: usize, types: &'c DeclaredTypes, block: Option<usize>) -> Column<'c> {
        debug_assert!(column < self.configured.len());
        let declared = block.and_then(|block| types.of_column(block, column));
        let (requested, configured) = (self.requested[column].data_type(), self.configured[column].as_deref());
        Column { declared, configured, requested, modes: self.modes }
    }

    fn iter<'c>(&'c self, types: &'c DeclaredTypes, block: Option<usize>) -> impl Iterator<Item = Column<'c>> {
        (0..self.requested.len()).map(move |column| self.get(column, types, block))
    }

    /// Whether no value of such rows needs decoding.
    pub fn are_plain(&self, types: &DeclaredTypes, block: Option<usize>) -> bool {
        self.iter(types, block).all(|column| column.is_plain())
    }

    /// Decodes a row's values. One that cannot be decoded becomes null; returns the first of them with its column.
    pub fn decode<'a>(
        &self,
        values: &mut [Value<'a>],
        types: &DeclaredTypes,
        block: Option<usize>,
        arena: &'a Bump,
    ) -> Option<(usize, Fault)> {
        debug_assert_eq!(values.len(), self.requested.len());
        let mut first = None;
        for (at, (value, column)) in values.iter_mut().zip(self.iter(types, block)).enumerate() {
            *value = decode(*value, &column, arena).unwrap_or_else(|fault| {
                first.get_or_insert((at, fault));
                Value::Null
            });
        }
        first
    }
}
