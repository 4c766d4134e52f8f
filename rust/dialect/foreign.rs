//! JSON of other products, which no dialect reads. It is recognised so that errors can name the product.

use super::without_schema_id;
use crate::error::{Fault, Kind};
use crate::wire::json::Cursor;
use crate::wire::utf8::{is_utf16, utf8};

/// Products, each with members that only its messages have together.
const FORMS: [(&str, &[&str]); 14] = [
    ("Qlik Replicate", &["magic", "messageSchemaId", "message"]),
    // Without the envelope around it.
    ("Qlik Replicate", &["data", "beforeData", "headers"]),
    ("Oracle GoldenGate", &["op_type", "op_ts", "current_ts"]),
    (
        "Google Datastream",
        &["read_method", "source_metadata", "payload"],
    ),
    (
        "NiFi's CaptureChangeMySQL",
        &["type", "timestamp", "binlog_filename"],
    ),
    // With GTIDs.
    (
        "NiFi's CaptureChangeMySQL",
        &["type", "timestamp", "binlog_gtidset"],
    ),
    ("Tencent DTS", &["schemaName", "tableName", "rowChanges"]),
    ("Tencent DTS", &["schemaName", "tableName", "dmlType"]),
    ("wal2json", &["action", "columns"]),
    ("wal2json", &["action", "identity"]),
    // The first format of wal2json.
    ("wal2json", &["change", "xid"]),
    ("wal2json", &["change", "nextlsn"]),
    ("Flink's changelog-json", &["data", "op"]),
    // A CloudEvent from EventBridge.
    ("Tencent DTS", &["specversion", "region", "subject", "data"]),
];

/// All members of wal2json's messages without rows. CloudCanal's messages have these and other members.
const WAL2JSON: [&[&str]; 2] = [&["action", "schema", "table"], &["action", "xid"]];

/// Adds to the fault of an unreadable message which other product wrote it, if known.
#[cold]
pub(crate) fn explained(fault: Fault, message: &[u8]) -> Fault {
    if is_utf16(message) {
        return fault.because("the message is UTF-16; convert it to UTF-8".to_owned());
    }
    if fault.kind() != Kind::Envelope {
        return fault;
    }
    match product(message) {
        Some(product) => fault.because(format!(
            "the message was written by {product}, which no dialect supports"
        )),
        None => fault,
    }
}

fn product(message: &[u8]) -> Option<&'static str> {
    let mut cursor = Cursor::new(utf8(without_schema_id(message))?, true);
    if cursor.peek() == Some(b'[') {
        let mut elements = cursor.array().ok()?;
        cursor.next_element(&mut elements).ok()?;
    }
    let mut names = Vec::new();
    let mut members = cursor.object().ok()?;
    while let Some(name) = cursor.next_key(&mut members).ok()? {
        names.push(name.unescaped());
        cursor.skip().ok()?;
    }
    let has_all = |members: &[&str]| {
        members
            .iter()
            .all(|member| names.iter().any(|name| name == member))
    };
    let is_wal2json = WAL2JSON
        .iter()
        .any(|members| names.len() == members.len() && has_all(members));
    let product = FORMS
        .iter()
        .find(|(_, members)| has_all(members))
        .map(|(product, _)| *product);
    product.or(is_wal2json.then_some("wal2json"))
}
