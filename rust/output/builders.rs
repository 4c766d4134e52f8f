//! Builders of the envelope columns.

use std::borrow::Cow;
use std::sync::Arc;

use arrow_array::builder::{ArrayBuilder, GenericByteBuilder};
use arrow_array::types::{
    ArrowPrimitiveType, BinaryType, ByteArrayType, Int32Type, Int64Type, TimestampMicrosecondType,
    Utf8Type,
};
use arrow_array::{
    Array, ArrayRef, BooleanArray, GenericByteArray, ListArray, PrimitiveArray, StructArray,
    new_null_array,
};
use arrow_buffer::{ArrowNativeType, BooleanBuffer, NullBuffer};
use arrow_schema::{ArrowError, DataType, FieldRef};
use hashbrown::HashMap;

use crate::columns::{Bytes, Forecast, Nulls, Offsets, fixed_bytes};
use crate::event::{Envelope, Events, Op, Source};
use crate::interner::{NameId, Quoting};
use crate::output::envelope::{
    Content, EnvelopeRow, Getter, Member, TextGetter, ValueGetter, members,
};
use crate::output::fields::list_item;
use crate::output::maps::{FinishedKeys, Maps};
use crate::value::Value;
use crate::wire::json::Cursor;

/// Rows whose envelopes are appended to the builders.
pub(crate) struct Rows<'e, 'a> {
    rows: Vec<EnvelopeRow<'e, 'a>>,
    /// Runs of consecutive rows with the same envelope: index of the first row and count.
    runs: Vec<(usize, usize)>,
    /// See [`Source::has_log`].
    has_log: bool,
    events: &'e Events<'a>,
    columns: &'e [FieldRef],
    /// Lists of the batch. Each row has a range of each.
    changed: &'e [NameId],
    missing: &'e [usize],
    types: &'e [usize],
}

fn have_same_envelope(one: &EnvelopeRow<'_, '_>, other: &EnvelopeRow<'_, '_>) -> bool {
    match (one.envelope, other.envelope) {
        (Some(first), Some(second)) => {
            std::ptr::eq(first, second) && one.row.types.is_empty() && other.row.types.is_empty()
        }
        (None, None) => true,
        _ => false,
    }
}

impl<'e, 'a> Rows<'e, 'a> {
    pub fn new(
        rows: Vec<EnvelopeRow<'e, 'a>>,
        events: &'e Events<'a>,
        columns: &'e [FieldRef],
        [missing, types]: [&'e [usize]; 2],
        changed: &'e [NameId],
    ) -> Self {
        let mut runs: Vec<(usize, usize)> = Vec::new();
        let mut last = None;
        for (at, row) in rows.iter().enumerate() {
            match (runs.last_mut(), last.replace(row)) {
                (Some((_, count)), Some(last)) if have_same_envelope(last, row) => *count += 1,
                _ => runs.push((at, 1)),
            }
        }
        let has_log = events.needs.source
            && rows
                .iter()
                .any(|row| row.source.is_some_and(Source::has_log));
        Rows {
            rows,
            runs,
            has_log,
            events,
            columns,
            changed,
            missing,
            types,
        }
    }

    /// Iterates over runs of consecutive rows with the same envelope: the first row and the count.
    #[allow(clippy::indexing_slicing, reason = "runs are of these rows")]
    fn runs<'r>(
        &'r self,
    ) -> impl Iterator<Item = (&'r EnvelopeRow<'e, 'a>, usize)> + use<'r, 'e, 'a> {
        self.runs
            .iter()
            .map(|(first, count)| (&self.rows[*first], *count))
    }

    fn len(&self) -> usize {
        self.rows.len()
    }

    /// Returns whether no row has a value. Most columns that another dialect fills have no value. In others, the first
    /// row usually has one.
    fn lack<'r, T, R, E>(&'r self, getter: Getter<R, E>) -> bool
    where
        R: Fn(&'r EnvelopeRow<'e, 'a>) -> Option<T>,
        E: Fn(&'r Envelope<'a>) -> Option<T>,
    {
        match getter {
            Getter::Log(_) if !self.has_log => true,
            Getter::Row(get) | Getter::Log(get) => self.rows.iter().all(|row| get(row).is_none()),
            Getter::Envelope(get) => self
                .runs()
                .all(|(row, _)| row.envelope.and_then(&get).is_none()),
        }
    }

    /// Calls `push` with each value and its number of rows.
    fn each<'r, T, R, E>(&'r self, getter: Getter<R, E>, mut push: impl FnMut(Option<T>, usize))
    where
        R: Fn(&'r EnvelopeRow<'e, 'a>) -> Option<T>,
        E: Fn(&'r Envelope<'a>) -> Option<T>,
    {
        match getter {
            Getter::Row(get) | Getter::Log(get) => {
                self.rows.iter().for_each(|row| push(get(row), 1))
            }
            Getter::Envelope(get) => self
                .runs()
                .for_each(|(row, count)| push(row.envelope.and_then(&get), count)),
        }
    }

    fn names(&self, keys: &[NameId]) -> impl Iterator<Item = &str> + Clone {
        keys.iter().map(|key| self.events.keys.name(*key))
    }
}

/// An envelope column, or a member of one. Another dialect fills many of them. They are null in all rows, which are
/// only counted.
pub(crate) struct EnvelopeColumn {
    builder: Builder,
    data_type: DataType,
    /// Number of rows, if all of them are null.
    nulls: Option<usize>,
}

impl EnvelopeColumn {
    /// Returns the builder of a column; `None` for row images, which have their own builders.
    pub fn new(content: &Content) -> Option<Self> {
        Some(EnvelopeColumn {
            builder: Builder::new(content)?,
            data_type: content.data_type(&DataType::Null),
            nulls: Some(0),
        })
    }

