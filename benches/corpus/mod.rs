//! Messages of all benches. The Rust bench generates them each time. `write_corpus.rs` writes them to files for the
//! Python benches.
//!
//! This file draws the statements over tables. The other files encode them, one file per dialect.

mod canal_json;
mod canal_protobuf;
mod cloudcanal_json;
mod debezium_json;
mod dts_avro;
mod maxwell_json;
mod river_json;
mod scaling;

pub use scaling::{AXES, scaled};

const SEED: u64 = 20261121;

/// Names of the shapes. [`shape`] defines each.
pub const SHAPES: [&str; 16] = [
    "wide",
    "narrow",
    "update",
    "tables",
    "shuffled",
    "ticdc",
    "fallback-tenth",
    "fallback-all",
    "cloudcanal",
    "debezium",
    "debezium-schema",
    "dts",
    "maxwell",
    "protobuf",
    "river",
    "mixed",
];

/// splitmix64, which yields the same numbers with every library version.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^= mixed >> 31;
        ((u128::from(mixed) * u128::from(bound)) >> 64) as u64
    }

    fn percent(&mut self, share: u64) -> bool {
        self.below(100) < share
    }

    fn pick<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.below(choices.len() as u64) as usize]
    }

    fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last as u64 + 1) as usize);
        }
    }
}

const ENGLISH: &str = "please deliver before noon leave the parcel with reception call ahead gift wrap requested \
    fragile glass inside customer asked for invoice second attempt warehouse north express returned damaged refund \
    partial hold until friday";
const CHINESE: [&str; 10] = [
    "请尽快发货",
    "周末不收件",
    "放在快递柜",
    "发票抬头公司",
    "易碎物品轻放",
    "加急处理",
    "已电话确认",
    "客户要求换货",
    "赠品一并寄出",
    "不要拆分包裹",
];
const STREETS: [&str; 6] = [
    "Main Street",
    "Rue d'Or",
    "Hafenweg",
    "Calle Mayor",
    "Kingsway",
    "Elm Avenue",
];
const CITIES: [&str; 6] = [
    "Springfield",
    "Oslo",
    "Montréal",
    "Porto",
    "Leeds",
    "Gdańsk",
];
const CHINESE_CITIES: [&str; 5] = [
    "北京市朝阳区",
    "上海市浦东新区",
    "深圳市南山区",
    "广州市天河区",
    "杭州市西湖区",
];
const CHINESE_STREETS: [&str; 5] = ["建国路", "世纪大道", "科技园路", "中山大道", "文三路"];
const COUNTRIES: [&str; 6] = ["CN", "US", "DE", "NO", "FR", "PT"];
/// Words as JSON text.
const ESCAPES: [&str; 5] = [
    r#"\"VIP\""#,
    r"line\nbreak",
    r"C:\\tmp\\a.txt",
    r"tab\there",
    r"bell\u0007",
];

fn quoted(text: impl std::fmt::Display) -> String {
    format!("\"{text}\"")
}

fn make_id(random: &mut Random) -> String {
    quoted(1_000_000_000 + random.below(9_000_000_000))
}

fn make_user(random: &mut Random) -> String {
    quoted(1 + random.below(5_000_000))
}

fn make_number(random: &mut Random) -> String {
    format!("\"NO{:014}\"", random.below(100_000_000_000_000))
}

fn make_status(random: &mut Random) -> String {
    quoted(random.below(6))
}

fn make_quantity(random: &mut Random) -> String {
    quoted(1 + random.below(500))
}

/// canal prints an all-zero fraction as `.0`.
fn make_total(random: &mut Random) -> String {
    match make_exact_total(random) {
        whole if whole.ends_with(".00\"") => format!("{}\"", &whole[..whole.len() - 2]),
        total => total,
    }
}

fn make_exact_total(random: &mut Random) -> String {
    let total = random.below(10_000_000);
    format!("\"{}.{:02}\"", total / 100, total % 100)
}

fn spiced(random: &mut Random, text: &str) -> String {
    if random.percent(3) {
        format!("\"{text} {}\"", random.pick(&ESCAPES))
    } else {
        quoted(text)
    }
}

fn make_address(random: &mut Random) -> String {
    let text = if random.percent(20) {
        let (city, street) = (random.pick(&CHINESE_CITIES), random.pick(&CHINESE_STREETS));
        format!("{city}{street}{}号", 1 + random.below(999))
    } else {
        let number = 1 + random.below(999);
        format!(
            "{number} {}, {}",
            random.pick(&STREETS),
            random.pick(&CITIES)
        )
    };
    spiced(random, &text)
}

