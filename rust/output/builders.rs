//! Builders of the envelope columns.

use std::borrow::Cow;
use std::sync::Arc;

use arrow_array::builder::{ArrayBuilder, GenericByteBuilder};
use arrow_array::types::{ArrowPrimitiveType, BinaryType, ByteArrayType, Int32Type, Int64Type, TimestampMicrosecondType, Utf8Type};
use arrow_array::{Array, ArrayRef, BooleanArray, GenericByteArray, ListArray, MapArray, PrimitiveArray, StringArray, StructArray};
use arrow_buffer::{ArrowNativeType, BooleanBuffer, NullBuffer};
use arrow_schema::{ArrowError, DataType, FieldRef, Fields};
use hashbrown::HashMap;

use crate::columns::{Bytes, Forecast, Nulls, Offsets};
use crate::event::{Events, Op, Source};
use crate::interner::{NameId, Quoting};
use crate::output::envelope::{Content, ERROR, EnvelopeRow, Getter, Member, SOURCE, TextGetter, members, sequence_members};
use crate::output::fields::{list_item, map_entries, map_fields};
use crate::output::row::{Input, sequence};
use crate::value::Value;
use crate::wire::json::Cursor;

/// Rows whose envelopes are appended to the builders.
pub(crate) struct Rows<'e, 'a, 's, 'k> {
    rows: Vec<EnvelopeRow<'e, 'a>>,
    /// Runs of consecutive rows with the same envelope: index of the first row and count.
    runs: Vec<(usize, usize)>,
    has_errors: bool,
    /// See [`Source::has_log`].
    has_log: bool,
    events: &'e Events<'a, 's, 'k>,
    columns: &'e [FieldRef],
    /// See [`OutputRow::changed`], [`OutputRow::missing`] and [`OutputRow::types`].
    changed: &'e [NameId],
    missing: &'e [usize],
    types: &'e [usize],
    input: &'e Input<'e>,
}

impl<'e, 'a, 's, 'k> Rows<'e, 'a, 's, 'k> {
    pub fn new(
        rows: Vec<EnvelopeRow<'e, 'a>>,
        events: &'e Events<'a, 's, 'k>,
        columns: &'e [FieldRef],
        [missing, types]: [&'e [usize]; 2],
        changed: &'e [NameId],
        input: &'e Input<'e>,
    ) -> Self {
        let mut runs: Vec<(usize, usize)> = Vec::new();
        let mut last = None;
        let is_same = |one: &EnvelopeRow<'_, '_>, other: &EnvelopeRow<'_, '_>| match (one.envelope, other.envelope) {
            (Some(first), Some(second)) => std::ptr::eq(first, second) && one.row.types.is_empty() && other.row.types.is_empty(),
            (None, None) => true,
            _ => false,
        };
        for (at, row) in rows.iter().enumerate() {
            match (runs.last_mut(), last.replace(row)) {
                (Some((_, count)), Some(last)) if is_same(last, row) => *count += 1,
                _ => runs.push((at, 1)),
            }
        }
        let has_errors = rows.iter().any(|row| row.row.error.is_some());
        let has_log = events.needs.source && rows.iter().any(|row| row.source.is_some_and(Source::has_log));
        Rows { rows, runs, has_errors, has_log, events, columns, changed, missing, types, input }
    }

    /// Iterates over runs of consecutive rows with the same envelope: the first row and the count.
    #[allow(clippy::indexing_slicing, reason = "runs are of these rows")]
    fn runs(&self) -> impl Iterator<Item = (&EnvelopeRow<'e, 'a>, usize)> {
        self.runs.iter().map(|(first, count)| (&self.rows[*first], *count))
    }

    fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether no row has a value, as in most columns that another dialect fills. Else the first row tells.
    fn lack<'r, T>(&'r self, get: impl Fn(&'r EnvelopeRow<'e, 'a>) -> Option<T>) -> bool {
        self.rows.iter().all(|row| get(row).is_none())
    }

    fn names(&self, keys: &[NameId]) -> impl Iterator<Item = &str> + Clone {
        keys.iter().map(|key| self.events.keys.name(*key))
    }
}

/// Builder of one envelope column.
pub(crate) enum Builder {
    Text(TextGetter, Texts),
    Number(Getter<i64>, Values<i64>),
    Index(Values<i32>),
    Time(Getter<i64>, Values<i64>),
    Flag(Getter<bool>, Values<bool>),
    CorruptRecord(Appended<BinaryType>),
    PrimaryKey(NameLists),
    Changed(NameLists),
    Missing(NameLists),
    /// With the last row's map, and the number of its block of types.
    DeclaredTypes(Maps<Texts>, Option<(usize, RepeatedMap<Texts>)>),
    /// With the last row's map, and what it was made from.
    Jdbc(Maps<Values<i32>>, Option<(JdbcTypes, RepeatedMap<Values<i32>>)>),
    Sequence([Values<i64>; 3]),
    Source(Vec<Builder>, Values<()>),
    Error(Vec<Builder>, Values<()>),
}

impl Builder {
    /// Returns `None` for row images, which have their own builders.
    pub fn new(content: &Content) -> Option<Self> {
        let build_all = |fields: &[Member]| fields.iter().filter_map(|(_, content)| Builder::new(content)).collect();
        Some(match content {
            Content::Text(getter) => Builder::Text(*getter, Texts::default()),
            Content::Number(getter) => Builder::Number(*getter, Values::default()),
            Content::Time(getter) => Builder::Time(*getter, Values::default()),
            Content::Flag(getter) => Builder::Flag(*getter, Values::default()),
            Content::Index => Builder::Index(Values::default()),
            Content::PrimaryKey => Builder::PrimaryKey(NameLists::default()),
            Content::Changed => Builder::Changed(NameLists::default()),
            Content::Missing => Builder::Missing(NameLists::default()),
            Content::ColumnTypes => Builder::DeclaredTypes(Maps::default(), None),
            Content::JdbcTypes => Builder::Jdbc(Maps::default(), None),
            Content::Sequence => Builder::Sequence(Default::default()),
            Content::Source => Builder::Source(build_all(SOURCE), Values::default()),
            Content::Error => Builder::Error(build_all(ERROR), Values::default()),
            Content::Message => Builder::CorruptRecord(Appended::default()),
            Content::Image => return None,
        })
    }

