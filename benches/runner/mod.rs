//! Verbs of the bench. Each prints one JSON object.

pub mod cpu_time;

use arrow_array::{Array, BinaryArray};
use serde_json::{Map, Value, json};

use crate::corpus::{self, Corpus};
use crate::ways::options::options;
use crate::ways::{Way, array, decoder, known_ways, way};
use cpu_time::CpuTime;

/// Spark's default number of rows in an Arrow batch.
const MESSAGES: usize = 10_000;
/// Enough for a stable count, and fast enough for a simulator.
const FIXED_MESSAGES: usize = 2_000;
/// Maximum size of the batches of scaling shapes, some of whose messages have a megabyte.
const BATCH_BYTES: usize = 16 << 20;
const FIXED_BYTES: usize = 2 << 20;
/// Rounds without results, in which caches and the allocator settle.
const WARM_UP: usize = 2;

/// Returns one batch of a shape.
pub fn batch(shape: &str) -> Corpus {
    sized(shape, MESSAGES, BATCH_BYTES)
}

/// Returns a batch. A packet holds the changes of about eight other messages. Bytes limit the scaling shapes, because
/// the other shapes' figures are for a fixed number of messages. But many tables need many messages to appear.
fn sized(shape: &str, messages: usize, bytes: usize) -> Corpus {
    let count = match corpus::scaled(shape) {
        Some(("tables", _)) => MESSAGES,
        Some(_) => (bytes / Corpus::new(shape, 1).mean_bytes()).clamp(2, messages),
        None if shape == "protobuf" => messages / 8,
        None => messages,
    };
    Corpus::new(shape, count)
}

/// `rounds SHAPE N`: in each round every way reads the batch once, so that a slow moment of the machine affects all
/// ways. Prints nanoseconds of CPU time.
pub fn rounds(shape: &str, count: usize) -> Value {
    let corpus = batch(shape);
    let messages = array(&corpus.messages);
    let mut ways: Vec<(&str, Way)> = known_ways(shape, &corpus)
        .into_iter()
        .map(|name| (name, way(shape, name, &corpus)))
        .collect();
    let kept: Vec<Vec<u64>> = (0..count + WARM_UP)
        .map(|at| round(&mut ways, &messages, at % 2 == 1))
        .skip(WARM_UP)
        .collect();
    let nanos = ways.iter().enumerate().map(|(place, (name, _))| {
        let of_way: Vec<u64> = kept.iter().map(|round| round[place]).collect();
        ((*name).to_owned(), json!(of_way))
    });
    json!({"messages": messages.len(), "bytes": corpus.bytes(), "nanos": nanos.collect::<Map<_, _>>()})
}

/// Runs a round. Every second round goes backwards, so that no way always follows the same one.
fn round(ways: &mut [(&str, Way)], messages: &BinaryArray, backwards: bool) -> Vec<u64> {
    let mut nanos = vec![0; ways.len()];
    for step in 0..ways.len() {
        let place = if backwards {
            ways.len() - 1 - step
        } else {
            step
        };
        nanos[place] = CpuTime::of(|| (ways[place].1)(messages));
    }
    nanos
}

/// `share SHAPE`: number of messages that templates read.
pub fn share(shape: &str) -> Value {
    let corpus = batch(shape);
    let (messages, dialect) = (array(&corpus.messages), corpus.messages[0].dialect);
    let asked = known_ways(shape, &corpus)
        .into_iter()
        .filter(|name| *name != "towpath typed, none falls back");
    let templated = asked.filter_map(|name| {
        let decoder = decoder(options(shape, dialect, name)?);
        decoder.decode(&messages).expect("the corpus is right");
        Some((name.to_owned(), json!(decoder.metrics().templated)))
    });
    json!({"messages": messages.len(), "templated": templated.collect::<Map<_, _>>()})
}

/// `scaling AXIS N`: rounds over shapes that differ in one size only, from small to large.
pub fn scaling(axis: &str, count: usize) -> Value {
    let sizes = corpus::AXES
        .iter()
        .find(|(name, _)| *name == axis)
        .expect("no such axis")
        .1;
    let points = sizes.iter().map(|size| {
        let mut point = rounds(&format!("{axis}-{size}"), count);
        point["size"] = json!(size);
        point
    });
    json!(points.collect::<Vec<_>>())
}

/// `fixed SHAPE WAY TIMES`: reads a small batch `TIMES` times, for a profiler or a simulator.
pub fn fixed(shape: &str, name: &str, times: usize) -> Value {
    let corpus = sized(shape, FIXED_MESSAGES, FIXED_BYTES);
    let (mut read, messages) = (way(shape, name, &corpus), array(&corpus.messages));
    for _ in 0..times {
        read(&messages);
    }
    json!({"messages": messages.len(), "bytes": corpus.bytes()})
}
