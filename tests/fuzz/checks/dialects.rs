//! Properties of the messages of any dialect, under any options.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type};
use arrow_array::{Array, BooleanArray, RecordBatch, StructArray};
use arrow_select::concat::concat_batches;
use arrow_select::filter::filter_record_batch;
use towpath::{Compression, DecodeError, Decoder, Error, Layout, Metrics, Mode, Options, detect};

use super::captures::Message;
use super::input::{Input, records};
use super::options::{Chosen, chosen, decoder, plain};

/// Minimum number of messages in a batch. Fewer are repeated, so that templates of earlier ones are used.
const BATCH: usize = 3;

/// Checks a dialect by its name, or `auto`.
pub fn check(dialect: &str, data: &[u8]) {
    let Input { choices, messages } = Input::parse(data);
    check_messages(&chosen(dialect, choices), &messages);
}

/// Checks detection: `auto` decodes a message like the name of the detected dialect.
pub fn check_auto(data: &[u8]) {
    check("auto", data);
    for message in Input::parse(data).messages {
        let Some(dialect) = message.value.as_deref().and_then(detect) else {
            continue;
        };
        let decoded = |name: &str| decode(&expanding(name), std::slice::from_ref(&message));
        let (named, auto) = (decoded(dialect.name), decoded("auto"));
        assert_same(
            &auto,
            &named,
            &format!("auto differs from {}", dialect.name),
        );
    }
}

/// Returns a decoder of a dialect with the same decompression as detection.
fn expanding(dialect: &str) -> Rc<Decoder> {
    thread_local! {
        static DECODERS: RefCell<HashMap<String, Rc<Decoder>>> = RefCell::default();
    }
    let make = || {
        decoder(Options {
            compression: Compression::Auto,
            ..plain(dialect)
        })
        .into()
    };
    DECODERS.with_borrow_mut(|decoders| decoders.entry(dialect.into()).or_insert_with(make).clone())
}

/// Checks messages in one batch against each message alone, which no template reads.
pub fn check_messages(chosen: &Chosen, messages: &[Message]) {
    let alone: Vec<RecordBatch> = messages
        .iter()
        .map(|message| checked_alone(chosen, message))
        .collect();
    let repeats = BATCH.div_ceil(messages.len());
    let repeated: Vec<Message> = std::iter::repeat_n(messages, repeats)
        .flatten()
        .cloned()
        .collect();
    let want: Vec<RecordBatch> = std::iter::repeat_n(&alone, repeats)
        .flatten()
        .map(placeless)
        .collect();
    check_batch(chosen, &repeated, &want);
}

/// Returns the rows of a message alone, in mode `PERMISSIVE`.
fn checked_alone(chosen: &Chosen, message: &Message) -> RecordBatch {
    let before = chosen.permissive().metrics();
    let rows = decode(chosen.permissive(), std::slice::from_ref(message));
    let counts = Counts::between(&before, &chosen.permissive().metrics());
    let errors = errors(&rows, chosen.options.layout);
    assert_eq!((counts.messages, counts.rows), (1, rows.num_rows() as u64));
    assert_eq!(
        counts.errors,
        (errors.len() - errors.null_count()) as u64,
        "other errors are counted than there are"
    );
    check_rows(message, &rows, &chosen.options);
    check_errors(message, &rows, &chosen.options);
    match chosen.options.layout {
        Layout::Change => assert!(counts.rows + counts.filtered > 0, "a message is lost"),
        _ => check_changes(chosen, message, &rows),
    }
    rows
}

/// Counts of a decoder since an earlier time.
struct Counts {
    messages: u64,
    rows: u64,
    filtered: u64,
    errors: u64,
}

impl Counts {
    fn between(before: &Metrics, after: &Metrics) -> Self {
        let errors = |metrics: &Metrics| metrics.errors.values().sum::<u64>();
        Counts {
            messages: after.messages - before.messages,
            rows: after.rows - before.rows,
            filtered: after.filtered - before.filtered,
            errors: errors(after) - errors(before),
        }
    }
}

