//! dms-json: messages that AWS Database Migration Service writes to Kafka and Kinesis.
//!
//! ```json
//! {"data":{"id":7,"total":12.50,"paid_at":"2024-05-06T07:08:09Z"},"before-image":{"total":9.99},
//!  "metadata":{"timestamp":"2024-05-06T07:08:10.123456Z","record-type":"data","operation":"update","partition-key-type":"schema-table",
//!   "schema-name":"shop","table-name":"orders","transaction-id":4294968,"commit-timestamp":"2024-05-06T07:08:09.000000Z",
//!   "stream-position":"mysql-bin.000021:4711:0:4800:0:mysql-bin.000021:4650"}}
//! {"control":{"table-def":{"columns":{"id":{"type":"INT32","nullable":false}},"primary-key":["id"]}},
//!  "metadata":{"timestamp":"2024-05-06T07:08:10.123456Z","record-type":"control","operation":"create-table","schema-name":"shop",
//!   "table-name":"orders"}}
//! ```

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::json_members::{RowImage, filled_text, nested, read_record, set_place, text};
use super::operations::{any_case, no_row, unknown_word};
use super::{Dialect, JSON_OPTIONS, Mark, Marks, Read, ReadContext, Wire};
use crate::error::{Fault, Kind, Result};
use crate::event::{Envelope, Events, Image, Op, Quirks, Source, ValueFormat};
use crate::interner::Quoting;
use crate::mysql::temporal::DateTimeText;
use crate::mysql::types::DeclaredType;
use crate::wire::json::Cursor;
use crate::wire::json_de::{CowStr, RawNested, RawValue};
use crate::wire::records;

pub(super) const DIALECT: Dialect = Dialect {
    name: NAME,
    aliases: &[],
    producer: "AWS DMS (Kafka and Kinesis)",
    wire: Wire::Json,
    description: "AWS Database Migration Service's messages for Kafka and Kinesis",
    marks: Marks::Members(&[
        Mark::Begins("metadata", b'{'),
        Mark::Begins("control", b'{'),
        Mark::Begins("before-image", b'{'),
    ]),
    quirks: |_| &DMS,
    read: Read::Text(read),
    options: JSON_OPTIONS,
    template: None,
};

const NAME: &str = "dms-json";

static DMS: Quirks = Quirks {
    dialect: NAME,
    declares_lengths: false,
    format: ValueFormat::Hex,
    quoting: Quoting::None,
};

const RECORD_TYPES: [&str; 2] = ["data", "control"];

/// Operations of rows. Older versions write `create` and `read`.
const ROW_OPERATIONS: [(&str, Op); 6] = [
    ("load", Op::Snapshot),
    ("insert", Op::Insert),
    ("update", Op::Update),
    ("delete", Op::Delete),
    ("create", Op::Insert),
    ("read", Op::Snapshot),
];

/// Operations of control records. Other ones are events of the task.
const CONTROL_OPERATIONS: [(&str, Op); 9] = [
    ("create-table", Op::Ddl),
    ("rename-table", Op::Ddl),
    ("drop-table", Op::Ddl),
    ("truncate-table", Op::Truncate),
    ("change-columns", Op::Ddl),
    ("add-column", Op::Ddl),
    ("drop-column", Op::Ddl),
    ("rename-column", Op::Ddl),
    ("column-type-change", Op::Ddl),
];

/// A message.
#[derive(Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
struct Message<'a> {
    /// The row after the change. A delete has its deleted row here.
    #[serde(default)]
    data: RowImage,
    /// Columns before an update. The task's settings select them.
    #[serde(default, rename = "before-image")]
    before: RowImage,
    /// The table of a control record, or the changes to it.
    control: Option<RawNested<'a>>,
    metadata: Metadata<'a>,
}

#[derive(Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
struct Metadata<'a> {
    /// Time when the message was written.
    timestamp: Option<CowStr<'a>>,
    /// `data` or `control`.
    #[serde(rename = "record-type")]
    record_type: Option<CowStr<'a>>,
    operation: Option<CowStr<'a>>,
    /// Database in MySQL's terms.
    #[serde(rename = "schema-name")]
    database: Option<CowStr<'a>>,
    #[serde(rename = "table-name")]
    table: Option<CowStr<'a>>,
    #[serde(default, rename = "transaction-id")]
    transaction: RawValue<'a>,
    #[serde(rename = "commit-timestamp")]
    committed: Option<CowStr<'a>>,
    /// For MySQL: the binlog file, the position in it, and more.
    #[serde(rename = "stream-position")]
    position: Option<CowStr<'a>>,
}

