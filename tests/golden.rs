//! Golden messages of every producer decode, whatever the layout, and CR LF between messages changes nothing. Python's tests
//! read all of them and compare the cells with the truth; this is what the core can say without Python, in a moment.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use arrow_array::{ArrayRef, BinaryArray, RecordBatch, StructArray};
use arrow_schema::{DataType, Field};
use towpath::{DIALECTS, Decoder, Layout, Mode, Options, infer_schema};

fn golden(dialect: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(dialect)
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect();
    files.sort();
    files
}

fn read(path: &Path) -> Vec<u8> {
    let bytes = std::fs::read(path).unwrap();
    if path.extension().is_none_or(|extension| extension != "zst") {
        return bytes;
    }
    let mut plain = Vec::new();
    ruzstd::decoding::StreamingDecoder::new(&bytes[..]).unwrap().read_to_end(&mut plain).unwrap();
    plain
}

/// What Kafka hands over.
#[derive(Clone)]
struct Message {
    key: Option<Vec<u8>>,
    value: Option<Vec<u8>>,
}

impl Message {
    fn of(value: impl Into<Vec<u8>>) -> Self {
        Message { key: None, value: Some(value.into()) }
    }

    fn value(&self) -> &[u8] {
        self.value.as_deref().unwrap_or_default()
    }
}

type Capture = (PathBuf, Vec<Message>);

/// A folder's captures with the first of their messages; truth files beside them are left out.
fn captures(dialect: &str) -> impl Iterator<Item = &'static Capture> {
    static ALL: LazyLock<Vec<Capture>> = LazyLock::new(|| {
        let found = files(&golden("")).into_iter();
        found.filter_map(|path| messages(&path).map(|messages| (path, first(messages)))).collect()
    });
    let folder = golden(dialect);
    ALL.iter().filter(move |(path, _)| path.starts_with(&folder))
}

/// Without optimisation, all messages of all captures would take minutes.
fn first(messages: Vec<Message>) -> Vec<Message> {
    messages.into_iter().filter(|message| message.value().len() < 20_000).take(120).collect()
}

fn messages(path: &Path) -> Option<Vec<Message>> {
    let name = path.file_name()?.to_str()?;
    match name.split_once('.')?.1 {
        _ if is_truth(name) => None,
        kind if kind.contains("kvrec") => Some(pairs(parts(&read(path)))),
        kind if kind.contains("lenrec") || kind.contains("bin") => Some(parts(&read(path)).into_iter().map(Message::of).collect()),
        kind if kind.contains("kv") => Some(lines(&read(path)).iter().map(|line| of_kafka(line)).collect()),
        kind if kind.contains("json") => Some(lines(&read(path)).into_iter().map(Message::of).collect()),
        _ => None,
    }
}

fn is_truth(name: &str) -> bool {
    let begins = ["truth", "columns.", "ddl.", "final"].iter().any(|start| name.starts_with(start));
    begins || name.contains(".truth.") || name.contains(".index.")
}

fn lines(bytes: &[u8]) -> Vec<Vec<u8>> {
    let trimmed = |line: &[u8]| line.strip_suffix(b"\r").unwrap_or(line).to_vec();
    bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).map(trimmed).collect()
}

/// `{"topic":..,"key":..,"value":..}`, key and value as JSON.
fn of_kafka(line: &[u8]) -> Message {
    #[derive(serde::Deserialize)]
    struct Line<'l> {
        #[serde(borrow)]
        key: &'l serde_json::value::RawValue,
        #[serde(borrow)]
        value: &'l serde_json::value::RawValue,
    }
    let line: Line<'_> = serde_json::from_slice(line).unwrap();
    let bytes = |raw: &serde_json::value::RawValue| Some(raw.get()).filter(|text| *text != "null").map(|text| text.as_bytes().to_vec());
    Message { key: bytes(line.key), value: bytes(line.value) }
}

/// `[u32 big-endian length][bytes]`.
fn parts(mut bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    while let Some((length, rest)) = bytes.split_first_chunk::<4>() {
        let (record, rest) = rest.split_at(u32::from_be_bytes(*length) as usize);
        found.push(record.to_vec());
        bytes = rest;
    }
    found
}

/// Parts in turn are a key and its value.
fn pairs(parts: Vec<Vec<u8>>) -> Vec<Message> {
    let pairs = parts.chunks_exact(2);
    pairs.map(|pair| Message { key: Some(pair[0].clone()), value: Some(pair[1].clone()) }).collect()
}

