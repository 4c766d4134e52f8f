//! Avro as console consumers print it (`kafka-avro-console-consumer`, `kcat -s value=avro`): a union's value is an object of one
//! member, the name of its type.
//!
//! ```json
//! {"before":null,"after":{"server.shop.orders.Value":{"id":7,"note":{"string":"x"}}},"source":{"table":{"string":"orders"}},
//!  "op":"c","ts_ms":{"long":1714979289512}}
//! ```
//!
//! It is refused: bytes and decimals in it are characters, which nothing tells from text.

use super::members;
use crate::dialect::json_members::{has_member, member};
use crate::error::{Fault, Kind, excerpt};
use crate::wire::avro_json::is_union;
use crate::wire::json::Cursor;

/// The fault of a message that is printed Avro.
#[cold]
pub(super) fn fault() -> Fault {
    let what = "is in Avro's JSON, as console consumers print it; read the topic itself with debezium-avro";
    Fault::new(Kind::Envelope, what)
}

/// The fault of a row with an object that may be a union's value, or JSON: which one, only the user knows. If it is a union's, the row's
/// other values are wrong too, where they are bytes.
#[cold]
pub(super) fn ambiguous(json: &str) -> Option<Fault> {
    is_union(Cursor::new(json, true)).then(|| {
        let what = format!(
            "{} may be JSON, or in Avro's JSON, as console consumers print it: only the type json in column_types can tell; debezium-avro reads the topic itself",
            excerpt(json)
        );
        Fault::new(Kind::Type, what)
    })
}

/// The fault of an envelope that is printed Avro.
#[cold]
pub(super) fn find(envelope: &Cursor<'_>) -> Option<Fault> {
    let outer = || {
        printed_member(envelope, |name| {
            members::find(name).is_some() || members::added(name).is_some()
        })
    };
    let source = || {
        let source = member(envelope, |name, first| {
            name == "source" && first == Some(b'{')
        })?;
        printed_member(&source, |_| true).map(|fault| fault.within("source"))
    };
    printed_member(envelope, is_image)
        .or_else(outer)
        .or_else(source)
}

fn is_image(name: &str) -> bool {
    matches!(name, "before" | "after")
}

/// Returns whether the value of a member is a union's. A row image is within the name of its record, which Debezium
/// calls `Value` in the namespace of the table.
fn is_printed(name: &str, value: &Cursor<'_>) -> bool {
    let is_record =
        |name: &str, first| (name == "Value" || name.ends_with(".Value")) && first == Some(b'{');
    if is_image(name) {
        has_member(value, is_record)
    } else {
        is_union(value.clone())
    }
}

/// The fault of the first of these members whose value is a union's.
fn printed_member(object: &Cursor<'_>, is_one: impl Fn(&str) -> bool) -> Option<Fault> {
    let mut cursor = object.clone();
    let mut members = cursor.object().ok()?;
    while let Some(name) = cursor.next_key(&mut members).ok()? {
        let name = name.unescaped();
        cursor.peek();
        if is_one(&name) && is_printed(&name, &cursor) {
            return Some(fault().at(cursor.at()).within(&name));
        }
        cursor.skip().ok()?;
    }
    None
}