fn read<'a>(text: &'a str, reading: &ReadContext<'_, 'a>, events: &mut Events<'a>) -> Result<()> {
    let mut cursor = Cursor::new(text, reading.lenient);
    records::records(&mut cursor, |cursor| {
        read_record::<Message<'a>>(cursor, events)?.emit(reading, events)
    })
}

impl<'a> Message<'a> {
    fn emit(self, reading: &ReadContext<'_, 'a>, events: &mut Events<'a>) -> Result<()> {
        let op = self.op()?;
        let (before, after) = self.images(op)?;
        let envelope = self.envelope(reading, events)?;
        let envelope = events.envelope(envelope)?;
        events.row(op, envelope, before, after);
        Ok(())
    }

    fn is_control(&self) -> bool {
        match &self.metadata.record_type {
            Some(CowStr(kind)) => kind.eq_ignore_ascii_case("control"),
            None => self.control.is_some(),
        }
    }

    fn op(&self) -> Result<Op> {
        if let Some(CowStr(kind)) = &self.metadata.record_type
            && !RECORD_TYPES
                .iter()
                .any(|known| kind.eq_ignore_ascii_case(known))
        {
            return Err(Fault::new(
                Kind::Envelope,
                format!("{:?} is neither data nor control", kind),
            )
            .within("record-type")
            .within("metadata"));
        }
        let Some(CowStr(word)) = &self.metadata.operation else {
            return Err(Fault::new(Kind::Envelope, "is missing")
                .within("operation")
                .within("metadata"));
        };
        match (self.is_control(), any_case(word, &ROW_OPERATIONS)) {
            (true, _) => Ok(any_case(word, &CONTROL_OPERATIONS).unwrap_or(Op::Other)),
            (false, Some(op)) => Ok(op),
            (false, None) => Err(unknown_word(word).within("operation").within("metadata")),
        }
    }

    /// The before image is not merged onto the row. A column may be missing from it because the task's settings leave
    /// it out.
    fn images(&self, op: Op) -> Result<(Option<Image>, Option<Image>)> {
        if !op.is_row_change() {
            return Ok((None, None));
        }
        let row = self.data.0.clone().map(Image::whole);
        let row = row.ok_or_else(|| no_row(op).within("data"))?;
        Ok(match op {
            Op::Delete => (Some(row), None),
            Op::Update => (
                self.before
                    .0
                    .clone()
                    .filter(|cells| !cells.is_empty())
                    .map(Image::whole),
                Some(row),
            ),
            _ => (None, Some(row)),
        })
    }

    fn envelope(
        self,
        reading: &ReadContext<'_, 'a>,
        events: &mut Events<'a>,
    ) -> Result<Envelope<'a>> {
        let metadata = self.metadata;
        let mut envelope = Envelope {
            database: filled_text(metadata.database),
            table: filled_text(metadata.table),
            source: Source {
                operation: text(metadata.operation),
                event_time: micros(metadata.committed)
                    .map_err(|fault| fault.within("commit-timestamp").within("metadata"))?,
                produced_time: micros(metadata.timestamp)
                    .map_err(|fault| fault.within("timestamp").within("metadata"))?,
                transaction_id: Some(metadata.transaction.0)
                    .filter(|id| !id.is_null())
                    .map(|id| id.text())
                    .transpose()?,
                ..Source::default()
            },
            ..Envelope::empty(reading.quirks)
        };
        set_place(&mut envelope.source, metadata.position, file_and_offset);
        if let Some(RawNested(control)) = &self.control {
            declare(control, &mut envelope, events).map_err(|fault| fault.within("control"))?;
        }
        envelope.table_changes = nested(self.control);
        Ok(envelope)
    }
}

/// Finds the file and the offset in `mysql-bin.000021:4711:...`. Positions of other databases have another form.
fn file_and_offset(text: &str) -> Option<(&str, Option<i64>)> {
    let mut parts = text.split(':');
    Some((parts.next()?, Some(parts.next()?.parse().ok()?)))
}

/// Converts a time such as `2024-05-06T07:08:09.123456Z` to microseconds since 1970.
fn micros(time: Option<CowStr<'_>>) -> Result<Option<i64>> {
    let Some(CowStr(text)) = time else {
        return Ok(None);
    };
    let micros = DateTimeText::parse(&text).and_then(|parsed| {
        let seconds = parsed.seconds()? - i64::from(parsed.offset.unwrap_or(0));
        Ok(seconds * 1_000_000 + i64::from(parsed.nanos / 1000))
    });
    micros
        .map(Some)
        .map_err(|_| Fault::new(Kind::Envelope, format!("{text:?} is not a time")))
}

