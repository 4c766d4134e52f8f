//! Types of columns and their values, in MySQL's format. `producers` encodes them.

/// Kind of a column's values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    Integer {
        least: i128,
        most: i128,
    },
    Decimal {
        precision: usize,
        scale: usize,
    },
    Float,
    Text,
    Bytes {
        length: usize,
    },
    Date,
    /// A DATETIME, or a TIMESTAMP.
    Clock {
        digits: usize,
        instant: bool,
    },
    Time {
        digits: usize,
    },
    Year,
    Bit {
        width: u32,
    },
    Enum(&'static [&'static str]),
    Set(&'static [&'static str]),
    Json,
    Geometry,
}

/// A declared type.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Type {
    pub mysql: &'static str,
    pub jdbc: i32,
    pub kind: Kind,
}

impl Type {
    /// Returns the type without its parentheses, like TiCDC.
    pub fn bare(&self) -> String {
        let (word, rest) = self.mysql.split_once('(').unwrap_or((self.mysql, ""));
        format!(
            "{word}{}",
            rest.rsplit_once(')').map_or("", |(_, behind)| behind)
        )
    }
}

const fn of(mysql: &'static str, jdbc: i32, kind: Kind) -> Type {
    Type { mysql, jdbc, kind }
}

const fn signed(mysql: &'static str, jdbc: i32, bits: u32) -> Type {
    of(
        mysql,
        jdbc,
        Kind::Integer {
            least: -(1 << (bits - 1)),
            most: (1 << (bits - 1)) - 1,
        },
    )
}

const fn unsigned(mysql: &'static str, jdbc: i32, bits: u32) -> Type {
    of(
        mysql,
        jdbc,
        Kind::Integer {
            least: 0,
            most: (1 << bits) - 1,
        },
    )
}

const fn clock(mysql: &'static str, digits: usize, instant: bool) -> Type {
    of(mysql, 93, Kind::Clock { digits, instant })
}

const AB: &[&str] = &["a", "b"];
const BA: &[&str] = &["b", "a"];
const LABELS: &[&str] = &["small", "it's", "中", "2"];
const ABC: &[&str] = &["a", "b", "c"];

/// Types, the simplest first, because cases shrink towards them. Some differ only in the content of their parentheses.
pub const TYPES: &[Type] = &[
    signed("bigint", -5, 64),
    of("varchar(64)", 12, Kind::Text),
    signed("int(11)", 4, 32),
    of(
        "decimal(10,2)",
        3,
        Kind::Decimal {
            precision: 10,
            scale: 2,
        },
    ),
    clock("datetime", 0, false),
    clock("timestamp(3)", 3, true),
    of("date", 91, Kind::Date),
    of("double", 8, Kind::Float),
    of("text", 2005, Kind::Text),
    of("enum('a','b')", 4, Kind::Enum(AB)),
    signed("tinyint(1)", -6, 8),
    unsigned("bigint(20) unsigned", -5, 64),
    unsigned("int unsigned", 4, 32),
    signed("tinyint", -6, 8),
    signed("smallint", 5, 16),
    of(
        "decimal(38,10)",
        3,
        Kind::Decimal {
            precision: 38,
            scale: 10,
        },
    ),
    of(
        "decimal(65,30)",
        3,
        Kind::Decimal {
            precision: 65,
            scale: 30,
        },
    ),
    of(
        "decimal(10,0) unsigned",
        3,
        Kind::Decimal {
            precision: 10,
            scale: 0,
        },
    ),
    of("float", 7, Kind::Float),
    of("char(2)", 1, Kind::Text),
    of("longtext", 2005, Kind::Text),
    of("binary(4)", 2004, Kind::Bytes { length: 4 }),
    of("binary(16)", 2004, Kind::Bytes { length: 16 }),
    of("varbinary(40)", 2004, Kind::Bytes { length: 40 }),
    of("blob", 2004, Kind::Bytes { length: 40 }),
    clock("datetime(6)", 6, false),
    clock("datetime(3)", 3, false),
    clock("timestamp", 0, true),
    clock("timestamp(6)", 6, true),
    of("time", 92, Kind::Time { digits: 0 }),
    of("time(3)", 92, Kind::Time { digits: 3 }),
    of("year", 12, Kind::Year),
    of("bit(1)", -7, Kind::Bit { width: 1 }),
    of("bit(8)", -7, Kind::Bit { width: 8 }),
    of("bit(10)", -7, Kind::Bit { width: 10 }),
    of("bit(64)", -7, Kind::Bit { width: 64 }),
    of("enum('b','a')", 4, Kind::Enum(BA)),
    of("enum('small','it''s','中','2')", 4, Kind::Enum(LABELS)),
    of("set('a','b','c')", -7, Kind::Set(ABC)),
    of("json", 12, Kind::Json),
    of("point", 2004, Kind::Geometry),
    of("uuid", 12, Kind::Text),
];

