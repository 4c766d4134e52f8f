//! TiCDC's claim check: a message too large for Kafka is stored as `{"key":null,"value":"..."}`, both in base64.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;

use super::{canal_json, ticdc_open, ticdc_simple};
use crate::error::{Fault, Kind, Result};

/// A stored message with its key.
pub(crate) struct Stored {
    pub key: Option<Vec<u8>>,
    pub value: Vec<u8>,
}

/// TiCDC's wrapper, which has exactly these members.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wrapper {
    key: Option<String>,
    value: String,
}

/// Returns whether TiCDC stores messages of a dialect. In other dialects an object with these members is a row.
pub(crate) fn is_stored(dialect: &str) -> bool {
    [canal_json::NAME, ticdc_open::NAME, ticdc_simple::NAME].contains(&dialect)
}

/// Returns the stored message, if the bytes are a wrapper.
pub(crate) fn unwrap(bytes: &[u8]) -> Option<Result<Stored>> {
    // Rejects all other messages cheaply.
    const PREFIX: &[u8] = b"{\"key\":";
    let wrapper: Wrapper = if bytes.starts_with(PREFIX) {
        serde_json::from_slice(bytes).ok()?
    } else {
        return None;
    };
    let key = wrapper.key.as_deref().map(decode).transpose();
    Some(key.and_then(|key| {
        Ok(Stored {
            key,
            value: decode(&wrapper.value)?,
        })
    }))
}

fn decode(text: &str) -> Result<Vec<u8>> {
    STANDARD.decode(text).map_err(|error| {
        Fault::new(
            Kind::Syntax,
            format!("a stored message is not base64: {error}"),
        )
    })
}