    /// Appends one value for each row.
    pub fn extend(&mut self, rows: &Rows<'_, '_, '_, '_>) {
        match self {
            Builder::Error(fields, validity) if !rows.has_errors => {
                fields.iter_mut().for_each(|field| field.push_nulls(rows.len()));
                validity.push_repeated(None, rows.len());
            }
            Builder::Text(TextGetter::Log(_), texts) if !rows.has_log => texts.append(None, rows.len()),
            Builder::Text(TextGetter::Row(get) | TextGetter::Log(get), texts) if rows.lack(*get) => texts.append(None, rows.len()),
            Builder::Text(TextGetter::Row(get) | TextGetter::Log(get), texts) => {
                rows.rows.iter().for_each(|row| texts.append(get(row), 1));
            }
            Builder::Text(TextGetter::Envelope(get), texts) => {
                rows.runs().for_each(|(row, count)| texts.append(row.envelope.and_then(*get), count))
            }
            Builder::Number(getter, numbers) | Builder::Time(getter, numbers) => numbers.extend(*getter, rows),
            Builder::Index(numbers) => {
                let index = |row: &EnvelopeRow<'_, '_>| (row.row.op != Op::Error).then_some(row.row.index as i32);
                rows.rows.iter().for_each(|row| numbers.push(index(row)));
            }
            Builder::Flag(getter, flags) => flags.extend(*getter, rows),
            Builder::CorruptRecord(bytes) if !rows.has_errors => bytes.append(None, rows.len()),
            Builder::CorruptRecord(bytes) => rows.rows.iter().for_each(|row| bytes.append(row.corrupt, 1)),
            Builder::PrimaryKey(lists) => {
                for (row, count) in rows.runs() {
                    lists.push_repeated(row.primary_key.map(|keys| rows.names(keys)), count);
                }
            }
            Builder::Changed(lists) => {
                for row in &rows.rows {
                    lists.push(row.row.changed.clone().and_then(|part| rows.changed.get(part)).map(|keys| rows.names(keys)));
                }
            }
            Builder::Missing(lists) if rows.missing.is_empty() => lists.offsets.push_nulls(rows.len()),
            Builder::Missing(lists) => {
                for row in &rows.rows {
                    let missing = rows.missing.get(row.row.missing.clone()).filter(|missing| !missing.is_empty());
                    let names =
                        missing.map(|missing| missing.iter().filter_map(|at| rows.columns.get(*at)).map(|field| field.name().as_str()));
                    lists.push(names);
                }
            }
            Builder::DeclaredTypes(maps, last) => maps.extend_types(rows, last),
            Builder::Jdbc(maps, last) => maps.extend_jdbc(rows, last),
            Builder::Sequence(parts) => {
                for row in &rows.rows {
                    let sequence = sequence(row.row, row.source, rows.input);
                    parts.iter_mut().zip(sequence).for_each(|(part, number)| part.push(Some(number)));
                }
            }
            Builder::Source(fields, validity) => {
                fields.iter_mut().for_each(|field| field.extend(rows));
                rows.runs().for_each(|(row, count)| validity.push_repeated(row.envelope.map(drop), count));
            }
            Builder::Error(fields, validity) => {
                fields.iter_mut().for_each(|field| field.extend(rows));
                rows.rows.iter().for_each(|row| validity.push(row.row.error.as_ref().map(drop)));
            }
        }
    }

