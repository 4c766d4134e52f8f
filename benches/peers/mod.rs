//! What towpath is measured beside in Rust. Each peer is at its best, and does far less: none makes a value or a column.

pub mod canal_protobuf;
pub mod dts_avro;
pub mod json;