fn batch(messages: &[Message]) -> StructArray {
    let column = |bytes: fn(&Message) -> Option<&[u8]>| Arc::new(messages.iter().map(bytes).collect::<BinaryArray>()) as ArrayRef;
    let columns = [("key", column(|message| message.key.as_deref())), ("value", column(|message| message.value.as_deref()))];
    StructArray::from(columns.map(|(name, array)| (Arc::new(Field::new(name, DataType::Binary, true)), array)).to_vec())
}

fn options(dialect: &str) -> Options {
    let writer_schemas = if matches!(dialect, "auto" | "debezium-avro" | "ticdc-avro") { writer_schemas() } else { Vec::new() };
    Options { dialect: dialect.into(), mode: Mode::FailFast, key: Some("key".into()), writer_schemas, ..Options::default() }
}

/// The schemas of the messages of debezium-avro and ticdc-avro, by their ids.
fn writer_schemas() -> Vec<(u32, String, Vec<String>)> {
    let read = |file: &str| {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(file);
        serde_json::from_slice::<BTreeMap<u32, serde_json::Value>>(&std::fs::read(path).unwrap()).unwrap()
    };
    let schemas = read("debezium-avro/shop.avsc").into_iter().chain(read("ticdc-avro/orders.avsc"));
    schemas.map(|(id, schema)| (id, schema.to_string(), Vec::new())).collect()
}

fn decode(options: Options, messages: &[Message]) -> RecordBatch {
    Decoder::new(options).unwrap().decode(&batch(messages)).unwrap()
}

#[test]
fn every_dialect_has_golden_messages() {
    for dialect in DIALECTS {
        assert!(captures(dialect.name).next().is_some(), "{}", dialect.name);
    }
}

#[test]
fn every_golden_message_is_read_and_recognised() {
    for dialect in DIALECTS {
        for (path, messages) in captures(dialect.name) {
            // Three of DTS's records have text in place of their columns, and no row can be made of that.
            let mode = if dialect.name == "dts-avro" { Mode::Permissive } else { Mode::FailFast };
            let decoded = |name| decode(Options { mode, ..options(name) }, messages);
            let batch = decoded(dialect.name);
            assert!(batch.num_rows() >= messages.len(), "{}", path.display());
            assert_eq!(decoded("auto"), batch, "{}", path.display());
        }
    }
}

#[test]
fn aliases_read_what_their_dialect_reads() {
    for dialect in DIALECTS {
        for (_, messages) in captures(dialect.name) {
            let some = &messages[..messages.len().min(20)];
            let ops = |name| decode(Options { fields: Some(vec!["op".into()]), ..options(name) }, some);
            dialect.aliases.iter().for_each(|alias| assert_eq!(ops(alias), ops(dialect.name)));
        }
    }
}

/// Values without keys.
fn is_json_lines(path: &Path) -> bool {
    let name = path.to_string_lossy();
    name.contains(".json") && !name.contains(".kv")
}

/// The JSON captures again, joined by CR LF into one message: only `row`, the place within a message, differs.
#[test]
fn messages_joined_by_crlf_are_the_same_changes() {
    for dialect in DIALECTS {
        for (path, messages) in captures(dialect.name).filter(|(path, _)| is_json_lines(path)) {
            let values: Vec<&[u8]> = messages.iter().map(Message::value).collect();
            let joined = vec![Message::of(values.join(&b"\r\n"[..]))];
            let fields = || Some(["op", "table", "before", "after", "event_time", "source"].map(String::from).to_vec());
            let apart = decode(Options { fields: fields(), ..options(dialect.name) }, messages);
            let together = decode(Options { fields: fields(), ..options(dialect.name) }, &joined);
            assert_eq!(apart, together, "{}", path.display());
        }
    }
}

/// Real messages that declare their types decode with the types inferred from them, in every layout.
#[test]
fn inferred_types_hold_every_value() {
    for dialect in DIALECTS {
        for (path, messages) in captures(dialect.name).filter(|(path, _)| path.ends_with("mixed.flat.jsonl.zst")) {
            for table in ["all_types", "order_line"] {
                inferred_types_hold(dialect.name, path, messages, table);
            }
        }
    }
}

fn inferred_types_hold(dialect: &str, path: &Path, messages: &[Message], table: &str) {
    let of_table = || Options { table: Some(table.into()), ..options(dialect) };
    let schema = infer_schema(&batch(messages), of_table()).unwrap();
    for layout in [Layout::Change, Layout::Changelog, Layout::Upsert] {
        let schema = Some(towpath::TableSchema::Arrow(schema.fields().clone()));
        let batch = decode(Options { layout, schema, ..of_table() }, messages);
        assert!(batch.num_rows() > 0, "{} {table}", path.display());
    }
}