/// A value of a row image.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    Null,
    /// Text in MySQL's format. Bytes are text of the characters U+0000 to U+00FF, members of enums and sets are their
    /// numbers.
    Text(String),
    /// Raw characters in every dialect, even if they are not JSON.
    Raw(&'static str),
}

/// Frequency of values that the producer would hardly write.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Temper {
    /// Never. Only nulls and the ends of a type's range are unusual.
    Calm,
    /// Some values are not values of their type, or not JSON.
    Wild,
}

/// Returns the value for a draw. A smaller draw is a more usual value, so that cases shrink to their cause.
pub fn cell(kind: Kind, draw: u32, temper: Temper) -> Cell {
    let (what, number) = (draw >> 16, draw & 0xffff);
    let [usual, null, fair, foul] = match temper {
        Temper::Calm => [52_000, 60_000, 70_000, 70_000],
        Temper::Wild => [42_000, 50_000, 61_500, 64_400],
    };
    match what {
        _ if what < usual => Cell::Text(ordinary(kind, number)),
        _ if what < null => Cell::Null,
        _ if what < fair => {
            Cell::Text(pick(number, fair_values(kind)).unwrap_or_else(|| ordinary(kind, number)))
        }
        _ if what < foul => Cell::Text(pick(number, foul_values(kind)).unwrap_or_default()),
        _ => Cell::Raw(ODD[number as usize % ODD.len()]),
    }
}

fn pick(number: u32, values: Vec<String>) -> Option<String> {
    let count = values.len().max(1);
    values.into_iter().nth(number as usize % count)
}

fn strings(values: &[&str]) -> Vec<String> {
    values.iter().map(|value| value.to_string()).collect()
}

/// Replacements for a value: of another type, hardly readable, or not JSON at all.
const ODD: &[&str] = &[
    "true",
    "false",
    "0",
    "-0",
    "1.5",
    "1e3",
    "1E400",
    "-5e-3",
    "12345678901234567890123",
    "{}",
    "[]",
    "[1,2]",
    "{\"a\":1}",
    "{\"scale\":2,\"value\":\"AQ==\"}",
    "{\"wkb\":\"AQEAAAA=\",\"srid\":null}",
    "\"\\u4e2d\\ud83d\\ude00\\/\\b\\f\"",
    "\"12\\u0033\"",
    "\"\\u0000\"",
    "\"AQ\\u003d\\u003d\"",
    "\"\\ud800\"",
    "\"\\udc00x\"",
    // From here on, the values are not JSON.
    "\"raw\u{1}control\"",
    "\"raw\nnewline in a text of more than sixteen bytes\"",
    "\"\\x\"",
    "\"\\u12\"",
    "01",
    "-",
    "1.",
    ".5",
    "+1",
    "nul",
    "NULL",
    "'a'",
    "",
    "\"",
    "{,}",
    "[1,]",
];

