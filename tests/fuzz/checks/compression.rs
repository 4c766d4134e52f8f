//! Compressed messages: another encoder's output decodes like the plain message, and hostile frames are errors.

use std::io::Write;

use arrow_array::Array;
use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use towpath::{Compression, Layout, Options};

use super::captures::Message;
use super::dialects::{assert_same, decode, errors};
use super::input::split_choices;
use super::options::{decoder, plain};

/// Checks a plain message that is compressed here, or bytes that claim to be compressed.
pub fn check(data: &[u8]) {
    let (choices, bytes) = split_choices(data);
    let (_, compression) = choices.pick(0, 1, Compression::NAMES);
    if choices.bit(1, 0) {
        check_hostile(compression, bytes);
    } else {
        check_round_trip(
            compression,
            bytes,
            usize::from(choices.pick(2, 1, &(0..=255).collect::<Vec<u8>>())),
        );
    }
}

fn read(compression: Compression, value: Vec<u8>) -> RecordBatch {
    // Leave out the message itself, which is compressed in rows with an error.
    let fields = Some(
        ["op", "database", "after", "source", "error"]
            .map(String::from)
            .to_vec(),
    );
    let options = Options {
        compression,
        fields,
        ..plain("canal-json")
    };
    decode(
        &decoder(options),
        &[Message {
            key: None,
            value: Some(value),
        }],
    )
}

fn check_hostile(compression: Compression, bytes: &[u8]) {
    let rows = read(compression, bytes.to_vec());
    assert!(rows.num_rows() > 0, "a message is lost");
    let texts = errors(&rows, Layout::Change)["message"].as_string::<i32>();
    texts.iter().flatten().for_each(|text| {
        assert!(
            text.chars().count() <= 1500,
            "an error of {} bytes",
            text.len()
        )
    });
}

/// Checks the message in two frames, divided at `split`.
fn check_round_trip(compression: Compression, message: &[u8], split: usize) {
    // A stored message is expanded again, and an empty one is a tombstone.
    if message.is_empty() || message.windows(7).any(|window| window == b"\"value\"") {
        return;
    }
    let (first, second) = message.split_at(split.min(message.len()));
    let compressed = match compression {
        Compression::None => return,
        Compression::Auto | Compression::Lz4 => [lz4(first), lz4(second)].concat(),
        Compression::Gzip => [gzip(first), gzip(second)].concat(),
        Compression::Zstd => [zstd(first), zstd(second)].concat(),
        Compression::Snappy => snap::raw::Encoder::new()
            .compress_vec(message)
            .expect("the message is short"),
    };
    let (wanted, found) = (
        read(Compression::None, message.to_vec()),
        read(compression, compressed),
    );
    assert_same(
        &found,
        &wanted,
        "the compressed message differs from the plain one",
    );
    assert!(found["op"].is_valid(0));
}

fn lz4(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = lz4_flex::frame::FrameEncoder::new(Vec::new());
    encoder.write_all(bytes).expect("a vector takes all bytes");
    encoder.finish().expect("a vector takes all bytes")
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).expect("a vector takes all bytes");
    encoder.finish().expect("a vector takes all bytes")
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    ruzstd::encoding::compress_to_vec(bytes, ruzstd::encoding::CompressionLevel::Fastest)
}
