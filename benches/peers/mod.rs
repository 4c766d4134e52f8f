//! Peers in Rust. Each peer runs in its best case, and does far less than towpath: none converts values or builds
//! columns.

pub mod canal_protobuf;
pub mod dts_avro;
pub mod json;