pub fn decode(decoder: &Decoder, messages: &[Message]) -> RecordBatch {
    decoder
        .decode(&records(messages))
        .unwrap_or_else(|error| panic!("the batch is refused: {error}"))
}

/// Compares the batch of all messages with the rows of each.
fn check_batch(chosen: &Chosen, messages: &[Message], alone: &[RecordBatch]) {
    let layout = chosen.options.layout;
    let whole =
        concat_batches(&alone[0].schema(), alone).expect("batches of one schema are concatenated");
    let outcome = chosen.decoder.decode(&records(messages));
    let good: Vec<RecordBatch> = alone.iter().map(|rows| good_rows(rows, layout)).collect();
    let good =
        concat_batches(&whole.schema(), &good).expect("batches of one schema are concatenated");
    match (chosen.options.mode, outcome) {
        (Mode::Permissive, Ok(batch)) => assert_same(
            &placeless(&batch),
            &whole,
            "neighbours change the rows of a message",
        ),
        (Mode::DropMalformed, Ok(batch)) => assert_same(
            &placeless(&batch),
            &good,
            "other rows are dropped than those with an error",
        ),
        (Mode::FailFast, Ok(batch)) if good.num_rows() == whole.num_rows() => assert_same(
            &placeless(&batch),
            &whole,
            "FAILFAST differs from PERMISSIVE",
        ),
        (Mode::FailFast, Err(DecodeError::Row(error))) => check_first_error(&error, alone, layout),
        (mode, outcome) => panic!(
            "{mode:?}: {:?}, but {} of {} rows have no error",
            outcome.map(|batch| batch.num_rows()),
            good.num_rows(),
            whole.num_rows()
        ),
    }
}

/// Checks that the error of `FAILFAST` is the first one of `PERMISSIVE`.
fn check_first_error(error: &Error, alone: &[RecordBatch], layout: Layout) {
    let first = alone.iter().enumerate().find_map(|(row, batch)| {
        let errors = errors(batch, layout);
        (0..errors.len()).find(|at| errors.is_valid(*at)).map(|at| {
            (
                row,
                errors["message"].as_string::<i32>().value(at).to_owned(),
            )
        })
    });
    assert_eq!(
        first,
        Some((error.row, error.message.clone())),
        "FAILFAST and PERMISSIVE differ in the first error"
    );
}

/// Checks that every array is valid, and that the rows take no more memory than the budget allows.
fn check_rows(message: &Message, rows: &RecordBatch, options: &Options) {
    const ALLOWANCE: usize = 16 << 20;
    // The budget does not count values: a digit may become 32 bytes of a wide decimal.
    const BYTES_OF_VALUE: usize = 64;
    let mut bytes = 0;
    for (field, column) in rows.schema().fields().iter().zip(rows.columns()) {
        let data = column.to_data();
        data.validate_full().unwrap_or_else(|error| {
            panic!("column {:?} is not a valid array: {error}", field.name())
        });
        bytes += data
            .get_slice_memory_size()
            .expect("the size of an array is known");
    }
    let length = message.value.as_ref().map_or(0, Vec::len);
    let most = ALLOWANCE + (options.max_expansion + BYTES_OF_VALUE) * length;
    assert!(
        bytes <= most,
        "the rows of {length} bytes take {bytes} bytes, more than {most}"
    );
}

