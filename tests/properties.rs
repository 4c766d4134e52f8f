//! What must hold for every canal-json message, whatever its members are: no panic, a row for every message, and exact values. What holds
//! for every dialect is in `tests/differential/invariants.rs`.

use std::fmt::Write;

use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, Int64Type};
use arrow_array::{Array, BinaryArray, RecordBatch};
use arrow_select::concat::concat_batches;
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use towpath::{Decoder, Layout, Options, TableSchema};

fn decoder(schema: Option<&str>, layout: Layout) -> Decoder {
    let schema = schema.map(|ddl| TableSchema::Ddl(ddl.into()));
    Decoder::new(Options { dialect: "canal-json".into(), schema, layout, ..Options::default() }).unwrap()
}

const SCHEMA: &str = "id bigint, a decimal(10,2), b string, c array<int>, d map<string,string>, e struct<a: int>, f binary, g timestamp";

fn array(messages: &[Vec<u8>]) -> BinaryArray {
    messages.iter().map(|message| Some(message.as_slice())).collect()
}

/// A JSON value: its text.
fn json() -> impl Strategy<Value = String> {
    let number = prop_oneof![any::<i64>().prop_map(|n| n.to_string()), any::<f32>().prop_filter_map("finite", finite), Just("1e3".into())];
    let leaf = prop_oneof![Just("null".to_owned()), any::<bool>().prop_map(|b| b.to_string()), number, ".{0,8}".prop_map(quoted)];
    leaf.prop_recursive(4, 32, 5, |inner| {
        let list = vec(inner.clone(), 0..5).prop_map(|items| format!("[{}]", items.join(",")));
        let object = vec((name(), inner), 0..5).prop_map(object);
        prop_oneof![list, object]
    })
}

fn finite(number: f32) -> Option<String> {
    number.is_finite().then(|| number.to_string())
}

fn quoted(text: impl AsRef<str>) -> String {
    serde_json::Value::from(text.as_ref()).to_string()
}

fn name() -> impl Strategy<Value = String> {
    prop_oneof!["[a-g]", Just("id".to_owned()), ".{0,3}"]
}

fn object(members: Vec<(String, String)>) -> String {
    let members: Vec<_> = members.into_iter().map(|(name, value)| format!("{}:{value}", quoted(name))).collect();
    format!("{{{}}}", members.join(","))
}

const FIELDS: [&str; 16] =
    ["data", "old", "type", "table", "database", "es", "ts", "id", "isDdl", "pkNames", "mysqlType", "sqlType", "sql", "gtid", "_tidb", "x"];

