//! Bound of the memory that the output rows of one message take.
//!
//! A few bytes of a message can be a row, and every row repeats the texts of its message's envelope: output that is quadratic in
//! the message's size. The rows are counted before their envelopes are appended; a message beyond the bound becomes one error row.

use arrow_array::{Array, ArrayRef};
use arrow_schema::{DataType, Fields};

use crate::columns::fixed_bytes;
use crate::error::{Fault, Kind};
use crate::event::{Events, Row};
use crate::output::envelope::{Content, EnvelopeField, EnvelopeRow, Getter};
use crate::output::row::OutputRow;

/// Bytes that every message may take, however short it is.
const ALLOWANCE: usize = 16 << 20;

/// How often a row repeats a byte of its message at most: as name with its offset, declared type, JDBC type, label, and as bad message.
const REPEATS: usize = 8;

/// Bytes of the budget that each row of a message takes at least while it is read.
const READ_BYTES: usize = 256;

/// Bytes that an output row takes until its chunk ends: itself and its references.
const ROW_BYTES: usize =
    size_of::<Row>() + size_of::<OutputRow>() + size_of::<EnvelopeRow<'_, '_>>();

/// Bound of the memory that the output rows of one message take.
pub(crate) struct Budget {
    /// Bytes of output for each byte of a message: option `max_expansion`.
    factor: usize,
    /// Bytes that each output row takes, apart from the values of its message.
    row_bytes: usize,
}

impl Budget {
    pub fn new(
        factor: usize,
        fields: &[EnvelopeField],
        table: Option<&Fields>,
        labels: usize,
        images: usize,
    ) -> Self {
        let table = table.into_iter().flatten();
        let columns: usize = table
            .clone()
            .map(|field| fixed_bytes(field.data_type()))
            .sum();
        let image = DataType::Null;
        let envelope: usize = fields
            .iter()
            .map(|field| match field {
                EnvelopeField::MissingColumns => table
                    .clone()
                    .map(|field| field.name().len() + size_of::<usize>() + size_of::<i32>())
                    .sum(),
                field => field
                    .content()
                    .map_or(0, |content| fixed_bytes(&content.data_type(&image))),
            })
            .sum();
        Budget {
            factor,
            row_bytes: ROW_BYTES + (columns + labels) * images + envelope,
        }
    }

    /// The bytes that the rows of a message may take.
    pub fn bytes(&self, message: usize) -> usize {
        self.factor
            .saturating_mul(message)
            .saturating_add(ALLOWANCE)
    }

    /// The number of rows that a message may have, by its bytes before it is expanded.
    pub fn max_rows(&self, received: usize) -> usize {
        self.bytes(received) / READ_BYTES
    }

    /// Returns whether no message of this size can exceed the bound: each row has a byte at least, and repeats all of
    /// them at most.
    #[inline]
    pub fn always_fits(&self, message: usize) -> bool {
        message.saturating_mul(self.row_bytes.saturating_add(message)) <= ALLOWANCE
    }

    /// Returns whether a message of this size with this number of rows cannot exceed the bound, whatever its rows
    /// repeat.
    #[inline]
    pub fn rows_always_fit(&self, rows: usize, message: usize) -> bool {
        rows.saturating_mul(
            self.row_bytes
                .saturating_add(message.saturating_mul(REPEATS)),
        ) <= self.bytes(message)
    }

    /// The number of rows with labels of this size that a message may have.
    pub fn max_template_rows(&self, message: usize, labels: usize) -> usize {
        self.bytes(message) / (self.row_bytes + labels)
    }

    /// The bytes that an output row with these envelope columns takes.
    pub fn of_row(
        &self,
        fields: &[EnvelopeField],
        row: &EnvelopeRow<'_, '_>,
        events: &Events<'_, '_, '_>,
    ) -> usize {
        let types = row.envelope.and_then(|envelope| envelope.types);
        let labels = types
            .filter(|_| events.needs.images)
            .map_or(0, |block| events.types.label_bytes(block));
        let envelope: usize = fields
            .iter()
            .filter_map(|field| field.content())
            .map(|content| text_bytes(content, row, events))
            .sum();
        self.row_bytes + labels + envelope
    }

    /// The fault of a message whose output would take `bytes`.
    #[cold]
    pub fn exceeded(&self, rows: usize, bytes: usize, message: usize) -> Fault {
        let limit = self.bytes(message);
        let bound = format!(
            "{limit} ({} for each of its {message} bytes, and {ALLOWANCE})",
            self.factor
        );
        Fault::new(
            Kind::Size,
            format!(
                "the message's {rows} rows would take {bytes} bytes, more than {bound}; raise max_expansion"
            ),
        )
    }
}

/// The bytes of the texts and names that a row repeats from its message.
fn text_bytes(content: &Content, row: &EnvelopeRow<'_, '_>, events: &Events<'_, '_, '_>) -> usize {
    match content {
        Content::Text(Getter::Row(get) | Getter::Log(get)) => get(row).map_or(0, str::len),
        Content::Text(Getter::Envelope(get)) => row.envelope.and_then(get).map_or(0, str::len),
        Content::PrimaryKey => row.primary_key.map_or(0, |names| {
            names
                .iter()
                .map(|name| name_bytes(events.keys.name(*name)))
                .sum()
        }),
        Content::ColumnTypes => row
            .envelope
            .and_then(|envelope| envelope.types)
            .map_or(0, |block| events.types.entry_bytes(block, events.keys)),
        // The shortest member is `"":1,`.
        Content::JdbcTypes => row
            .envelope
            .and_then(|envelope| envelope.jdbc_types.as_deref())
            .map_or(0, |text| text.len() * 2),
        // The source.
        Content::Struct(members, Getter::Envelope(_)) => members
            .iter()
            .map(|(_, content)| text_bytes(content, row, events))
            .sum(),
        _ => 0,
    }
}

fn name_bytes(name: &str) -> usize {
    name.len() + size_of::<i32>()
}

/// The bytes of a row of the kept columns.
pub(crate) fn kept_bytes(kept: &[ArrayRef], row: usize) -> usize {
    let of_column = |array: &ArrayRef| {
        let row = (row < array.len()).then(|| array.slice(row, 1).to_data());
        row.and_then(|row| row.get_slice_memory_size().ok())
            .unwrap_or(0)
    };
    kept.iter().map(of_column).sum()
}
