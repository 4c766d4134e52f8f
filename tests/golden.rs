//! Every golden message decodes, whatever the layout, and CR LF between messages changes nothing. Python's tests compare the
//! cells with the truth; this is what the core can say without Python.

use std::io::Read;
use std::path::{Path, PathBuf};

use arrow_array::cast::AsArray;
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

/// A folder's captures with their messages; truth files beside them are left out.
fn captures(dialect: &str) -> Vec<(PathBuf, Vec<Vec<u8>>)> {
    let found = files(&golden(dialect)).into_iter();
    found.filter_map(|path| messages(&path).map(|messages| (path, messages))).collect()
}

fn messages(path: &Path) -> Option<Vec<Vec<u8>>> {
    const NO_MESSAGES: [&str; 5] = ["truth", "columns.", "ddl.", "final", ".index."];
    let name = path.file_name()?.to_str()?;
    let is_message = |word: &&str| name.starts_with(word) || name.contains(".truth.") || (word.starts_with('.') && name.contains(*word));
    match name.split_once('.')?.1 {
        _ if NO_MESSAGES.iter().any(|word| is_message(&word)) => None,
        "lenrec.zst" => Some(records(&read(path))),
        kind if kind.contains("json") && name != "truth_counts.json" => Some(lines(&read(path))),
        _ => None,
    }
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
        assert!(!captures(dialect.name).is_empty(), "{}", dialect.name);
    }
}

#[test]
fn every_golden_message_is_read_and_recognised() {
    for dialect in DIALECTS {
        for (path, messages) in captures(dialect.name) {
            let batch = decode(options(dialect.name), &messages);
            assert!(batch.num_rows() >= messages.len(), "{}", path.display());
            assert_eq!(decode(options("auto"), &messages), batch, "{}", path.display());
        }
    }
}

#[test]
fn aliases_read_what_their_dialect_reads() {
    for dialect in DIALECTS {
        for (_, messages) in captures(dialect.name) {
            let rows = decode(options(dialect.name), &messages).num_rows();
            dialect.aliases.iter().for_each(|alias| assert_eq!(decode(options(alias), &messages).num_rows(), rows));
        }
    }
}

/// The JSON captures again, joined by CR LF into one message: only `row`, the place within a message, differs.
#[test]
fn messages_joined_by_crlf_are_the_same_changes() {
    for dialect in DIALECTS {
        let captures = captures(dialect.name);
        for (path, messages) in captures.iter().filter(|(path, _)| path.to_string_lossy().contains(".json")) {
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
        for (path, messages) in captures(dialect.name).iter().filter(|(path, _)| path.to_string_lossy().contains("/canal-")) {
            for table in ["all_types", "order_line", "big"] {
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

#[test]
fn no_row_is_an_error_in_permissive_mode_either() {
    for dialect in DIALECTS {
        for (path, messages) in captures(dialect.name) {
            let batch = decode(Options { mode: Mode::Permissive, ..options(dialect.name) }, &messages);
            assert!(batch["op"].as_string::<i32>().iter().flatten().all(|op| op != "error"), "{}", path.display());
        }
    }
}