    /// Appends nulls to a member of `error`.
    fn push_nulls(&mut self, count: usize) {
        match self {
            Builder::Text(_, texts) => texts.append(None, count),
            Builder::Number(_, numbers) => numbers.push_repeated(None, count),
            _ => {}
        }
    }

    /// Forgets what refers to declared types, whose ids are no longer valid.
    pub fn forget_types(&mut self) {
        if let Builder::DeclaredTypes(_, last) = self {
            *last = None;
        }
    }

    /// Reserves capacity.
    pub fn reserve(&mut self, forecast: Forecast) {
        match self {
            Builder::Text(_, texts) => texts.reserve(forecast),
            Builder::CorruptRecord(bytes) => bytes.reserve(forecast),
            Builder::Number(_, numbers) | Builder::Time(_, numbers) => forecast.reserve(&mut numbers.values),
            Builder::Index(numbers) => forecast.reserve(&mut numbers.values),
            Builder::Flag(_, flags) => forecast.reserve(&mut flags.values),
            Builder::PrimaryKey(lists) | Builder::Changed(lists) | Builder::Missing(lists) => {
                lists.names.reserve(forecast);
                lists.offsets.reserve(forecast);
            }
            Builder::DeclaredTypes(maps, _) => {
                maps.reserve(forecast);
                maps.values.reserve(forecast);
            }
            Builder::Jdbc(maps, _) => {
                maps.reserve(forecast);
                forecast.reserve(&mut maps.values.values);
            }
            Builder::Sequence(parts) => parts.iter_mut().for_each(|part| forecast.reserve(&mut part.values)),
            Builder::Source(fields, _) | Builder::Error(fields, _) => fields.iter_mut().for_each(|field| field.reserve(forecast)),
        }
    }

    /// Returns the bytes of the appended values.
    pub fn bytes(&self) -> usize {
        match self {
            Builder::Text(_, texts) => texts.bytes(),
            Builder::CorruptRecord(bytes) => bytes.bytes(),
            Builder::Number(_, numbers) | Builder::Time(_, numbers) => numbers.bytes(),
            Builder::Index(numbers) => numbers.bytes(),
            Builder::Flag(_, flags) => flags.bytes(),
            Builder::PrimaryKey(lists) | Builder::Changed(lists) | Builder::Missing(lists) => lists.names.bytes() + lists.offsets.bytes(),
            Builder::DeclaredTypes(maps, _) => maps.bytes() + maps.values.bytes(),
            Builder::Jdbc(maps, _) => maps.bytes() + maps.values.bytes(),
            Builder::Sequence(parts) => parts.iter().map(Values::bytes).sum(),
            Builder::Source(fields, _) | Builder::Error(fields, _) => fields.iter().map(Builder::bytes).sum(),
        }
    }

