//! Wire formats: JSON, protobuf, Avro, compression and file framing. They do not depend on vendors.

pub(crate) mod avro;
pub(crate) mod avro_json;
pub(crate) mod avro_schema;
pub(crate) mod binary_text;
pub(crate) mod compression;
pub(crate) mod digits;
pub(crate) mod escape;
pub(crate) mod files;
pub(crate) mod json;
pub(crate) mod json_de;
pub(crate) mod protobuf;
pub(crate) mod records;
pub(crate) mod utf8;
pub(crate) mod varint;
