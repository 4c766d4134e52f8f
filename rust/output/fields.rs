//! Arrow fields of lists and maps, with Spark's field names.

use std::sync::Arc;

use arrow_schema::{DataType, Field, FieldRef, Fields};

pub(crate) fn list_item() -> FieldRef {
    Arc::new(Field::new("element", DataType::Utf8, true))
}

pub(crate) fn map_fields(value: DataType) -> Fields {
    Fields::from(vec![Field::new("key", DataType::Utf8, false), Field::new("value", value, true)])
}

pub(crate) fn map_entries(value: DataType) -> FieldRef {
    Arc::new(Field::new("entries", DataType::Struct(map_fields(value)), false))
}

pub(crate) fn map_type(value: DataType) -> DataType {
    DataType::Map(map_entries(value), false)
}
