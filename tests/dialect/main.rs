//! Messages that no capture has, written by the tests themselves: one file for each dialect.

mod canal_protobuf;
mod dts_avro;