fn make_country(random: &mut Random) -> String {
    quoted(random.pick(&COUNTRIES))
}

fn words(random: &mut Random, choices: &[&str], count: u64, between: &str) -> String {
    let words: Vec<&str> = (0..count).map(|_| *random.pick(choices)).collect();
    words.join(between)
}

fn make_remark(random: &mut Random) -> String {
    if random.percent(10) {
        return "null".to_owned();
    }
    let text = if random.percent(20) {
        let count = 2 + random.below(7);
        words(random, &CHINESE, count, "，")
    } else {
        let english: Vec<&str> = ENGLISH.split_whitespace().collect();
        let count = 10 + random.below(26);
        words(random, &english, count, " ")
    };
    spiced(random, &text)
}

fn date_text(random: &mut Random) -> String {
    let (year, month, day) = (
        2019 + random.below(7),
        1 + random.below(12),
        1 + random.below(28),
    );
    format!("{year}-{month:02}-{day:02}")
}

fn time_text(random: &mut Random) -> String {
    let (hour, minute, second) = (random.below(24), random.below(60), random.below(60));
    format!("{hour:02}:{minute:02}:{second:02}")
}

fn make_date(random: &mut Random) -> String {
    if random.percent(25) {
        "null".to_owned()
    } else {
        quoted(date_text(random))
    }
}

fn make_datetime(random: &mut Random) -> String {
    format!("\"{} {}\"", date_text(random), time_text(random))
}

fn make_timestamp(random: &mut Random) -> String {
    format!(
        "\"{} {}.{:03}\"",
        date_text(random),
        time_text(random),
        random.below(1000)
    )
}

#[derive(Clone)]
struct Column {
    name: String,
    mysql_type: &'static str,
    jdbc_type: i32,
    make: fn(&mut Random) -> String,
    /// Per cent of updates that change it.
    updated: u64,
    /// Length of a text that replaces the output of `make`, unless 0.
    bytes: usize,
}

impl Column {
    /// Returns the declared type without its parameters.
    fn base_type(&self) -> &'static str {
        self.mysql_type.split('(').next().unwrap_or_default()
    }

    fn cell(&self, random: &mut Random) -> String {
        if self.bytes > 0 {
            quoted(scaling::text(random, self.bytes))
        } else {
            (self.make)(random)
        }
    }
}

fn column(
    name: impl Into<String>,
    mysql_type: &'static str,
    jdbc_type: i32,
    make: fn(&mut Random) -> String,
    updated: u64,
) -> Column {
    Column {
        name: name.into(),
        mysql_type,
        jdbc_type,
        make,
        updated,
        bytes: 0,
    }
}

fn wide_columns() -> Vec<Column> {
    vec![
        column("id", "bigint", -5, make_id, 0),
        column("user_id", "bigint", -5, make_user, 0),
        column("order_no", "varchar(32)", 12, make_number, 0),
        column("status", "tinyint", -6, make_status, 100),
        column("quantity", "int", 4, make_quantity, 0),
        column("total", "decimal(10,2)", 3, make_total, 50),
        column("address", "varchar(255)", 12, make_address, 0),
        column("country", "char(2)", 1, make_country, 0),
        column("remark", "text", 2005, make_remark, 20),
        column("shipped_on", "date", 91, make_date, 10),
        column("placed_at", "datetime", 93, make_datetime, 0),
        column("updated_at", "timestamp(3)", 93, make_timestamp, 100),
    ]
}

struct Table {
    name: String,
    columns: Vec<Column>,
}

fn orders() -> Vec<Table> {
    vec![Table {
        name: "orders".into(),
        columns: wide_columns(),
    }]
}

fn narrow() -> Vec<Table> {
    let wanted = ["id", "status", "total", "updated_at"];
    let columns = wide_columns()
        .into_iter()
        .filter(|column| wanted.contains(&column.name.as_str()))
        .collect();
    vec![Table {
        name: "stock".into(),
        columns,
    }]
}

/// Returns one of the ten tables: the wide columns in rotated order, one of them replaced by a column that no other
/// table has.
fn tenth(index: usize) -> Table {
    let mut columns = wide_columns();
    columns.rotate_left(index);
    columns[1 + index] = column(format!("extra_{index}"), "varchar(40)", 12, make_number, 0);
    Table {
        name: format!("orders_{index}"),
        columns,
    }
}

