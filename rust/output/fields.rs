//! Lists and maps with Spark's field names.

use std::sync::Arc;

use arrow_array::{ArrayRef, MapArray, StructArray};
use arrow_buffer::{NullBuffer, OffsetBuffer};
use arrow_schema::{ArrowError, DataType, Field, FieldRef, Fields};

pub(crate) fn list_item() -> FieldRef {
    Arc::new(Field::new("element", DataType::Utf8, true))
}

fn map_fields(value: DataType) -> Fields {
    Fields::from(vec![
        Field::new("key", DataType::Utf8, false),
        Field::new("value", value, true),
    ])
}

fn map_entries(value: DataType) -> FieldRef {
    Arc::new(Field::new(
        "entries",
        DataType::Struct(map_fields(value)),
        false,
    ))
}

pub(crate) fn map_type(value: DataType) -> DataType {
    DataType::Map(map_entries(value), false)
}

pub(crate) fn map_array(
    keys: ArrayRef,
    values: ArrayRef,
    offsets: OffsetBuffer<i32>,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef, ArrowError> {
    let value_type = values.data_type().clone();
    let entries = StructArray::try_new(map_fields(value_type.clone()), vec![keys, values], None)?;
    Ok(Arc::new(MapArray::try_new(
        map_entries(value_type),
        offsets,
        entries,
        nulls,
        false,
    )?))
}