/// Returns usual values of a kind. Their lengths differ.
fn ordinary(kind: Kind, n: u32) -> String {
    let (number, n_as_usize) = (u64::from(n), n as usize);
    match kind {
        Kind::Integer { least, most } => integer(least, most, number),
        Kind::Decimal { precision, scale } => decimal(precision, scale, number),
        Kind::Float => format!(
            "{}{}.{}",
            if n % 5 == 4 { "-" } else { "" },
            n / 7,
            ["0", "5", "25", "125"][n_as_usize % 4]
        ),
        Kind::Text => words(n_as_usize),
        Kind::Bytes { length } => bytes(length, n),
        Kind::Date => date(n),
        Kind::Clock { digits, .. } => {
            format!("{} {}{}", date(n), clock_time(n), fraction(digits, n))
        }
        Kind::Time { digits } => format!(
            "{}{}{}",
            if n % 5 == 4 { "-" } else { "" },
            clock_time(n),
            fraction(digits, n)
        ),
        Kind::Year => (1970 + n % 100).to_string(),
        Kind::Bit { width } => {
            (number.wrapping_mul(0x9E37_79B9_7F4A_7C15) & (u64::MAX >> (64 - width))).to_string()
        }
        Kind::Enum(labels) => (1 + n_as_usize % labels.len()).to_string(),
        Kind::Set(labels) => (number % (1 << labels.len())).to_string(),
        Kind::Json => JSON[n_as_usize % JSON.len()].to_owned(),
        Kind::Geometry => geometry(n as u8),
    }
}

const JSON: &[&str] = &[
    "{}",
    "{\"a\": 1}",
    "[1, 2, 3]",
    "{\"k\": \"v\\n\", \"n\": null}",
    "\"text\"",
    "null",
    "[]",
    "{\"a\": {\"b\": [true]}}",
];

fn integer(least: i128, most: i128, n: u64) -> String {
    let value = match n % 4 {
        0 => i128::from(n / 4 % 100),
        1 => i128::from(n),
        2 => i128::from(n) * 1_000_003,
        _ => -i128::from(n / 4),
    };
    value.clamp(least, most).to_string()
}

fn decimal(precision: usize, scale: usize, n: u64) -> String {
    let digits = format!("{:0width$}", n, width = scale + 1);
    let (whole, fraction) = digits.split_at(digits.len() - scale);
    let whole = &whole[whole
        .len()
        .saturating_sub(precision - scale)
        .min(whole.len())..];
    let sign = if n % 5 == 4 { "-" } else { "" };
    if scale == 0 {
        format!("{sign}{whole}")
    } else {
        format!("{sign}{whole}.{fraction}")
    }
}

/// Returns texts of all lengths, often near the ends of blocks of 16 bytes.
fn words(n: usize) -> String {
    const LENGTHS: [usize; 12] = [1, 7, 12, 13, 14, 15, 16, 17, 31, 32, 33, 64];
    const ALPHABET: &str = "please deliver before noon, leave the parcel with reception: call ahead; gift wrap requested (fragile) ";
    match n % 8 {
        0..=2 => format!("NO{n}"),
        3 | 4 => ALPHABET
            .chars()
            .cycle()
            .skip(n % 50)
            .take(LENGTHS[n / 8 % LENGTHS.len()])
            .collect(),
        5 => ALPHABET
            .chars()
            .cycle()
            .skip(n % 50)
            .take(n / 8 % 101)
            .collect(),
        6 => "北京市朝阳区建国路"
            .chars()
            .cycle()
            .skip(n % 9)
            .take(n / 8 % 12)
            .collect(),
        _ => format!("Rue d'Or {n}, Montréal 😀"),
    }
}

fn bytes(length: usize, n: u32) -> String {
    let length = if n.is_multiple_of(3) {
        length
    } else {
        n as usize % (length + 1)
    };
    (0..length)
        .map(|at| char::from((n.wrapping_mul(31).wrapping_add(at as u32 * 7) % 256) as u8))
        .collect()
}

