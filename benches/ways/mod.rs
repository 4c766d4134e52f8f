//! Measured ways to read a corpus, by their names in the results.

pub mod options;

use std::hint::black_box;

use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, Int64Type};
use arrow_array::{Array, ArrayRef, BinaryArray, RecordBatch};
use towpath::{Decoder, Mode, Options};

use crate::corpus::{Corpus, Message, Sums, Truth};
use crate::peers;
use options::{options, typed};

/// A way to read every message of a corpus.
pub type Way = Box<dyn FnMut(&BinaryArray)>;

/// Returns the ways to measure on a shape.
pub fn ways(shape: &str) -> &'static [&'static str] {
    match shape {
        "wide" => &[
            "towpath typed",
            "towpath auto",
            "towpath no templates",
            "towpath default fields",
            "towpath after only",
            "towpath maps",
            "towpath 3 of 12",
            "simd-json tape",
            "serde_json IgnoredAny",
            "serde derive",
        ],
        "tables" => &["towpath typed", "towpath maps", "simd-json tape"],
        "fallback-tenth" => &[
            "towpath typed",
            "towpath typed, none falls back",
            "simd-json tape",
        ],
        "cloudcanal" | "debezium" | "debezium-schema" | "maxwell" | "river" => {
            &["towpath typed", "towpath auto", "simd-json tape"]
        }
        "dts" => &["towpath typed", "towpath auto", "apache-avro"],
        "protobuf" => &["towpath typed", "towpath auto", "prost structs"],
        "mixed" => &["towpath auto", "towpath by name"],
        _ => &["towpath typed", "simd-json tape"],
    }
}

/// Returns the ways to measure here. If towpath does not know a dialect yet, only its peers are measured.
pub fn known_ways(shape: &str, corpus: &Corpus) -> Vec<&'static str> {
    let unknown: Vec<_> = dialects(corpus)
        .into_iter()
        .filter(|dialect| towpath::find(dialect).is_none())
        .collect();
    if !unknown.is_empty() {
        eprintln!(
            "{shape}: towpath is left out, as it does not know {} yet",
            unknown.join(", ")
        );
    }
    ways(shape)
        .iter()
        .copied()
        .filter(|name| unknown.is_empty() || !name.starts_with("towpath"))
        .collect()
}

/// Returns a way over a corpus. It must find the content of the corpus before any timing.
pub fn way(shape: &str, name: &str, corpus: &Corpus) -> Way {
    let dialect = corpus.messages[0].dialect;
    match name {
        "towpath by name" => towpath_by_name(shape, corpus),
        "towpath typed, none falls back" => towpath_elsewhere(
            typed(shape, dialect),
            &Corpus::new("wide", corpus.messages.len()),
        ),
        "simd-json tape" => Box::new(peers::json::simd_json_tape()),
        "serde_json IgnoredAny" => Box::new(peers::json::serde_json_ignored),
        "serde derive" => Box::new(peers::json::serde_derive),
        "prost structs" => checked(
            peers::canal_protobuf::prost_structs,
            peers::canal_protobuf::found,
            corpus,
        ),
        "apache-avro" => checked(peers::dts_avro::values(), peers::dts_avro::found, corpus),
        _ => towpath(
            options(shape, dialect, name).unwrap_or_else(|| panic!("no such way: {name}")),
            corpus,
        ),
    }
}

pub fn array<'m>(messages: impl IntoIterator<Item = &'m Message>) -> BinaryArray {
    BinaryArray::from_iter_values(messages.into_iter().map(|message| &message.bytes))
}

pub fn decoder(options: Options) -> Decoder {
    Decoder::new(options).expect("the options are right")
}

/// Returns towpath's way, one batch in and one batch out, like its users call it. It must first decode the corpus
/// without an error.
fn towpath(options: Options, corpus: &Corpus) -> Way {
    let strict = decoder(Options {
        mode: Mode::FailFast,
        ..options.clone()
    });
    let batch = strict
        .decode(&array(&corpus.messages))
        .unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(batch.num_rows() as u64, corpus.truth.rows, "rows");
    check_images(&batch, &corpus.truth);
    let decoder = decoder(options);
    Box::new(move |messages| {
        drop(black_box(
            decoder.decode(messages).expect("it was decoded before"),
        ))
    })
}

/// Returns towpath's way over other messages than the given ones, to run in the same rounds.
fn towpath_elsewhere(options: Options, corpus: &Corpus) -> Way {
    let (mut read, messages) = (towpath(options, corpus), array(&corpus.messages));
    Box::new(move |_| read(&messages))
}

/// Returns the way over a mixed corpus after sorting: each dialect's messages go to a decoder with the dialect as an
/// option. `auto` in the same rounds has checked that they decode.
fn towpath_by_name(shape: &str, corpus: &Corpus) -> Way {
    let parts = dialects(corpus).into_iter().map(|dialect| {
        let messages = array(
            corpus
                .messages
                .iter()
                .filter(|message| message.dialect == dialect),
        );
        (decoder(typed(shape, dialect)), messages)
    });
    let parts: Vec<(Decoder, BinaryArray)> = parts.collect();
    Box::new(move |_| {
        for (decoder, messages) in &parts {
            drop(black_box(
                decoder.decode(messages).expect("auto has decoded it"),
            ));
        }
    })
}

/// Returns each dialect once.
fn dialects(corpus: &Corpus) -> Vec<&'static str> {
    let mut dialects: Vec<_> = corpus
        .messages
        .iter()
        .map(|message| message.dialect)
        .collect();
    dialects.sort_unstable();
    dialects.dedup();
    dialects
}

/// Checks that the images equal the written ones, by their number and by sums.
fn check_images(batch: &RecordBatch, truth: &Truth) {
    for (name, truth) in [("before", &truth.before), ("after", &truth.after)] {
        if let Some(images) = batch.column_by_name(name) {
            assert_eq!(&sums(images, truth), truth, "{name}");
        }
    }
    check_names(batch);
}

/// Checks that no column is null in every row, which would mean a wrong name.
fn check_names(batch: &RecordBatch) {
    let Some(rows) = batch
        .column_by_name("after")
        .and_then(|images| images.as_struct_opt())
    else {
        return;
    };
    for (field, column) in rows.fields().iter().zip(rows.columns()) {
        assert!(
            column.null_count() < rows.len(),
            "{} is null in every row",
            field.name()
        );
    }
}

/// Returns sums over images. Maps are only counted.
fn sums(images: &ArrayRef, truth: &Sums) -> Sums {
    let count = images.len() - images.null_count();
    let Some(rows) = images.as_struct_opt() else {
        return Sums {
            images: count,
            ..*truth
        };
    };
    let ids = rows
        .column_by_name("id")
        .expect("schemas here have it")
        .as_primitive::<Int64Type>();
    let totals = rows
        .column_by_name("total")
        .expect("schemas here have it")
        .as_primitive::<Decimal128Type>();
    Sums {
        images: count,
        ids: ids.iter().flatten().sum(),
        cents: totals.iter().flatten().sum::<i128>() as i64,
    }
}

/// Returns a peer that reads values, after it has read the right ones.
fn checked(
    read: impl FnMut(&BinaryArray) + 'static,
    found: fn(&BinaryArray) -> (u64, i64, i64),
    corpus: &Corpus,
) -> Way {
    let Truth {
        rows,
        before,
        after,
    } = &corpus.truth;
    assert_eq!(
        found(&array(&corpus.messages)),
        (*rows, before.ids, after.ids),
        "a peer's rows and ids"
    );
    Box::new(read)
}