    /// Appends one value for each row.
    pub fn extend(&mut self, rows: &Rows<'_, '_>) {
        match &mut self.nulls {
            Some(nulls) if self.builder.lacks(rows) => *nulls += rows.len(),
            _ => self.values().extend(rows),
        }
    }

    /// Returns the builder, after appending the nulls so far.
    fn values(&mut self) -> &mut Builder {
        if let Some(nulls) = self.nulls.take().filter(|nulls| *nulls > 0) {
            self.builder.push_nulls(nulls);
        }
        &mut self.builder
    }

    fn push_nulls(&mut self, count: usize) {
        match &mut self.nulls {
            Some(nulls) => *nulls += count,
            None => self.builder.push_nulls(count),
        }
    }

    /// Forgets all references to declared types, whose ids become invalid.
    pub fn forget_types(&mut self) {
        if let Builder::DeclaredTypes(types) = &mut self.builder {
            types.known.clear();
        }
    }

    /// Reserves capacity.
    pub fn reserve(&mut self, forecast: Forecast) {
        if self.nulls.is_none() {
            self.builder.reserve(forecast);
        }
    }

    /// Returns the bytes of the appended values.
    pub fn bytes(&self) -> usize {
        match self.nulls {
            Some(nulls) => nulls * fixed_bytes(&self.data_type),
            None => self.builder.bytes(),
        }
    }

    /// Finishes the array and resets the builder.
    pub fn finish(&mut self, shared: &mut SharedArrays) -> Result<ArrayRef, ArrowError> {
        match self.nulls.replace(0) {
            Some(nulls) => Ok(shared.nulls(&self.data_type, nulls)),
            None => self.builder.finish(shared),
        }
    }
}

/// Arrays that columns of a batch share.
#[derive(Default)]
pub(crate) struct SharedArrays {
    /// The keys of the last maps.
    keys: Option<FinishedKeys>,
    /// Arrays of nulls.
    nulls: Vec<ArrayRef>,
}

impl SharedArrays {
    fn nulls(&mut self, data_type: &DataType, rows: usize) -> ArrayRef {
        if let Some(known) = self
            .nulls
            .iter()
            .find(|known| known.data_type() == data_type && known.len() == rows)
        {
            return known.clone();
        }
        let nulls = new_null_array(data_type, rows);
        self.nulls.push(nulls.clone());
        nulls
    }
}

/// Builder of the values of an envelope column.
enum Builder {
    Text(TextGetter, Texts),
    Number(ValueGetter<i64>, Values<i64>),
    Index(Values<i32>),
    Time(ValueGetter<i64>, Values<i64>),
    Flag(ValueGetter<bool>, Values<bool>),
    CorruptRecord(Appended<BinaryType>),
    PrimaryKey(NameLists),
    Changed(NameLists),
    Missing(NameLists),
    DeclaredTypes(TypeMaps),
    Jdbc(JdbcMaps),
    Struct(
        &'static [Member],
        Vec<EnvelopeColumn>,
        ValueGetter<()>,
        Values<()>,
    ),
}

impl Builder {
    fn new(content: &Content) -> Option<Self> {
        Some(match content {
            Content::Text(getter) => Builder::Text(*getter, Texts::default()),
            Content::Number(getter) => Builder::Number(*getter, Values::default()),
            Content::Time(getter) => Builder::Time(*getter, Values::default()),
            Content::Flag(getter) => Builder::Flag(*getter, Values::default()),
            Content::Index => Builder::Index(Values::default()),
            Content::PrimaryKey => Builder::PrimaryKey(NameLists::default()),
            Content::Changed => Builder::Changed(NameLists::default()),
            Content::Missing => Builder::Missing(NameLists::default()),
            Content::ColumnTypes => Builder::DeclaredTypes(TypeMaps::default()),
            Content::JdbcTypes => Builder::Jdbc(JdbcMaps::default()),
            Content::Struct(members, validity) => {
                let columns = members
                    .iter()
                    .filter_map(|(_, content)| EnvelopeColumn::new(content))
                    .collect();
                Builder::Struct(members, columns, *validity, Values::default())
            }
            Content::Message => Builder::CorruptRecord(Appended::default()),
            Content::Image => return None,
        })
    }

