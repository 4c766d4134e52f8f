//! MySQL change-data-capture messages to Arrow record batches: every cell equals the database's own value.
//!
//! Data flows one way, through the modules in this order:
//!
//! - [`wire`]: encodings of bytes (JSON, protobuf, Avro, compression). It knows no vendor.
//! - [`dialect`]: the vendors' envelopes. A dialect turns a message into change events.
//! - [`template`]: the fast path. It compares a message with an earlier one of the same table instead of parsing it.
//! - [`event`]: the change event, which all dialects produce, and [`value`], a value of a row image.
//! - [`mysql`]: declared types, and the conversion of MySQL's text to numbers, dates and bytes.
//! - [`connect`]: Kafka Connect's encodings of MySQL's values.
//! - [`columns`]: conversion of values to Arrow arrays, one file per family of types.
//! - [`output`]: row images and envelope columns to a record batch.
//! - [`decoder`]: options in, record batches out.
//! - [`order`]: order of changes, to find the newer of two, for tables that are maintained from changes.
//!
//! ```
//! use arrow_array::{BinaryArray, cast::AsArray};
//! use towpath::{Decoder, Options, TableSchema};
//!
//! let message = br#"{"data":[{"id":"1"}],"database":"shop","table":"orders","type":"INSERT","isDdl":false}"#;
//! let options = Options { schema: Some(TableSchema::Ddl("id bigint".into())), ..Options::default() };
//! let batch = Decoder::new(options)?.decode(&BinaryArray::from(vec![&message[..]]))?;
//! assert_eq!(batch["op"].as_string::<i32>().value(0), "insert");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![deny(missing_docs)]
#![forbid(unsafe_code)]
// `cargo test` builds without the feature `python`, clippy with it.
#![cfg_attr(test, deny(unused))]
#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::string_slice,
        clippy::panic,
        clippy::unreachable,
        clippy::todo
    )
)]

mod named;

mod wire;

mod value;

mod dialect;
mod template;

mod event;
mod interner;

mod mysql;

mod connect;

mod columns;

mod options;
pub mod order;
mod output;
mod schema;

mod decoder;
mod error;
mod infer;

#[cfg(feature = "python")]
mod python;

pub use decoder::{DecodeError, Decoder, Fetched};
pub use dialect::{DIALECTS, Dialect, Wire, detect, find};
pub use error::{Error, Kind};
pub use event::Op;
pub use infer::infer_schema;
pub use options::{Layout, Mode, Options, TableSchema};
pub use output::metrics::Metrics;
pub use wire::compression::Compression;
pub use wire::files::{Block, Cut, Damage, Framing, cut};
