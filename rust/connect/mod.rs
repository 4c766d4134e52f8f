//! Kafka Connect's encodings of MySQL's values: epochs, base64 of decimals, bits and bytes, structs of geometries.
//! Several vendors write them.
//!
//! The schema part of a message declares the encoding of each column. Without it, the encoding follows from the
//! connector's settings and the requested type. An ambiguous value is an error, because a wrong guess would go
//! unnoticed.

mod column;
mod decode;
mod modes;

pub(crate) use column::Column;
pub(crate) use decode::{
    decimal_text, decode, iso, of_integer, short_decimal, sign_extended, unsigned, zoned,
};
pub(crate) use modes::Modes;
