//! Cases that random batches hardly reach: enough names, types or tables to reset the caches, and chunks that end
//! between.

use std::fmt::Write;

use towpath::{Decoder, Layout, Options, TableSchema};

use crate::batches::{Message, alike};
use crate::compare::{compare, report};
use crate::producers::Producer;
use crate::settings::Feeding;

fn agree(options: Options, messages: &[Message]) {
    if compare(&options, messages, Feeding::Binary).is_err() {
        let check = |options: &Options, messages: &[Message], feeding| {
            compare(options, messages, feeding).map(drop)
        };
        panic!(
            "both readers differ\n{}",
            report(&options, messages, Feeding::Binary, check)
        );
    }
}

fn every_way(dialect: &str, messages: &[Message]) {
    let schema = || {
        Some(TableSchema::Ddl(
            "name string, id bigint, total decimal(10,2), placed_at timestamp_ntz".into(),
        ))
    };
    let of = |schema, layout| Options {
        dialect: dialect.into(),
        schema,
        layout,
        ..Options::default()
    };
    agree(of(None, Layout::Change), messages);
    agree(of(schema(), Layout::Change), messages);
    agree(of(schema(), Layout::Upsert), messages);
}

fn message(text: String) -> Message {
    Message {
        key: None,
        value: Some(text.into_bytes()),
    }
}

/// Returns a canal message with these rows of a table, and their types.
fn canal(table: &str, row: &str, types: &str) -> Message {
    message(
        format!(
            r#"{{"data":[{{{row}}}],"database":"shop","es":1763000000000,"gtid":"","id":1,"isDdl":false,"mysqlType":{{{types}}},"#,
        ) + &format!(
            r#""old":null,"pkNames":["id"],"sql":"","sqlType":{{"id":-5}},"table":"{table}","ts":1763000000123,"type":"INSERT"}}"#
        ),
    )
}

/// More names than are kept between two chunks. Later names have other numbers than earlier ones.
#[test]
fn names_are_forgotten_between_chunks() {
    let mut row = String::from(r#""id":"1""#);
    (0..70_000).for_each(|at| write!(row, r#","c{at}":"{at}""#).unwrap());
    let ordinary = alike(Producer::Canal, 12);
    let reversed: Vec<Message> = (0..12)
        .map(|at| {
            canal(
                "other",
                &format!(r#""name":"n{at}","id":"{at}""#),
                r#""name":"text","id":"int""#,
            )
        })
        .collect();
    let messages = [
        &ordinary[..],
        &reversed,
        &[canal("orders", &row, "")],
        &reversed,
        &ordinary,
        &[canal("t", "", "")],
        &ordinary,
    ]
    .concat();
    every_way("canal-json", &messages);
}

/// More types than are kept, each in its own message.
#[test]
fn types_are_forgotten_between_chunks() {
    let one = |at: usize| {
        canal(
            "orders",
            &format!(r#""id":"{at}","name":"{}""#, at % 3),
            &format!(r#""id":"decimal(10,{at})","name":"enum('{at}','b')""#),
        )
    };
    let messages: Vec<Message> = (0..1500).chain(0..20).map(one).collect();
    every_way("canal-json", &messages);
}

/// More tables than the templates can hold, in turns, all of the same form.
#[test]
fn many_tables_take_turns() {
    let one = |at: usize| {
        canal(
            &format!("orders_{}", at % 300),
            &format!(r#""id":"{at}","name":"of {}""#, at % 300),
            r#""id":"bigint","name":"text""#,
        )
    };
    let messages: Vec<Message> = (0..900).map(one).collect();
    every_way("canal-json", &messages);
}

/// Messages for several chunks. Some are as large as a chunk.
#[test]
fn messages_of_many_chunks() {
    for producer in [
        Producer::Canal,
        Producer::Cloudcanal,
        Producer::Maxwell,
        Producer::Debezium,
        Producer::DebeziumSchema,
        Producer::River,
    ] {
        let mut messages = alike(producer, 150);
        for at in [40, 41, 90] {
            let value = messages[at].value.clone().unwrap();
            let long = String::from_utf8(value)
                .unwrap()
                .replacen("NO", &"x".repeat(140_000), 1);
            messages[at] = message(long);
        }
        every_way(producer.names()[0], &messages);
    }
}

/// One decoder serves many threads. Each thread's output depends on its own input only.
#[test]
fn threads_share_a_decoder() {
    let options = |templates| Options {
        dialect: "canal-json".into(),
        templates,
        ..Options::default()
    };
    let (with, without) = (
        Decoder::new(options(true)).unwrap(),
        Decoder::new(options(false)).unwrap(),
    );
    let producers = [
        Producer::Canal,
        Producer::TicdcCanal,
        Producer::TencentCanal,
        Producer::CloudcanalCanal,
    ];
    std::thread::scope(|scope| {
        for producer in producers {
            let (with, without) = (&with, &without);
            scope.spawn(move || {
                for round in 1..6 {
                    let input = &Feeding::Binary.inputs(&alike(producer, 10 * round))[0];
                    assert_eq!(with.decode(input).unwrap(), without.decode(input).unwrap());
                }
            });
        }
    });
}

/// Values that a template almost expects, each between expected ones.
#[test]
fn nearly_right_values_are_read_alike() {
    let right = r#""name":"n","id":1,"total":1.5,"placed_at":"2021-01-01 00:00:00""#;
    let (types, good) = (r#""id":"int""#, |row: &str| {
        canal("orders", row, r#""id":"int""#)
    });
    let rows = [
        ("1.5", "1.e5"),
        ("1.5", "1.E5"),
        ("1.5", "01.5"),
        ("1.5", "1."),
        ("1.5", ".5"),
        ("1.5", "-"),
        ("1.5", "1e"),
        (":1,", ":01,"),
        (":1,", ":-0,"),
        (":1,", ":1.0,"),
        (":1,", ":1e0,"),
        (":1,", ":9223372036854775808,"),
        (":1,", ":-9223372036854775808,"),
        (":1,", ":12345678901234567890,"),
        (":1,", ":nul,"),
        (":1,", ":tru,"),
        ("00:00:00", "00:00:60"),
        ("00:00:00", "24:00:00"),
        ("00:00:00", "00:00:00Z"),
        ("00:00:00", "00:00:00ZZ"),
        ("00:00:00", "00:00:00."),
        ("00:00:00", "00:00:00.1234567890"),
        ("2021-01-01", "2021-02-29"),
        ("2021-01-01", "0000-00-00"),
        ("2021-01-01", "2021-01-0a"),
    ];
    let mut messages = vec![good(right), good(right), good(right)];
    for (from, to) in rows {
        messages.extend([good(&right.replace(from, to)), good(right)]);
    }
    let text = |message: &Message| String::from_utf8(message.value.clone().unwrap()).unwrap();
    let types = format!("{{{types}}}");
    for odd in ["5", "[]", "null", "\"\"", "[5]", "true"] {
        messages.extend([
            message(text(&good(right)).replace(&types, odd)),
            good(right),
        ]);
    }
    every_way("canal-json", &messages);
    let numbers = |ddl: &str| Options {
        schema: Some(TableSchema::Ddl(ddl.into())),
        dialect: "canal-json".into(),
        ..Options::default()
    };
    agree(
        numbers("id double, total double, placed_at timestamp"),
        &messages,
    );
    agree(
        numbers("id tinyint, total decimal(38,10), placed_at date"),
        &messages,
    );
    // No types are requested here.
    agree(
        Options {
            fields: Some(vec!["op".into(), "after".into()]),
            ..numbers("total decimal(10,2)")
        },
        &messages,
    );
}