/// A control record's description of a table.
#[derive(Deserialize)]
struct Control {
    #[serde(rename = "table-def")]
    table: Option<TableDefinition>,
}

#[derive(Deserialize)]
struct TableDefinition {
    columns: Option<Columns>,
    #[serde(rename = "primary-key")]
    primary_key: Option<Vec<String>>,
}

/// An object of names and definitions, in its order.
struct Columns(Vec<(String, ColumnDefinition)>);

impl<'de> Deserialize<'de> for Columns {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ColumnsVisitor;

        impl<'de> Visitor<'de> for ColumnsVisitor {
            type Value = Columns;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object of columns")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Columns, A::Error> {
                let mut columns = Vec::new();
                while let Some(column) = members.next_entry()? {
                    columns.push(column);
                }
                Ok(Columns(columns))
            }
        }

        deserializer.deserialize_map(ColumnsVisitor)
    }
}

#[derive(Debug, Deserialize)]
struct ColumnDefinition {
    #[serde(rename = "type")]
    name: Option<String>,
    length: Option<u32>,
    precision: Option<u32>,
    scale: Option<u32>,
}

/// Declares the types and the primary key of a control record.
fn declare(control: &str, envelope: &mut Envelope<'_>, events: &mut Events<'_>) -> Result<()> {
    let Control { table } = serde_json::from_str(control).map_err(|error| {
        let what = format!("is not a table definition: {error}");
        Fault::new(Kind::Envelope, what)
    })?;
    let Some(table) = table else { return Ok(()) };
    if let (true, Some(Columns(columns))) = (events.needs.types, table.columns) {
        events.types.start();
        let mut last = 0;
        for (name, definition) in columns {
            let key = events.keys.intern_plain(&name);
            last = key.index();
            let spelling = definition.spelling();
            events.types.declare_as(
                (key, events.keys.column(key)),
                NAME,
                &format!("{definition:?}"),
                || definition.declared(&spelling),
            );
        }
        envelope.types = Some(events.types.finish(&[], last));
    }
    let first = events.names.len();
    for name in table.primary_key.unwrap_or_default() {
        let key = events.keys.intern_plain(&name);
        events.names.push(key);
    }
    envelope.primary_key = Some(first..events.names.len()).filter(|names| !names.is_empty());
    Ok(())
}

impl ColumnDefinition {
    /// Returns the type with its length or its digits in parentheses.
    fn spelling(&self) -> String {
        let name = self.name.as_deref().unwrap_or_default();
        match (self.precision, self.scale, self.length) {
            (Some(precision), scale, _) => format!("{name}({precision},{})", scale.unwrap_or(0)),
            (None, _, Some(length)) => format!("{name}({length})"),
            _ => name.to_owned(),
        }
    }

    /// Returns the MySQL type with the same values. `INT8` may have eight bits or eight bytes, so it becomes the larger
    /// type.
    fn declared(&self, spelling: &str) -> DeclaredType {
        let mysql = match self.name.as_deref().unwrap_or_default() {
            "BOOLEAN" => "bit(1)".to_owned(),
            "INT1" => "tinyint".to_owned(),
            "INT2" | "INT16" | "UINT1" => "smallint".to_owned(),
            "INT4" | "INT32" | "UINT2" | "UINT16" => "int".to_owned(),
            "INT8" | "INT64" | "UINT4" | "UINT32" => "bigint".to_owned(),
            "UINT8" | "UINT64" => "bigint unsigned".to_owned(),
            "NUMERIC" => format!(
                "decimal({},{})",
                self.precision.unwrap_or(0),
                self.scale.unwrap_or(0)
            ),
            "REAL4" => "float".to_owned(),
            "REAL8" => "double".to_owned(),
            "DATE" => "date".to_owned(),
            "TIME" => "time".to_owned(),
            "DATETIME" | "TIMESTAMP" => "datetime".to_owned(),
            "BYTES" | "BLOB" => "blob".to_owned(),
            "STRING" | "WSTRING" | "CLOB" | "NCLOB" => "text".to_owned(),
            other => other.to_owned(),
        };
        DeclaredType {
            text: spelling.into(),
            ..DeclaredType::parse(&mysql)
        }
    }
}
