//! Builders of the envelope columns.

use std::borrow::Cow;
use std::sync::Arc;

use arrow_array::builder::StringBuilder;
use arrow_array::types::{ArrowPrimitiveType, Int32Type, Int64Type, TimestampMicrosecondType};
use arrow_array::{Array, ArrayRef, BooleanArray, ListArray, MapArray, PrimitiveArray, StringArray, StructArray};
use arrow_buffer::{ArrowNativeType, BooleanBuffer, NullBuffer};
use arrow_schema::{ArrowError, DataType, FieldRef, Fields};
use hashbrown::HashMap;

use crate::columns::{Bytes, Forecast, Nulls, Offsets};
use crate::event::{Events, Op};
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
        let is_same = |one: &EnvelopeRow<'_, '_>, other: &EnvelopeRow<'_, '_>| match (one.envelope, other.envelope) {
            (Some(first), Some(second)) => std::ptr::eq(first, second) && one.row.types.is_empty() && other.row.types.is_empty(),
            (None, None) => true,
            _ => false,
        };
        for (at, row) in rows.iter().enumerate() {
            match runs.last_mut() {
                Some((first, count)) if rows.get(*first).is_some_and(|first| is_same(first, row)) => *count += 1,
                _ => runs.push((at, 1)),
            }
        }
        let has_errors = rows.iter().any(|row| row.row.error.is_some());
        Rows { rows, runs, has_errors, events, columns, changed, missing, types, input }
    }

    /// Iterates over runs of consecutive rows with the same envelope: the first row and the count.
    fn runs(&self) -> impl Iterator<Item = (&EnvelopeRow<'e, 'a>, usize)> {
        self.runs.iter().filter_map(|(first, count)| Some((self.rows.get(*first)?, *count)))
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
    Text(TextGetter, Bytes<i32>),
    Number(Getter<i64>, Values<i64>),
    Index(Values<i32>),
    Time(Getter<i64>, Values<i64>),
    Flag(Getter<bool>, Values<bool>),
    CorruptRecord(Bytes<i32>),
    PrimaryKey(Lists),
    Changed(Lists),
    Missing(Lists),
    DeclaredTypes(Maps<StringBuilder>),
    Jdbc(Maps<Values<i32>>),
    Sequence([Values<i64>; 3]),
    Source(Vec<Builder>, Values<()>),
    Error(Vec<Builder>, Values<()>),
}

impl Builder {
    /// Returns `None` for row images, which have their own builders.
    pub fn new(content: &Content) -> Option<Self> {
        let build_all = |fields: &[Member]| fields.iter().filter_map(|(_, content)| Builder::new(content)).collect();
        Some(match content {
            Content::Text(getter) => Builder::Text(*getter, Bytes::default()),
            Content::Number(getter) => Builder::Number(*getter, Values::default()),
            Content::Time(getter) => Builder::Time(*getter, Values::default()),
            Content::Flag(getter) => Builder::Flag(*getter, Values::default()),
            Content::Index => Builder::Index(Values::default()),
            Content::PrimaryKey => Builder::PrimaryKey(Lists::default()),
            Content::Changed => Builder::Changed(Lists::default()),
            Content::Missing => Builder::Missing(Lists::default()),
            Content::ColumnTypes => Builder::DeclaredTypes(Maps::default()),
            Content::JdbcTypes => Builder::Jdbc(Maps::default()),
            Content::Sequence => Builder::Sequence(Default::default()),
            Content::Source => Builder::Source(build_all(SOURCE), Values::default()),
            Content::Error => Builder::Error(build_all(ERROR), Values::default()),
            Content::Message => Builder::CorruptRecord(Bytes::default()),
            Content::Image => return None,
        })
    }