    /// Returns whether all rows are null. Returns false if the check takes as long as appending them.
    fn lacks(&self, rows: &Rows<'_, '_>) -> bool {
        match self {
            Builder::Text(getter, _) => rows.lack(*getter),
            Builder::Number(getter, _) | Builder::Time(getter, _) => rows.lack(*getter),
            Builder::Flag(getter, _) => rows.lack(*getter),
            Builder::Struct(_, _, validity, _) => rows.lack(*validity),
            Builder::PrimaryKey(_) => rows.runs().all(|(row, _)| row.primary_key.is_none()),
            Builder::Missing(_) => rows.missing.is_empty(),
            Builder::CorruptRecord(_) => rows.rows.iter().all(|row| row.corrupt.is_none()),
            _ => false,
        }
    }

    /// Appends one value for each row.
    #[allow(
        clippy::indexing_slicing,
        reason = "rows have ranges of the batch's lists, and missing columns are the table's"
    )]
    fn extend(&mut self, rows: &Rows<'_, '_>) {
        match self {
            _ if self.lacks(rows) => self.push_nulls(rows.len()),
            Builder::Text(getter, texts) => {
                rows.each(*getter, |text, count| texts.append(text, count))
            }
            Builder::Number(getter, numbers) | Builder::Time(getter, numbers) => {
                rows.each(*getter, |number, count| {
                    numbers.push_repeated(number, count)
                });
            }
            Builder::Index(numbers) => {
                for row in &rows.rows {
                    let index = (row.row.op != Op::Error).then_some(row.row.index as i32);
                    numbers.push_repeated(index, 1);
                }
            }
            Builder::Flag(getter, flags) => {
                rows.each(*getter, |flag, count| flags.push_repeated(flag, count))
            }
            Builder::CorruptRecord(bytes) => rows
                .rows
                .iter()
                .for_each(|row| bytes.append(row.corrupt, 1)),
            Builder::PrimaryKey(lists) => {
                for (row, count) in rows.runs() {
                    lists.push_repeated(row.primary_key.map(|keys| rows.names(keys)), count);
                }
            }
            Builder::Changed(lists) => {
                for row in &rows.rows {
                    let changed = row.row.changed.clone();
                    lists.push(changed.map(|part| rows.names(&rows.changed[part])));
                }
            }
            Builder::Missing(lists) => {
                for row in &rows.rows {
                    let missing = &rows.missing[row.row.missing.clone()];
                    let names = missing.iter().map(|at| rows.columns[*at].name().as_str());
                    lists.push((!missing.is_empty()).then_some(names));
                }
            }
            Builder::DeclaredTypes(types) => types.extend(rows),
            Builder::Jdbc(types) => types.extend(rows),
            Builder::Struct(_, columns, getter, validity) => {
                columns.iter_mut().for_each(|column| column.extend(rows));
                rows.each(*getter, |value, count| validity.push_repeated(value, count));
            }
        }
    }

    /// Appends nulls.
    fn push_nulls(&mut self, count: usize) {
        match self {
            Builder::Text(_, texts) => texts.append(None, count),
            Builder::CorruptRecord(bytes) => bytes.append(None, count),
            Builder::Number(_, numbers) | Builder::Time(_, numbers) => {
                numbers.push_repeated(None, count)
            }
            Builder::Index(numbers) => numbers.push_repeated(None, count),
            Builder::Flag(_, flags) => flags.push_repeated(None, count),
            Builder::PrimaryKey(lists) | Builder::Changed(lists) | Builder::Missing(lists) => {
                lists.offsets.push_nulls(count)
            }
            Builder::DeclaredTypes(types) => types.maps.push(None, count),
            Builder::Jdbc(types) => types.maps.push(None, count),
            Builder::Struct(_, columns, _, validity) => {
                columns
                    .iter_mut()
                    .for_each(|column| column.push_nulls(count));
                validity.push_repeated(None, count);
            }
        }
    }

    /// Reserves capacity.
    fn reserve(&mut self, forecast: Forecast) {
        match self {
            Builder::Text(_, texts) => texts.reserve(forecast),
            Builder::CorruptRecord(bytes) => bytes.reserve(forecast),
            Builder::Number(_, numbers) | Builder::Time(_, numbers) => {
                forecast.reserve(&mut numbers.values)
            }
            Builder::Index(numbers) => forecast.reserve(&mut numbers.values),
            Builder::Flag(_, flags) => forecast.reserve(&mut flags.values),
            Builder::PrimaryKey(lists) | Builder::Changed(lists) | Builder::Missing(lists) => {
                lists.names.reserve(forecast);
                lists.offsets.reserve(forecast);
            }
            // Each message may have its own order of types.
            Builder::DeclaredTypes(types) => {
                types.keys.reserve(forecast);
                types.values.reserve(forecast);
            }
            Builder::Jdbc(_) => {}
            Builder::Struct(_, columns, ..) => columns
                .iter_mut()
                .for_each(|column| column.reserve(forecast)),
        }
    }

    /// Returns the bytes of the appended values.
    fn bytes(&self) -> usize {
        match self {
            Builder::Text(_, texts) => texts.bytes(),
            Builder::CorruptRecord(bytes) => bytes.bytes(),
            Builder::Number(_, numbers) | Builder::Time(_, numbers) => numbers.bytes(),
            Builder::Index(numbers) => numbers.bytes(),
            Builder::Flag(_, flags) => flags.bytes(),
            Builder::PrimaryKey(lists) | Builder::Changed(lists) | Builder::Missing(lists) => {
                lists.names.bytes() + lists.offsets.bytes()
            }
            Builder::DeclaredTypes(types) => types.maps.bytes(),
            Builder::Jdbc(types) => types.maps.bytes(),
            Builder::Struct(_, columns, ..) => columns.iter().map(EnvelopeColumn::bytes).sum(),
        }
    }

    /// Finishes the array and resets the builder.
    fn finish(&mut self, shared: &mut SharedArrays) -> Result<ArrayRef, ArrowError> {
        match self {
            Builder::Text(_, texts) => texts.finish(),
            Builder::Number(_, numbers) => Ok(Arc::new(numbers.numbers::<Int64Type>()?)),
            Builder::Index(numbers) => Ok(Arc::new(numbers.numbers::<Int32Type>()?)),
            Builder::Time(_, numbers) => Ok(Arc::new(
                numbers
                    .numbers::<TimestampMicrosecondType>()?
                    .with_timezone("UTC"),
            )),
            Builder::Flag(_, flags) => {
                let (values, nulls) = flags.take();
                Ok(Arc::new(BooleanArray::new(
                    BooleanBuffer::from(values),
                    nulls,
                )))
            }
            Builder::CorruptRecord(bytes) => bytes.finish(),
            Builder::PrimaryKey(lists) | Builder::Changed(lists) | Builder::Missing(lists) => {
                lists.finish()
            }
            Builder::DeclaredTypes(types) => types.maps.finish(
                types.keys.finish()?,
                types.values.finish()?,
                &mut shared.keys,
            ),
            Builder::Jdbc(types) => {
                let values = Arc::new(types.values.numbers::<Int32Type>()?);
                types
                    .maps
                    .finish(types.keys.finish()?, values, &mut shared.keys)
            }
            Builder::Struct(content, columns, _, validity) => {
                let arrays = columns
                    .iter_mut()
                    .map(|column| column.finish(shared))
                    .collect::<Result<_, _>>()?;
                Ok(Arc::new(StructArray::try_new(
                    members(content),
                    arrays,
                    validity.take().1,
                )?))
            }
        }
    }
}

