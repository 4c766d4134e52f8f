//! Initial inputs of fuzzing, made from the golden messages.

use towpath::DIALECTS;

use super::captures::{Message, captures};
use super::input::compose;
use super::{protobuf, values};

/// Maximum size of a seed, in bytes. Long inputs are slow, and their mutations are seldom useful.
const MAX_BYTES: usize = 8_000;

/// Returns the seeds of a target, with at most `count` messages of each capture.
pub fn seeds(target: &str, count: usize) -> Vec<Vec<u8>> {
    let seeds = match target {
        "auto" | "infer-schema" => DIALECTS
            .iter()
            .flat_map(|dialect| of_messages(&messages(dialect.name, count.div_ceil(8))))
            .collect(),
        "compression" => of_values("canal-json", count.div_ceil(4))
            .iter()
            .flat_map(|value| with_choices(value, 12))
            .collect(),
        "cut" => framed(&of_values("canal-json", 1)),
        "ddl" => DDL.iter().map(|text| text.as_bytes().to_vec()).collect(),
        "json" => JSON.iter().map(|text| text.as_bytes().to_vec()).collect(),
        "protobuf" => of_values("canal-protobuf", count)
            .iter()
            .flat_map(|packet| protobuf::row_changes(packet))
            .collect(),
        "avro" => ["dts-avro", "debezium-avro"]
            .iter()
            .flat_map(|dialect| of_values(dialect, count))
            .collect(),
        "values" => VALUES
            .iter()
            .flat_map(|text| with_choices(text.as_bytes(), values::COLUMNS.len() as u8))
            .collect(),
        dialect => of_messages(&messages(dialect, count)),
    };
    seeds
        .into_iter()
        .filter(|seed| seed.len() <= MAX_BYTES)
        .collect()
}

const DDL: &[&str] = &[
    "id bigint, total decimal(10,2), tags array<string>, `a``b` map<string, struct<x: int, y: interval day to second>>",
    "a boolean not null comment 'x', b tinyint, c smallint, d int, e float, f double, g char(3), h binary, i date, j timestamp, \
     k timestamp_ntz, l time, m variant, n decimal(65,30), o varchar(20)",
];

const JSON: &[&str] = &[
    "null",
    "true",
    "-12.50e+3",
    r#""a\u4e2d\ud83d\ude00\/\b\f\n\r\t\"\\""#,
    r#"{"a":[1,{"b":null}],"c":"text of more than sixteen bytes","d":{}}"#,
    " [ false , [ ] , 0 ] ",
];

const VALUES: &[&str] = &[
    "0",
    "-9223372036854775808",
    "18446744073709551615",
    "00012",
    "-12.50",
    "1.5E-7",
    "9999999999.9999999999",
    "1e400",
    "2024-02-29",
    "1969-12-31 23:59:59.999999",
    "2024-02-29 01:02:03",
    "-838:59:59",
    "12:34:56.5",
];

fn messages(dialect: &str, count: usize) -> Vec<Message> {
    captures(dialect, count)
        .into_iter()
        .flat_map(|(_, messages)| messages)
        .collect()
}

fn of_values(dialect: &str, count: usize) -> Vec<Vec<u8>> {
    messages(dialect, count)
        .into_iter()
        .filter_map(|message| message.value)
        .collect()
}

/// Returns one seed for each message, and a few with several messages. Each seed chooses its own options.
fn of_messages(messages: &[Message]) -> Vec<Vec<u8>> {
    let choices = |at: usize| [(at % 256) as u8, (at / 16 % 8) as u8 & !0b11, 0, 0];
    let single = messages
        .iter()
        .enumerate()
        .map(|(at, message)| compose(choices(at), std::slice::from_ref(message)));
    let several = messages
        .chunks(3)
        .enumerate()
        .map(|(at, messages)| compose(choices(at), messages));
    single.chain(several.step_by(5)).collect()
}

/// Returns the bytes with every value of the first choice.
fn with_choices(bytes: &[u8], count: u8) -> Vec<Vec<u8>> {
    (0..count)
        .map(|choice| [&[choice, choice / 6, 100, 0], bytes].concat())
        .collect()
}

/// Returns a file in each framing.
fn framed(messages: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let short: Vec<&[u8]> = messages
        .iter()
        .map(|message| &message[..message.len().min(100)])
        .take(8)
        .collect();
    let prefixed: Vec<u8> = short
        .iter()
        .flat_map(|message| [&(message.len() as u32).to_be_bytes(), *message].concat())
        .collect();
    [short.join(&b"\r\n"[..]), prefixed.clone(), prefixed]
        .iter()
        .enumerate()
        .map(|(at, file)| [&[at as u8, 9, 9, 0], &file[..]].concat())
        .collect()
}