/// Returns a point in MySQL's storage format: the SRID, the byte order, the type and two doubles.
fn geometry(n: u8) -> String {
    let mut stored = vec![n % 2, 0, 0, 0, 1, 1, 0, 0, 0];
    stored.extend(f64::from(n).to_le_bytes());
    stored.extend(f64::from(n / 2).to_le_bytes());
    stored.into_iter().map(char::from).collect()
}

fn date(n: u32) -> String {
    format!("{}-{:02}-{:02}", 2019 + n % 7, 1 + n % 12, 1 + n % 28)
}

fn clock_time(n: u32) -> String {
    format!("{:02}:{:02}:{:02}", n % 24, n / 24 % 60, n / 7 % 60)
}

fn fraction(digits: usize, n: u32) -> String {
    match digits {
        0 => String::new(),
        _ => format!(
            ".{}",
            &format!("{:06}", u64::from(n) * 15 % 1_000_000)[..digits]
        ),
    }
}

/// Returns unusual values that the type holds.
fn fair_values(kind: Kind) -> Vec<String> {
    match kind {
        Kind::Integer { least, most } => [0, 1, -1, least, most]
            .map(|value: i128| value.clamp(least, most).to_string())
            .to_vec(),
        Kind::Decimal { precision, scale } => fair_decimals(precision, scale),
        Kind::Float => strings(&[
            "0",
            "-0",
            "0.0",
            "1.5E10",
            "-3.40282E38",
            "1.7976931348623157E308",
            "5E-324",
            "1e-7",
            "16777217",
        ]),
        Kind::Text => fair_texts(),
        Kind::Bytes { .. } => {
            strings(&["", "\0", "\0\0\0\0", "ÿþ", "plain", "\u{80}", "a\0", "\"\\"])
        }
        Kind::Date => strings(&[
            "0000-00-00",
            "1000-01-01",
            "9999-12-31",
            "2020-02-29",
            "1969-12-31",
            "2021-00-10",
            "2021-10-00",
        ]),
        Kind::Clock { .. } => fair_clocks(),
        Kind::Time { .. } => strings(&[
            "00:00:00",
            "838:59:59",
            "-838:59:59",
            "-00:00:01",
            "23:59:59.999999",
            "100:00:00.5",
        ]),
        Kind::Year => strings(&["1901", "2155", "0000", "1900"]),
        Kind::Bit { width } => vec![
            "0".into(),
            "1".into(),
            (u64::MAX >> (64 - width)).to_string(),
        ],
        Kind::Enum(labels) => strings(labels)
            .into_iter()
            .chain(["".into(), "0".into()])
            .collect(),
        Kind::Set(labels) => vec![
            String::new(),
            "0".into(),
            labels.join(","),
            labels[0].into(),
        ],
        Kind::Json => strings(&[
            "null",
            "\"\\u4e2d\\n\"",
            "1.50",
            "true",
            "{\"a\": [{\"b\": \"c\\\"d\"}]}",
            "{\"x\": 1, \"x\": 2}",
        ]),
        Kind::Geometry => strings(&["\0\0\0\0\u{1}\u{7}\0\0\0\0\0\0\0"]),
    }
}

fn fair_decimals(precision: usize, scale: usize) -> Vec<String> {
    let (nines, fraction) = ("9".repeat(precision - scale), "9".repeat(scale));
    vec![
        "0".into(),
        "0.0".into(),
        "-0".into(),
        "7".into(),
        format!("{nines}.{fraction}"),
        format!("-{nines}.{fraction}"),
        "1.000000".into(),
    ]
}

fn fair_texts() -> Vec<String> {
    let structure = [
        "{}",
        "[",
        "],\"x\":\"y\"",
        "\"}],\"type\":\"DELETE\"",
        ",\"data\":[{",
        "a:b",
        "\\u0041",
    ];
    let names = ["", " ", "null", "true", "0", "00012", "-1", "1e5", "insert"];
    let escapes = [
        "say \"hi\"",
        "C:\\tmp\\",
        "line\nbreak",
        "tab\there",
        "\r\n",
        "\u{1}",
        "\0",
        "\u{7f}",
        "a/b",
        "<b>&'x'</b>",
        "\\",
        "\"",
    ];
    let wide = [
        "é",
        "中文",
        "😀",
        "exactly 15 bytes",
        "👨‍👩‍👧 family",
        "\u{2028}",
        "\u{feff}",
        "0123456789abcde\n",
        "0123456789abcdef\"",
        "0123456789abcd中",
    ];
    strings(&[&structure[..], &names, &escapes, &wide].concat())
}