/// Returns the orders of all producers but canal: decimals have their whole scale.
fn exact_orders() -> Vec<Table> {
    let mut tables = orders();
    for column in tables
        .iter_mut()
        .flat_map(|table| &mut table.columns)
        .filter(|column| column.name == "total")
    {
        column.make = make_exact_total;
    }
    tables
}

/// TiCDC writes types without their parameters.
fn ticdc_orders() -> Vec<Table> {
    let mut tables = exact_orders();
    for column in tables.iter_mut().flat_map(|table| &mut table.columns) {
        column.mysql_type = column.base_type();
    }
    tables
}

/// Writes the next statement, or a few, into one or more messages.
type Write = fn(&mut Binlog<'_>) -> Vec<Vec<u8>>;

/// Name of a dialect, and its writer.
type Writer = (&'static str, Write);

const CANAL: Writer = ("canal-json", canal_json::canal);
const TENTH_SPACED: Writer = ("canal-json", canal_json::tenth_spaced);
const SPACED: Writer = ("canal-json", canal_json::spaced);
const TICDC: Writer = ("canal-json", canal_json::ticdc);
const CLOUDCANAL: Writer = ("cloudcanal-json", cloudcanal_json::write);
const DEBEZIUM: Writer = ("debezium-json", debezium_json::without_schema);
const DEBEZIUM_SCHEMA: Writer = ("debezium-json", debezium_json::with_schema);
const DTS: Writer = ("dts-avro", dts_avro::write);
const MAXWELL: Writer = ("maxwell-json", maxwell_json::write);
const PROTOBUF: Writer = ("canal-protobuf", canal_protobuf::write);
const RIVER: Writer = ("river-json", river_json::write);

/// Parameters of one corpus.
struct Shape {
    tables: Vec<Table>,
    /// Writers, in turns.
    writers: Vec<Writer>,
    /// Per cent of inserts and of updates. The rest are deletes.
    inserts: u64,
    updates: u64,
    shuffled: bool,
    ticdc: bool,
    /// Rows per statement; random if `None`.
    rows: Option<usize>,
}

impl Shape {
    fn new(tables: Vec<Table>, writers: Vec<Writer>) -> Shape {
        Shape {
            tables,
            writers,
            inserts: 70,
            updates: 20,
            shuffled: false,
            ticdc: false,
            rows: None,
        }
    }
}

fn shape(name: &str) -> Shape {
    let canal = |tables| Shape::new(tables, vec![CANAL]);
    let orders_by = |writer| Shape::new(exact_orders(), vec![writer]);
    match name {
        "wide" => canal(orders()),
        "narrow" => canal(narrow()),
        "update" => Shape {
            inserts: 10,
            updates: 80,
            ..canal(orders())
        },
        "tables" => canal((0..10).map(tenth).collect()),
        "shuffled" => Shape {
            shuffled: true,
            ..canal(orders())
        },
        "ticdc" => Shape {
            ticdc: true,
            ..Shape::new(ticdc_orders(), vec![TICDC])
        },
        "fallback-tenth" => Shape::new(orders(), vec![TENTH_SPACED]),
        "fallback-all" => Shape::new(orders(), vec![SPACED]),
        "cloudcanal" => orders_by(CLOUDCANAL),
        "debezium" => orders_by(DEBEZIUM),
        "debezium-schema" => orders_by(DEBEZIUM_SCHEMA),
        "dts" => orders_by(DTS),
        "maxwell" => orders_by(MAXWELL),
        "protobuf" => Shape::new(orders(), vec![PROTOBUF]),
        "river" => orders_by(RIVER),
        "mixed" => Shape::new(
            exact_orders(),
            vec![
                CANAL,
                CLOUDCANAL,
                DEBEZIUM,
                DEBEZIUM_SCHEMA,
                DTS,
                MAXWELL,
                PROTOBUF,
                RIVER,
            ],
        ),
        _ => scaling::shape(name).unwrap_or_else(|| panic!("no such shape: {name}")),
    }
}

/// A row as JSON texts, one per column. `shown` has the places of the columns in an image of changes, in its order.
struct Image {
    cells: Vec<String>,
    shown: Vec<usize>,
}

impl Image {
    fn new(random: &mut Random, shape: &Shape, cells: Vec<String>, wanted: &[bool]) -> Image {
        let mut shown: Vec<usize> = (0..cells.len()).filter(|at| wanted[*at]).collect();
        if shape.shuffled {
            random.shuffle(&mut shown);
        }
        Image { cells, shown }
    }
}

/// A changed row. An insert has no before image, a delete no after image.
struct Row {
    before: Option<Image>,
    after: Option<Image>,
}

impl Row {
    /// Returns the row that canal's family of dialects calls `data`.
    fn data(&self) -> &Image {
        self.after
            .as_ref()
            .or(self.before.as_ref())
            .expect("a row has an image")
    }

    /// Returns the row that they call `old`.
    fn old(&self) -> Option<&Image> {
        self.before.as_ref().filter(|_| self.after.is_some())
    }

    /// Returns whether an update changed this column.
    fn changed(&self, column: usize) -> bool {
        self.old()
            .is_some_and(|old| old.cells[column] != self.data().cells[column])
    }
}

/// A statement over rows of one table.
struct Statement<'s> {
    index: u64,
    table: &'s Table,
    kind: &'static str,
    rows: Vec<Row>,
}

/// Source of statements, one after another.
struct Binlog<'s> {
    random: Random,
    shape: &'s Shape,
    statements: u64,
    truth: Truth,
}