/// Checks that errors have short texts, a place in the message, and the message itself.
fn check_errors(message: &Message, rows: &RecordBatch, options: &Options) {
    const MAX_CHARS: usize = 1500;
    let errors = errors(rows, options.layout);
    let (texts, bytes) = (
        errors["message"].as_string::<i32>(),
        errors["byte"].as_primitive::<Int64Type>(),
    );
    let corrupt = rows["_corrupt_record"].as_binary::<i32>();
    let value = message.value.as_deref().unwrap_or_default();
    for row in (0..rows.num_rows()).filter(|row| errors.is_valid(*row)) {
        let text = texts.value(row);
        assert!(
            text.chars().count() <= MAX_CHARS,
            "an error of {} bytes: {text}",
            text.len()
        );
        assert!(
            bytes.is_null(row) || (0..=value.len() as i64).contains(&bytes.value(row)),
            "byte {} of {}: {text}",
            bytes.value(row),
            value.len()
        );
        assert_eq!(
            corrupt.value(row),
            value,
            "_corrupt_record is not the message: {text}"
        );
    }
    let without_error = (0..rows.num_rows()).filter(|row| errors.is_null(*row));
    without_error.for_each(|row| {
        assert!(
            corrupt.is_null(row),
            "a row without an error has _corrupt_record"
        )
    });
}

/// Checks that every change of the layout `change` is a row in the other layouts too.
fn check_changes(chosen: &Chosen, message: &Message, rows: &RecordBatch) {
    let changes = decode(chosen.changes(), std::slice::from_ref(message));
    let errors = errors(&changes, Layout::Change);
    if errors.null_count() < errors.len() {
        return; // The fault may be in a member that only this layout shows.
    }
    let is_change = |op: &str| matches!(op, "insert" | "update" | "delete" | "snapshot");
    let wanted: Vec<&str> = changes["op"]
        .as_string::<i32>()
        .iter()
        .flatten()
        .filter(|op| is_change(op))
        .collect();
    let (found, layout) = (rows.num_rows(), chosen.options.layout.name());
    assert!(
        found >= wanted.len(),
        "{found} rows of {wanted:?} in layout {layout}"
    );
}

/// Returns the column of errors.
pub fn errors(batch: &RecordBatch, layout: Layout) -> &StructArray {
    batch[if layout == Layout::Change {
        "error"
    } else {
        "_error"
    }]
    .as_struct()
}

/// Returns the rows without `_sequence`, which has the message's place in the batch.
pub fn placeless(batch: &RecordBatch) -> RecordBatch {
    let kept: Vec<usize> = (0..batch.num_columns())
        .filter(|at| batch.schema().field(*at).name() != "_sequence")
        .collect();
    batch.project(&kept).expect("the columns exist")
}

/// Compares rows. Reports a difference as its first cell, because batches are long.
pub fn assert_same(found: &RecordBatch, wanted: &RecordBatch, what: &str) {
    if found == wanted {
        return;
    }
    assert_eq!(
        found.schema(),
        wanted.schema(),
        "{what}: the schemas differ"
    );
    assert_eq!(
        found.num_rows(),
        wanted.num_rows(),
        "{what}: the numbers of rows differ"
    );
    for (at, field) in found.schema().fields().iter().enumerate() {
        let cell = |batch: &RecordBatch, row| batch.column(at).slice(row, 1);
        if let Some(row) = (0..found.num_rows())
            .find(|row| cell(found, *row).as_ref() != cell(wanted, *row).as_ref())
        {
            panic!(
                "{what}: row {row}, {}: found {:?}, wanted {:?}",
                field.name(),
                cell(found, row),
                cell(wanted, row)
            );
        }
    }
}

/// Returns the rows of a message whose changes have no error. A change may be two rows, both of which are dropped.
fn good_rows(rows: &RecordBatch, layout: Layout) -> RecordBatch {
    let errors = errors(rows, layout);
    // In layout `change`, each row is a change.
    let change = |row: usize| {
        rows.column_by_name("_row").map_or(row as i32, |column| {
            column.as_primitive::<Int32Type>().value(row)
        })
    };
    let bad: Vec<i32> = (0..rows.num_rows())
        .filter(|row| errors.is_valid(*row))
        .map(change)
        .collect();
    let kept: BooleanArray = (0..rows.num_rows())
        .map(|row| Some(!bad.contains(&change(row))))
        .collect();
    filter_record_batch(rows, &kept).expect("the mask has a value for each row")
}
