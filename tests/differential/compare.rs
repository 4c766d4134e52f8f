//! Comparison of a decoder with templates and a decoder without them. Both must give the same results for any bytes.

use std::panic::{AssertUnwindSafe, catch_unwind};

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef, RecordBatch, StructArray};
use arrow_schema::DataType;
use towpath::{DecodeError, Decoder, Error, Metrics, Options, infer_schema};

use crate::batches::Message;
use crate::settings::{Feeding, NUMBER, records};

/// Output of a decoder for one input.
enum Outcome {
    Batch(RecordBatch),
    Row(Error),
    Input(String),
    Panic(String),
}

/// Difference between the two readers.
#[derive(Debug)]
pub struct Difference {
    what: String,
    /// The first differing row of the output, if any.
    row: Option<usize>,
    /// The first message that an error names.
    message: Option<usize>,
}

/// Numbers of compared items.
#[derive(Clone, Copy, Debug, Default)]
pub struct Compared {
    pub messages: u64,
    pub rows: u64,
    pub errors: u64,
    pub templated: u64,
}

impl Difference {
    fn new(what: impl Into<String>) -> Self {
        Difference {
            what: what.into(),
            row: None,
            message: None,
        }
    }
}

fn decoder(options: &Options, templates: bool) -> Decoder {
    let options = Options {
        templates,
        ..options.clone()
    };
    Decoder::new(options)
        .unwrap_or_else(|what| panic!("the test's own options are refused: {what}"))
}

fn decode(decoder: &Decoder, input: &ArrayRef) -> Outcome {
    match caught(|| decoder.decode(input)) {
        Ok(Ok(batch)) => Outcome::Batch(batch),
        Ok(Err(DecodeError::Row(error))) => Outcome::Row(error),
        Ok(Err(DecodeError::Input(what))) => Outcome::Input(what),
        Err(what) => Outcome::Panic(what),
    }
}

/// Returns the result, or the text of a panic.
fn caught<T>(make: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(make)).map_err(|what| match what.downcast::<String>() {
        Ok(text) => *text,
        Err(what) => what
            .downcast::<&str>()
            .map_or_else(|_| "a panic".to_owned(), |text| (*text).to_owned()),
    })
}

/// Decodes the messages with both readers.
pub fn compare(
    options: &Options,
    messages: &[Message],
    feeding: Feeding,
) -> Result<Compared, Difference> {
    let (with, without) = (decoder(options, true), decoder(options, false));
    for (at, input) in feeding.inputs(messages).iter().enumerate() {
        same_outcome(decode(&with, input), decode(&without, input)).map_err(|difference| {
            Difference {
                what: format!("input {at}: {}", difference.what),
                ..difference
            }
        })?;
        same_metrics(&with.metrics(), &without.metrics())?;
    }
    let metrics = with.metrics();
    let errors = metrics.errors.values().sum();
    Ok(Compared {
        messages: metrics.messages,
        rows: metrics.rows,
        errors,
        templated: metrics.templated,
    })
}

fn same_outcome(with: Outcome, without: Outcome) -> Result<(), Difference> {
    match (with, without) {
        (Outcome::Batch(with), Outcome::Batch(without)) => same_batch(&with, &without),
        (Outcome::Row(with), Outcome::Row(without)) if with == without => Ok(()),
        (Outcome::Input(with), Outcome::Input(without)) if with == without => Ok(()),
        (with, without) => {
            let row = [&with, &without].into_iter().filter_map(|outcome| {
                if let Outcome::Row(error) = outcome {
                    Some(error.row)
                } else {
                    None
                }
            });
            let message = row.min();
            let what = format!(
                "    with templates: {}\n    without:        {}",
                outcome_text(&with),
                outcome_text(&without)
            );
            Err(Difference {
                what: format!("another outcome\n{what}"),
                row: None,
                message,
            })
        }
    }
}

fn outcome_text(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Batch(batch) => format!("a batch of {} rows", batch.num_rows()),
        Outcome::Row(error) => format!("{error:?}"),
        Outcome::Input(what) => format!("the input is refused: {what}"),
        Outcome::Panic(what) => format!("a panic: {what}"),
    }
}

fn same_batch(with: &RecordBatch, without: &RecordBatch) -> Result<(), Difference> {
    for (name, batch) in [("with templates", with), ("without", without)] {
        for (field, column) in batch.schema().fields().iter().zip(batch.columns()) {
            let checked = column.to_data().validate_full();
            checked.map_err(|error| {
                Difference::new(format!(
                    "{name}: column {:?} is not a valid array: {error}",
                    field.name()
                ))
            })?;
        }
    }
    if with.schema() != without.schema() {
        return Err(Difference::new(format!(
            "another schema\n    with templates: {:?}\n    without:        {:?}",
            with.schema(),
            without.schema()
        )));
    }
    let rows = with.num_rows().min(without.num_rows());
    if let Some(row) = (0..rows).find(|row| with.slice(*row, 1) != without.slice(*row, 1)) {
        let what = format!("another row {row}{}", row_text(with, without, row));
        return Err(Difference {
            what,
            row: Some(row),
            message: None,
        });
    }
    if with.num_rows() != without.num_rows() {
        let what = format!(
            "{} rows with templates, {} without",
            with.num_rows(),
            without.num_rows()
        );
        return Err(Difference {
            what,
            row: Some(rows),
            message: None,
        });
    }
    if with == without {
        Ok(())
    } else {
        Err(Difference::new("batches whose rows are equal are not"))
    }
}

/// Returns the columns in which a row differs.
fn row_text(with: &RecordBatch, without: &RecordBatch, row: usize) -> String {
    let mut text = String::new();
    for ((field, with), without) in with
        .schema()
        .fields()
        .iter()
        .zip(with.columns())
        .zip(without.columns())
    {
        tell(
            field.name(),
            &with.slice(row, 1),
            &without.slice(row, 1),
            &mut text,
        );
    }
    text
}