    /// Finishes the array and resets the builder.
    pub fn finish(&mut self) -> Result<ArrayRef, ArrowError> {
        match self {
            Builder::Text(_, texts) => texts.finish(),
            Builder::Number(_, numbers) => Ok(Arc::new(numbers.numbers::<Int64Type>()?)),
            Builder::Index(numbers) => Ok(Arc::new(numbers.numbers::<Int32Type>()?)),
            Builder::Time(_, numbers) => Ok(Arc::new(numbers.numbers::<TimestampMicrosecondType>()?.with_timezone("UTC"))),
            Builder::Flag(_, flags) => {
                let (values, nulls) = flags.take();
                Ok(Arc::new(BooleanArray::new(BooleanBuffer::from(values), nulls)))
            }
            Builder::CorruptRecord(bytes) => bytes.finish(),
            Builder::PrimaryKey(lists) | Builder::Changed(lists) | Builder::Missing(lists) => lists.finish(),
            Builder::DeclaredTypes(maps, _) => {
                let values = maps.values.finish()?;
                maps.finish(DataType::Utf8, values)
            }
            Builder::Jdbc(maps, _) => {
                let values = maps.values.numbers::<Int32Type>()?;
                maps.finish(DataType::Int32, Arc::new(values))
            }
            Builder::Sequence(parts) => {
                let arrays = parts.iter_mut().map(|part| Ok(Arc::new(part.numbers::<Int64Type>()?) as ArrayRef));
                let arrays = arrays.collect::<Result<_, ArrowError>>()?;
                Ok(Arc::new(StructArray::try_new(sequence_members(), arrays, None)?))
            }
            Builder::Source(builders, validity) => finish_struct(members(SOURCE), builders, validity),
            Builder::Error(builders, validity) => finish_struct(members(ERROR), builders, validity),
        }
    }
}

fn finish_struct(fields: Fields, builders: &mut [Builder], validity: &mut Values<()>) -> Result<ArrayRef, ArrowError> {
    let arrays = builders.iter_mut().map(Builder::finish).collect::<Result<_, _>>()?;
    Ok(Arc::new(StructArray::try_new(fields, arrays, validity.take().1)?))
}

/// Values of a nullable array without offsets; of a struct, whose values are its members, only their number.
#[derive(Default)]
pub(crate) struct Values<N> {
    values: Vec<N>,
    nulls: Nulls,
}

impl<N: Copy + Default> Values<N> {
    #[inline]
    fn push(&mut self, value: Option<N>) {
        if value.is_none() {
            self.nulls.push(self.values.len(), 1);
        }
        self.values.push(value.unwrap_or_default());
    }

    fn push_repeated(&mut self, value: Option<N>, count: usize) {
        if value.is_none() {
            self.nulls.push(self.values.len(), count);
        }
        self.values.resize(self.values.len() + count, value.unwrap_or_default());
    }

    fn extend(&mut self, getter: Getter<N>, rows: &Rows<'_, '_, '_, '_>) {
        match getter {
            Getter::Log(_) if !rows.has_log => self.push_repeated(None, rows.len()),
            Getter::Row(get) | Getter::Log(get) if rows.lack(get) => self.push_repeated(None, rows.len()),
            Getter::Row(get) | Getter::Log(get) => rows.rows.iter().for_each(|row| self.push(get(row))),
            Getter::Envelope(get) => rows.runs().for_each(|(row, count)| self.push_repeated(row.envelope.and_then(get), count)),
        }
    }

    fn bytes(&self) -> usize {
        size_of_val(self.values.as_slice())
    }

    fn take(&mut self) -> (Vec<N>, Option<NullBuffer>) {
        let values = std::mem::take(&mut self.values);
        let nulls = self.nulls.finish(values.len());
        (values, nulls)
    }

    fn numbers<T: ArrowPrimitiveType<Native = N>>(&mut self) -> Result<PrimitiveArray<T>, ArrowError>
    where
        N: ArrowNativeType,
    {
        let (values, nulls) = self.take();
        PrimitiveArray::try_new(values.into(), nulls)
    }
}

/// Builder of texts or bytes that are not taken back: Arrow does not check their UTF-8 again.
pub(crate) struct Appended<T: ByteArrayType<Offset = i32>> {
    builder: GenericByteBuilder<T>,
    /// Whether a value was lost that did not fit: the array cannot be finished.
    has_overflowed: bool,
}

type Texts = Appended<Utf8Type>;

impl<T: ByteArrayType<Offset = i32>> Default for Appended<T> {
    fn default() -> Self {
        Appended { builder: GenericByteBuilder::new(), has_overflowed: false }
    }
}

impl<T: ByteArrayType<Offset = i32>> Appended<T> {
    fn len(&self) -> usize {
        self.builder.len()
    }

