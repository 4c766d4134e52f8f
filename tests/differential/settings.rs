//! Options of a decoder, and the forms in which it gets messages.

use std::sync::Arc;

use arrow_array::{
    ArrayRef, BinaryArray, BinaryViewArray, Int64Array, LargeBinaryArray, StringArray, StructArray,
};
use arrow_buffer::NullBuffer;
use arrow_schema::{DataType, Field, Fields, TimeUnit};
use proptest::prelude::*;
use towpath::{DIALECTS, Layout, Mode, Options, TableSchema, Wire};

use crate::batches::{Batch, Message};
use crate::producers::Connect;
use crate::tables::{Column, pick};
use crate::values::Kind;

/// Random draws for options, which are made for the tables of a batch.
#[derive(Clone, Debug)]
pub struct SettingsDraw {
    schema: Option<SchemaDraw>,
    layout: u8,
    fields: Option<u32>,
    mode: Mode,
    filter: u8,
    time_zone: u8,
    zero_date: u8,
    switches: Switches,
    dialect: u8,
    connect: u8,
    feeding: Feeding,
}

#[derive(Clone, Debug)]
struct SchemaDraw {
    /// Mask of the requested columns.
    asked: u16,
    /// Draw for the type of each. Small numbers are types that the column's values have.
    types: [u8; 16],
    /// True if a requested column is in no table.
    has_stranger: bool,
    rotated: u8,
}

#[derive(Clone, Copy, Debug)]
struct Switches {
    labels: bool,
    missing_is_error: bool,
    any_case: bool,
    lenient: bool,
    column_types: bool,
    keep: bool,
    key: bool,
}

/// Form in which the decoder gets messages.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Feeding {
    Binary,
    LargeBinary,
    View,
    /// As text, if all of it is text.
    Text,
    /// In two slices, then as a whole, all with the same decoder.
    Slices(u8),
    /// As a column among others, like Kafka's records.
    Records,
    /// As a column among others, with some null records.
    Holes,
}

pub fn settings() -> impl Strategy<Value = SettingsDraw> {
    let mode = prop_oneof![5 => Just(Mode::Permissive), 2 => Just(Mode::DropMalformed), 2 => Just(Mode::FailFast)];
    let fields = prop_oneof![2 => Just(None), 1 => any::<u32>().prop_map(Some)];
    let texts = (rarely(), any::<u8>(), rarely());
    let schema = prop_oneof![1 => Just(None), 4 => schema().prop_map(Some)];
    (
        schema,
        any::<u8>(),
        fields,
        mode,
        texts,
        switches(),
        any::<u8>(),
        any::<u8>(),
        feeding(),
    )
        .prop_map(
            |(
                schema,
                layout,
                fields,
                mode,
                (filter, time_zone, zero_date),
                switches,
                dialect,
                connect,
                feeding,
            )| SettingsDraw {
                schema,
                layout,
                fields,
                mode,
                filter,
                time_zone,
                zero_date,
                switches,
                dialect,
                connect,
                feeding,
            },
        )
}

fn rarely() -> impl Strategy<Value = u8> {
    prop_oneof![2 => Just(0u8), 1 => any::<u8>()]
}

fn schema() -> impl Strategy<Value = SchemaDraw> {
    let asked = prop_oneof![Just(u16::MAX), any::<u16>()];
    let types = prop::array::uniform16(prop_oneof![16 => Just(0u8), 4 => 0..6u8, 1 => any::<u8>()]);
    (
        asked,
        types,
        prop::bool::weighted(0.2),
        prop_oneof![2 => Just(0u8), 1 => any::<u8>()],
    )
        .prop_map(|(asked, types, has_stranger, rotated)| SchemaDraw {
            asked,
            types,
            has_stranger,
            rotated,
        })
}

