//! Real messages of every dialect, some of them damaged, in every layout and mode. Their rows do not depend on
//! neighbours, on the borders of batches and chunks, on the array that holds them or on their compression. The counts
//! add up.
//!
//! `Metrics` and the layouts define the comparisons. The other side of each comparison is the same message decoded in
//! another way, or a count by this test.

use std::collections::{BTreeMap, HashSet};
use std::io::Write;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::Fields;
use arrow_select::concat::concat_batches;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use towpath::{
    Compression, DIALECTS, DecodeError, Decoder, Error, Fetched, Layout, Metrics, Mode, Options,
    TableSchema, Wire,
};

use crate::batches::Message;
use crate::captures::{captures, forms};
use crate::golden::{columns, plain};
use crate::properties::config;
use crate::settings::{Feeding, NUMBER};
use crate::tables::pick;

/// Batches for each dialect.
const CASES: u32 = 12;

/// Messages of a dialect, and the columns of its busiest table.
struct Pool {
    dialect: &'static str,
    messages: Vec<Message>,
    fields: Fields,
}

/// Returns some messages of each capture and form of a dialect; for `auto`, messages of all dialects.
fn pool(dialect: &'static str, count: usize) -> Pool {
    let dialects: Vec<&str> = DIALECTS
        .iter()
        .map(|known| known.name)
        .filter(|name| dialect == "auto" || *name == dialect)
        .collect();
    let of = |name: &str| {
        captures(name, count)
            .into_iter()
            .flat_map(|(_, messages)| messages)
            .chain(forms(name))
            .collect::<Vec<_>>()
    };
    let messages: Vec<Message> = dialects.into_iter().flat_map(of).collect();
    let fields = columns(dialect, &messages).unwrap_or_else(Fields::empty);
    Pool {
        dialect,
        messages,
        fields,
    }
}

/// Damage to a message.
#[derive(Clone, Copy, Debug)]
enum Damage {
    None,
    Null,
    Empty,
    Truncated(u16),
    Flipped(u16, u8),
    WithoutKey,
    /// The key of the preceding message.
    OtherKey,
    /// Bytes of no dialect, longer than a chunk.
    Long,
}

fn damage() -> impl Strategy<Value = Damage> {
    prop_oneof![
        24 => Just(Damage::None),
        1 => Just(Damage::Null),
        1 => Just(Damage::Empty),
        3 => any::<u16>().prop_map(Damage::Truncated),
        3 => (any::<u16>(), 1..=255u8).prop_map(|(at, bits)| Damage::Flipped(at, bits)),
        1 => Just(Damage::WithoutKey),
        1 => Just(Damage::OtherKey),
        2 => Just(Damage::Long),
    ]
}

impl Damage {
    fn apply(self, message: &Message, before: Option<&Message>) -> Message {
        let Message { key, value } = message.clone();
        let bytes = value.clone().unwrap_or_default();
        let at = |place: u16| usize::from(place) % bytes.len().max(1);
        match self {
            Damage::None => Message { key, value },
            Damage::Null => Message { key, value: None },
            Damage::Empty => Message {
                key,
                value: Some(Vec::new()),
            },
            Damage::Truncated(place) => Message {
                key,
                value: Some(bytes[..at(place)].to_vec()),
            },
            Damage::Flipped(place, bits) => {
                let flip = |(index, byte): (usize, &u8)| {
                    if index == at(place) {
                        byte ^ bits
                    } else {
                        *byte
                    }
                };
                Message {
                    key,
                    value: Some(bytes.iter().enumerate().map(flip).collect()),
                }
            }
            Damage::WithoutKey => Message { key: None, value },
            Damage::OtherKey => Message {
                key: before.and_then(|before| before.key.clone()),
                value,
            },
            Damage::Long => Message {
                key,
                value: Some(b"{\"\x07".repeat(50_000)),
            },
        }
    }
}

/// Random draws for a batch and its options.
#[derive(Clone, Debug)]
struct Draw {
    /// Each message by its index in the pool. Neighbours there come from one capture.
    messages: Vec<(u16, u8, Damage)>,
    has_schema: bool,
    layout: u8,
    mode: Mode,
    filter: bool,
    cut: u16,
    max_bytes: u16,
    compression: u8,
}

