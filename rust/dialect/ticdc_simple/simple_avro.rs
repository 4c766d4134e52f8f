//! The Avro encoding: a bare datum of a union of records. Every message is the union's last record.

use super::table_schema::{Column, DataType, Description, Index};
use super::{Checksum, Message, timestamp};
use crate::dialect::json_members::RowImage;
use crate::error::{Fault, Kind, Result};
use crate::event::{Cells, Events};
use crate::value::Value;
use crate::wire::avro::Reader;
use crate::wire::json_de::{CowStr, RawNested};

/// Number of records in the union. `Message` is the last one.
const RECORDS: usize = 12;

/// Kinds of messages: symbols of `Message.type`, and branches of `Message.payload`.
const WATERMARK: usize = 0;
const BOOTSTRAP: usize = 1;
const DDL: usize = 2;
const KINDS: usize = 4;

const DDL_TYPES: [&str; 8] = [
    "CREATE", "ALTER", "ERASE", "RENAME", "TRUNCATE", "CINDEX", "DINDEX", "QUERY",
];
const DML_TYPES: [&str; 3] = ["INSERT", "UPDATE", "DELETE"];

/// Returns whether these bytes begin a message: the branch of `Message`, the same kind twice, and version 1.
pub(crate) fn is_message(bytes: &[u8]) -> bool {
    // Avro writes non-negative numbers doubled.
    matches!(bytes, [22, kind, payload, 2, ..] if kind == payload && matches!(kind, 0 | 2 | 4 | 6))
}

pub(super) fn read<'a>(bytes: &'a [u8], events: &mut Events<'a>) -> Result<Message<'a>> {
    let mut reader = Reader::new(bytes);
    reader.index(RECORDS, "branch")?;
    let kind = reader.index(KINDS, "symbol").within("type")?;
    reader.index(KINDS, "branch").within("payload")?;
    let version = Some(i64::from(reader.int().within("version")?));
    let message = match kind {
        WATERMARK => watermark(&mut reader),
        BOOTSTRAP => bootstrap(&mut reader, events),
        DDL => ddl(&mut reader, events),
        _ => dml(&mut reader, events),
    };
    let message = message?;
    if !reader.is_at_end() {
        return Err(Fault::new(Kind::Syntax, "unexpected bytes after the message").at(reader.at()));
    }
    Ok(Message { version, ..message })
}

fn watermark<'a>(reader: &mut Reader<'a>) -> Result<Message<'a>> {
    let commit_ts = Some(reader.long().within("commitTs")?);
    let build_ts = Some(reader.long().within("buildTs")?);
    Ok(Message {
        operation: word("WATERMARK"),
        commit_ts,
        build_ts,
        ..Message::default()
    })
}

fn bootstrap<'a>(reader: &mut Reader<'a>, events: &Events<'a>) -> Result<Message<'a>> {
    let build_ts = Some(reader.long().within("buildTs")?);
    let table_schema = Some(table_schema(reader, events).within("tableSchema")?);
    Ok(Message {
        operation: word("BOOTSTRAP"),
        build_ts,
        table_schema,
        ..Message::default()
    })
}

fn ddl<'a>(reader: &mut Reader<'a>, events: &Events<'a>) -> Result<Message<'a>> {
    let operation = word(symbol(reader, &DDL_TYPES).within("type")?);
    let sql = Some(CowStr(reader.text().within("sql")?.into()));
    let commit_ts = Some(reader.long().within("commitTs")?);
    let build_ts = Some(reader.long().within("buildTs")?);
    let schema = optional(reader, |reader| table_schema(reader, events)).within("tableSchema")?;
    optional(reader, |reader| table_schema(reader, events)).within("preTableSchema")?;
    Ok(Message {
        operation,
        sql,
        commit_ts,
        build_ts,
        table_schema: schema,
        ..Message::default()
    })
}

fn dml<'a>(reader: &mut Reader<'a>, events: &mut Events<'a>) -> Result<Message<'a>> {
    Ok(Message {
        database: Some(CowStr(reader.text().within("database")?.into())),
        table: {
            let table = reader.text().within("table")?;
            reader.long().within("tableID")?;
            Some(CowStr(table.into()))
        },
        operation: word(symbol(reader, &DML_TYPES).within("type")?),
        commit_ts: Some(reader.long().within("commitTs")?),
        build_ts: Some(reader.long().within("buildTs")?),
        schema_version: Some(reader.long().within("schemaVersion")?),
        claim_check: optional(reader, Reader::text)
            .within("claimCheckLocation")?
            .map(|location| CowStr(location.into())),
        handle_key_only: optional(reader, Reader::boolean).within("handleKeyOnly")?,
        checksum: optional(reader, checksum).within("checksum")?,
        data: RowImage(optional(reader, |reader| row_image(reader, events)).within("data")?),
        old: RowImage(optional(reader, |reader| row_image(reader, events)).within("old")?),
        ..Message::default()
    })
}