fn switches() -> impl Strategy<Value = Switches> {
    let seldom = || prop::bool::weighted(0.2);
    (
        seldom(),
        prop::bool::weighted(0.1),
        seldom(),
        seldom(),
        any::<bool>(),
        seldom(),
        prop::bool::weighted(0.3),
    )
        .prop_map(
            |(labels, missing_is_error, any_case, lenient, column_types, keep, key)| Switches {
                labels,
                missing_is_error,
                any_case,
                lenient,
                column_types,
                keep,
                key,
            },
        )
}

fn feeding() -> impl Strategy<Value = Feeding> {
    prop_oneof![
        3 => Just(Feeding::Binary),
        1 => Just(Feeding::LargeBinary),
        1 => Just(Feeding::View),
        1 => Just(Feeding::Text),
        2 => any::<u8>().prop_map(Feeding::Slices),
        2 => Just(Feeding::Records),
        1 => Just(Feeding::Holes),
    ]
}

/// Names of the envelope columns, in the order of the documentation.
const FIELDS: [&str; 20] = [
    "op",
    "database",
    "schema",
    "table",
    "primary_key",
    "before",
    "after",
    "changed",
    "missing_columns",
    "event_time",
    "produced_time",
    "sql",
    "table_changes",
    "column_types",
    "jdbc_types",
    "source",
    "row",
    "sequence",
    "error",
    "_corrupt_record",
];

impl SettingsDraw {
    /// Returns options for a batch, and the form in which the decoder gets its messages.
    pub fn make(&self, batch: &Batch) -> (Options, Feeding) {
        let columns = columns(batch);
        let layout = if self.schema.is_some() {
            pick(Layout::NAMES, self.layout).1
        } else {
            Layout::Change
        };
        let fields = self.schema.as_ref().map(|schema| schema.fields(&columns));
        let asked = |column: &&Column| {
            fields
                .iter()
                .flat_map(|fields| fields.iter())
                .any(|field| field.name() == column.name)
        };
        let asked: Vec<&Column> = columns.iter().filter(asked).collect();
        let dialect = self.dialect(batch);
        // Decoders refuse an option without an effect on the dialect.
        let wire = DIALECTS
            .iter()
            .find(|known| known.name == dialect || known.aliases.contains(&&*dialect))
            .map(|known| known.wire);
        let is_json = wire.is_none_or(|wire| wire == Wire::Json);
        let is_debezium =
            dialect == "auto" || dialect.contains("debezium") && dialect != "debezium-avro";
        let [decimal, time, binary, unsigned] = self.connect(batch);
        let of_debezium = |mode: Option<String>| mode.filter(|_| is_debezium);
        let options = Options {
            dialect,
            schema: fields.clone().map(TableSchema::Arrow),
            database: [
                None,
                None,
                Some("shop"),
                Some("shop.?"),
                Some(".*"),
                Some("none"),
            ][usize::from(self.filter) % 6]
                .map(str::to_owned),
            table: [None, Some("orders"), Some("orders.*"), Some("(?i)ORDERS?")]
                [usize::from(self.filter / 6) % 4]
                .map(str::to_owned),
            layout,
            fields: self.fields.map(|mask| names(layout, mask)),
            keep: if self.switches.keep {
                ["offset", "topic"].map(String::from).to_vec()
            } else {
                Vec::new()
            },
            key: self.switches.key.then(|| "key".to_owned()),
            mode: self.mode,
            time_zone: ["UTC", "Asia/Shanghai", "America/New_York", "+08:00"]
                [usize::from(self.time_zone) % 4]
                .to_owned(),
            zero_date: ["null", "error", "text"][usize::from(self.zero_date) % 3].to_owned(),
            labels: if self.switches.labels {
                labels(&asked)
            } else {
                Vec::new()
            },
            case_sensitive: !self.switches.any_case,
            missing_is_error: self.switches.missing_is_error,
            lenient: self.switches.lenient && is_json,
            column_types: if self.switches.column_types {
                column_types(&asked)
            } else {
                Vec::new()
            },
            decimal_handling_mode: of_debezium(decimal),
            time_precision_mode: of_debezium(time),
            // Dialects other than Debezium write bytes in one form.
            binary_handling_mode: of_debezium(binary),
            bigint_unsigned_handling_mode: of_debezium(unsigned),
            ..Options::default()
        };
        let needs_records = self.switches.keep || self.switches.key;
        let is_records = matches!(self.feeding, Feeding::Records | Feeding::Holes);
        (
            options,
            if needs_records && !is_records {
                Feeding::Records
            } else {
                self.feeding
            },
        )
    }

