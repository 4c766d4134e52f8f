//! Columns as elements (river-json): every form in which an element can have its current and its earlier value.

use towpath::{Decoder, Layout, Options, TableSchema};

use crate::batches::Message;
use crate::compare::{compare, report};
use crate::settings::Feeding;

/// Members of an element after its name and type. `None` for a missing member.
const VALUES: [Option<&str>; 8] = [
    Some("\"7\""),
    Some("\"\""),
    Some("null"),
    None,
    Some("12"),
    Some(" \"7\""),
    Some("\"\\u0037\""),
    Some("{}"),
];
const FLAGS: [Option<&str>; 6] = [
    Some("false"),
    Some("true"),
    None,
    Some("null"),
    Some("\"true\""),
    Some(" true"),
];

/// Returns a message about a table whose only column has these members.
fn message(at: usize, event: &str, declared: &str, members: &str) -> Message {
    let updated = if event == "u" {
        ",\"updated\":false"
    } else {
        ""
    };
    let first = format!(r#"{{"n":"id","t":"bigint(20)","v":"{at}","null":false{updated}}}"#);
    let second = format!(r#"{{"n":"value","t":"{declared}"{members}}}"#);
    let text = format!(
        r#"{{"binlog":"{at}@mysql-bin.000070","time":1763000000000,"canalTime":1763000000123,"db":"shop","#
    ) + &format!(
        r#""table":"orders","event":"{event}","columns":[{first},{second}],"keys":["id"]}}"#
    );
    Message {
        key: None,
        value: Some(text.into_bytes()),
    }
}

fn members(parts: &[(&str, Option<&str>)]) -> String {
    parts
        .iter()
        .filter_map(|(name, value)| value.map(|value| format!(",\"{name}\":{value}")))
        .collect()
}

/// Checks that both readers agree on the messages in all ways.
pub fn agree_in_all_ways(dialect: &str, messages: &[Message]) {
    for (at, options) in ways(dialect).iter().enumerate() {
        let check = |options: &Options, messages: &[Message], feeding| {
            compare(options, messages, feeding).map(drop)
        };
        if check(options, messages, Feeding::Binary).is_err() {
            panic!(
                "both readers differ: {at}\n{}",
                report(options, messages, Feeding::Binary, check)
            );
        }
    }
}

/// Checks messages. Two of three are usual, so that templates are learned and tried.
fn agree(declared: &str, elements: &[String]) {
    for event in ["i", "u", "d"] {
        let usual = members(&[("v", Some("\"1\"")), ("null", Some("false"))])
            + if event == "u" {
                ",\"updated\":false"
            } else {
                ""
            };
        let messages: Vec<Message> = elements
            .iter()
            .enumerate()
            .flat_map(|(at, element)| {
                [element, &usual, &usual].map(|members| message(at + 1, event, declared, members))
            })
            .collect();
        agree_in_all_ways("river-json", &messages);
        let templated = templated("river-json", &messages);
        assert!(
            templated * 2 > messages.len() as u64,
            "{declared} {event}: {templated} of {}",
            messages.len()
        );
    }
}

/// Returns the number of messages that a template reads.
pub fn templated(dialect: &str, messages: &[Message]) -> u64 {
    let decoder = Decoder::new(ways(dialect).remove(0)).unwrap();
    Feeding::Binary
        .inputs(messages)
        .iter()
        .for_each(|input| drop(decoder.decode(input).unwrap()));
    decoder.metrics().templated
}

fn ways(dialect: &str) -> Vec<Options> {
    let fields = |names: &[&str]| {
        Some(
            names
                .iter()
                .map(|name| (*name).to_owned())
                .collect::<Vec<_>>(),
        )
    };
    let of = |layout, ddl: Option<&str>, fields| Options {
        dialect: dialect.into(),
        schema: ddl.map(|ddl| TableSchema::Ddl(ddl.into())),
        layout,
        fields,
        ..Options::default()
    };
    let images = [
        "op",
        "before",
        "after",
        "changed",
        "missing_columns",
        "column_types",
        "source",
    ];
    let texts = Some("value string, other string, id bigint");
    vec![
        of(Layout::Change, texts, fields(&images)),
        of(
            Layout::Change,
            Some("id bigint, value int"),
            fields(&images),
        ),
        of(
            Layout::Change,
            Some("value string"),
            fields(&["before", "error"]),
        ),
        of(
            Layout::Change,
            Some("value string"),
            fields(&["after", "error"]),
        ),
        of(Layout::Change, None, fields(&images)),
        of(Layout::Change, None, fields(&["before"])),
        of(Layout::Changelog, texts, None),
        of(Layout::Upsert, texts, None),
        Options {
            table: Some("others".into()),
            ..of(Layout::Change, texts, None)
        },
    ]
}

#[test]
fn what_is_there_now() {
    let pairs = VALUES
        .iter()
        .flat_map(|value| FLAGS.map(|flag| (*value, flag)));
    let elements: Vec<String> = pairs
        .flat_map(|(value, flag)| {
            [
                members(&[("v", value), ("null", flag)]),
                members(&[("null", flag), ("v", value)]),
            ]
        })
        .collect();
    agree("varchar(20)", &elements);
    agree("int(11)", &elements);
}

#[test]
fn what_was_there_before() {
    let was = VALUES
        .iter()
        .flat_map(|origin| FLAGS.map(|updated| (*origin, updated)));
    let elements: Vec<String> = was
        .flat_map(|(origin, updated)| {
            [("\"5\"", "false"), ("\"\"", "true")].map(|(value, null)| {
                members(&[
                    ("v", Some(value)),
                    ("origin_val", origin),
                    ("null", Some(null)),
                    ("updated", updated),
                ])
            })
        })
        .collect();
    [
        "varchar(20)",
        "int(11)",
        "decimal(10,2)",
        "blob",
        "unheard of",
    ]
    .iter()
    .for_each(|declared| agree(declared, &elements));
}

/// Another order, duplicate names, and unknown names.
#[test]
fn members_that_are_not_expected() {
    let usual = [
        ("v", Some("\"5\"")),
        ("origin_val", Some("\"6\"")),
        ("null", Some("false")),
        ("updated", Some("true")),
    ];
    let mut elements = Vec::new();
    for at in 0..4 {
        for other in 0..4 {
            let mut swapped = usual;
            swapped.swap(at, other);
            elements.push(members(&swapped));
            elements.push(members(&[&usual[..], &swapped[at..=at]].concat()));
        }
        for name in ["x", "N", "n", "t", "values", "\\u0076"] {
            let mut parts = usual.to_vec();
            parts.insert(at, (name, Some("\"value\"")));
            elements.push(members(&parts));
        }
        elements.push(members(&usual[..at]));
    }
    agree("varchar(20)", &elements);
}
