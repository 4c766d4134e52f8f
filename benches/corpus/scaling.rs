//! Shapes that differ in one size only, to measure the cost of this size. Their names are `AXIS-SIZE`.

use super::{
    CANAL, Column, ENGLISH, Random, Shape, Table, column, make_exact_total, make_id, make_number,
    make_timestamp, orders, wide_columns,
};

/// The growing quantities, and their sizes.
pub const AXES: [(&str, &[usize]); 4] = [
    ("columns", &[4, 10, 32, 100, 316, 1_000]),
    ("rows", &[1, 3, 10, 32, 100, 316, 1_000]),
    ("tables", &[1, 10, 100, 1_000, 10_000]),
    ("value", &[10, 100, 1_000, 10_000, 100_000, 1_000_000]),
];

/// Returns the axis and the size in a shape's name, if it is a scaling shape.
pub fn scaled(name: &str) -> Option<(&str, usize)> {
    let (axis, size) = name.split_once('-')?;
    AXES.iter().find(|(known, _)| *known == axis)?;
    Some((axis, size.parse().ok()?))
}

pub(super) fn shape(name: &str) -> Option<Shape> {
    let (axis, size) = scaled(name)?;
    let mut shape = Shape::new(tables(axis, size), vec![CANAL]);
    shape.rows = (axis == "rows").then_some(size);
    Some(shape)
}

fn tables(axis: &str, size: usize) -> Vec<Table> {
    match axis {
        "columns" => vec![Table {
            name: "orders".into(),
            columns: turns(size),
        }],
        "tables" => (0..size).map(one_of_many).collect(),
        "value" => vec![Table {
            name: "notes".into(),
            columns: notes(size),
        }],
        _ => orders(),
    }
}

/// Returns a table with the wide columns in rotated order, and one column that no other table has. All names have the
/// same length, so that messages of few and of many tables have the same number of bytes.
fn one_of_many(index: usize) -> Table {
    let mut columns = wide_columns();
    columns.rotate_left(index % 12);
    columns.insert(
        1,
        column(
            format!("extra_{index:05}"),
            "varchar(40)",
            12,
            make_number,
            0,
        ),
    );
    Table {
        name: format!("orders_{index:05}"),
        columns,
    }
}

/// Returns columns of four kinds in turns. The names contain the index, except the first of each kind.
fn turns(count: usize) -> Vec<Column> {
    let kinds = [
        column("id", "bigint", -5, make_id, 0),
        column("total", "decimal(10,2)", 3, make_exact_total, 50),
        column("order_no", "varchar(32)", 12, make_number, 0),
        column("updated_at", "timestamp(3)", 93, make_timestamp, 100),
    ];
    let mut columns: Vec<Column> = kinds.iter().cycle().take(count).cloned().collect();
    for (at, column) in columns.iter_mut().enumerate().skip(kinds.len()) {
        column.name = format!("{}_{at}", column.name);
    }
    columns
}

fn notes(bytes: usize) -> Vec<Column> {
    let body = Column {
        bytes,
        ..column("body", "longtext", 2005, make_number, 0)
    };
    vec![
        column("id", "bigint", -5, make_id, 0),
        column("total", "decimal(10,2)", 3, make_exact_total, 50),
        body,
    ]
}

/// Returns words as `bytes` bytes of JSON text, with an escape after every tenth word.
pub(super) fn text(random: &mut Random, bytes: usize) -> String {
    let english: Vec<&str> = ENGLISH.split_whitespace().collect();
    let mut text = String::with_capacity(bytes + 16);
    for count in 1.. {
        text += random.pick::<&str>(&english);
        if text.len() >= bytes {
            break;
        }
        text += if count % 10 == 0 { r"\n" } else { " " };
    }
    text.truncate(bytes);
    if text.ends_with('\\') {
        text.replace_range(bytes - 1.., "."); // half an escape
    }
    text
}
