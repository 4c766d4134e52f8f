//! Golden messages of every producer decode, whatever the layout, and CR LF between messages changes nothing. Python's tests
//! read all of them and compare the cells with the truth; this is what the core can say without Python, in a moment.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use arrow_array::{BinaryArray, RecordBatch};
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

type Capture = (PathBuf, Vec<Vec<u8>>);

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
fn first(messages: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    messages.into_iter().filter(|message| message.len() < 20_000).take(120).collect()
}

fn messages(path: &Path) -> Option<Vec<Vec<u8>>> {
    let name = path.file_name()?.to_str()?;
    match name.split_once('.')?.1 {
        _ if is_truth(name) => None,
        "lenrec.zst" => Some(records(&read(path))),
        kind if kind.contains("json") => Some(lines(&read(path))),
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

/// `[u32 big-endian length][bytes]`.
fn records(mut bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    while let Some((length, rest)) = bytes.split_first_chunk::<4>() {
        let (record, rest) = rest.split_at(u32::from_be_bytes(*length) as usize);
        found.push(record.to_vec());
        bytes = rest;
    }
    found
}

fn array(messages: &[Vec<u8>]) -> BinaryArray {
    messages.iter().map(|message| Some(message.as_slice())).collect()
}

fn options(dialect: &str) -> Options {
    Options { dialect: dialect.into(), mode: Mode::FailFast, ..Options::default() }
}

fn decode(options: Options, messages: &[Vec<u8>]) -> RecordBatch {
    Decoder::new(options).unwrap().decode(&array(messages)).unwrap()
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
            let batch = decode(options(dialect.name), messages);
            assert!(batch.num_rows() >= messages.len(), "{}", path.display());
            assert_eq!(decode(options("auto"), messages), batch, "{}", path.display());
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

/// The JSON captures again, joined by CR LF into one message: only `row`, the place within a message, differs.
#[test]
fn messages_joined_by_crlf_are_the_same_changes() {
    for dialect in DIALECTS {
        for (path, messages) in captures(dialect.name).filter(|(path, _)| path.to_string_lossy().contains(".json")) {
            let joined = vec![messages.join(&b"\r\n"[..])];
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

fn inferred_types_hold(dialect: &str, path: &Path, messages: &[Vec<u8>], table: &str) {
    let of_table = || Options { table: Some(table.into()), ..options(dialect) };
    let schema = infer_schema(&array(messages), of_table()).unwrap();
    for layout in [Layout::Change, Layout::Changelog, Layout::Upsert] {
        let schema = Some(towpath::TableSchema::Arrow(schema.fields().clone()));
        let batch = decode(Options { layout, schema, ..of_table() }, messages);
        assert!(batch.num_rows() > 0, "{} {table}", path.display());
    }
}