/// An envelope with anything in its fields.
fn envelope() -> impl Strategy<Value = String> {
    let kind = prop::sample::select(vec!["INSERT", "UPDATE", "DELETE", "ALTER", "QUERY"]);
    let images = || vec(btree_map(name(), json(), 0..6), 0..3).prop_map(rows);
    let fields = btree_map(prop::sample::select(FIELDS.to_vec()), json(), 0..4);
    (kind, images(), images(), fields).prop_map(|(kind, data, old, fields)| {
        let mut text = format!(r#"{{"type":"{kind}","data":{data},"old":{old}"#);
        for (name, value) in fields {
            write!(text, r#","{name}":{value}"#).unwrap();
        }
        text + "}"
    })
}

fn rows(rows: Vec<std::collections::BTreeMap<String, String>>) -> String {
    let rows: Vec<_> = rows.into_iter().map(|row| object(row.into_iter().collect())).collect();
    format!("[{}]", rows.join(","))
}

fn messages() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let any_bytes = vec(any::<u8>(), 0..40);
    vec(prop_oneof![4 => envelope().prop_map(String::into_bytes), 1 => json().prop_map(String::into_bytes), 1 => any_bytes], 1..6)
}

fn all_layouts() -> Vec<Decoder> {
    let mut decoders = vec![decoder(None, Layout::Change)];
    decoders.extend([Layout::Change, Layout::Changelog, Layout::Upsert].map(|layout| decoder(Some(SCHEMA), layout)));
    decoders
}

/// The output without `_sequence`, which tells the message's place among the others.
fn placeless(batch: RecordBatch) -> RecordBatch {
    let kept: Vec<_> = (0..batch.num_columns()).filter(|column| batch.schema().field(*column).name() != "_sequence").collect();
    batch.project(&kept).unwrap()
}

fn validate(batch: &RecordBatch) {
    batch.columns().iter().for_each(|column| column.to_data().validate_full().unwrap());
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_message_gives_rows_and_valid_arrays(messages in messages()) {
        for decoder in all_layouts() {
            validate(&decoder.decode(&array(&messages)).unwrap());
        }
        let rows = decoder(None, Layout::Change).decode(&array(&messages)).unwrap().num_rows();
        prop_assert!(rows >= messages.len());
    }

    #[test]
    fn a_batch_is_its_messages_one_behind_the_other(messages in messages()) {
        for decoder in all_layouts() {
            let whole = placeless(decoder.decode(&array(&messages)).unwrap());
            let parts = messages.iter().map(|message| placeless(decoder.decode(&array(std::slice::from_ref(message))).unwrap()));
            let parts: Vec<_> = parts.collect();
            prop_assert_eq!(&concat_batches(&whole.schema(), &parts).unwrap(), &whole);
        }
    }

    /// serde_json is the other reader: what it refuses is an error here, what it accepts is not a syntax error.
    #[test]
    fn json_is_what_serde_json_says_it_is(mut message in envelope().prop_map(String::into_bytes), at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let place = at.index(message.len());
        message[place] = byte;
        let strict = serde_json::from_slice::<serde_json::Map<String, serde_json::Value>>(&message).is_ok();
        let batch = decoder(None, Layout::Change).decode(&array(&[message.clone()])).unwrap();
        let error = batch["error"].as_struct();
        let kind = error.is_valid(0).then(|| error["kind"].as_string::<i32>().value(0).to_owned());
        let text = String::from_utf8_lossy(&message);
        if strict {
            prop_assert_ne!(kind.as_deref(), Some("syntax"), "{}", text);
        } else {
            prop_assert!(kind.is_some(), "{}", text);
        }
    }

    #[test]
    fn integers_are_themselves(number in any::<i64>()) {
        let batch = decoder(Some("id bigint"), Layout::Change).decode(&array(&[value(number)])).unwrap();
        prop_assert_eq!(batch["after"].as_struct()["id"].as_primitive::<Int64Type>().value(0), number);
    }

    #[test]
    fn decimals_are_their_digits(unscaled in -99_999_999_999_999_999_999i128..=99_999_999_999_999_999_999, scale in 0usize..=10) {
        let ddl = format!("id decimal(20,{scale})");
        let digits = format!("{:0width$}", unscaled.abs(), width = scale + 1);
        let (whole, fraction) = digits.split_at(digits.len() - scale);
        let text = format!("{}{whole}{}{fraction}", if unscaled < 0 { "-" } else { "" }, if scale > 0 { "." } else { "" });
        let batch = decoder(Some(&ddl), Layout::Change).decode(&array(&[value(text)])).unwrap();
        prop_assert_eq!(batch["after"].as_struct()["id"].as_primitive::<Decimal128Type>().value(0), unscaled);
    }

    #[test]
    fn text_is_itself(text in any::<String>()) {
        let message = format!(r#"{{"type":"INSERT","data":[{{"id":{}}}]}}"#, quoted(&text)).into_bytes();
        let batch = decoder(Some("id string"), Layout::Change).decode(&array(&[message])).unwrap();
        prop_assert_eq!(batch["after"].as_struct()["id"].as_string::<i32>().value(0), text);
    }
}

fn value(value: impl ToString) -> Vec<u8> {
    format!(r#"{{"type":"INSERT","data":[{{"id":"{}"}}]}}"#, value.to_string()).into_bytes()
}
