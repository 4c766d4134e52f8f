//! Messages that no capture has, written by the tests themselves: one file for each dialect.

mod canal_protobuf;
mod debezium_avro;
mod dts_avro;
mod labels;
