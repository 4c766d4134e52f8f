//! ticdc-avro: messages of TiCDC's protocol `avro`.
//!
//! A message is a row after the change, with Confluent's zero byte and schema id in front. The row has the form of a
//! [debezium-avro](super::debezium_avro) row without an envelope. The schema has the type of each column in
//! `connect.parameters.tidb_type`, and the record is called `changefeed's namespace.database.table`.
//! `enable-tidb-extension` adds three fields: `_tidb_op` (`c` or `u`), `_tidb_commit_ts` and
//! `_tidb_commit_physical_time` (milliseconds). A delete has no value, and only the key's columns, in the key.
//! `avro-enable-watermark` adds two other messages: a byte 1 and JSON is a DDL statement,
//!
//! ```json
//! {"query":"CREATE TABLE orders (id INT)","type":3,"schema":"shop","table":"orders","commitTs":449999999999999999}
//! ```
//!
//! and a byte 2 and a big-endian integer of eight bytes is a watermark.

use std::borrow::Cow;

use serde::Deserialize;

use super::debezium_avro;
use super::ticdc_rows::{NAME, QUIRKS};
use crate::dialect::{Caches, Dialect, DialectOptions, Marks, Read, ReadContext, Wire};
use crate::error::{Fault, Kind, Result};
use crate::event::{Envelope, Events, Op};
use crate::mysql::temporal::micros_of_commit_ts;

pub(crate) const DIALECT: Dialect = Dialect {
    name: NAME,
    aliases: &[],
    producer: "TiCDC (avro protocol)",
    wire: Wire::Avro,
    description: "TiCDC's rows in Avro behind the id of their schema, with deletes in the key",
    marks: Marks::Bytes(is_event),
    quirks: |_| &QUIRKS,
    read: Read::Bytes(read),
    options: &["schema_registry", "writer_schemas"],
    template: None,
};

/// The first byte of a DDL statement.
const DDL: u8 = 1;
/// The first byte of a watermark.
const WATERMARK: u8 = 2;

/// Returns whether bytes are a DDL statement or a watermark. Rows begin like rows of debezium-avro; only their schema
/// tells them apart.
fn is_event(bytes: &[u8]) -> bool {
    matches!(bytes, [DDL, b'{', ..] | [WATERMARK, _, _, _, _, _, _, _, _])
}

/// A DDL statement.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Statement {
    query: String,
    schema: Option<String>,
    table: Option<String>,
    commit_ts: Option<i64>,
}

fn read<'a>(
    bytes: &'a [u8],
    reading: &ReadContext<'_, 'a>,
    events: &mut Events<'a>,
    caches: &mut Caches<'a>,
) -> Result<()> {
    match bytes {
        [DDL, json @ ..] => read_statement(json, reading, events),
        [WATERMARK, commit_ts @ ..] => read_watermark(commit_ts, reading, events),
        _ => debezium_avro::read(bytes, reading, events, caches),
    }
}

fn read_statement(
    json: &[u8],
    reading: &ReadContext<'_, '_>,
    events: &mut Events<'_>,
) -> Result<()> {
    let statement: Statement = serde_json::from_slice(json).map_err(|error| {
        Fault::new(Kind::Envelope, format!("is not a TiCDC DDL event: {error}")).at(1)
    })?;
    let op = Op::of_statement(&statement.query);
    let mut envelope = Envelope {
        database: named(statement.schema),
        table: named(statement.table),
        sql: Some(Cow::Owned(statement.query)),
        ..Envelope::empty(reading.quirks)
    };
    envelope.source.commit_ts = statement.commit_ts;
    envelope.source.event_time = statement.commit_ts.and_then(micros_of_commit_ts);
    push(op, envelope, events)
}

fn named(name: Option<String>) -> Option<Cow<'static, str>> {
    name.filter(|name| !name.is_empty()).map(Cow::Owned)
}

fn read_watermark(
    bytes: &[u8],
    reading: &ReadContext<'_, '_>,
    events: &mut Events<'_>,
) -> Result<()> {
    let Ok(commit_ts) = bytes.try_into().map(i64::from_be_bytes) else {
        let what = format!("expected a watermark of 8 bytes, found {}", bytes.len());
        return Err(Fault::new(Kind::Envelope, what).at(1));
    };
    let mut envelope = Envelope::empty(reading.quirks);
    envelope.source.watermark_ts = Some(commit_ts);
    envelope.source.event_time = micros_of_commit_ts(commit_ts);
    push(Op::Watermark, envelope, events)
}

fn push<'a>(op: Op, envelope: Envelope<'a>, events: &mut Events<'a>) -> Result<()> {
    let envelope = events.envelope(envelope)?;
    events.row(op, envelope, None, None);
    Ok(())
}

/// Reads a record without a value as a delete, if TiCDC wrote its key. Returns whether it did. If the user has not
/// named the dialect, the record may be a tombstone of another producer.
pub(crate) fn read_key<'a>(
    key: Option<&'a [u8]>,
    is_named: bool,
    options: &DialectOptions,
    events: &mut Events<'a>,
    caches: &mut Caches<'a>,
) -> Result<bool> {
    let Some(key) = key else {
        let what = "is required for deletes; set the argument key to its column";
        return Err(Fault::new(Kind::Envelope, what).within("key"));
    };
    if !is_named && !debezium_avro::is_tidb(key, caches) {
        return Ok(false);
    }
    events.set_dialect(&QUIRKS);
    let reading = options.context(&QUIRKS, Some(key));
    debezium_avro::read_deleted(key, &reading, events, caches)
        .map_err(|fault| fault.without_byte().within("key"))?;
    Ok(true)
}
