//! The messages of the Rust bench: `corpus.py`'s generator once more, so that `cargo bench` needs no Python and no
//! file. Both check [`FINGERPRINT`], so the bytes are the same and figures of one bench can stand beside the other's.

const SEED: u64 = 20261121;
pub const FINGERPRINT: u64 = 0x9340_D627_F6F5_37CA;

/// The shapes, by name: see [`shape`] for what each is.
pub const SHAPES: [&str; 6] = ["wide", "narrow", "update", "tables", "shuffled", "ticdc"];

/// splitmix64: small enough to be written twice.
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
const STREETS: [&str; 6] = ["Main Street", "Rue d'Or", "Hafenweg", "Calle Mayor", "Kingsway", "Elm Avenue"];
const CITIES: [&str; 6] = ["Springfield", "Oslo", "Montréal", "Porto", "Leeds", "Gdańsk"];
const CHINESE_CITIES: [&str; 5] = ["北京市朝阳区", "上海市浦东新区", "深圳市南山区", "广州市天河区", "杭州市西湖区"];
const CHINESE_STREETS: [&str; 5] = ["建国路", "世纪大道", "科技园路", "中山大道", "文三路"];
const COUNTRIES: [&str; 6] = ["CN", "US", "DE", "NO", "FR", "PT"];
/// JSON text already, as all words here are.
const ESCAPES: [&str; 5] = [r#"\"VIP\""#, r"line\nbreak", r"C:\\tmp\\a.txt", r"tab\there", r"bell\u0007"];

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
    if random.percent(3) { format!("\"{text} {}\"", random.pick(&ESCAPES)) } else { quoted(text) }
}

