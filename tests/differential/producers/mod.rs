//! Producers' forms of a statement: one message, or one message per row.

mod canal;
mod cloudcanal;
mod debezium;
pub mod maxwell;
mod river;

use crate::json::{Escapes, Json, null, object, quoted, raw, text};
use crate::tables::{Column, Table};
use crate::values::{Cell, Kind};

/// Producer of the messages.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Producer {
    Canal,
    TicdcCanal,
    TencentCanal,
    CloudcanalCanal,
    Cloudcanal,
    Maxwell,
    TicdcMaxwell,
    Debezium,
    DebeziumSchema,
    CloudcanalDebezium,
    DebeziumFlat,
    River,
}

impl Producer {
    pub const ALL: [Producer; 12] = [
        Producer::Canal,
        Producer::TicdcCanal,
        Producer::TencentCanal,
        Producer::CloudcanalCanal,
        Producer::Cloudcanal,
        Producer::Maxwell,
        Producer::TicdcMaxwell,
        Producer::Debezium,
        Producer::DebeziumSchema,
        Producer::CloudcanalDebezium,
        Producer::DebeziumFlat,
        Producer::River,
    ];

    /// Returns the dialect's name, and the alias for the producer.
    pub fn names(self) -> [&'static str; 2] {
        match self {
            Producer::Canal => ["canal-json"; 2],
            Producer::TicdcCanal => ["canal-json", "ticdc-canal-json"],
            Producer::TencentCanal => ["canal-json", "tencent-canal-json"],
            Producer::CloudcanalCanal => ["canal-json", "cloudcanal-canal-json"],
            Producer::Cloudcanal => ["cloudcanal-json"; 2],
            Producer::Maxwell | Producer::TicdcMaxwell => ["maxwell-json"; 2],
            Producer::Debezium | Producer::DebeziumSchema | Producer::DebeziumFlat => {
                ["debezium-json"; 2]
            }
            Producer::CloudcanalDebezium => ["debezium-json", "cloudcanal-debezium-json"],
            Producer::River => ["river-json"; 2],
        }
    }

    /// Returns the producers of a dialect.
    pub fn of(dialect: &str) -> Vec<Producer> {
        Producer::ALL
            .into_iter()
            .filter(|producer| producer.names()[0] == dialect)
            .collect()
    }
}

/// A producer with its settings.
#[derive(Clone, Copy, Debug)]
pub struct Form {
    pub producer: Producer,
    pub escapes: Escapes,
    /// Settings that only this producer has, one bit each.
    pub style: u8,
    pub connect: Connect,
}

/// Settings of Debezium's connector, by their index in the lists of names.
#[derive(Clone, Copy, Debug, Default)]
pub struct Connect {
    pub decimal: usize,
    pub time: usize,
    pub binary: usize,
    pub unsigned: usize,
}

impl Connect {
    pub const DECIMAL: [&str; 3] = ["precise", "string", "double"];
    pub const TIME: [&str; 5] = [
        "adaptive_time_microseconds",
        "connect",
        "isostring",
        "microseconds",
        "adaptive",
    ];
    pub const BINARY: [&str; 3] = ["bytes", "hex", "base64-url-safe"];
    pub const UNSIGNED: [&str; 2] = ["long", "precise"];
}

/// Operation of a statement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Did {
    Insert,
    Update,
    Delete,
    /// An operation other than a change of rows, by its number.
    Other(u8),
}

/// A changed row. An insert has only `after`, a delete only `before`.
#[derive(Clone, Debug)]
pub struct Row {
    pub before: Vec<Cell>,
    pub after: Vec<Cell>,
    /// True for each column that an update changed.
    pub changed: Vec<bool>,
}

/// A statement over rows of one table.
#[derive(Clone, Debug)]
pub struct Statement<'t> {
    pub table: &'t Table,
    pub did: Did,
    pub rows: Vec<Row>,
    /// Place in the log. It makes otherwise equal messages differ.
    pub at: u64,
}

impl Statement<'_> {
    /// Returns the row that canal's family of dialects calls `data`.
    fn data<'r>(&self, row: &'r Row) -> &'r [Cell] {
        if self.did == Did::Delete {
            &row.before
        } else {
            &row.after
        }
    }

    /// Returns seconds since 1970. Many statements share one second.
    fn second(&self) -> u64 {
        1_763_000_000 + self.at / 8
    }

    /// Returns the time when the message was sent.
    fn sent(&self) -> u64 {
        self.second() * 1000 + self.at * 37 % 1000
    }
}