    /// Returns the first producer's dialect by its name or alias, `auto`, or sometimes a dialect that no producer
    /// writes.
    fn dialect(&self, batch: &Batch) -> String {
        let names: Vec<[&str; 2]> = batch
            .forms
            .iter()
            .map(|form| form.producer.names())
            .collect();
        let is_mixed = names.iter().any(|name| name[0] != names[0][0]);
        match self.dialect {
            250.. => DIALECTS[usize::from(self.dialect) % DIALECTS.len()]
                .name
                .to_owned(),
            draw if draw < 80 || is_mixed && draw < 220 => "auto".to_owned(),
            draw => names[0][usize::from(draw % 3 == 0)].to_owned(),
        }
    }

    /// Returns the modes of Debezium's connector, other modes, or none.
    fn connect(&self, batch: &Batch) -> [Option<String>; 4] {
        let Connect {
            decimal,
            time,
            binary,
            unsigned,
        } = batch.forms[0].connect;
        let shift = if self.connect >= 220 { 1 } else { 0 };
        let name = |bit: u8, names: &[&str], at: usize| {
            (self.connect >> bit & 1 == 0).then(|| names[(at + shift) % names.len()].to_owned())
        };
        [
            name(0, &Connect::DECIMAL, decimal),
            name(1, &Connect::TIME, time),
            name(2, &Connect::BINARY, binary),
            name(3, &Connect::UNSIGNED, unsigned),
        ]
    }
}

/// Returns the columns of all tables, each name once regardless of case.
fn columns(batch: &Batch) -> Vec<Column> {
    let mut columns: Vec<Column> = Vec::new();
    for column in batch.tables.iter().flat_map(|table| &table.columns) {
        if columns
            .iter()
            .all(|known| known.name.to_lowercase() != column.name.to_lowercase())
        {
            columns.push(*column);
        }
    }
    columns
}

/// Returns names of a layout's envelope columns.
fn names(layout: Layout, mask: u32) -> Vec<String> {
    let refused: &[&str] = match layout {
        Layout::Change => &["sequence"],
        Layout::Changelog => &["sequence", "before", "after"],
        Layout::Upsert => &["before", "after"],
    };
    let asked = FIELDS
        .iter()
        .enumerate()
        .filter(|(at, name)| mask >> at & 1 == 1 && !refused.contains(name));
    asked.map(|(_, name)| in_layout(layout, name)).collect()
}

fn in_layout(layout: Layout, name: &str) -> String {
    match (layout, name) {
        (Layout::Change, _) | (_, "_corrupt_record") => name.to_owned(),
        (Layout::Changelog, "op") => "_change_type".to_owned(),
        _ => format!("_{name}"),
    }
}

fn labels(columns: &[&Column]) -> Vec<(String, Vec<String>)> {
    let words = ["a", "b", "c"].map(String::from).to_vec();
    let labelled = columns
        .iter()
        .filter(|column| matches!(column.declared.kind, Kind::Enum(_) | Kind::Set(_)));
    labelled
        .map(|column| (column.name.to_owned(), words.clone()))
        .collect()
}

fn column_types(columns: &[&Column]) -> Vec<(String, String)> {
    columns
        .iter()
        .map(|column| (column.name.to_owned(), column.declared.mysql.to_owned()))
        .collect()
}