fn draw() -> impl Strategy<Value = Draw> {
    let mode = prop_oneof![2 => Just(Mode::Permissive), 1 => Just(Mode::DropMalformed), 1 => Just(Mode::FailFast)];
    let messages = prop::collection::vec((any::<u16>(), 1..6u8, damage()), 1..12);
    let switches = (prop::bool::weighted(0.8), prop::bool::weighted(0.3));
    (
        messages,
        switches,
        any::<u8>(),
        mode,
        any::<u16>(),
        any::<u16>(),
        any::<u8>(),
    )
        .prop_map(
            |(messages, (has_schema, filter), layout, mode, cut, max_bytes, compression)| Draw {
                messages,
                has_schema,
                layout,
                mode,
                filter,
                cut,
                max_bytes,
                compression,
            },
        )
}

impl Draw {
    fn messages(&self, pool: &Pool) -> Vec<Message> {
        let mut messages: Vec<Message> = Vec::new();
        for (place, length, damage) in &self.messages {
            for at in 0..usize::from(*length) {
                let message = &pool.messages[(usize::from(*place) + at) % pool.messages.len()];
                // The last message of a run is damaged, after a template was learned from the others.
                let damage = if at + 1 == usize::from(*length) {
                    *damage
                } else {
                    Damage::None
                };
                messages.push(damage.apply(message, messages.last()));
            }
        }
        messages
    }

    fn options(&self, pool: &Pool) -> Options {
        let has_schema = self.has_schema && !pool.fields.is_empty();
        Options {
            schema: has_schema.then(|| TableSchema::Arrow(pool.fields.clone())),
            layout: if has_schema {
                pick(Layout::NAMES, self.layout).1
            } else {
                Layout::Change
            },
            mode: self.mode,
            table: self.filter.then(|| "[a-m].*".to_owned()),
            keep: vec![NUMBER.to_owned()],
            ..plain(pool.dialect)
        }
    }
}

pub type Decoded = Result<RecordBatch, Error>;

pub fn decoder(options: &Options) -> Decoder {
    Decoder::new(options.clone()).unwrap()
}

pub fn decode(decoder: &Decoder, input: &ArrayRef) -> Decoded {
    decoder.decode(input).map_err(row_error)
}

fn row_error(error: DecodeError) -> Error {
    match error {
        DecodeError::Row(error) => error,
        DecodeError::Input(what) => panic!("the test's own input is refused: {what}"),
    }
}

pub fn input(messages: &[Message]) -> ArrayRef {
    Feeding::Records.inputs(messages).remove(0)
}

fn concatenated(batches: &[RecordBatch]) -> RecordBatch {
    concat_batches(&batches[0].schema(), batches).unwrap()
}

/// Returns the batch without some columns.
fn without(batch: &RecordBatch, names: &[&str]) -> RecordBatch {
    let kept: Vec<usize> = (0..batch.num_columns())
        .filter(|at| !names.contains(&batch.schema().field(*at).name().as_str()))
        .collect();
    batch.project(&kept).unwrap()
}

/// Columns that hold a message's place among the others.
const PLACES: [&str; 2] = ["_sequence", NUMBER];

fn same(what: &str, got: &RecordBatch, want: &RecordBatch) -> Result<(), TestCaseError> {
    let row = (0..got.num_rows().min(want.num_rows()))
        .find(|row| got.slice(*row, 1) != want.slice(*row, 1));
    prop_assert!(
        got == want,
        "{what}: {} rows for {}, the first other one is {row:?}",
        got.num_rows(),
        want.num_rows()
    );
    Ok(())
}

/// Checks that each message has the same rows as alone, with its own place: neither its neighbours nor its place change
/// them.
pub fn each_message_is_as_alone(
    options: &Options,
    messages: &[Message],
    whole: &Decoded,
) -> Result<(), TestCaseError> {
    let decoder = decoder(options);
    let alone = |message: &Message| decode(&decoder, &input(std::slice::from_ref(message)));
    let mut parts = Vec::new();
    for (row, message) in messages.iter().enumerate() {
        match alone(message) {
            Ok(part) => parts.push(without(&part, &PLACES)),
            Err(error) => {
                prop_assert_eq!(whole.as_ref().err(), Some(&Error { row, ..error }));
                return Ok(());
            }
        }
    }
    prop_assert!(
        whole.is_ok(),
        "an error that no message has alone: {:?}",
        whole.as_ref().err()
    );
    let Ok(whole) = whole else { return Ok(()) };
    let numbers: Vec<i64> = parts
        .iter()
        .zip(0..)
        .flat_map(|(part, number)| std::iter::repeat_n(number, part.num_rows()))
        .collect();
    prop_assert_eq!(
        whole[NUMBER].as_primitive::<Int64Type>().values().to_vec(),
        numbers
    );
    same("alone", &without(whole, &PLACES), &concatenated(&parts))
}

