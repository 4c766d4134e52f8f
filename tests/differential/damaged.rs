//! Messages of every dialect, cut or with a changed byte. A cut message is an error. No message is lost or harms
//! another one.

use std::collections::BTreeMap;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, RecordBatch};
use serde::de::IgnoredAny;
use towpath::{DIALECTS, Decoder, Options};

use crate::captures::{Message, captures};
use crate::golden::plain;
use crate::invariants::{decode, decoder, input};
use crate::settings::NUMBER;

/// Maximum number of damaged places in a message.
const PLACES: usize = 64;

/// Returns every byte of a short message, and some bytes of a long one.
fn places(length: usize) -> impl Iterator<Item = usize> {
    (0..length).step_by(length.div_ceil(PLACES).max(1))
}

fn op(rows: &RecordBatch) -> &str {
    rows["op"].as_string::<i32>().value(0)
}

/// Returns the shortest messages of the dialect's captures: one of each operation, and one with several changes of it.
fn samples(decoder: &Decoder, dialect: &str) -> Vec<Message> {
    let mut shortest: BTreeMap<(String, bool), Message> = BTreeMap::new();
    for message in captures(dialect, 12)
        .into_iter()
        .flat_map(|(_, messages)| messages)
    {
        let rows = decode(decoder, &input(std::slice::from_ref(&message))).unwrap();
        let kind = (op(&rows).to_owned(), rows.num_rows() > 1);
        let is_shorter = |known: &Message| message.value().len() < known.value().len();
        if !message.value().is_empty() && shortest.get(&kind).is_none_or(is_shorter) {
            shortest.insert(kind, message);
        }
    }
    assert!(
        !shortest.is_empty() && shortest.keys().all(|(op, _)| op != "error"),
        "{dialect}"
    );
    shortest.into_values().collect()
}

/// Returns the rows of each damaged message. The whole message stands before, between and after them, and must have the
/// same rows as alone.
fn rows_of_each(decoder: &Decoder, whole: &Message, damaged: &[Message]) -> Vec<RecordBatch> {
    const BETWEEN: usize = 16;
    let parts = damaged
        .chunks(BETWEEN)
        .flat_map(|part| std::iter::once(whole).chain(part));
    let messages: Vec<Message> = parts.chain([whole]).cloned().collect();
    let rows = decode(decoder, &input(&messages)).unwrap();
    let numbers = rows[NUMBER].as_primitive::<Int64Type>().values();
    let mut found = Vec::new();
    for (number, message) in (0i64..).zip(&messages) {
        let (start, end) = (
            numbers.partition_point(|at| *at < number),
            numbers.partition_point(|at| *at <= number),
        );
        assert!(
            start < end,
            "lost: {:?}",
            String::from_utf8_lossy(message.value())
        );
        found.push(rows.slice(start, end - start));
    }
    let is_whole =
        |number: usize| number.is_multiple_of(BETWEEN + 1) || number + 1 == messages.len();
    let images =
        |rows: &RecordBatch| ["op", "before", "after", "error"].map(|name| rows[name].clone());
    let intact = images(&found[0]);
    assert!(
        (0..messages.len()).all(|number| !is_whole(number) || images(&found[number]) == intact)
    );
    (0..messages.len())
        .filter(|number| !is_whole(*number))
        .map(|number| found[number].clone())
        .collect()
}

/// Cuts at any place, and cuts the key too if it is a part of the message.
fn check_cut(decoder: &Decoder, dialect: &str, whole: &Message) {
    let value = whole.value();
    let mut cut: Vec<Message> = places(value.len())
        .skip(1)
        .map(|end| Message {
            value: Some(value[..end].to_vec()),
            ..whole.clone()
        })
        .collect();
    if let Some(key) = whole.key.as_ref().filter(|_| dialect == "ticdc-open") {
        cut.extend((0..key.len()).map(|end| Message {
            key: Some(key[..end].to_vec()),
            ..whole.clone()
        }));
    }
    for (message, rows) in cut.iter().zip(rows_of_each(decoder, whole, &cut)) {
        let part = message.value();
        // Version and type alone are canal's own message for an empty batch.
        if dialect == "canal-protobuf" && part.len() == 4 {
            continue;
        }
        let (error, what) = (
            rows["error"].as_struct(),
            format!("{dialect}, {} of {} bytes", part.len(), value.len()),
        );
        assert_eq!((op(&rows), rows.num_rows()), ("error", 1), "{what}");
        assert_eq!(
            rows["_corrupt_record"].as_binary::<i32>().value(0),
            part,
            "{what}"
        );
        if part.starts_with(b"{") {
            let (kind, byte) = (
                error["kind"].as_string::<i32>().value(0),
                error["byte"].as_primitive::<Int64Type>(),
            );
            assert_eq!(
                kind,
                if std::str::from_utf8(part).is_ok() {
                    "syntax"
                } else {
                    "encoding"
                },
                "{what}"
            );
            assert!(
                byte.is_valid(0) && (0..=part.len() as i64).contains(&byte.value(0)),
                "{what}"
            );
        }
    }
}

/// Changes a byte at any place. JSON that serde_json reads has no syntax error. JSON that it does not read is an error.
fn check_changed(decoder: &Decoder, dialect: &str, whole: &Message) {
    let change = |(number, at): (usize, usize)| {
        let mut value = whole.value().to_vec();
        value[at] ^= [0x80, 0x01, 0xFF, 0x04, 0x20][number % 5];
        Message {
            value: Some(value),
            ..whole.clone()
        }
    };
    let changed: Vec<Message> = places(whole.value().len())
        .enumerate()
        .map(change)
        .collect();
    for (message, rows) in changed.iter().zip(rows_of_each(decoder, whole, &changed)) {
        if !whole.value().starts_with(b"{") {
            continue;
        }
        let (error, what) = (
            rows["error"].as_struct(),
            String::from_utf8_lossy(message.value()),
        );
        let kind = error
            .is_valid(0)
            .then(|| error["kind"].as_string::<i32>().value(0));
        match serde_json::from_slice::<IgnoredAny>(message.value()) {
            Ok(_) => assert_ne!(kind, Some("syntax"), "{dialect}: {what}"),
            Err(_) => assert_eq!(op(&rows), "error", "{dialect}: {what}"),
        }
    }
}

#[test]
fn damaged_messages_are_errors_and_harm_no_other() {
    for dialect in DIALECTS {
        let [named, auto] = [dialect.name, "auto"].map(|name| {
            decoder(&Options {
                keep: vec![NUMBER.to_owned()],
                ..plain(name)
            })
        });
        for whole in samples(&named, dialect.name) {
            check_cut(&named, dialect.name, &whole);
            check_cut(&auto, dialect.name, &whole);
            check_changed(&named, dialect.name, &whole);
        }
    }
}