impl<'s> Binlog<'s> {
    fn statement(&mut self) -> Statement<'s> {
        let table = self.random.pick(&self.shape.tables);
        let kind = operation(&mut self.random, self.shape);
        let rows = rows(&mut self.random, self.shape, table, kind);
        self.truth.add(table, &rows);
        self.statements += 1;
        Statement {
            index: self.statements - 1,
            table,
            kind,
            rows,
        }
    }

    /// Returns the milliseconds between a change and its message.
    fn lag(&mut self) -> u64 {
        100 + self.random.below(900)
    }
}

/// Returns the number of rows: 1.2 per statement on average. Most statements have one.
fn row_count(random: &mut Random) -> usize {
    match random.below(100) {
        0..86 => 1,
        86..96 => 2,
        96..99 => 3,
        _ => 5,
    }
}

fn operation(random: &mut Random, shape: &Shape) -> &'static str {
    match random.below(100) {
        draw if draw < shape.inserts => "INSERT",
        draw if draw < shape.inserts + shape.updates => "UPDATE",
        _ => "DELETE",
    }
}

fn rows(random: &mut Random, shape: &Shape, table: &Table, kind: &str) -> Vec<Row> {
    let mut changed = vec![false; table.columns.len()];
    let count = if shape.ticdc {
        1
    } else {
        shape.rows.unwrap_or_else(|| row_count(random))
    };
    (0..count)
        .map(|_| row(random, shape, table, kind, &mut changed))
        .collect()
}

fn row(random: &mut Random, shape: &Shape, table: &Table, kind: &str, changed: &mut [bool]) -> Row {
    let everything = vec![true; table.columns.len()];
    let cells: Vec<String> = table
        .columns
        .iter()
        .map(|column| column.cell(random))
        .collect();
    let data = Image::new(random, shape, cells, &everything);
    match kind {
        "INSERT" => Row {
            before: None,
            after: Some(data),
        },
        "DELETE" => Row {
            before: Some(data),
            after: None,
        },
        _ => {
            let before = cells_before(random, table, &data.cells, changed);
            let old = Image::new(
                random,
                shape,
                before,
                if shape.ticdc { &everything } else { changed },
            );
            Row {
                before: Some(old),
                after: Some(data),
            }
        }
    }
}

/// Returns the earlier cells of a row. `changed` grows over the rows of a statement, because canal shares this set
/// between them.
fn cells_before(
    random: &mut Random,
    table: &Table,
    cells: &[String],
    changed: &mut [bool],
) -> Vec<String> {
    let mut before = cells.to_vec();
    for (index, column) in table.columns.iter().enumerate() {
        if random.percent(column.updated) {
            changed[index] = true;
            before[index] = column.cell(random);
        }
    }
    before
}

// Shared by the files of the dialects.

fn members<V: std::fmt::Display>(pairs: &[(&str, V)]) -> String {
    let members: Vec<String> = pairs
        .iter()
        .map(|(name, value)| format!("\"{name}\":{value}"))
        .collect();
    format!("{{{}}}", members.join(","))
}