/// Checks a batch in two halves, and in parts that end when their rows are large enough.
fn splits_change_nothing(
    options: &Options,
    messages: &[Message],
    draw: &Draw,
    whole: &RecordBatch,
) -> Result<(), TestCaseError> {
    let (array, decoder) = (input(messages), decoder(options));
    let cut = usize::from(draw.cut) % (messages.len() + 1);
    let [first, second] = [array.slice(0, cut), array.slice(cut, messages.len() - cut)]
        .map(|part| decode(&decoder, &part).unwrap());
    same(
        "in two",
        &without(&concatenated(&[first, second]), &PLACES),
        &without(whole, &PLACES),
    )?;
    let (mut parts, mut start) = (Vec::new(), 0);
    while start < messages.len() {
        let (part, end) = decoder
            .decode_part(
                &array,
                &Fetched::default(),
                start,
                usize::from(draw.max_bytes),
            )
            .unwrap();
        prop_assert!(end > start);
        parts.push(part);
        start = end;
    }
    // A part is not a separate batch: `_sequence` continues.
    same("in parts", &concatenated(&parts), whole)?;
    let metrics = decoder.metrics();
    prop_assert_eq!(
        (metrics.messages, metrics.rows),
        (2 * messages.len() as u64, 2 * whole.num_rows() as u64)
    );
    Ok(())
}

/// Checks every type of array, and slices of one.
fn arrays_change_nothing(
    options: &Options,
    messages: &[Message],
    draw: &Draw,
) -> Result<(), TestCaseError> {
    let options = Options {
        keep: Vec::new(),
        key: None,
        ..options.clone()
    };
    let decoder = decoder(&options);
    let decode_all = |feeding: Feeding| -> Result<Vec<RecordBatch>, Error> {
        feeding
            .inputs(messages)
            .iter()
            .map(|input| decode(&decoder, input).map(|batch| without(&batch, &PLACES)))
            .collect()
    };
    let want = decode_all(Feeding::Binary);
    for feeding in [
        Feeding::LargeBinary,
        Feeding::View,
        Feeding::Text,
        Feeding::Records,
    ] {
        prop_assert_eq!(&decode_all(feeding), &want, "{:?}", feeding);
    }
    match decode_all(Feeding::Slices(draw.cut as u8)).as_deref() {
        Ok([first, second, whole]) => same(
            "slices",
            &concatenated(&[first.clone(), second.clone()]),
            whole,
        ),
        _ => Ok(()),
    }
}

/// Returns the name of an envelope column in a layout.
fn name(layout: Layout, name: &str) -> String {
    if layout == Layout::Change {
        name.to_owned()
    } else {
        format!("_{name}")
    }
}

/// Returns the kind of error of each row.
fn kinds(batch: &RecordBatch, layout: Layout) -> Vec<Option<String>> {
    let error = batch[name(layout, "error").as_str()].as_struct();
    let kind = |row| {
        error
            .is_valid(row)
            .then(|| error["kind"].as_string::<i32>().value(row).to_owned())
    };
    (0..error.len()).map(kind).collect()
}

fn counted(words: impl Iterator<Item = String>) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    words.for_each(|word| *counts.entry(word).or_default() += 1);
    counts
}

