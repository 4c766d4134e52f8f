//! Debezium's rows without an envelope: the members that the flattening adds, and columns with such names.

use crate::batches::Message;
use crate::elements::{agree_in_all_ways, templated};

fn message(at: usize, members: &str) -> Message {
    let text = format!(r#"{{"id":{at},"value":"{at}"{members},"__db":"shop","__table":"orders"}}"#);
    Message {
        key: None,
        value: Some(text.into_bytes()),
    }
}

/// Checks messages. Two of three are usual messages of the flattening.
fn agree(usual: &[&str], unusual: &[String]) {
    for usual in usual {
        let messages: Vec<Message> = unusual
            .iter()
            .enumerate()
            .flat_map(|(at, unusual)| {
                [unusual.as_str(), usual, usual].map(|members| message(at + 1, members))
            })
            .collect();
        agree_in_all_ways("debezium-json", &messages);
        agree_in_all_ways("auto", &messages);
        let templated = templated("debezium-json", &messages);
        assert!(
            templated * 2 > messages.len() as u64,
            "{usual}: {templated} of {}",
            messages.len()
        );
    }
}

/// Returns each twice: the first may become a template of the second.
fn twice(members: impl Iterator<Item = String>) -> Vec<String> {
    members
        .flat_map(|members| [members.clone(), members])
        .collect()
}

const USUAL: [&str; 4] = [
    r#","__deleted":"false","__op":"c","__source_ts_ms":1763000000000"#,
    r#","__deleted":"true","__op":"d","__source_ts_ms":1763000000000"#,
    r#","__deleted":"false""#,
    r#","__op":"u","__pos":4,"__file":"mysql-bin.000001","__gtid":null,"__row":0"#,
];

#[test]
fn what_happened() {
    let deleted = [
        "\"false\"",
        "\"true\"",
        "false",
        "true",
        "null",
        "\"\"",
        "1",
        "\"t\\u0072ue\"",
        "{}",
    ];
    let ops = [
        "\"c\"", "\"u\"", "\"d\"", "\"r\"", "\"t\"", "\"x\"", "\"\"", "null", "5",
    ];
    let pairs = deleted
        .iter()
        .flat_map(|deleted| ops.map(|op| (*deleted, op)));
    let both = pairs.flat_map(|(deleted, op)| {
        [
            format!(r#","__deleted":{deleted},"__op":{op},"__source_ts_ms":1763000000000"#),
            format!(r#","__op":{op},"__deleted":{deleted}"#),
        ]
    });
    agree(&USUAL[..2], &twice(both));
}

#[test]
fn members_that_are_added() {
    let names = [
        "op",
        "deleted",
        "db",
        "table",
        "file",
        "pos",
        "gtid",
        "server_id",
        "ts_ms",
        "ts_us",
        "ts_ns",
        "row",
        "query",
        "snapshot",
        "other",
    ];
    let values = [
        "null",
        "7",
        "-0",
        "7.5",
        "\"7\"",
        "\"c\"",
        "\"\\ud800\"",
        "true",
        "[1]",
        " 8",
    ];
    let one = names
        .iter()
        .flat_map(|name| values.map(|value| format!(r#","__deleted":"false","__{name}":{value}"#)));
    let two = names.iter().flat_map(|name| {
        let first = [3, 4, 5, 0].map(|at| {
            format!(
                r#","__{name}":{},"__source_{name}":{}"#,
                values[at],
                values[at / 2]
            )
        });
        first.into_iter().chain([
            format!(r#","__source_{name}":7,"__{name}":"7""#),
            format!(r#","__source_{name}":9,"__{name}":"7""#),
        ])
    });
    agree(&USUAL[2..], &twice(one.chain(two)));
}

/// Columns with names of an envelope, of another dialect, or of the row itself.
#[test]
fn columns_that_are_called_like_others() {
    let names = [
        "before",
        "after",
        "source",
        "op",
        "ts_ms",
        "payload",
        "schema",
        "type",
        "mysqlType",
        "data",
        "__x",
        "id",
        "ID",
        "\\u0069d",
    ];
    let values = [
        "null",
        "1",
        "\"INSERT\"",
        "{}",
        r#"{"id":1}"#,
        r#"{"id":1,"__op":"c"}"#,
        "[]",
    ];
    let columns = names
        .iter()
        .flat_map(|name| values.map(|value| (*name, value)));
    let messages = columns.flat_map(|(name, value)| {
        [
            format!(r#","{name}":{value},"__deleted":"false""#),
            format!(r#","__deleted":"false","__op":"c","{name}":{value}"#),
        ]
    });
    agree(&USUAL, &twice(messages));
}