/// Returns times, including times that New York or Shanghai skip or repeat.
fn fair_clocks() -> Vec<String> {
    strings(&[
        "0000-00-00 00:00:00",
        "0000-00-00 00:00:00.000",
        "1970-01-01 00:00:01",
        "1969-12-31 23:59:59.999",
        "9999-12-31 23:59:59.999999",
        "1000-01-01 00:00:00",
        "2021-03-14 01:59:59",
        "2021-03-14 02:30:00",
        "2021-03-14 03:00:00",
        "2021-11-07 00:59:59",
        "2021-11-07 01:30:00",
        "2021-11-07 03:00:00",
        "1986-05-04 00:30:00",
        "1986-05-04 02:30:00",
        "2021-07-01 12:00:00.5",
        "2021-00-01 00:00:00",
    ])
}

/// Returns texts that are not a value of the type.
fn foul_values(kind: Kind) -> Vec<String> {
    match kind {
        Kind::Integer { least, most } => {
            let beyond = vec![(least - 1).to_string(), (most + 1).to_string()];
            let texts = [
                "",
                "+5",
                " 5",
                "5 ",
                "00012",
                "1e3",
                "1.0",
                "1.5",
                "99999999999999999999999",
                "-",
                "x",
                "0x10",
                "５",
                "12345678901234567",
            ];
            [beyond, strings(&texts)].concat()
        }
        Kind::Decimal { precision, .. } => [
            vec!["9".repeat(precision + 1)],
            strings(&[
                "12,50",
                ".5",
                "5.",
                "1e2",
                "",
                "--1",
                "1.00000000000000000000000000000001",
                "NaN",
            ]),
        ]
        .concat(),
        Kind::Float => strings(&[
            "NaN", "Infinity", "-inf", "1e400", "1,5", "", "1.5f", ".5", "5.",
        ]),
        Kind::Text | Kind::Json => strings(&["{", "{\"a\":}", "[1,", "\"open", "nul", "{} {}", ""]),
        Kind::Bytes { .. } => strings(&["a中", "😀", "0123456789abcdef012345\u{100}"]),
        Kind::Date => strings(&[
            "2021-02-30",
            "2021-13-01",
            "2021-2-3",
            "21-02-03",
            "",
            "yesterday",
            "2021-02-03 00:00:00",
            "10000-01-01",
        ]),
        Kind::Clock { .. } => strings(&[
            "2021-02-30 00:00:00",
            "2021-01-01 24:00:00",
            "2021-01-01 00:00:60",
            "2021-01-01T00:00:00Z",
            "2021-01-01",
            "2021-01-01 00:00:00.1234567",
            "",
            "now",
        ]),
        Kind::Time { .. } => strings(&[
            "839:00:00",
            "12:34",
            "12:60:00",
            "",
            "-",
            "noon",
            "00:00:00.1234567",
        ]),
        Kind::Year => strings(&["21", "2156", "", "x"]),
        Kind::Bit { width } => {
            vec![
                if width < 64 {
                    (1u64 << width).to_string()
                } else {
                    "18446744073709551616".into()
                },
                "-1".into(),
                "b'1'".into(),
            ]
        }
        Kind::Enum(labels) => vec![
            (labels.len() + 1).to_string(),
            "unknown".into(),
            "-1".into(),
        ],
        Kind::Set(labels) => vec![
            (1 << labels.len()).to_string(),
            "a,unknown".into(),
            "-1".into(),
        ],
        Kind::Geometry => strings(&["", "\0", "中", "POINT(0 0)"]),
    }
}