/// Returns the messages of a statement.
pub fn write(statement: &Statement<'_>, form: &Form) -> Vec<Json> {
    match form.producer {
        Producer::Canal => vec![canal::canal(statement, form)],
        Producer::TicdcCanal => vec![canal::ticdc(statement, form)],
        Producer::TencentCanal => vec![canal::tencent(statement, form)],
        Producer::CloudcanalCanal => vec![canal::cloudcanal(statement, form)],
        Producer::Cloudcanal => vec![cloudcanal::write(statement, form)],
        Producer::Maxwell => maxwell::daemon(statement, form),
        Producer::TicdcMaxwell => maxwell::ticdc(statement, form),
        Producer::Debezium => debezium::write(statement, form),
        Producer::DebeziumSchema => debezium::with_schema(statement, form),
        Producer::CloudcanalDebezium => debezium::cloudcanal(statement, form),
        Producer::DebeziumFlat => debezium::flat(statement, form),
        Producer::River => river::write(statement, form),
    }
}

/// Returns the key that Kafka Connect writes for a row's message.
pub fn key(statement: &Statement<'_>, form: &Form) -> Option<Json> {
    let row = statement
        .rows
        .first()
        .filter(|_| statement.table.keys > 0)?;
    let columns = statement
        .table
        .columns
        .iter()
        .zip(statement.data(row))
        .take(statement.table.keys);
    let payload = members(columns, form, |column, cell| {
        canal::value(column, cell, form, canal::Writes::Typed)
    });
    Some(if form.style & 1 == 0 {
        payload
    } else {
        object([
            ("schema", object([("type", raw("\"struct\""))])),
            ("payload", payload),
        ])
    })
}

impl Form {
    fn has(&self, bit: u8) -> bool {
        self.style & (1 << bit) != 0
    }

    fn text(&self, words: &str) -> Json {
        text(words, self.escapes)
    }

    /// Returns a member's name with its quotes.
    fn name(&self, name: &str) -> String {
        quoted(name, self.escapes)
    }
}

/// Returns an object of a row's cells.
fn members<'c>(
    cells: impl Iterator<Item = (&'c Column, &'c Cell)>,
    form: &Form,
    value: impl Fn(&Column, &Cell) -> Json,
) -> Json {
    Json::Object(
        cells
            .map(|(column, cell)| (form.name(column.name), value(column, cell)))
            .collect(),
    )
}

/// Returns an object with one member per column.
fn by_column(table: &Table, form: &Form, what: impl Fn(&Column) -> Json) -> Json {
    Json::Object(
        table
            .columns
            .iter()
            .map(|column| (form.name(column.name), what(column)))
            .collect(),
    )
}

fn names(table: &Table, form: &Form) -> Json {
    Json::Array(table.key_names().map(|name| form.text(name)).collect())
}

fn boolean(value: bool) -> Json {
    raw(value)
}

/// Returns the labels of an enum or set, if the text is a number of them.
fn labels(kind: Kind, words: &str) -> Option<Vec<&'static str>> {
    let number: u64 = words.parse().ok()?;
    match kind {
        Kind::Enum(labels) => number
            .checked_sub(1)
            .and_then(|at| labels.get(at as usize))
            .map(|label| vec![*label]),
        Kind::Set(labels) if number < 1 << labels.len() => Some(
            labels
                .iter()
                .enumerate()
                .filter(|(at, _)| number >> at & 1 == 1)
                .map(|(_, label)| *label)
                .collect(),
        ),
        _ => None,
    }
}

fn is_number(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::Integer { .. } | Kind::Decimal { .. } | Kind::Float | Kind::Year | Kind::Bit { .. }
    )
}

/// Returns a number if the text is also a JSON number, otherwise the text.
fn bare(words: &str, form: &Form) -> Json {
    let is_json = serde_json::from_str::<serde_json::Number>(words).is_ok();
    if is_json {
        raw(words)
    } else {
        form.text(words)
    }
}

/// Returns the bytes for these characters; `None` if a character is not a byte.
fn latin1(words: &str) -> Option<Vec<u8>> {
    words
        .chars()
        .map(|c| u8::try_from(u32::from(c)).ok())
        .collect()
}

/// Returns a mixed number, equal for equal places and different for different places.
fn mixed(number: u64) -> u64 {
    let mixed = (number ^ number >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed ^ mixed >> 27
}