/// Values of a nullable array without offsets. Of a struct, only their number, because its members hold the values.
#[derive(Default)]
pub(crate) struct Values<N> {
    values: Vec<N>,
    nulls: Nulls,
}

impl<N: Copy + Default> Values<N> {
    #[inline]
    fn push_repeated(&mut self, value: Option<N>, count: usize) {
        if value.is_none() {
            self.nulls.push(self.values.len(), count);
        }
        self.values
            .resize(self.values.len() + count, value.unwrap_or_default());
    }

    fn bytes(&self) -> usize {
        size_of_val(self.values.as_slice())
    }

    fn take(&mut self) -> (Vec<N>, Option<NullBuffer>) {
        let values = std::mem::take(&mut self.values);
        let nulls = self.nulls.finish(values.len());
        (values, nulls)
    }

    fn numbers<T: ArrowPrimitiveType<Native = N>>(
        &mut self,
    ) -> Result<PrimitiveArray<T>, ArrowError>
    where
        N: ArrowNativeType,
    {
        let (values, nulls) = self.take();
        PrimitiveArray::try_new(values.into(), nulls)
    }
}

/// Builder of texts or bytes that are never truncated. Arrow does not check their UTF-8 again.
pub(crate) struct Appended<T: ByteArrayType<Offset = i32>> {
    builder: GenericByteBuilder<T>,
    /// True if a value was lost because it did not fit. The array then cannot be finished.
    has_overflowed: bool,
}

