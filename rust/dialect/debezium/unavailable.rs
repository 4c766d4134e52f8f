//! Placeholders of values that a message lacks.

use memchr::memmem;

use crate::event::{Cells, Envelope, Events};
use crate::value::Value;

/// Placeholder that connectors write for an unchanged value that the log lacks: PostgreSQL's TOAST, LOBs of Oracle and
/// SQL Server, and large columns with MySQL's `binlog_row_image=NOBLOB`. As text, and as bytes in base64 and in
/// hexadecimal digits.
const UNAVAILABLE: [&str; 3] = [
    "__debezium_unavailable_value",
    "X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ==",
    "5f5f646562657a69756d5f756e617661696c61626c655f76616c7565",
];

/// Placeholders of an array of texts and of an hstore.
const UNAVAILABLE_NESTED: [&str; 2] = [
    r#"["__debezium_unavailable_value"]"#,
    r#"{"__debezium_unavailable_value":"__debezium_unavailable_value"}"#,
];

pub(super) fn lacks_values(envelope: &Envelope<'_>, text: &str) -> bool {
    may_lack_values(envelope)
        && UNAVAILABLE
            .iter()
            .any(|part| memmem::find(text.as_bytes(), part.as_bytes()).is_some())
}

/// Returns whether the connector may write placeholders. Debezium's MySQL connector writes them since 3.7.
pub(super) fn may_lack_values(envelope: &Envelope<'_>) -> bool {
    match envelope.connector.as_deref() {
        None | Some("TiCDC") => false,
        Some("mysql" | "mariadb") => envelope.version.as_deref().is_some_and(is_since_3_7),
        Some(_) => true,
    }
}

fn is_since_3_7(version: &str) -> bool {
    let mut numbers = version.split('.').map(|part| part.parse::<u32>().ok());
    matches!((numbers.next(), numbers.next()), (Some(Some(major)), Some(Some(minor))) if (major, minor) >= (3, 7))
}

fn is_unavailable(value: &Value<'_>) -> bool {
    match *value {
        Value::Text(text) => UNAVAILABLE.contains(&text),
        Value::Plain(text) => UNAVAILABLE.iter().any(|part| part.as_bytes() == text),
        Value::Bytes(bytes) => bytes == UNAVAILABLE[0].as_bytes(),
        Value::Nested(json) => UNAVAILABLE_NESTED.contains(&json),
        _ => false,
    }
}

/// Removes the cells of an image whose values are not in the message.
#[allow(
    clippy::indexing_slicing,
    reason = "the image is a range of these cells"
)]
pub(super) fn drop_unavailable(image: &mut Cells, events: &mut Events<'_>) {
    let mut end = image.start;
    for at in image.clone() {
        if !is_unavailable(&events.cells[at].1) {
            events.cells[end] = events.cells[at];
            end += 1;
        }
    }
    image.end = end;
}