/// Reports two cells if they differ; for two structs that are not null, their differing members.
fn tell(path: &str, with: &ArrayRef, without: &ArrayRef, text: &mut String) {
    if with.to_data() == without.to_data() {
        return;
    }
    if let (DataType::Struct(fields), false, false) =
        (with.data_type(), with.is_null(0), without.is_null(0))
    {
        let (with, without) = (with.as_struct(), without.as_struct());
        for (at, field) in fields.iter().enumerate() {
            tell(
                &format!("{path}.{}", field.name()),
                with.column(at),
                without.column(at),
                text,
            );
        }
        return;
    }
    text.push_str(&format!(
        "\n    {path}\n        with templates: {}\n        without:        {}",
        cell_text(with),
        cell_text(without)
    ));
}

fn cell_text(cell: &ArrayRef) -> String {
    let text = format!("{cell:?}");
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn same_metrics(with: &Metrics, without: &Metrics) -> Result<(), Difference> {
    if without.templated != 0 || with.templated > with.messages {
        return Err(Difference::new(format!(
            "impossible counts\n    with templates: {with:?}\n    without:        {without:?}"
        )));
    }
    if (Metrics {
        templated: 0,
        ..with.clone()
    }) != *without
    {
        return Err(Difference::new(format!(
            "other counts\n    with templates: {with:?}\n    without:        {without:?}"
        )));
    }
    Ok(())
}

/// Compares the decoders' other results: the columns that messages declare, and the places of stored messages.
pub fn compare_rest(options: &Options, messages: &[Message]) -> Result<(), Difference> {
    let input = records(messages, None);
    let rest = |templates| {
        let inferred = || {
            infer_schema(
                &input,
                Options {
                    templates,
                    keep: Vec::new(),
                    ..options.clone()
                },
            )
        };
        let places = || decoder(options, templates).claim_checks(&input);
        let text = |error: DecodeError| error.to_string();
        (
            caught(|| inferred().map_err(text)),
            caught(|| places().map_err(text)),
        )
    };
    let (with, without) = (rest(true), rest(false));
    let what = || {
        format!(
            "another schema, or other places\n    with templates: {with:?}\n    without:        {without:?}"
        )
    };
    if with == without {
        Ok(())
    } else {
        Err(Difference::new(what()))
    }
}

/// Returns the report about a difference: the options, the smallest set of messages that shows it, and its description.
pub fn report(
    options: &Options,
    messages: &[Message],
    feeding: Feeding,
    check: impl Fn(&Options, &[Message], Feeding) -> Result<(), Difference>,
) -> String {
    let fails = |messages: &[Message]| check(options, messages, feeding).is_err();
    let fewest = fewest(messages.to_vec(), fails);
    let Err(difference) = check(options, &fewest, feeding) else {
        return "no difference any more".to_owned();
    };
    let place = difference.message.or_else(|| {
        difference
            .row
            .and_then(|row| message_of(options, &fewest, feeding, row))
    });
    let mut text = format!(
        "\n{}\n\n{options:#?}\n\nhanded over: {feeding:?}\n",
        difference.what
    );
    for (at, message) in fewest.iter().enumerate() {
        let mark = if place == Some(at) {
            " <== the first that differs"
        } else {
            ""
        };
        text.push_str(&format!(
            "\nmessage {at}{mark}\n  key   {}\n  value {}\n",
            bytes_text(&message.key),
            bytes_text(&message.value)
        ));
    }
    text
}

/// Returns the fewest messages that still fail. Leaves out halves, then smaller parts, down to single messages.
fn fewest(mut messages: Vec<Message>, fails: impl Fn(&[Message]) -> bool) -> Vec<Message> {
    let mut length = messages.len().div_ceil(2);
    while length > 0 {
        let mut at = 0;
        while at < messages.len() {
            let end = (at + length).min(messages.len());
            let rest = [&messages[..at], &messages[end..]].concat();
            if fails(&rest) {
                messages = rest
            } else {
                at = end
            }
        }
        length /= 2;
    }
    messages
}

/// Returns the message of a row, from the reader without templates. For slices, the message of the whole.
fn message_of(
    options: &Options,
    messages: &[Message],
    feeding: Feeding,
    row: usize,
) -> Option<usize> {
    let options = Options {
        keep: vec![NUMBER.to_owned()],
        ..options.clone()
    };
    let holes =
        (feeding == Feeding::Holes).then(|| (0..messages.len()).map(|at| at % 7 != 3).collect());
    let input: StructArray = records(messages, holes);
    let batch = decoder(&options, false).decode(&input).ok()?;
    let numbers = batch.column_by_name(NUMBER)?.as_primitive::<Int64Type>();
    (row < numbers.len()).then(|| numbers.value(row) as usize)
}

/// Returns text unchanged, and other bytes with escapes.
fn bytes_text(bytes: &Option<Vec<u8>>) -> String {
    match bytes.as_deref() {
        None => "null".to_owned(),
        Some(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) if !text.contains(char::is_control) && text.trim() == text => text.to_owned(),
            _ => format!("(escaped) b\"{}\"", bytes.escape_ascii()),
        },
    }
}

impl Compared {
    pub fn add(&mut self, other: Compared) {
        self.messages += other.messages;
        self.rows += other.rows;
        self.errors += other.errors;
        self.templated += other.templated;
    }
}

impl std::fmt::Display for Compared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Compared {
            messages,
            rows,
            errors,
            templated,
        } = self;
        write!(
            f,
            "{messages} messages, {templated} of them by a template; {rows} rows and {errors} errors are the same"
        )
    }
}