    /// Whether `more` bytes do not fit.
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
        self.has_overflowed |= self.overflows(values.value_data().len()) || self.builder.append_array(values).is_err();
    }

    /// Returns the bytes of the values and their offsets.
    fn bytes(&self) -> usize {
        self.builder.values_slice().len() + size_of_val(self.builder.offsets_slice())
    }

    /// Rebuilds the builder with more capacity: Arrow's has no `reserve`.
    fn reserve(&mut self, forecast: Forecast) {
        let built = self.builder.finish();
        let (items, bytes) = (built.len(), built.value_data().len());
        let (items, bytes) = (items + forecast.additional(items, size_of::<i32>()), bytes + forecast.additional(bytes, 1));
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
        let Some(names) = names else { return self.offsets.push_nulls(1) };
        names.for_each(|name| self.names.append(Some(name), 1));
        self.offsets.push(self.names.len());
    }

    /// Appends the same list `count` times.
    fn push_repeated<'n>(&mut self, names: Option<impl Iterator<Item = &'n str> + Clone>, count: usize) {
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
        Ok(Arc::new(ListArray::try_new(list_item(), offsets, self.names.finish()?, nulls)?))
    }
}

/// Values of maps.
pub(crate) trait MapValues: Default {
    /// Finished values.
    type Array;
    /// Whether values were lost that did not fit.
    fn has_overflowed(&self) -> bool {
        false
    }
    fn append_all(&mut self, values: &Self::Array);
    fn take_all(&mut self) -> Self::Array;
}

impl MapValues for Texts {
    type Array = StringArray;

    fn has_overflowed(&self) -> bool {
        self.has_overflowed
    }

    fn append_all(&mut self, values: &StringArray) {
        Texts::append_all(self, values);
    }

    fn take_all(&mut self) -> StringArray {
        self.builder.finish()
    }
}

impl MapValues for Values<i32> {
    type Array = Self;

    fn append_all(&mut self, values: &Self) {
        self.nulls.append(self.values.len(), &values.nulls);
        self.values.extend_from_slice(&values.values);
    }

    fn take_all(&mut self) -> Self {
        std::mem::take(self)
    }
}

/// Builder of maps with names as keys. Rows of a table share a map, so it is built once and appended for many rows at once.
#[derive(Default)]
pub(crate) struct Maps<V> {
    keys: Texts,
    values: V,
    offsets: Offsets,
}

/// Keys and values of a map: at each index as often as the power of two with this exponent.
pub(crate) struct RepeatedMap<V: MapValues>(Vec<(StringArray, V::Array)>);

/// The text of an object of JDBC types, and how its names are quoted.
type JdbcTypes = (Box<str>, Quoting);

/// Exponent of the largest number of rows whose maps are appended at once: these stay in a core's first cache.
const MAX_EXPONENT: usize = 4;

impl<V: MapValues> RepeatedMap<V> {
    /// A map that has been built.
    fn new(mut map: Maps<V>) -> Self {
        RepeatedMap(vec![map.take_entries()])
    }

    /// The entries of a power of two of such maps, at most `rows`. Twice as many may not fit into an array.
    fn most(&mut self, rows: usize) -> Option<(usize, &(StringArray, V::Array))> {
        let most = (rows.max(1).ilog2() as usize).min(MAX_EXPONENT);
        while let (Some(last), true) = (self.0.last(), self.0.len() <= most) {
            let mut twice = Maps::<V>::default();
            (0..2).for_each(|_| twice.append_entries(last));
            if twice.keys.has_overflowed || twice.values.has_overflowed() {
                break;
            }
            self.0.push(twice.take_entries());
        }
        let exponent = most.min(self.0.len().saturating_sub(1));
        self.0.get(exponent).map(|entries| (1 << exponent, entries))
    }
}

impl<V: MapValues> Maps<V> {
    /// Returns the bytes of the keys and offsets.
    fn bytes(&self) -> usize {
        self.keys.bytes() + self.offsets.bytes()
    }

    fn reserve(&mut self, forecast: Forecast) {
        self.keys.reserve(forecast);
        self.offsets.reserve(forecast);
    }

    fn take_entries(&mut self) -> (StringArray, V::Array) {
        (self.keys.builder.finish(), self.values.take_all())
    }

    fn append_entries(&mut self, (keys, values): &(StringArray, V::Array)) {
        self.keys.append_all(keys);
        self.values.append_all(values);
    }