    /// Appends one value for each row.
    pub fn extend(&mut self, rows: &Rows<'_, '_, '_, '_>) {
        match self {
            Builder::Text(TextGetter::Row(get), bytes) if rows.lack(*get) => bytes.push_nulls(rows.len()),
            Builder::Text(TextGetter::Row(get), bytes) => {
                rows.rows.iter().for_each(|row| bytes.append(get(row).map(str::as_bytes), 1));
            }
            Builder::Text(TextGetter::Envelope(get), bytes) => {
                rows.runs().for_each(|(row, count)| bytes.append(row.envelope.and_then(*get).map(str::as_bytes), count))
            }
            Builder::Number(getter, numbers) | Builder::Time(getter, numbers) => numbers.extend(*getter, rows),
            Builder::Index(numbers) => {
                let index = |row: &EnvelopeRow<'_, '_>| (row.row.op != Op::Error).then_some(row.row.index as i32);
                rows.rows.iter().for_each(|row| numbers.push(index(row)));
            }
            Builder::Flag(getter, flags) => flags.extend(*getter, rows),
            Builder::CorruptRecord(bytes) if !rows.has_errors => bytes.push_nulls(rows.len()),
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
            Builder::Missing(lists) => {
                for row in &rows.rows {
                    let missing = rows.missing.get(row.row.missing.clone()).filter(|missing| !missing.is_empty());
                    let names =
                        missing.map(|missing| missing.iter().filter_map(|at| rows.columns.get(*at)).map(|field| field.name().as_str()));
                    lists.push(names);
                }
            }
            Builder::DeclaredTypes(maps) => maps.extend_types(rows),
            Builder::Jdbc(maps) => maps.extend_jdbc(rows),
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
                match rows.has_errors {
                    false => validity.push_repeated(None, rows.len()),
                    true => rows.rows.iter().for_each(|row| validity.push(row.row.error.as_ref().map(drop))),
                }
            }
        }
    }

    /// Reserves capacity.
    pub fn reserve(&mut self, forecast: Forecast) {
        match self {
            Builder::Text(_, bytes) | Builder::CorruptRecord(bytes) => bytes.reserve(forecast),
            Builder::Number(_, numbers) | Builder::Time(_, numbers) => forecast.reserve(&mut numbers.values),
            Builder::Index(numbers) => forecast.reserve(&mut numbers.values),
            Builder::Flag(_, flags) => forecast.reserve(&mut flags.values),
            Builder::PrimaryKey(lists) | Builder::Changed(lists) | Builder::Missing(lists) => {
                lists.names.reserve(forecast);
                lists.offsets.reserve(forecast);
            }
            Builder::DeclaredTypes(maps) => {
                maps.reserve(forecast);
                reserve_strings(&mut maps.values, forecast);
            }
            Builder::Jdbc(maps) => {
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
            Builder::Text(_, bytes) | Builder::CorruptRecord(bytes) => bytes.size(),
            Builder::Number(_, numbers) | Builder::Time(_, numbers) => numbers.bytes(),
            Builder::Index(numbers) => numbers.bytes(),
            Builder::Flag(_, flags) => flags.bytes(),
            Builder::PrimaryKey(lists) | Builder::Changed(lists) | Builder::Missing(lists) => lists.names.size() + lists.offsets.bytes(),
            Builder::DeclaredTypes(maps) => maps.bytes() + strings_bytes(&maps.values),
            Builder::Jdbc(maps) => maps.bytes() + maps.values.bytes(),
            Builder::Sequence(parts) => parts.iter().map(Values::bytes).sum(),
            Builder::Source(fields, _) | Builder::Error(fields, _) => fields.iter().map(Builder::bytes).sum(),
        }
    }

    /// Finishes the array and resets the builder.
    pub fn finish(&mut self) -> Result<ArrayRef, ArrowError> {
        match self {
            Builder::Text(_, bytes) => bytes.finish_text(None),
            Builder::Number(_, numbers) => Ok(Arc::new(numbers.numbers::<Int64Type>()?)),
            Builder::Index(numbers) => Ok(Arc::new(numbers.numbers::<Int32Type>()?)),
            Builder::Time(_, numbers) => Ok(Arc::new(numbers.numbers::<TimestampMicrosecondType>()?.with_timezone("UTC"))),
            Builder::Flag(_, flags) => {
                let (values, nulls) = flags.take();
                Ok(Arc::new(BooleanArray::new(BooleanBuffer::from(values), nulls)))
            }
            Builder::CorruptRecord(bytes) => bytes.finish_binary(None),
            Builder::PrimaryKey(lists) | Builder::Changed(lists) | Builder::Missing(lists) => lists.finish(),
            Builder::DeclaredTypes(maps) => {
                let values = Arc::new(maps.values.finish());
                maps.finish(DataType::Utf8, values)
            }
            Builder::Jdbc(maps) => {
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
            Getter::Row(get) if rows.lack(get) => self.push_repeated(None, rows.len()),
            Getter::Row(get) => rows.rows.iter().for_each(|row| self.push(get(row))),
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

/// Builder of lists of names.
#[derive(Default)]
pub(crate) struct Lists {
    names: Bytes<i32>,
    offsets: Offsets,
}

impl Lists {
    fn push<'n>(&mut self, names: Option<impl Iterator<Item = &'n str>>) {
        let Some(names) = names else { return self.offsets.push_nulls(1) };
        names.for_each(|name| self.names.append(Some(name.as_bytes()), 1));
        self.offsets.push(self.names.len());
    }

    /// Appends the same list `count` times.
    fn push_repeated<'n>(&mut self, names: Option<impl Iterator<Item = &'n str> + Clone>, count: usize) {
        match names.clone().map(|mut names| (names.next(), names.next())) {
            Some((Some(only), None)) if self.names.push_repeated(only.as_bytes(), count).is_ok() => {
                let first = self.names.len() - count;
                (1..=count).for_each(|list| self.offsets.push(first + list));
            }
            _ => (0..count).for_each(|_| self.push(names.clone())),
        }
    }

    fn finish(&mut self) -> Result<ArrayRef, ArrowError> {
        let (offsets, nulls) = self.offsets.take(None)?;
        Ok(Arc::new(ListArray::try_new(list_item(), offsets, self.names.finish_text(None)?, nulls)?))
    }
}

/// Builder of maps with names as keys. Consecutive rows share a map, so it is built once and appended as a block.
#[derive(Default)]
pub(crate) struct Maps<V> {
    keys: StringBuilder,
    values: V,
    entries: usize,
    offsets: Offsets,
}

impl Maps<StringBuilder> {
    /// Appends a name and its declared type.
    fn push(&mut self, (key, id): &(NameId, usize), rows: &Rows<'_, '_, '_, '_>) {
        let name = rows.events.keys.name(*key);
        let declared = rows.events.types.declared(*id).map_or("", |declared| &declared.text);
        let fits = |builder: &StringBuilder, text: &str| builder.values_slice().len().saturating_add(text.len()) <= i32::MAX as usize;
        if fits(&self.keys, name) && fits(&self.values, declared) {
            self.keys.append_value(name);
            self.values.append_value(declared);
            self.entries += 1;
        } else {
            self.offsets.overflow();
        }
    }
}

/// Number of rows whose maps are appended as one block.
const BLOCK_ROWS: usize = 16;

/// Keys and values of a map that is repeated: once, and [`BLOCK_ROWS`] times.
struct RepeatedMap<A> {
    single: (StringArray, A),
    block: Option<(StringArray, A)>,
}

impl<A> RepeatedMap<A> {
    /// Builds the block only if there are enough rows; `repeat` builds its values.
    fn new(rows: usize, single: (StringArray, A), repeat: impl Fn(&A) -> Option<A>) -> Self {
        let block = if rows >= BLOCK_ROWS { repeated(&single.0).zip(repeat(&single.1)) } else { None };
        RepeatedMap { single, block }
    }
}

/// Returns the strings [`BLOCK_ROWS`] times, if an array can hold them.
fn repeated(strings: &StringArray) -> Option<StringArray> {
    let mut block = StringBuilder::with_capacity(strings.len() * BLOCK_ROWS, strings.value_data().len() * BLOCK_ROWS);
    for _ in 0..BLOCK_ROWS {
        block.append_array(strings).ok()?;
    }
    Some(block.finish())
}

/// Whether the strings fit into the builder's 32-bit offsets.
fn can_append(builder: &StringBuilder, more: &StringArray) -> bool {
    builder.values_slice().len().saturating_add(more.value_data().len()) <= i32::MAX as usize
}

/// Returns the bytes of the strings and their offsets.
fn strings_bytes(builder: &StringBuilder) -> usize {
    builder.values_slice().len() + size_of_val(builder.offsets_slice())
}

/// Rebuilds the builder with more capacity: Arrow's `StringBuilder` has no `reserve`.
fn reserve_strings(builder: &mut StringBuilder, forecast: Forecast) {
    let built = builder.finish();
    let (items, bytes) = (built.len(), built.value_data().len());
    let mut larger =
        StringBuilder::with_capacity(items + forecast.additional(items, size_of::<i32>()), bytes + forecast.additional(bytes, 1));
    // It fitted into the smaller builder.
    if larger.append_array(&built).is_ok() {
        *builder = larger;
    }
}

impl<V> Maps<V> {
    /// Returns the bytes of the keys and offsets.
    fn bytes(&self) -> usize {
        strings_bytes(&self.keys) + self.offsets.bytes()
    }

    fn reserve(&mut self, forecast: Forecast) {
        reserve_strings(&mut self.keys, forecast);
        self.offsets.reserve(forecast);
    }

    /// Appends the same map for each of `rows`, in blocks where possible; `append` appends the values and returns false if they do
    /// not fit.
    fn extend<A>(&mut self, map: &RepeatedMap<A>, rows: usize, mut append: impl FnMut(&mut V, &A) -> bool) {
        let mut left = rows;
        while left > 0 {
            let block = map.block.as_ref().filter(|_| left >= BLOCK_ROWS);
            let (count, (keys, values)) = block.map_or((1, &map.single), |block| (BLOCK_ROWS, block));
            let fits = can_append(&self.keys, keys) && append(&mut self.values, values) && self.keys.append_array(keys).is_ok();
            let entries = if fits { keys.len() / count } else { 0 };
            if !fits {
                self.offsets.overflow();
            }
            for _ in 0..count {
                self.entries += entries;
                self.offsets.push(self.entries);
            }
            left -= count;
        }
    }

    fn finish(&mut self, value_type: DataType, values: ArrayRef) -> Result<ArrayRef, ArrowError> {
        let keys: ArrayRef = Arc::new(self.keys.finish());
        self.entries = 0;
        let entries = StructArray::try_new(map_fields(value_type.clone()), vec![keys, values], None)?;
        let (offsets, nulls) = self.offsets.take(None)?;
        Ok(Arc::new(MapArray::try_new(map_entries(value_type), offsets, entries, nulls, false)?))
    }
}

impl Maps<StringBuilder> {
    /// Appends the declared types of each row.
    fn extend_types(&mut self, rows: &Rows<'_, '_, '_, '_>) {
        for (row, count) in rows.runs() {
            let block = row.envelope.and_then(|envelope| rows.events.types.block(envelope.types?));
            let Some(block) = block else {
                self.offsets.push_nulls(count);
                continue;
            };
            if let Some(order) = rows.types.get(row.row.types.clone()).filter(|order| !order.is_empty()) {
                order.iter().filter_map(|at| block.entries.get(*at)).for_each(|entry| self.push(entry, rows));
                self.offsets.push(self.entries);
                continue;
            }
            let mut single = Maps::default();
            block.entries.iter().for_each(|entry| single.push(entry, rows));
            let map = RepeatedMap::new(count, (single.keys.finish(), single.values.finish()), repeated);
            self.extend(&map, count, |builder, values| can_append(builder, values) && builder.append_array(values).is_ok());
        }
    }
}

impl Maps<Values<i32>> {
    /// Appends the JDBC types of each row. Text that consecutive runs share is parsed once.
    fn extend_jdbc(&mut self, rows: &Rows<'_, '_, '_, '_>) {
        let mut last: Option<(&str, RepeatedMap<Vec<Option<i32>>>)> = None;
        for (row, count) in rows.runs() {
            let Some(object) = row.envelope.and_then(|envelope| envelope.jdbc_types.as_deref()) else {
                self.offsets.push_nulls(count);
                continue;
            };
            if last.as_ref().is_none_or(|(cached, ..)| *cached != object) {
                let (names, numbers): (Vec<_>, Vec<_>) = jdbc_types(object).into_iter().unzip();
                let quoting = row.envelope.map_or(Quoting::None, |envelope| envelope.quirks.quoting);
                let names = names.iter().map(|name| Some(quoting.undo(name))).collect();
                last = Some((object, RepeatedMap::new(count, (names, numbers), |numbers| Some(numbers.repeat(BLOCK_ROWS)))));
            }
            if let Some((_, map)) = &last {
                self.extend(map, count, |values, numbers| {
                    numbers.iter().for_each(|number| values.push(*number));
                    true
                });
            }
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