fn list(items: &[String]) -> String {
    format!("[{}]", items.join(","))
}

/// Returns an object with one member per column of a table.
fn by_column<V: std::fmt::Display>(table: &Table, value: impl Fn(&Column) -> V) -> String {
    let pairs: Vec<(&str, V)> = table
        .columns
        .iter()
        .map(|column| (column.name.as_str(), value(column)))
        .collect();
    members(&pairs)
}

/// Returns a whole row as an object.
fn row_object(table: &Table, image: &Image, value: impl Fn(&Column, &str) -> String) -> String {
    let every = table.columns.iter().zip(&image.cells);
    let pairs: Vec<(&str, String)> = every
        .map(|(column, cell)| (column.name.as_str(), value(column, cell)))
        .collect();
    members(&pairs)
}

/// Returns a row as an object of an image of changes.
fn shown_object(table: &Table, image: &Image, value: impl Fn(&Column, &str) -> String) -> String {
    let shown = image
        .shown
        .iter()
        .map(|at| (&table.columns[*at], &image.cells[*at]));
    let pairs: Vec<(&str, String)> = shown
        .map(|(column, cell)| (column.name.as_str(), value(column, cell)))
        .collect();
    members(&pairs)
}

/// Returns the value in a cell's JSON text.
fn text(cell: &str) -> Option<String> {
    serde_json::from_str(cell).expect("cells are strings or null")
}

/// Returns a cell's text without its quotes. The text has no escapes.
fn bare(cell: &str) -> &str {
    cell.trim_matches('"')
}

/// Parses an instant. All times are in UTC here.
fn instant(text: &str) -> jiff::Timestamp {
    let clock: jiff::civil::DateTime = text.parse().expect("cells with times are right");
    clock
        .to_zoned(jiff::tz::TimeZone::UTC)
        .expect("UTC has every time")
        .timestamp()
}

/// Content that a reader of a corpus must find.
#[derive(Default)]
pub struct Truth {
    /// Changed rows, and the marks of transactions if a dialect has them.
    pub rows: u64,
    pub before: Sums,
    pub after: Sums,
}

impl Truth {
    fn add(&mut self, table: &Table, rows: &[Row]) {
        self.rows += rows.len() as u64;
        for row in rows {
            self.before.add(table, row.before.as_ref());
            self.after.add(table, row.after.as_ref());
        }
    }
}

/// Sums over images.
#[derive(Debug, Default, PartialEq)]
pub struct Sums {
    pub images: usize,
    pub ids: i64,
    /// Sum of `total`, which one of the ten tables lacks.
    pub cents: i64,
}

impl Sums {
    fn add(&mut self, table: &Table, image: Option<&Image>) {
        let Some(image) = image else { return };
        self.images += 1;
        for (column, cell) in table.columns.iter().zip(&image.cells) {
            match column.name.as_str() {
                "id" => self.ids += bare(cell).parse::<i64>().expect("ids are numbers"),
                "total" => self.cents += cents(bare(cell)),
                _ => (),
            }
        }
    }
}

fn cents(total: &str) -> i64 {
    let (units, fraction) = total.split_once('.').expect("totals have a fraction");
    format!("{units}{fraction:0<2}")
        .parse()
        .expect("totals are numbers")
}

/// A message and its dialect.
pub struct Message {
    pub dialect: &'static str,
    pub bytes: Vec<u8>,
}

/// Messages and their content.
pub struct Corpus {
    pub messages: Vec<Message>,
    pub truth: Truth,
}

impl Corpus {
    /// Returns at least `count` messages of a shape. The last statement may have several.
    pub fn new(name: &str, count: usize) -> Corpus {
        let shape = shape(name);
        let mut binlog = Binlog {
            random: Random(SEED),
            shape: &shape,
            statements: 0,
            truth: Truth::default(),
        };
        let mut messages = Vec::new();
        for (dialect, write) in shape.writers.iter().cycle() {
            if messages.len() >= count {
                break;
            }
            messages.extend(
                write(&mut binlog)
                    .into_iter()
                    .map(|bytes| Message { dialect, bytes }),
            );
        }
        Corpus {
            messages,
            truth: binlog.truth,
        }
    }

    pub fn bytes(&self) -> usize {
        self.messages
            .iter()
            .map(|message| message.bytes.len())
            .sum()
    }

    pub fn mean_bytes(&self) -> usize {
        self.bytes() / self.messages.len()
    }
}
