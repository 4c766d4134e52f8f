//! Written rows come back: random rows of every type, in messages of this folder's producers, have the drawn values.
//!
//! The producers share no code with towpath. This test computes the expected values from MySQL's text: numbers and bits
//! with the standard library, dates and times with jiff.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Decimal128Type, DurationMicrosecondType, Float64Type, Int32Type, Int64Type,
    TimestampMicrosecondType,
};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field, Fields};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use towpath::{Decoder, Options, TableSchema};

use crate::batches::{FormDraw, Message, RowDraw, form, row};
use crate::json::Spacing;
use crate::producers::{self, Connect, Did, Form, Producer, Row, Statement, maxwell};
use crate::properties::config;
use crate::settings::{Feeding, natural_types};
use crate::tables::{Table, TableDraw, table};
use crate::values::{Cell, Kind, Temper, cell};

/// Batches for each producer.
const CASES: u32 = 40;

/// A table, its producer and its statements.
#[derive(Clone, Debug)]
struct Draw {
    table: TableDraw,
    form: FormDraw,
    statements: Vec<(u8, Vec<RowDraw>)>,
    /// True if the user names the types of columns, although the messages declare them.
    is_told: bool,
}

fn draw(producer: Producer) -> impl Strategy<Value = Draw> {
    let statements = prop::collection::vec((0..3u8, prop::collection::vec(row(), 1..=3)), 1..10);
    (table(), form(vec![producer]), statements, any::<bool>()).prop_map(
        |(table, form, statements, is_told)| Draw {
            table,
            form,
            statements,
            is_told,
        },
    )
}

/// Returns the producer with settings that lose nothing: not decimals as doubles, microseconds as milliseconds, NULL as
/// empty text, or JSON as text if it is usually nested.
fn lossless(drawn: Form) -> Form {
    let Connect {
        decimal,
        time,
        binary,
        unsigned,
    } = drawn.connect;
    let time = if Connect::TIME[time] == "connect" {
        0
    } else {
        time
    };
    let style = match drawn.producer {
        Producer::River => drawn.style & !1,
        Producer::Maxwell => drawn.style | 4,
        _ => drawn.style,
    };
    Form {
        style,
        connect: Connect {
            decimal: decimal % 2,
            time,
            binary,
            unsigned,
        },
        ..drawn
    }
}

/// Returns whether messages declare types with all their parameters.
fn declares(form: &Form) -> bool {
    match form.producer {
        Producer::Canal => form.style & 4 == 0,
        Producer::CloudcanalCanal | Producer::Cloudcanal | Producer::River => true,
        _ => false,
    }
}

/// Returns whether the name has another meaning in the producer's messages: canal quotes with backticks, and a row
/// without an envelope must not look like one.
fn is_ambiguous(name: &str, producer: Producer) -> bool {
    name.contains('`') || producer == Producer::DebeziumFlat && matches!(name, "before" | "after")
}

/// Returns a value of its type. Dates and times are usual ones, because zero dates and hours that a zone skips have
/// their own options. No label consists of digits, because it would equal an index in canal's envelope with labels.
fn sound_cell(kind: Kind, draw: u32) -> Cell {
    const FAIR: u32 = 60_000 << 16;
    let has_fair = matches!(
        kind,
        Kind::Integer { .. }
            | Kind::Text
            | Kind::Bytes { .. }
            | Kind::Bit { .. }
            | Kind::Json
            | Kind::Geometry
    );
    match (
        kind,
        cell(
            kind,
            if has_fair { draw } else { draw % FAIR },
            Temper::Calm,
        ),
    ) {
        (Kind::Enum(labels), Cell::Text(index))
            if labels[index.parse::<usize>().unwrap() - 1]
                .parse::<u32>()
                .is_ok() =>
        {
            Cell::Text("1".into())
        }
        (_, cell) => cell,
    }
}