/// Checks that the counts match the rows: messages, rows, errors by kind, columns that rows lack.
fn counts_add_up(options: &Options, messages: &[Message]) -> Result<(), TestCaseError> {
    let permissive = Options {
        mode: Mode::Permissive,
        ..options.clone()
    };
    let (kept, all) = counts_of(&permissive, messages);
    prop_assert_eq!((kept.messages, kept.dropped), (messages.len() as u64, 0));
    prop_assert_eq!(kept.rows, all.num_rows() as u64);
    let errors: BTreeMap<String, u64> = kept
        .errors
        .iter()
        .map(|(kind, count)| ((*kind).to_owned(), *count))
        .collect();
    prop_assert_eq!(
        errors,
        counted(kinds(&all, options.layout).into_iter().flatten())
    );
    if options.schema.is_some() {
        let missing = all[name(options.layout, "missing_columns").as_str()].as_list::<i32>();
        let names = missing
            .values()
            .as_string::<i32>()
            .iter()
            .flatten()
            .map(str::to_owned);
        prop_assert_eq!(&kept.missing, &counted(names));
    }
    drops_are_the_bad_rows(&permissive, messages, &kept, &all)?;
    filters_leave_the_rest(&permissive, messages, &kept)
}

fn counts_of(options: &Options, messages: &[Message]) -> (Metrics, RecordBatch) {
    let decoder = decoder(options);
    let batch = decode(&decoder, &input(messages)).unwrap();
    (decoder.metrics(), batch)
}

/// Checks that `DROPMALFORMED` has the rows of `PERMISSIVE` without the rows of changes with an error, which it counts.
fn drops_are_the_bad_rows(
    options: &Options,
    messages: &[Message],
    kept: &Metrics,
    all: &RecordBatch,
) -> Result<(), TestCaseError> {
    let (dropping, rows) = counts_of(
        &Options {
            mode: Mode::DropMalformed,
            ..options.clone()
        },
        messages,
    );
    prop_assert_eq!(
        (dropping.messages, dropping.filtered, &dropping.errors),
        (kept.messages, kept.filtered, &kept.errors)
    );
    prop_assert_eq!(dropping.rows, rows.num_rows() as u64);
    let changes =
        all[name(options.layout, "row").as_str()].as_primitive::<arrow_array::types::Int32Type>();
    let numbers = all[NUMBER].as_primitive::<Int64Type>();
    let change = |row: usize| {
        (
            numbers.value(row),
            changes.is_valid(row).then(|| changes.value(row)),
        )
    };
    let bad: HashSet<_> = kinds(all, options.layout)
        .iter()
        .enumerate()
        .filter(|(_, kind)| kind.is_some())
        .map(|(row, _)| change(row))
        .collect();
    prop_assert_eq!(dropping.dropped, bad.len() as u64);
    let good: Vec<RecordBatch> = (0..all.num_rows())
        .filter(|row| !bad.contains(&change(*row)))
        .map(|row| all.slice(row, 1))
        .collect();
    if good.is_empty() {
        prop_assert_eq!(rows.num_rows(), 0);
        return Ok(());
    }
    same("without bad rows", &rows, &concatenated(&good))
}

/// Checks that rows and filtered rows add up to the rows without a filter. Flat layouts have no row for some events,
/// and two rows for some changes.
fn filters_leave_the_rest(
    options: &Options,
    messages: &[Message],
    kept: &Metrics,
) -> Result<(), TestCaseError> {
    if options.layout != Layout::Change {
        return Ok(());
    }
    let (open, _) = counts_of(
        &Options {
            table: None,
            ..options.clone()
        },
        messages,
    );
    prop_assert_eq!(open.filtered, 0);
    prop_assert_eq!(kept.rows + kept.filtered, open.rows);
    Ok(())
}

const COMPRESSIONS: [Compression; 4] = [
    Compression::Lz4,
    Compression::Snappy,
    Compression::Gzip,
    Compression::Zstd,
];

fn compressed(bytes: &[u8], compression: Compression) -> Vec<u8> {
    match compression {
        Compression::Lz4 => {
            let mut encoder = lz4_flex::frame::FrameEncoder::new(Vec::new());
            encoder.write_all(bytes).unwrap();
            encoder.finish().unwrap()
        }
        Compression::Snappy => snap::raw::Encoder::new().compress_vec(bytes).unwrap(),
        Compression::Gzip => {
            let mut encoder =
                flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            encoder.write_all(bytes).unwrap();
            encoder.finish().unwrap()
        }
        Compression::Zstd => {
            ruzstd::encoding::compress_to_vec(bytes, ruzstd::encoding::CompressionLevel::Fastest)
        }
        Compression::Auto | Compression::None => bytes.to_vec(),
    }
}

