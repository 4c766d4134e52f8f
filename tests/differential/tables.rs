//! Tables of a batch: names, columns, and the change of a table in the middle of the batch.

use proptest::prelude::*;

use crate::values::{TYPES, Type};

/// Names, the plainest first. Among them: prefixes of one another, names with the same first 16 bytes, lengths around
/// the 16 bytes that are compared at once, names with characters to escape, and names of envelope members.
pub const NAMES: &[&str] = &[
    "id",
    "total",
    "name",
    "note",
    "note_2",
    "note_20",
    "a",
    "ab",
    "abc",
    "status",
    "twelve_chars",
    "thirteen_char",
    "fourteen_chars",
    "fifteen_chars_x",
    "customer_address_line_1",
    "customer_address_line_2",
    "customer_address_line_10",
    "ID",
    "Name",
    "姓名",
    "姓名2",
    "备注😀",
    "é",
    "quo\"te",
    "back\\slash",
    "new\nline",
    "a/b",
    "`tick`",
    "a`b",
    "don't",
    "with space",
    "",
    "type",
    "data",
    "table",
    "old",
    "database",
    "mysqlType",
    "before",
    "after",
    "op",
    "n",
    "v",
    "null",
];

const TABLES: &[&str] = &[
    "orders",
    "orders_2",
    "order",
    "orders_of_a_name_beyond_sixteen_bytes",
    "orders_of_a_name_beyond_sixteen_byteS",
    "t",
    "订单",
    "o'r\"d\\ers",
    "`orders`",
    "",
];

const DATABASES: &[&str] = &["shop", "shop2", "商店", "`shop`", ""];

/// Maximum number of columns of a table.
pub const WIDTH: usize = 8;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Column {
    pub name: &'static str,
    pub declared: &'static Type,
}

/// A table at some time.
#[derive(Clone, Debug)]
pub struct Table {
    pub database: &'static str,
    pub name: &'static str,
    pub columns: Vec<Column>,
    /// Number of columns in its key.
    pub keys: usize,
    /// Bit mask of the columns that updates usually change.
    pub updated: u8,
}

/// Random draws for a table.
#[derive(Clone, Debug)]
pub struct TableDraw {
    database: u8,
    name: u8,
    columns: Vec<(u8, u8)>,
    keys: u8,
    updated: u8,
    change: Change,
}

/// Change of a table in the middle of a batch.
#[derive(Clone, Copy, Debug)]
enum Change {
    None,
    Renamed(u8),
    Moved(u8),
    ColumnAdded(u8, u8),
    ColumnDropped(u8),
    ColumnRenamed(u8, u8),
    ColumnRetyped(u8, u8),
    Reordered,
    KeyChanged,
}

/// Draws tables of up to eight columns. Most names need no escapes in JSON.
pub fn table() -> impl Strategy<Value = TableDraw> {
    let name = || prop_oneof![3 => 0..17u8, 1 => any::<u8>()];
    let kind = || prop_oneof![2 => 0..12u8, 1 => any::<u8>()];
    let columns = prop::collection::vec((name(), kind()), 1..=WIDTH);
    let names = (
        prop_oneof![3 => Just(0u8), 1 => any::<u8>()],
        prop_oneof![3 => 0..5u8, 1 => any::<u8>()],
    );
    (names, columns, 0..3u8, any::<u8>(), change()).prop_map(
        |((database, name), columns, keys, updated, change)| TableDraw {
            database,
            name,
            columns,
            keys,
            updated,
            change,
        },
    )
}

fn change() -> impl Strategy<Value = Change> {
    let place = any::<u8>;
    prop_oneof![
        8 => Just(Change::None),
        1 => place().prop_map(Change::Renamed),
        1 => place().prop_map(Change::Moved),
        2 => (place(), place()).prop_map(|(name, kind)| Change::ColumnAdded(name, kind)),
        1 => place().prop_map(Change::ColumnDropped),
        1 => (place(), place()).prop_map(|(at, name)| Change::ColumnRenamed(at, name)),
        2 => (place(), place()).prop_map(|(at, kind)| Change::ColumnRetyped(at, kind)),
        1 => Just(Change::Reordered),
        1 => Just(Change::KeyChanged),
    ]
}

/// Returns one of the choices. The draw may be any number.
pub fn pick<T: Copy>(choices: &[T], draw: impl Into<usize>) -> T {
    choices[draw.into() % choices.len()]
}

impl TableDraw {
    /// Returns the table before its change, and after it.
    pub fn versions(&self) -> [Table; 2] {
        let mut columns: Vec<Column> = Vec::new();
        for (name, kind) in &self.columns {
            push(&mut columns, pick(NAMES, *name), *kind);
        }
        let (database, name) = (pick(DATABASES, self.database), pick(TABLES, self.name));
        let first = Table {
            database,
            name,
            columns,
            keys: self.keys.into(),
            updated: self.updated,
        };
        [first.clone(), self.change.apply(first)]
    }
}

/// Adds a column, unless its name exists.
fn push(columns: &mut Vec<Column>, name: &'static str, kind: u8) {
    if columns.len() < WIDTH && columns.iter().all(|column| column.name != name) {
        columns.push(Column {
            name,
            declared: &TYPES[usize::from(kind) % TYPES.len()],
        });
    }
}

impl Change {
    fn apply(self, mut table: Table) -> Table {
        let count = table.columns.len();
        match self {
            Change::None => {}
            Change::Renamed(name) => table.name = pick(TABLES, name),
            Change::Moved(name) => table.database = pick(DATABASES, name),
            Change::ColumnAdded(name, kind) => push(&mut table.columns, pick(NAMES, name), kind),
            Change::ColumnDropped(_) if count == 1 => {}
            Change::ColumnDropped(at) => drop(table.columns.remove(usize::from(at) % count)),
            Change::ColumnRenamed(at, name) => {
                let name = pick(NAMES, name);
                if table.columns.iter().all(|column| column.name != name) {
                    table.columns[usize::from(at) % count].name = name;
                }
            }
            Change::ColumnRetyped(at, kind) => {
                let column = &mut table.columns[usize::from(at) % count];
                column.declared = other_type(column.declared, kind);
            }
            Change::Reordered => table.columns.reverse(),
            Change::KeyChanged => table.keys = 1 + table.keys % 2,
        }
        table
    }
}

/// Returns another type: every second time a type that differs only in its parentheses, if one exists.
fn other_type(declared: &Type, draw: u8) -> &'static Type {
    let word = |declared: &Type| declared.mysql.split('(').next().map(str::to_owned);
    let siblings: Vec<&Type> = TYPES
        .iter()
        .filter(|other| word(other) == word(declared) && other.mysql != declared.mysql)
        .collect();
    if draw.is_multiple_of(2) && !siblings.is_empty() {
        pick(&siblings, draw / 2)
    } else {
        &TYPES[usize::from(draw) % TYPES.len()]
    }
}

impl Table {
    pub fn key_names(&self) -> impl Iterator<Item = &'static str> {
        self.columns
            .iter()
            .take(self.keys)
            .map(|column| column.name)
    }
}