fn micros_of_time(text: &str) -> i64 {
    let (sign, text) = text.strip_prefix('-').map_or((1, text), |rest| (-1, rest));
    let (clock, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let seconds = clock
        .split(':')
        .fold(0, |all, part| all * 60 + part.parse::<i64>().unwrap());
    sign * (seconds * 1_000_000 + format!("{fraction:0<6}").parse::<i64>().unwrap())
}

fn unscaled(text: &str, scale: usize) -> String {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    format!("{whole}{fraction:0<scale$}")
        .parse::<i128>()
        .unwrap()
        .to_string()
}

fn hex(bytes: impl IntoIterator<Item = u8>) -> String {
    bytes
        .into_iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

fn latin1(text: &str) -> Vec<u8> {
    text.chars().map(|c| u8::try_from(c).unwrap()).collect()
}

/// Returns the labels of an enum's index, or of a set's mask.
fn labels(labels: &[&str], number: u64, is_set: bool) -> String {
    let is_meant = |at: usize| {
        if is_set {
            number >> at & 1 == 1
        } else {
            number == at as u64 + 1
        }
    };
    let meant: Vec<&str> = (0..labels.len())
        .filter(|at| is_meant(*at))
        .map(|at| labels[at])
        .collect();
    meant.join(",")
}

/// Returns the expected cell in the form of [`found`].
fn wanted(kind: Kind, cell: &Cell) -> Option<String> {
    let Cell::Text(text) = cell else { return None };
    Some(match kind {
        Kind::Decimal { precision, scale } if precision <= 38 => unscaled(text, scale),
        Kind::Integer { .. } | Kind::Decimal { .. } | Kind::Text | Kind::Json | Kind::Year => {
            text.clone()
        }
        Kind::Float => format!("{:?}", text.parse::<f64>().unwrap()),
        Kind::Bytes { .. } => hex(latin1(text)),
        Kind::Geometry => hex(latin1(text).into_iter().skip(4)),
        Kind::Date => {
            let date: jiff::civil::Date = text.parse().unwrap();
            date.since(jiff::civil::date(1970, 1, 1))
                .unwrap()
                .get_days()
                .to_string()
        }
        Kind::Clock { .. } => {
            let clock: jiff::civil::DateTime = text.parse().unwrap();
            clock
                .to_zoned(jiff::tz::TimeZone::UTC)
                .unwrap()
                .timestamp()
                .as_microsecond()
                .to_string()
        }
        Kind::Time { .. } => micros_of_time(text).to_string(),
        Kind::Bit { width: 1 } => text.clone(),
        Kind::Bit { width } => hex(text
            .parse::<u64>()
            .unwrap()
            .to_be_bytes()
            .into_iter()
            .skip(8 - width.div_ceil(8) as usize)),
        Kind::Enum(names) => labels(names, text.parse().unwrap(), false),
        Kind::Set(names) => labels(names, text.parse().unwrap(), true),
    })
}

/// Returns a cell of the output: numbers in digits, bytes in hexadecimal digits, times in their unit.
fn found(column: &ArrayRef, row: usize) -> Option<String> {
    let value = || match column.data_type() {
        DataType::Boolean => u8::from(column.as_boolean().value(row)).to_string(),
        DataType::Int32 => column.as_primitive::<Int32Type>().value(row).to_string(),
        DataType::Int64 => column.as_primitive::<Int64Type>().value(row).to_string(),
        DataType::Decimal128(..) => column
            .as_primitive::<Decimal128Type>()
            .value(row)
            .to_string(),
        DataType::Float64 => format!("{:?}", column.as_primitive::<Float64Type>().value(row)),
        DataType::Utf8 => column.as_string::<i32>().value(row).to_owned(),
        DataType::Binary => hex(column.as_binary::<i32>().value(row).iter().copied()),
        DataType::Date32 => column.as_primitive::<Date32Type>().value(row).to_string(),
        DataType::Timestamp(..) => column
            .as_primitive::<TimestampMicrosecondType>()
            .value(row)
            .to_string(),
        DataType::Duration(_) => column
            .as_primitive::<DurationMicrosecondType>()
            .value(row)
            .to_string(),
        other => panic!("no kind is asked as {other}"),
    };
    column.is_valid(row).then(value)
}

type Image = Option<Vec<Option<String>>>;

fn image_found(batch: &RecordBatch, name: &str, row: usize) -> Image {
    let image = batch[name].as_struct();
    image.is_valid(row).then(|| {
        image
            .columns()
            .iter()
            .map(|column| found(column, row))
            .collect()
    })
}

fn image_wanted(table: &Table, cells: &[Cell], producer: Producer) -> Image {
    let is_maxwell = matches!(producer, Producer::Maxwell);
    let cell = |(column, cell): (&crate::tables::Column, &Cell)| match (column.declared.kind, cell)
    {
        // Maxwell writes JSON columns as JSON, so the literal null equals NULL.
        (Kind::Json, Cell::Text(text)) if is_maxwell && text == "null" => None,
        (kind, cell) => wanted(kind, cell),
    };
    Some(table.columns.iter().zip(cells).map(cell).collect())
}

/// Removes the padding zeros of BINARY. Some producers do not write them, and some declarations do not tell the length.
fn without_padding(table: &Table, image: Image) -> Image {
    let trim = |(column, value): (&crate::tables::Column, Option<String>)| {
        let is_padded = column.declared.mysql.starts_with("binary(");
        value.map(|mut value| {
            while is_padded && value.ends_with("00") {
                value.truncate(value.len() - 2);
            }
            value
        })
    };
    image.map(|values| table.columns.iter().zip(values).map(trim).collect())
}

/// Operation, before image and after image of each row.
type Changes = Vec<(String, Image, Image)>;

fn changes_wanted(statements: &[Statement<'_>], form: &Form) -> Changes {
    let producer = form.producer;
    let is_lost = |cell: &Cell| maxwell::omits_nulls(form) && matches!(cell, Cell::Null);
    let before = |row: &Row| -> Vec<Cell> {
        let cells = row.before.iter().zip(&row.after);
        cells
            .map(|(before, after)| {
                if is_lost(before) {
                    after.clone()
                } else {
                    before.clone()
                }
            })
            .collect()
    };
    let change = |statement: &Statement<'_>, row: &Row| {
        let image = |cells| {
            without_padding(
                statement.table,
                image_wanted(statement.table, cells, producer),
            )
        };
        match statement.did {
            Did::Insert => ("insert".to_owned(), None, image(&row.after)),
            // A row without an envelope has no before image.
            Did::Update if producer == Producer::DebeziumFlat => {
                ("update".to_owned(), None, image(&row.after))
            }
            Did::Update => ("update".to_owned(), image(&before(row)), image(&row.after)),
            _ => ("delete".to_owned(), image(&row.before), None),
        }
    };
    statements
        .iter()
        .flat_map(|statement| statement.rows.iter().map(move |row| change(statement, row)))
        .collect()
}

fn changes_found(batch: &RecordBatch, table: &Table) -> Changes {
    let image = |name, row| without_padding(table, image_found(batch, name, row));
    let ops = batch["op"].as_string::<i32>();
    (0..batch.num_rows())
        .map(|row| {
            (
                ops.value(row).to_owned(),
                image("before", row),
                image("after", row),
            )
        })
        .collect()
}

fn options(table: &Table, form: &Form, is_told: bool) -> Options {
    let field = |column: &crate::tables::Column| {
        Field::new(
            column.name,
            natural_types(column.declared.kind)[0].clone(),
            true,
        )
    };
    let types = || {
        table
            .columns
            .iter()
            .map(|column| (column.name.to_owned(), column.declared.mysql.to_owned()))
            .collect()
    };
    let dialect = form.producer.names()[1];
    let mode = |name: &str| dialect.contains("debezium").then(|| name.to_owned());
    Options {
        dialect: dialect.into(),
        schema: Some(TableSchema::Arrow(
            table.columns.iter().map(field).collect::<Fields>(),
        )),
        column_types: if is_told || !declares(form) {
            types()
        } else {
            Vec::new()
        },
        decimal_handling_mode: mode(Connect::DECIMAL[form.connect.decimal]),
        time_precision_mode: mode(Connect::TIME[form.connect.time]),
        binary_handling_mode: mode(Connect::BINARY[form.connect.binary]),
        bigint_unsigned_handling_mode: mode(Connect::UNSIGNED[form.connect.unsigned]),
        ..Options::default()
    }
}

fn comes_back(draw: &Draw) -> Result<(), TestCaseError> {
    let form = lossless(draw.form.form());
    let mut table = draw.table.versions()[0].clone();
    table
        .columns
        .retain(|column| !is_ambiguous(column.name, form.producer));
    prop_assume!(!table.columns.is_empty());
    let did = |draw: u8| [Did::Insert, Did::Update, Did::Delete][usize::from(draw)];
    let rows = |draws: &[RowDraw]| {
        draws
            .iter()
            .map(|draw| draw.row(&table, draw.changed, sound_cell))
            .collect()
    };
    let statements: Vec<Statement<'_>> = draw
        .statements
        .iter()
        .zip(0..)
        .map(|((draw, draws), at)| Statement {
            table: &table,
            did: did(*draw),
            rows: rows(draws),
            at,
        })
        .collect();
    let message = |json: crate::json::Json| Message {
        key: None,
        value: Some(json.render(Spacing::None).into_bytes()),
    };
    let messages: Vec<Message> = statements
        .iter()
        .flat_map(|statement| producers::write(statement, &form))
        .map(message)
        .collect();
    let decoder = Decoder::new(options(&table, &form, draw.is_told)).unwrap();
    let batch = decoder
        .decode(&Feeding::Binary.inputs(&messages)[0])
        .unwrap();
    let errors: Vec<&str> = batch["error"].as_struct()["message"]
        .as_string::<i32>()
        .iter()
        .flatten()
        .collect();
    prop_assert!(errors.is_empty(), "{errors:?}");
    let (found, wanted) = (
        changes_found(&batch, &table),
        changes_wanted(&statements, &form),
    );
    prop_assert_eq!(
        found,
        wanted,
        "{:?}",
        table
            .columns
            .iter()
            .map(|column| (column.name, column.declared.mysql))
            .collect::<Vec<_>>()
    );
    Ok(())
}

#[test]
fn rows_of_every_producer_come_back() {
    let mut failures = Vec::new();
    for producer in Producer::ALL {
        let config = config(CASES);
        let seed = config.rng_seed;
        if let Err(error) = TestRunner::new(config).run(&draw(producer), |draw| comes_back(&draw)) {
            failures.push(format!("{producer:?}, seed {seed:?}: {error}"));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}
