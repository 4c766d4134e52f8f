//! CloudEvents, as Debezium's converter writes them in structured JSON.
//!
//! ```json
//! {"id":"name:shop;file:binlog.000003;pos:4","source":"/debezium/mysql/shop","specversion":"1.0",
//!  "type":"io.debezium.connector.mysql.DataChangeEvent","datacontenttype":"application/json","iodebeziumop":"c",
//!  "iodebeziumdb":"shop","iodebeziumtable":"orders","iodebeziumtsms":"1578923739738","data":{"before":null,"after":{"id":1}}}
//! ```
//!
//! `data` is the payload, with its schema part or without. Debezium's attributes are text, numbers too.

/// Debezium's attributes, as the fields of an envelope, and whether these are of `source`.
const ATTRIBUTES: &[(&str, (&str, bool))] = &[
    ("iodebeziumop", ("op", false)),
    ("iodebeziumdb", ("db", true)),
    ("iodebeziumschema", ("schema", true)),
    ("iodebeziumtable", ("table", true)),
    ("iodebeziumtsms", ("ts_ms", true)),
    ("iodebeziumtsus", ("ts_us", true)),
    ("iodebeziumtsns", ("ts_ns", true)),
    ("iodebeziumconnector", ("connector", true)),
    ("iodebeziumversion", ("version", true)),
    ("iodebeziumserverid", ("server_id", true)),
    ("iodebeziumfile", ("file", true)),
    ("iodebeziumpos", ("pos", true)),
    ("iodebeziumgtid", ("gtid", true)),
    ("iodebeziumtxid", ("transaction", false)),
];

/// The field of an envelope that an attribute is, and whether it is of `source`.
pub(super) fn attribute(name: &str) -> Option<(&'static str, bool)> {
    ATTRIBUTES
        .iter()
        .find(|(attribute, _)| *attribute == name)
        .map(|(_, field)| *field)
}