fn make_address(random: &mut Random) -> String {
    let text = if random.percent(20) {
        let (city, street) = (random.pick(&CHINESE_CITIES), random.pick(&CHINESE_STREETS));
        format!("{city}{street}{}号", 1 + random.below(999))
    } else {
        let number = 1 + random.below(999);
        format!("{number} {}, {}", random.pick(&STREETS), random.pick(&CITIES))
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
    let (year, month, day) = (2019 + random.below(7), 1 + random.below(12), 1 + random.below(28));
    format!("{year}-{month:02}-{day:02}")
}

fn time_text(random: &mut Random) -> String {
    let (hour, minute, second) = (random.below(24), random.below(60), random.below(60));
    format!("{hour:02}:{minute:02}:{second:02}")
}

fn make_date(random: &mut Random) -> String {
    if random.percent(25) { "null".to_owned() } else { quoted(date_text(random)) }
}

fn make_datetime(random: &mut Random) -> String {
    format!("\"{} {}\"", date_text(random), time_text(random))
}

fn make_timestamp(random: &mut Random) -> String {
    format!("\"{} {}.{:03}\"", date_text(random), time_text(random), random.below(1000))
}

#[derive(Clone)]
struct Column {
    name: String,
    mysql_type: &'static str,
    jdbc_type: i32,
    make: fn(&mut Random) -> String,
    /// Per cent of updates that change it.
    updated: u64,
}

fn column(name: impl Into<String>, mysql_type: &'static str, jdbc_type: i32, make: fn(&mut Random) -> String, updated: u64) -> Column {
    Column { name: name.into(), mysql_type, jdbc_type, make, updated }
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
    vec![Table { name: "orders".into(), columns: wide_columns() }]
}

fn narrow() -> Vec<Table> {
    let wanted = ["id", "status", "total", "updated_at"];
    let columns = wide_columns().into_iter().filter(|column| wanted.contains(&column.name.as_str())).collect();
    vec![Table { name: "stock".into(), columns }]
}

/// One of the ten tables: the wide columns rotated, and one of them replaced by a column no other table has.
fn tenth(index: usize) -> Table {
    let mut columns = wide_columns();
    columns.rotate_left(index);
    columns[1 + index] = column(format!("extra_{index}"), "varchar(40)", 12, make_number, 0);
    Table { name: format!("orders_{index}"), columns }
}

/// TiCDC writes types without their parameters and decimals with their whole scale.
fn ticdc_table() -> Table {
    let mut columns = wide_columns();
    for column in &mut columns {
        column.mysql_type = column.mysql_type.split('(').next().unwrap_or_default();
        if column.name == "total" {
            column.make = make_exact_total;
        }
    }
    Table { name: "orders".into(), columns }
}

/// What one corpus is made of.
struct Shape {
    tables: Vec<Table>,
    /// Per cent of inserts and of updates; the rest are deletes.
    inserts: u64,
    updates: u64,
    shuffled: bool,
    ticdc: bool,
}

fn shape(name: &str) -> Shape {
    let common = |tables| Shape { tables, inserts: 70, updates: 20, shuffled: false, ticdc: false };
    match name {
        "wide" => common(orders()),
        "narrow" => common(narrow()),
        "update" => Shape { inserts: 10, updates: 80, ..common(orders()) },
        "tables" => common((0..10).map(tenth).collect()),
        "shuffled" => Shape { shuffled: true, ..common(orders()) },
        "ticdc" => Shape { ticdc: true, ..common(vec![ticdc_table()]) },
        _ => panic!("no such shape: {name}"),
    }
}

fn members<V: std::fmt::Display>(pairs: &[(&str, V)]) -> String {
    let members: Vec<String> = pairs.iter().map(|(name, value)| format!("\"{name}\":{value}")).collect();
    format!("{{{}}}", members.join(","))
}

/// 1.2 rows a message: most have one, a statement over many rows has more.
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

/// What the row was. `changed` grows over the rows of a message, as canal shares that set between them.
fn old_row(random: &mut Random, table: &Table, row: &[String], changed: &mut [bool]) -> Vec<String> {
    let mut before = row.to_vec();
    for (index, column) in table.columns.iter().enumerate() {
        if random.percent(column.updated) {
            changed[index] = true;
            before[index] = (column.make)(random);
        }
    }
    before
}

fn image(random: &mut Random, shape: &Shape, table: &Table, row: &[String], wanted: &[bool]) -> String {
    let every = table.columns.iter().zip(row).zip(wanted);
    let mut pairs: Vec<(&str, &String)> =
        every.filter(|(_, wanted)| **wanted).map(|((column, value), _)| (column.name.as_str(), value)).collect();
    if shape.shuffled {
        random.shuffle(&mut pairs);
    }
    members(&pairs)
}

/// The texts of `data` and `old`.
fn images(random: &mut Random, shape: &Shape, table: &Table, kind: &str) -> (String, String) {
    let everything = vec![true; table.columns.len()];
    let mut changed = vec![false; table.columns.len()];
    let (mut data, mut old) = (Vec::new(), Vec::new());
    let rows = if shape.ticdc { 1 } else { row_count(random) };
    for _ in 0..rows {
        let row: Vec<String> = table.columns.iter().map(|column| (column.make)(random)).collect();
        data.push(image(random, shape, table, &row, &everything));
        if kind == "UPDATE" {
            let before = old_row(random, table, &row, &mut changed);
            old.push(image(random, shape, table, &before, if shape.ticdc { &everything } else { &changed }));
        }
    }
    let old = if old.is_empty() { "null".to_owned() } else { format!("[{}]", old.join(",")) };
    (format!("[{}]", data.join(",")), old)
}

/// The texts of `mysqlType` and `sqlType`; TiCDC's `mysqlType` is a Go map, in an order of its own each time.
fn declared(random: &mut Random, shape: &Shape, table: &Table) -> (String, String) {
    let types = table.columns.iter().map(|column| (column.name.as_str(), quoted(column.mysql_type)));
    let mut types: Vec<(&str, String)> = types.collect();
    if shape.ticdc {
        random.shuffle(&mut types);
    }
    let jdbc: Vec<(&str, i32)> = table.columns.iter().map(|column| (column.name.as_str(), column.jdbc_type)).collect();
    (members(&types), members(&jdbc))
}

fn canal_message(random: &mut Random, shape: &Shape, index: u64) -> String {
    let table = random.pick(&shape.tables);
    let kind = operation(random, shape);
    let (data, old) = images(random, shape, table, kind);
    let (mysql_types, jdbc_types) = declared(random, shape, table);
    let (second, batch, name) = (1_763_000_000 + index / 50, 1 + index / 3, &table.name);
    let lag = 100 + random.below(900);
    format!(r#"{{"data":{data},"database":"shop","es":{second}000,"gtid":"","id":{batch},"isDdl":false,"#)
        + &format!(r#""mysqlType":{mysql_types},"old":{old},"pkNames":["id"],"sql":"","sqlType":{jdbc_types},"#)
        + &format!(r#""table":"{name}","ts":{second}{lag},"type":"{kind}"}}"#)
}

fn ticdc_message(random: &mut Random, shape: &Shape, index: u64) -> String {
    let table = random.pick(&shape.tables);
    let kind = operation(random, shape);
    let (data, old) = images(random, shape, table, kind);
    let (mysql_types, jdbc_types) = declared(random, shape, table);
    let (es, name) = (1_763_000_000_000 + index * 7, &table.name);
    let ts = es + 100 + random.below(900);
    let commit = 450_387_397_223_645_303 + index * 1_835_008;
    format!(r#"{{"id":0,"database":"shop","table":"{name}","pkNames":["id"],"isDdl":false,"type":"{kind}","es":{es},"#)
        + &format!(r#""ts":{ts},"sql":"","sqlType":{jdbc_types},"mysqlType":{mysql_types},"old":{old},"data":{data},"#)
        + &format!(r#""_tidb":{{"commitTs":{commit}}}}}"#)
}

/// The first `count` messages of a shape.
pub fn messages(name: &str, count: u64) -> Vec<String> {
    let shape = shape(name);
    let mut random = Random(SEED);
    let write = if shape.ticdc { ticdc_message } else { canal_message };
    (0..count).map(|index| write(&mut random, &shape, index)).collect()
}

/// FNV-1a over the first messages of every shape.
pub fn fingerprint() -> u64 {
    let messages = SHAPES.iter().flat_map(|name| messages(name, 20));
    messages.fold(0xCBF2_9CE4_8422_2325, |total, message| {
        message.bytes().fold(total, |total, byte| (total ^ u64::from(byte)).wrapping_mul(0x100_0000_01B3))
    })
}