fn checksum(reader: &mut Reader<'_>) -> Result<Checksum> {
    reader.int().within("version")?;
    let corrupted = Some(reader.boolean().within("corrupted")?);
    reader.long().within("current")?;
    reader.long().within("previous")?;
    Ok(Checksum { corrupted })
}

/// Reads a map, whose order is random.
fn row_image<'a>(reader: &mut Reader<'a>, events: &mut Events<'a>) -> Result<Cells> {
    let start = events.cells.len();
    reader.items(|reader| {
        let name = reader.text()?;
        let value = value(reader, events.arena).within(name)?;
        let key = events.keys.intern_plain(name);
        if events.wants_cell(key) {
            events.cells.push((key, value));
        }
        Ok(())
    })?;
    Ok(start..events.cells.len())
}

fn value<'a>(reader: &mut Reader<'a>, arena: &'a bumpalo::Bump) -> Result<Value<'a>> {
    Ok(match reader.index(8, "branch")? {
        0 => Value::Null,
        1 => Value::Number(arena.alloc_str(&reader.long()?.to_string())),
        2 => Value::Single(reader.float()?),
        3 => Value::Double(reader.double()?),
        4 => Value::Text(reader.text()?),
        5 => Value::Bytes(reader.bytes()?),
        6 => {
            let zone = reader.text()?;
            timestamp(reader.text()?, zone, arena)
        }
        // The bits of a bigint unsigned.
        _ => Value::Number(arena.alloc_str(&(reader.long()? as u64).to_string())),
    })
}

/// Returns a table's schema as JSON. Users see it in this form.
fn table_schema<'a>(reader: &mut Reader<'a>, events: &Events<'a>) -> Result<RawNested<'a>> {
    let description = Description {
        database: reader.text().within("database")?.into(),
        table: reader.text().within("table")?.into(),
        table_id: reader.long().within("tableID")?,
        version: reader.long().within("version")?,
        columns: Some(list(reader, column).within("columns")?),
        indexes: Some(list(reader, index).within("indexes")?),
    };
    let text = serde_json::to_string(&description)
        .map_err(|error| Fault::new(Kind::Envelope, error.to_string()))?;
    Ok(RawNested(events.arena.alloc_str(&text)))
}

fn column(reader: &mut Reader<'_>) -> Result<Column> {
    let name = reader.text()?.to_owned();
    let data_type = data_type(reader).within(&name)?;
    let nullable = reader.boolean().within(&name)?;
    let default = optional(reader, Reader::text).within(&name)?.into();
    Ok(Column {
        name,
        data_type,
        nullable,
        default,
    })
}

fn data_type(reader: &mut Reader<'_>) -> Result<DataType> {
    Ok(DataType {
        name: reader.text()?.into(),
        charset: reader.text()?.into(),
        collate: reader.text()?.into(),
        length: reader.long()?,
        decimal: optional(reader, Reader::int)?.unwrap_or_default().into(),
        elements: optional(reader, |reader| list(reader, owned_text))?.unwrap_or_default(),
        unsigned: optional(reader, Reader::boolean)?.unwrap_or_default(),
        zerofill: optional(reader, Reader::boolean)?.unwrap_or_default(),
    })
}

fn index(reader: &mut Reader<'_>) -> Result<Index> {
    Ok(Index {
        name: reader.text()?.into(),
        unique: reader.boolean()?,
        primary: reader.boolean()?,
        nullable: reader.boolean()?,
        columns: Some(list(reader, owned_text)?),
    })
}

fn owned_text(reader: &mut Reader<'_>) -> Result<String> {
    reader.text().map(str::to_owned)
}

/// Reads a union of null and a value.
fn optional<'a, T>(
    reader: &mut Reader<'a>,
    value: impl FnOnce(&mut Reader<'a>) -> Result<T>,
) -> Result<Option<T>> {
    match reader.index(2, "branch")? {
        0 => Ok(None),
        _ => value(reader).map(Some),
    }
}

fn list<T>(reader: &mut Reader<'_>, item: impl Fn(&mut Reader<'_>) -> Result<T>) -> Result<Vec<T>> {
    let mut items = Vec::new();
    reader.items(|reader| {
        items.push(item(reader)?);
        Ok(())
    })?;
    Ok(items)
}

fn symbol(reader: &mut Reader<'_>, symbols: &[&'static str]) -> Result<&'static str> {
    let symbol = reader.index(symbols.len(), "symbol")?;
    Ok(symbols.get(symbol).copied().unwrap_or_default())
}

fn word<'a>(word: &'static str) -> Option<CowStr<'a>> {
    Some(CowStr(word.into()))
}

/// Result of reading a field. A fault gets the field's name.
trait Field {
    fn within(self, name: &str) -> Self;
}

impl<T> Field for Result<T> {
    fn within(self, name: &str) -> Self {
        self.map_err(|fault| fault.within(name))
    }
}
