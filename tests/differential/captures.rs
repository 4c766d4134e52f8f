//! Real messages from `tests/golden`: some of each capture, from all its parts.

use std::io::Read;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;

/// A Kafka record.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    pub key: Option<Vec<u8>>,
    pub value: Option<Vec<u8>>,
}

impl Message {
    /// Returns a record without a key.
    pub fn of(value: impl Into<Vec<u8>>) -> Self {
        Message {
            key: None,
            value: Some(value.into()),
        }
    }

    /// Returns the value; empty if it does not exist.
    pub fn value(&self) -> &[u8] {
        self.value.as_deref().unwrap_or_default()
    }
}

/// Bytes of a capture to unpack per requested message. It bounds the time of a run.
const BYTES: u64 = 20_000;

/// Length limit of messages, for the same reason.
const LONGEST: usize = 20_000;

/// Returns a dialect's captures, each with `count` of its messages, evenly spread.
pub fn captures(dialect: &str, count: usize) -> Vec<(PathBuf, Vec<Message>)> {
    let folder = Path::new("tests/golden").join(dialect);
    let found = files(&folder)
        .into_iter()
        .filter_map(|path| messages(&path, count as u64 * BYTES).map(|messages| (path, messages)));
    found
        .map(|(path, messages)| (path, spread(messages, count)))
        .collect()
}

/// Returns the messages of a dialect in `tests/golden/forms`.
pub fn forms(dialect: &str) -> Vec<Message> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden/forms")
        .join(format!("{dialect}.jsonl"));
    let Ok(text) = std::fs::read_to_string(path) else {
        return Vec::new();
    };
    let form = |line: &str| {
        let form: serde_json::Value = serde_json::from_str(line).unwrap();
        let bytes =
            |plain: &str, encoded: &str| match (form[plain].as_str(), form[encoded].as_str()) {
                (Some(text), _) => Some(text.as_bytes().to_vec()),
                (None, encoded) => encoded.map(|text| BASE64_STANDARD.decode(text).unwrap()),
            };
        Message {
            key: bytes("key", "key64"),
            value: bytes("message", "message64"),
        }
    };
    text.lines().map(form).collect()
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = entries
        .flat_map(|path| {
            if path.is_dir() {
                files(&path)
            } else {
                vec![path]
            }
        })
        .collect();
    files.sort();
    files
}

fn spread(messages: Vec<Message>, count: usize) -> Vec<Message> {
    let short: Vec<Message> = messages
        .into_iter()
        .filter(|message| message.value().len() < LONGEST)
        .collect();
    let step = short.len().div_ceil(count).max(1);
    short.into_iter().step_by(step).collect()
}

/// Returns the unpacked beginning of a file.
fn read(path: &Path, most: u64) -> Vec<u8> {
    let file = std::fs::File::open(path).unwrap();
    let mut bytes = Vec::new();
    if path.extension().is_some_and(|extension| extension == "zst") {
        ruzstd::decoding::StreamingDecoder::new(file)
            .unwrap()
            .take(most)
            .read_to_end(&mut bytes)
            .unwrap();
    } else {
        file.take(most).read_to_end(&mut bytes).unwrap();
    }
    bytes
}

/// Returns the messages of a capture; `None` for the truth files.
fn messages(path: &Path, most: u64) -> Option<Vec<Message>> {
    let name = path.file_name()?.to_str()?;
    match name.split_once('.')?.1 {
        _ if is_truth(name) => None,
        kind if kind.contains("kvrec") => {
            Some(parts(&read(path, most)).chunks_exact(2).map(pair).collect())
        }
        kind if kind.contains("lenrec") || kind.contains("bin") => Some(
            parts(&read(path, most))
                .into_iter()
                .map(Message::of)
                .collect(),
        ),
        kind if kind.contains("kv") => Some(
            lines(&read(path, most))
                .iter()
                .map(|line| of_kafka(line))
                .collect(),
        ),
        kind if kind.contains("json") => Some(
            lines(&read(path, most))
                .into_iter()
                .map(Message::of)
                .collect(),
        ),
        _ => None,
    }
}

fn is_truth(name: &str) -> bool {
    let begins = ["truth", "columns.", "ddl.", "final"]
        .iter()
        .any(|start| name.starts_with(start));
    begins || name.contains(".truth.") || name.contains(".index.")
}

fn pair(pair: &[Vec<u8>]) -> Message {
    Message {
        key: Some(pair[0].clone()),
        value: Some(pair[1].clone()),
    }
}

/// Returns the lines without the last one, which may be cut.
fn lines(bytes: &[u8]) -> Vec<Vec<u8>> {
    let trimmed = |line: &[u8]| line.strip_suffix(b"\r").unwrap_or(line).to_vec();
    let whole = bytes
        .iter()
        .rposition(|byte| *byte == b'\n')
        .map_or(bytes, |end| &bytes[..end]);
    whole
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
        .map(trimmed)
        .collect()
}

/// Parses `{"topic":..,"key":..,"value":..}`, with key and value as JSON.
fn of_kafka(line: &[u8]) -> Message {
    #[derive(serde::Deserialize)]
    struct Line<'l> {
        #[serde(borrow)]
        key: &'l serde_json::value::RawValue,
        #[serde(borrow)]
        value: &'l serde_json::value::RawValue,
    }
    let line: Line<'_> = serde_json::from_slice(line).unwrap();
    let bytes = |raw: &serde_json::value::RawValue| {
        Some(raw.get())
            .filter(|text| *text != "null")
            .map(|text| text.as_bytes().to_vec())
    };
    Message {
        key: bytes(line.key),
        value: bytes(line.value),
    }
}

/// Parses `[u32 big-endian length][bytes]`. The last part may be cut.
fn parts(mut bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    while let Some((length, rest)) = bytes.split_first_chunk::<4>() {
        let Some((record, rest)) = rest.split_at_checked(u32::from_be_bytes(*length) as usize)
        else {
            break;
        };
        found.push(record.to_vec());
        bytes = rest;
    }
    found
}