impl SchemaDraw {
    fn fields(&self, columns: &[Column]) -> Fields {
        let asked = |at: usize| self.asked >> (at % 16) & 1 == 1;
        let field = |(at, column): (usize, &Column)| {
            Field::new(
                column.name,
                asked_type(column.declared.kind, self.types[at % 16]),
                true,
            )
        };
        let mut fields: Vec<Field> = columns
            .iter()
            .enumerate()
            .filter(|(at, _)| asked(*at))
            .map(field)
            .collect();
        if self.has_stranger || fields.is_empty() {
            fields.push(Field::new(
                "nowhere",
                asked_type(Kind::Text, self.types[0]),
                true,
            ));
        }
        let rotated = usize::from(self.rotated) % fields.len();
        fields.rotate_left(rotated);
        fields.into()
    }
}

const MICROS: TimeUnit = TimeUnit::Microsecond;

/// Returns the requested type of a column. Usually its values have it.
fn asked_type(kind: Kind, draw: u8) -> DataType {
    let natural = natural_types(kind);
    match draw {
        0 => natural[0].clone(),
        1..200 => natural[usize::from(draw) % natural.len()].clone(),
        _ => {
            let any = any_types();
            any[usize::from(draw) % any.len()].clone()
        }
    }
}

/// Returns types that hold the values of a kind. The first one holds all of them.
pub fn natural_types(kind: Kind) -> Vec<DataType> {
    use DataType::{
        Binary, Boolean, Date32, Decimal128, Decimal256, Duration, Float32, Float64, Int32, Int64,
        LargeUtf8, Time64, Timestamp, Utf8,
    };
    let zoned = || Some("UTC".into());
    match kind {
        Kind::Integer { most, .. } if most > i128::from(i64::MAX) => {
            vec![Decimal128(20, 0), DataType::UInt64, Utf8, Int64]
        }
        Kind::Integer { .. } => vec![
            Int64,
            Int32,
            Utf8,
            Decimal128(20, 0),
            DataType::UInt32,
            DataType::Int8,
            Boolean,
            DataType::UInt64,
        ],
        Kind::Decimal { precision, scale } if precision <= 38 => {
            vec![
                Decimal128(precision as u8, scale as i8),
                Utf8,
                Decimal128(38, 10),
                Decimal128(10, 1),
                Decimal256(65, 30),
            ]
        }
        Kind::Decimal { .. } => vec![
            Utf8,
            Decimal256(65, 30),
            Decimal256(76, 38),
            Decimal128(38, 0),
        ],
        Kind::Float => vec![Float64, Float32, Utf8],
        Kind::Text => vec![Utf8, LargeUtf8, Binary],
        Kind::Bytes { .. } => vec![Binary, DataType::LargeBinary, Utf8],
        Kind::Date => vec![Date32, Utf8, Timestamp(MICROS, None)],
        Kind::Clock { instant: false, .. } => {
            vec![
                Timestamp(MICROS, None),
                Utf8,
                Timestamp(MICROS, zoned()),
                Timestamp(TimeUnit::Second, None),
            ]
        }
        Kind::Clock { .. } => vec![
            Timestamp(MICROS, zoned()),
            Utf8,
            Timestamp(MICROS, None),
            Timestamp(TimeUnit::Nanosecond, zoned()),
        ],
        Kind::Time { .. } => vec![Duration(MICROS), Utf8, Time64(TimeUnit::Nanosecond), Int64],
        Kind::Year => vec![Int32, Utf8],
        Kind::Bit { width: 1 } => vec![Boolean, Int64, Binary],
        Kind::Bit { .. } => vec![Binary, Decimal128(20, 0), DataType::UInt64, Int64],
        Kind::Enum(_) | Kind::Set(_) => vec![Utf8, Int64, Decimal128(20, 0)],
        Kind::Json => vec![Utf8, structure(), list(Utf8), map()],
        Kind::Geometry => vec![Binary, geometry(), Utf8],
    }
}

fn any_types() -> Vec<DataType> {
    vec![
        DataType::Utf8,
        DataType::Int64,
        DataType::Int16,
        DataType::UInt8,
        DataType::UInt16,
        DataType::Boolean,
        DataType::Float32,
        DataType::Float64,
        DataType::Decimal128(38, 10),
        DataType::Decimal128(5, 5),
        DataType::Decimal256(76, 0),
        DataType::Binary,
        DataType::LargeUtf8,
        DataType::Date32,
        DataType::Timestamp(MICROS, None),
        DataType::Timestamp(TimeUnit::Millisecond, Some("UTC".into())),
        DataType::Duration(MICROS),
        DataType::Time64(MICROS),
        list(DataType::Int64),
        map(),
        structure(),
        geometry(),
    ]
}

