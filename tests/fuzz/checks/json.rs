//! JSON against serde_json: whether text is JSON, and the values of an image.

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::{Array, StructArray};
use serde_json::value::RawValue;
use towpath::{Layout, Options, TableSchema};

use super::captures::Message;
use super::dialects::{decode, errors};
use super::options::{decoder, plain};

/// Checks the text of a value, in an image without a schema and as a map.
pub fn check(data: &[u8]) {
    let message = [br#"{"type":"INSERT","data":[{"v":"#, data, b"}]}"].concat();
    let rows = read(None, message.clone());
    let error = errors(&rows, Layout::Change);
    if std::str::from_utf8(data).is_err() {
        assert_eq!(
            kind(error),
            Some("encoding"),
            "bytes that are not UTF-8 are read"
        );
        return;
    }
    match (parse(&message), parse(data)) {
        (None, _) => assert!(error.is_valid(0), "serde_json refuses what is read"),
        (Some(_), None) => assert!(
            kind(error) != Some("syntax"),
            "serde_json reads what is a syntax error"
        ),
        (Some(_), Some(value)) => check_value(value, &rows, message),
    }
}

fn check_value(value: &RawValue, rows: &RecordBatch, message: Vec<u8>) {
    let error = errors(rows, Layout::Change);
    if kind(error) == Some("depth") {
        return;
    }
    match text(value) {
        Err(()) => assert!(error.is_valid(0), "a lone surrogate is read"),
        Ok(text) => {
            assert!(error.is_null(0), "{error:?}");
            assert_eq!(
                entries(&rows["after"].as_map().value(0)),
                [("v".to_owned(), text)]
            );
            check_map(value, message);
        }
    }
}

/// Checks the members of an object, as a `map<string,string>`.
fn check_map(value: &RawValue, message: Vec<u8>) {
    let Ok(members) = serde_json::from_str::<Members>(value.get()) else {
        return;
    };
    let mut names: Vec<&String> = members.0.iter().map(|(name, _)| name).collect();
    names.sort();
    names.dedup();
    if names.len() < members.0.len() {
        return; // serde_json has no rule for duplicates.
    }
    let rows = read(Some("v map<string,string>"), message);
    let error = errors(&rows, Layout::Change);
    let wanted: Result<Vec<_>, ()> = members
        .0
        .iter()
        .map(|(name, value)| Ok((name.clone(), text(value)?)))
        .collect();
    match wanted {
        Ok(wanted) if error.is_null(0) => {
            assert_eq!(
                entries(&rows["after"].as_struct().column(0).as_map().value(0)),
                wanted
            );
        }
        Ok(wanted) => panic!("{wanted:?}: {error:?}"),
        Err(()) => assert!(error.is_valid(0), "a lone surrogate is read"),
    }
}

fn read(schema: Option<&str>, message: Vec<u8>) -> RecordBatch {
    let schema = schema.map(|ddl| TableSchema::Ddl(ddl.into()));
    decode(
        &decoder(Options {
            schema,
            ..plain("canal-json")
        }),
        &[Message {
            key: None,
            value: Some(message),
        }],
    )
}

fn parse(text: &[u8]) -> Option<&RawValue> {
    serde_json::from_slice(text).ok()
}

/// Returns a value's text in a map: a string's content, null for null, otherwise the JSON. Fails for a lone surrogate.
fn text(value: &RawValue) -> Result<Option<String>, ()> {
    match value.get() {
        "null" => Ok(None),
        json if json.starts_with('"') => serde_json::from_str(json).map(Some).map_err(drop),
        json => Ok(Some(json.to_owned())),
    }
}

fn entries(entries: &StructArray) -> Vec<(String, Option<String>)> {
    let (names, values) = (
        entries.column(0).as_string::<i32>(),
        entries.column(1).as_string::<i32>(),
    );
    (0..entries.len())
        .map(|at| {
            (
                names.value(at).to_owned(),
                values.is_valid(at).then(|| values.value(at).to_owned()),
            )
        })
        .collect()
}

fn kind(errors: &StructArray) -> Option<&str> {
    errors
        .is_valid(0)
        .then(|| errors["kind"].as_string::<i32>().value(0))
}

/// Members of an object in their order.
struct Members(Vec<(String, Box<RawValue>)>);

impl<'de> serde::Deserialize<'de> for Members {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;

        impl<'de> serde::de::Visitor<'de> for Visitor {
            type Value = Members;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: serde::de::MapAccess<'de>>(
                self,
                mut map: A,
            ) -> Result<Members, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }

        deserializer.deserialize_map(Visitor)
    }
}
