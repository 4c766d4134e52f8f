//! MySQL change-data-capture messages to Arrow record batches: every cell equals the database's own value.
//!
//! Data flows one way, and the modules stand in that order: [`wire`] knows how bytes are encoded and no vendor;
//! [`template`] reads messages that resemble an earlier one, [`dialect`] all others, and knows what a vendor's envelope means; [`event`] is the one form that all dialects speak; [`mysql`] knows what
//! MySQL declares and how its text becomes a value; [`columns`] puts values into Arrow arrays, [`images`] and [`envelope`]
//! columns into rows, [`batch`] rows into a batch; [`decoder`] is what users call.
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

mod wire;

mod dialect;
mod template;

mod event;
mod keys;
mod shapes;

mod mysql;

mod columns;

mod ddl;
mod layout;
mod options;

mod envelope;
mod images;

mod batch;
mod decoder;
mod error;
mod infer;

#[cfg(feature = "python")]
mod python;

pub use decoder::{DecodeError, Decoder, Metrics, detect};
pub use dialect::{DIALECTS, Dialect, Wire, find};
pub use error::{Error, Kind};
pub use event::Op;
pub use infer::infer_schema;
pub use layout::Layout;
pub use options::{Mode, Options, TableSchema};
pub use wire::compression::Compression;
pub use wire::files::{Block, Cut, Damage, Framing, cut};