/// Checks that a compressed message has the rows of the plain one. A bad row has Kafka's bytes.
fn compression_changes_nothing(
    options: &Options,
    messages: &[Message],
    draw: &Draw,
) -> Result<(), TestCaseError> {
    let compression = pick(&COMPRESSIONS, draw.compression);
    // A message without bytes is a tombstone, unless its key has the rest.
    let is_tombstone = |bytes: &[u8]| bytes.is_empty() && options.dialect != "ticdc-open";
    let compress = |bytes: &Vec<u8>| {
        if is_tombstone(bytes) {
            Vec::new()
        } else {
            compressed(bytes, compression)
        }
    };
    let packed: Vec<Message> = messages
        .iter()
        .map(|Message { key, value }| Message {
            key: key.clone(),
            value: value.as_ref().map(compress),
        })
        .collect();
    let rows = |compression, messages: &[Message]| {
        let decoder = decoder(&Options {
            compression,
            ..options.clone()
        });
        decode(&decoder, &input(messages)).map(|batch| without(&batch, &["_corrupt_record"]))
    };
    let (got, want) = (
        rows(compression, &packed),
        rows(Compression::None, messages),
    );
    prop_assert_eq!(got.is_ok(), want.is_ok(), "{:?}", compression);
    match (got, want) {
        (Ok(got), Ok(want)) => same("compressed", &got, &want),
        (got, want) => {
            prop_assert_eq!(got, want);
            Ok(())
        }
    }
}

fn hold(pool: &Pool, draw: &Draw) -> Result<(), TestCaseError> {
    let (options, messages) = (draw.options(pool), draw.messages(pool));
    let whole = decode(&decoder(&options), &input(&messages));
    each_message_is_as_alone(&options, &messages, &whole)?;
    if let Ok(whole) = &whole {
        splits_change_nothing(&options, &messages, draw, whole)?;
    }
    arrays_change_nothing(&options, &messages, draw)?;
    counts_add_up(&options, &messages)?;
    compression_changes_nothing(&options, &messages, draw)
}

fn invariants_hold(dialect: &'static str) {
    let pool = pool(dialect, if dialect == "auto" { 6 } else { 30 });
    let config = config(CASES);
    let seed = config.rng_seed;
    let outcome = TestRunner::new(config).run(&draw(), |draw| hold(&pool, &draw));
    if let Err(error) = outcome {
        panic!("{dialect}, seed {seed:?}: {error}");
    }
}

#[test]
fn of_canal_json() {
    invariants_hold("canal-json");
}

#[test]
fn of_canal_protobuf() {
    invariants_hold("canal-protobuf");
}

#[test]
fn of_cloudcanal_json() {
    invariants_hold("cloudcanal-json");
}

#[test]
fn of_debezium_json() {
    invariants_hold("debezium-json");
}

#[test]
fn of_ticdc_avro() {
    invariants_hold("ticdc-avro");
}

#[test]
fn of_debezium_avro() {
    invariants_hold("debezium-avro");
}

#[test]
fn of_dts_avro() {
    invariants_hold("dts-avro");
}

#[test]
fn of_maxwell_json() {
    invariants_hold("maxwell-json");
}

#[test]
fn of_river_json() {
    invariants_hold("river-json");
}

#[test]
fn of_ticdc_open() {
    invariants_hold("ticdc-open");
}

#[test]
fn of_ticdc_simple() {
    invariants_hold("ticdc-simple");
}

#[test]
fn of_dms_json() {
    invariants_hold("dms-json");
}

#[test]
fn of_dataworks_json() {
    invariants_hold("dataworks-json");
}

#[test]
fn of_all_dialects_side_by_side() {
    invariants_hold("auto");
}

#[test]
fn every_dialect_has_columns_and_its_wire() {
    for dialect in DIALECTS {
        let pool = pool(dialect.name, 6);
        assert!(
            pool.messages.len() > 3 && !pool.fields.is_empty(),
            "{}",
            dialect.name
        );
        let is_json = |message: &Message| {
            message
                .value
                .as_ref()
                .is_some_and(|value| value.trim_ascii_start().starts_with(b"{"))
        };
        assert!(
            dialect.wire != Wire::Json
                || dialect.name == "ticdc-open"
                || pool.messages.iter().any(is_json),
            "{}",
            dialect.name
        );
    }
}
