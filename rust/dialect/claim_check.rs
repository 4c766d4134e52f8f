//! The form in which TiCDC stores a message that is too large for Kafka: `{"key":null,"value":"..."}`, both in base64.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::error::{Fault, Kind, Result};
use crate::value::Value;
use crate::wire::json::Cursor;

/// A message that was stored with its key.
pub(crate) struct Stored {
    pub key: Option<Vec<u8>>,
    pub value: Vec<u8>,
}

/// The message within, if the bytes are a stored one: an object of these two members and no other.
pub(crate) fn unwrap(bytes: &[u8]) -> Option<Result<Stored>> {
    const BEGIN: &[u8] = b"{\"key\":";
    let text = if bytes.starts_with(BEGIN) { std::str::from_utf8(bytes).ok()? } else { return None };
    let (mut key, mut value) = (Value::Missing, Value::Missing);
    let mut cursor = Cursor::new(text, false);
    let mut members = cursor.object().ok()?;
    while let Some(name) = cursor.next_key(&mut members).ok()? {
        let member = cursor.value().ok()?;
        match name.raw {
            "key" => key = member,
            "value" => value = member,
            _ => return None,
        }
    }
    match (key, value, cursor.peek()) {
        (Value::Null, Value::Text(value), None) => Some(decode(value).map(|value| Stored { key: None, value })),
        (Value::Text(key), Value::Text(value), None) => {
            Some(decode(key).and_then(|key| Ok(Stored { key: Some(key), value: decode(value)? })))
        }
        _ => None,
    }
}

fn decode(text: &str) -> Result<Vec<u8>> {
    STANDARD.decode(text).map_err(|error| Fault::new(Kind::Syntax, format!("a stored message is not base64: {error}")))
}