fn list(item: DataType) -> DataType {
    DataType::List(Arc::new(Field::new("element", item, true)))
}

fn map() -> DataType {
    let entries = Fields::from(vec![
        Field::new("key", DataType::Utf8, false),
        Field::new("value", DataType::Utf8, true),
    ]);
    DataType::Map(
        Arc::new(Field::new("entries", DataType::Struct(entries), false)),
        false,
    )
}

fn structure() -> DataType {
    DataType::Struct(Fields::from(vec![
        Field::new("a", DataType::Utf8, true),
        Field::new("k", list(DataType::Int64), true),
    ]))
}

fn geometry() -> DataType {
    DataType::Struct(Fields::from(vec![
        Field::new("srid", DataType::Int32, true),
        Field::new("wkb", DataType::Binary, true),
    ]))
}

impl Feeding {
    /// Returns the inputs, which the same decoder decodes one after another.
    pub fn inputs(self, messages: &[Message]) -> Vec<ArrayRef> {
        let values = messages.iter().map(|message| message.value.as_deref());
        match self {
            Feeding::Binary => vec![Arc::new(values.collect::<BinaryArray>())],
            Feeding::LargeBinary => vec![Arc::new(values.collect::<LargeBinaryArray>())],
            Feeding::View => vec![Arc::new(values.collect::<BinaryViewArray>())],
            Feeding::Text => {
                let texts = values
                    .map(|value| value.map(std::str::from_utf8).transpose())
                    .collect::<Result<StringArray, _>>();
                texts.map_or_else(
                    |_| Feeding::Binary.inputs(messages),
                    |texts| vec![Arc::new(texts)],
                )
            }
            Feeding::Slices(place) => {
                let (whole, at) = (
                    values.collect::<BinaryArray>(),
                    usize::from(place) % (messages.len() + 1),
                );
                vec![
                    Arc::new(whole.slice(0, at)),
                    Arc::new(whole.slice(at, messages.len() - at)),
                    Arc::new(whole),
                ]
            }
            Feeding::Records => vec![Arc::new(records(messages, None))],
            Feeding::Holes => vec![Arc::new(records(
                messages,
                Some((0..messages.len()).map(|at| at % 7 != 3).collect()),
            ))],
        }
    }
}

/// Returns records with the columns of Kafka's records, and the number of each.
pub fn records(messages: &[Message], nulls: Option<Vec<bool>>) -> StructArray {
    let count = messages.len();
    let bytes = |of: fn(&Message) -> Option<&[u8]>| {
        Arc::new(messages.iter().map(of).collect::<BinaryArray>()) as ArrayRef
    };
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("key", bytes(|message| message.key.as_deref())),
        ("value", bytes(|message| message.value.as_deref())),
        // An offset may be unknown.
        (
            "offset",
            Arc::new(
                (0..count)
                    .map(|at| (at % 11 != 5).then_some(1000 + 3 * at as i64))
                    .collect::<Int64Array>(),
            ),
        ),
        (
            "topic",
            Arc::new(
                (0..count)
                    .map(|at| Some(if at % 2 == 0 { "even" } else { "odd" }))
                    .collect::<StringArray>(),
            ),
        ),
        (NUMBER, Arc::new((0..count as i64).collect::<Int64Array>())),
    ];
    let fields: Fields = columns
        .iter()
        .map(|(name, array)| Field::new(*name, array.data_type().clone(), true))
        .collect();
    let arrays = columns.into_iter().map(|(_, array)| array).collect();
    StructArray::new(fields, arrays, nulls.map(NullBuffer::from))
}

/// Name of the column with a record's place.
pub const NUMBER: &str = "number";