type Texts = Appended<Utf8Type>;

impl<T: ByteArrayType<Offset = i32>> Default for Appended<T> {
    fn default() -> Self {
        Appended {
            builder: GenericByteBuilder::new(),
            has_overflowed: false,
        }
    }
}

impl<T: ByteArrayType<Offset = i32>> Appended<T> {
    fn len(&self) -> usize {
        self.builder.len()
    }

    /// Returns whether `more` bytes do not fit.
    fn overflows(&mut self, more: usize) -> bool {
        let overflows = self.builder.values_slice().len().saturating_add(more) > i32::MAX as usize;
        self.has_overflowed |= overflows;
        overflows
    }

    /// Appends a value or null `count` times.
    #[inline]
    fn append(&mut self, value: Option<&T::Native>, count: usize) {
        let length = value.map_or(0, |value| AsRef::<[u8]>::as_ref(value).len());
        match value {
            Some(value) if !self.overflows(length.saturating_mul(count)) => match count {
                1 => self.builder.append_value(value),
                _ => self.append_all(&GenericByteArray::new_repeated(value, count)),
            },
            _ => self.builder.append_nulls(count),
        }
    }

    /// Appends values at once.
    fn append_all(&mut self, values: &GenericByteArray<T>) {
        self.has_overflowed |=
            self.overflows(values.value_data().len()) || self.builder.append_array(values).is_err();
    }

    /// Returns the bytes of the values and their offsets.
    fn bytes(&self) -> usize {
        self.builder.values_slice().len() + size_of_val(self.builder.offsets_slice())
    }

    /// Rebuilds the builder with more capacity, because Arrow's builder has no `reserve`.
    fn reserve(&mut self, forecast: Forecast) {
        let built = self.builder.finish();
        let (items, bytes) = (built.len(), built.value_data().len());
        let (items, bytes) = (
            items + forecast.additional(items, size_of::<i32>()),
            bytes + forecast.additional(bytes, 1),
        );
        self.builder = GenericByteBuilder::with_capacity(items, bytes);
        self.append_all(&built);
    }

    fn finish(&mut self) -> Result<ArrayRef, ArrowError> {
        if self.has_overflowed {
            return Err(ArrowError::InvalidArgumentError(Bytes::<i32>::too_large()));
        }
        Ok(Arc::new(self.builder.finish()))
    }
}

/// Builder of lists of names.
#[derive(Default)]
pub(crate) struct NameLists {
    names: Texts,
    offsets: Offsets,
}

impl NameLists {
    fn push<'n>(&mut self, names: Option<impl Iterator<Item = &'n str>>) {
        let Some(names) = names else {
            return self.offsets.push_nulls(1);
        };
        names.for_each(|name| self.names.append(Some(name), 1));
        self.offsets.push(self.names.len());
    }

    /// Appends the same list `count` times.
    fn push_repeated<'n>(
        &mut self,
        names: Option<impl Iterator<Item = &'n str> + Clone>,
        count: usize,
    ) {
        match names.clone().map(|mut names| (names.next(), names.next())) {
            Some((Some(only), None)) => {
                let first = self.names.len();
                self.names.append(Some(only), count);
                (1..=count).for_each(|list| self.offsets.push(first + list));
            }
            _ => (0..count).for_each(|_| self.push(names.clone())),
        }
    }

    fn finish(&mut self) -> Result<ArrayRef, ArrowError> {
        let (offsets, nulls) = self.offsets.take(None)?;
        Ok(Arc::new(ListArray::try_new(
            list_item(),
            offsets,
            self.names.finish()?,
            nulls,
        )?))
    }
}

