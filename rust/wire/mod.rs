//! How bytes are encoded. Nothing here knows a vendor.

pub(crate) mod avro;
pub(crate) mod claim_check;
pub(crate) mod compression;
pub(crate) mod files;
pub(crate) mod framing;
pub(crate) mod json;
pub(crate) mod protobuf;
pub(crate) mod utf8;
