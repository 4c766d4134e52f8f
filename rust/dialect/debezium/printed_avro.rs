//! Avro as console consumers print it (`kafka-avro-console-consumer`, `kcat -s value=avro`). The value of a union is an
//! object with one member, whose name is the value's type.
//!
//! ```json
//! {"before":null,"after":{"server.shop.orders.Value":{"id":7,"note":{"string":"x"}}},"source":{"table":{"string":"orders"}},
//!  "op":"c","ts_ms":{"long":1714979289512}}
//! ```
//!
//! It is refused, because its bytes and decimals are characters that look like text.

use super::members;
use crate::dialect::json_members::{has_member, member};
use crate::error::{Fault, Kind, excerpt};
use crate::wire::avro_json::is_union;
use crate::wire::json::Cursor;

/// Returns the fault of a message that is printed Avro.
#[cold]
pub(super) fn fault() -> Fault {
    let what = "is in Avro's JSON encoding, as console consumers print it; read the topic itself with dialect debezium-avro";
    Fault::new(Kind::Envelope, what)
}

/// Returns the fault of a row with an object that may be the value of a union, or JSON. Only the user knows which. If
/// it is a union's value, the row's bytes in other columns are wrong too.
#[cold]
pub(super) fn ambiguous(json: &str) -> Option<Fault> {
    is_union(Cursor::new(json, true)).then(|| {
        let what = format!(
            "{} is ambiguous (JSON, or Avro's JSON encoding, as console consumers print it): declare the column as json in column_types, or read the topic itself with dialect debezium-avro",
            excerpt(json)
        );
        Fault::new(Kind::Type, what)
    })
}

/// Returns the fault of an envelope that is printed Avro.
#[cold]
pub(super) fn find(envelope: &Cursor<'_>) -> Option<Fault> {
    printed_member(envelope, is_image)
        .or_else(|| printed_member(envelope, is_member))
        .or_else(|| printed_inner_member(envelope, "source"))
        .or_else(|| printed_inner_member(envelope, "transaction"))
}

fn printed_inner_member(envelope: &Cursor<'_>, record: &str) -> Option<Fault> {
    let object = member(envelope, |name, first| {
        name == record && first == Some(b'{')
    })?;
    printed_member(&object, |_| true).map(|fault| fault.within(record))
}

fn is_member(name: &str) -> bool {
    members::find(name).is_some() || members::added(name).is_some()
}

fn is_image(name: &str) -> bool {
    matches!(name, "before" | "after")
}

/// Returns whether the value of a member belongs to a union. A row image is within a member with its record's name.
/// Debezium calls the record `Value` in the namespace of the table.
fn is_printed(name: &str, value: &Cursor<'_>) -> bool {
    if !is_image(name) {
        return is_union(value.clone());
    }
    has_member(value, |name, first| {
        (name == "Value" || name.ends_with(".Value")) && first == Some(b'{')
    })
}

/// Returns the fault of the first matching member whose value belongs to a union.
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