/// Builder of maps of declared types.
#[derive(Default)]
pub(crate) struct TypeMaps {
    maps: Maps,
    keys: Texts,
    values: Texts,
    /// Maps, by the number of their block of types.
    known: HashMap<usize, usize>,
}

impl TypeMaps {
    /// Adds a map of names and their declared types. Returns its number.
    fn add<'b>(
        &mut self,
        entries: impl Iterator<Item = &'b (NameId, usize)>,
        rows: &Rows<'_, '_>,
    ) -> usize {
        let before = self.keys.bytes() + self.values.bytes();
        for (key, id) in entries {
            self.keys.append(Some(rows.events.keys.name(*key)), 1);
            let declared = rows.events.types.declared(*id);
            self.values.append(Some(&declared.text), 1);
        }
        self.maps.add(
            self.keys.len(),
            self.keys.bytes() + self.values.bytes() - before,
        )
    }

    /// Appends the declared types of each row.
    #[allow(
        clippy::indexing_slicing,
        reason = "rows have ranges of the batch's types, which are places in the block"
    )]
    fn extend(&mut self, rows: &Rows<'_, '_>) {
        for (row, count) in rows.runs() {
            let types = row.envelope.and_then(|envelope| envelope.types);
            let block = types.map(|number| (number, rows.events.types.block(number)));
            let order = &rows.types[row.row.types.clone()];
            let map = block.map(|(number, block)| match self.known.get(&number) {
                _ if !order.is_empty() => {
                    self.add(order.iter().map(|at| &block.entries[*at]), rows)
                }
                Some(known) => *known,
                None => {
                    let map = self.add(block.entries.iter(), rows);
                    self.known.insert(number, map);
                    map
                }
            });
            self.maps.push(map, count);
        }
    }
}

/// Builder of maps of JDBC types.
#[derive(Default)]
pub(crate) struct JdbcMaps {
    maps: Maps,
    keys: Texts,
    values: Values<i32>,
    /// Maps by the text of their object, with the quoting of its names.
    known: HashMap<Box<str>, (Quoting, usize)>,
}

impl JdbcMaps {
    /// Adds the map of an object. Returns its number.
    fn add(&mut self, object: &str, quoting: Quoting) -> usize {
        let before = self.keys.bytes() + self.values.bytes();
        for (name, number) in jdbc_types(object) {
            self.keys.append(Some(&quoting.undo(&name)), 1);
            self.values.push_repeated(number, 1);
        }
        self.maps.add(
            self.keys.len(),
            self.keys.bytes() + self.values.bytes() - before,
        )
    }

    /// Appends the JDBC types of each row.
    fn extend(&mut self, rows: &Rows<'_, '_>) {
        for (row, count) in rows.runs() {
            let object = row.envelope.and_then(|envelope| {
                Some((envelope.jdbc_types.as_deref()?, envelope.quirks.quoting))
            });
            let map = object.map(|(object, quoting)| match self.known.get(object) {
                Some((known, map)) if *known == quoting => *map,
                _ => {
                    let map = self.add(object, quoting);
                    self.known.insert(object.into(), (quoting, map));
                    map
                }
            });
            self.maps.push(map, count);
        }
    }
}

/// Parses the members of an object. The object was validated when the message was read. The later number of a duplicate
/// name counts.
fn jdbc_types(object: &str) -> Vec<(Cow<'_, str>, Option<i32>)> {
    let mut cursor = Cursor::new(object, true);
    let mut found: Vec<(Cow<'_, str>, Option<i32>)> = Vec::new();
    let mut indices = HashMap::new();
    let Ok(mut members) = cursor.object() else {
        return found;
    };
    while let Ok(Some(key)) = cursor.next_key(&mut members) {
        let (Ok(name), Ok(value)) = (key.decode(), cursor.value()) else {
            break;
        };
        let number = if let Value::Number(digits) = value {
            digits.parse().ok()
        } else {
            None
        };
        let next = found.len();
        match found.get_mut(*indices.entry(name.clone()).or_insert(next)) {
            Some(earlier) => earlier.1 = number,
            None => found.push((name, number)),
        }
    }
    found
}