    /// Appends the same map for each of `rows`.
    fn extend(&mut self, map: &mut RepeatedMap<V>, rows: usize) {
        let mut left = rows;
        while let Some((count, entries)) = map.most(left).filter(|_| left > 0) {
            let (first, length) = (self.keys.len(), entries.0.len() / count);
            self.append_entries(entries);
            (1..=count).for_each(|row| self.offsets.push(first + row * length));
            left -= count;
        }
    }

    fn finish(&mut self, value_type: DataType, values: ArrayRef) -> Result<ArrayRef, ArrowError> {
        let entries = StructArray::try_new(map_fields(value_type.clone()), vec![self.keys.finish()?, values], None)?;
        let (offsets, nulls) = self.offsets.take(None)?;
        Ok(Arc::new(MapArray::try_new(map_entries(value_type), offsets, entries, nulls, false)?))
    }
}

impl Maps<Texts> {
    /// Appends a name and its declared type.
    fn push(&mut self, (key, id): &(NameId, usize), rows: &Rows<'_, '_, '_, '_>) {
        self.keys.append(Some(rows.events.keys.name(*key)), 1);
        self.values.append(Some(rows.events.types.declared(*id).map_or("", |declared| &declared.text)), 1);
    }

    /// Appends the declared types of each row.
    fn extend_types(&mut self, rows: &Rows<'_, '_, '_, '_>, last: &mut Option<(usize, RepeatedMap<Texts>)>) {
        for (row, count) in rows.runs() {
            let types = row.envelope.and_then(|envelope| envelope.types);
            let Some((number, block)) = types.and_then(|number| Some((number, rows.events.types.block(number)?))) else {
                self.offsets.push_nulls(count);
                continue;
            };
            if let Some(order) = rows.types.get(row.row.types.clone()).filter(|order| !order.is_empty()) {
                order.iter().filter_map(|at| block.entries.get(*at)).for_each(|entry| self.push(entry, rows));
                self.offsets.push(self.keys.len());
                continue;
            }
            let known = last.take().filter(|(known, _)| *known == number);
            let (_, map) = last.insert(known.unwrap_or_else(|| {
                let mut map = Maps::default();
                block.entries.iter().for_each(|entry| map.push(entry, rows));
                (number, RepeatedMap::new(map))
            }));
            self.extend(map, count);
        }
    }
}

impl Maps<Values<i32>> {
    /// Appends the JDBC types of each row.
    fn extend_jdbc(&mut self, rows: &Rows<'_, '_, '_, '_>, last: &mut Option<(JdbcTypes, RepeatedMap<Values<i32>>)>) {
        for (row, count) in rows.runs() {
            let Some((object, envelope)) = row.envelope.and_then(|envelope| Some((envelope.jdbc_types.as_deref()?, envelope))) else {
                self.offsets.push_nulls(count);
                continue;
            };
            let quoting = envelope.quirks.quoting;
            let known = last.take().filter(|((known, quoted), _)| **known == *object && *quoted == quoting);
            let (_, map) = last.insert(known.unwrap_or_else(|| {
                let mut map = Maps::<Values<i32>>::default();
                for (name, number) in jdbc_types(object) {
                    map.keys.append(Some(&quoting.undo(&name)), 1);
                    map.values.push(number);
                }
                ((object.into(), quoting), RepeatedMap::new(map))
            }));
            self.extend(map, count);
        }
    }
}

/// Parses the members of an object that was validated when the message was read; of a duplicate name, the later number counts.
fn jdbc_types(object: &str) -> Vec<(Cow<'_, str>, Option<i32>)> {
    let mut cursor = Cursor::new(object, true);
    let mut found: Vec<(Cow<'_, str>, Option<i32>)> = Vec::new();
    let mut indices = HashMap::new();
    let Ok(mut members) = cursor.object() else { return found };
    while let Ok(Some(key)) = cursor.next_key(&mut members) {
        let (Ok(name), Ok(value)) = (key.decode(), cursor.value()) else { break };
        let number = if let Value::Number(digits) = value { digits.parse().ok() } else { None };
        let next = found.len();
        match found.get_mut(*indices.entry(name.clone()).or_insert(next)) {
            Some(earlier) => earlier.1 = number,
            None => found.push((name, number)),
        }
    }
    found
}
