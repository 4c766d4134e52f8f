//! Bound of the memory for the output rows of one message.
//!
//! A few bytes of a message can be a row, and every row repeats the texts of its message's envelope. So the output can
//! be quadratic in the message's size. The rows are counted before their envelopes are appended. A message beyond the
//! bound becomes one error row.

use arrow_array::{Array, ArrayRef};
use arrow_schema::{DataType, Fields};

use crate::columns::fixed_bytes;
use crate::error::{Fault, Kind};
use crate::event::{Events, Row};
use crate::output::envelope::{Content, EnvelopeField, EnvelopeRow, Getter};
use crate::output::row::OutputRow;

/// Number of bytes that every message may take, however short it is.
const ALLOWANCE: usize = 16 << 20;

/// Maximum number of times that a row repeats a byte of its message: as name with its offset, declared type, JDBC type,
/// label, and as bad message.
const REPEATS: usize = 8;

/// Minimum number of bytes of the budget that each row of a message takes while it is read.
const READ_BYTES: usize = 256;

/// Number of bytes that an output row takes until its chunk ends: itself and its references.
const ROW_BYTES: usize =
    size_of::<Row>() + size_of::<OutputRow>() + size_of::<EnvelopeRow<'_, '_>>();

/// Bound of the memory for the output rows of one message.
pub(crate) struct Budget {
    /// Bytes of output per byte of a message: option `max_expansion`.
    factor: usize,
    /// Bytes of each output row, apart from the values of its message.
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
                field => fixed_bytes(&field.content().data_type(&image)),
            })
            .sum();
        Budget {
            factor,
            row_bytes: ROW_BYTES + (columns + labels) * images + envelope,
        }
    }

    /// Returns the number of bytes that the rows of a message may take.
    pub fn bytes(&self, message: usize) -> usize {
        self.factor
            .saturating_mul(message)
            .saturating_add(ALLOWANCE)
    }

    /// Returns the maximum number of rows of a message, by its bytes before expansion.
    pub fn max_rows(&self, received: usize) -> usize {
        self.bytes(received) / READ_BYTES
    }

    /// Returns whether no message of this size can exceed the bound. Each row has at least one byte, and repeats at
    /// most all bytes.
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

    /// Returns the maximum number of rows of a message, with labels of this size.
    pub fn max_template_rows(&self, message: usize, labels: usize) -> usize {
        self.bytes(message) / (self.row_bytes + labels)
    }

    /// Returns the bytes of an output row with these envelope columns.
    pub fn of_row(
        &self,
        fields: &[EnvelopeField],
        row: &EnvelopeRow<'_, '_>,
        events: &Events<'_>,
    ) -> usize {
        let labels = match row.envelope.and_then(|envelope| envelope.types) {
            Some(block) if events.needs.images => events.types.label_bytes(block),
            _ => 0,
        };
        let envelope: usize = fields
            .iter()
            .map(|field| text_bytes(field.content(), row, events))
            .sum();
        self.row_bytes + labels + envelope
    }

    /// Returns the fault of a message whose output would take `bytes`.
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

/// Returns the bytes of the texts and names that a row repeats from its message.
fn text_bytes(content: &Content, row: &EnvelopeRow<'_, '_>, events: &Events<'_>) -> usize {
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
            .map_or(0, |block| events.types.entry_bytes(block, &events.keys)),
        // The shortest member is `"":1,`.
        Content::JdbcTypes => row
            .envelope
            .and_then(|envelope| envelope.jdbc_types.as_deref())
            .map_or(0, |text| text.len() * 2),
        // The struct `source`.
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

/// Returns the bytes of a row in the kept columns.
pub(crate) fn kept_bytes(kept: &[ArrayRef], row: usize) -> usize {
    let arrays = kept.iter().filter(|array| row < array.len());
    let sizes = arrays.map(|array| array.slice(row, 1).to_data().get_slice_memory_size());
    sizes.flatten().sum()
}
