//! Messages that no capture has. The tests write them: one file per dialect.

mod canal_protobuf;
mod debezium_avro;
mod dts_avro;
mod labels;
