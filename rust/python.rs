//! The Python module `towpath._towpath`: the only file that names pyo3.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::UInt8Type;
use arrow_array::{
    Array, ArrayRef, BooleanArray, Int64Array, RecordBatch, StructArray, make_array,
};
use arrow_data::ArrayData;
use arrow_data::transform::MutableArrayData;
use arrow_pyarrow::{FromPyArrow, PyArrowType, ToPyArrow};
use arrow_schema::{ArrowError, DataType, Schema};
use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyDict, PyList, PyString, PyTuple};
use pythonize::{Depythonizer, PythonizeError};
use regex::Regex;

use crate::decoder::DecodeError as CoreError;
use crate::dialect::DIALECTS;
use crate::error::{Error, MAX_TEXT, shortened};
use crate::named::nearest;
use crate::options::{Options, TableSchema, WriterSchemaText, named};
use crate::order::bounds::bounds;
use crate::order::newest::newest;
use crate::order::outcome::{Changes, Known, outcomes};
use crate::order::{FIELDS, KeySet, Orders};
use crate::{Block, Fetched, Framing, Kind, Layout, Mode};

pyo3::create_exception!(
    towpath,
    DecodeError,
    PyValueError,
    "A message or value that cannot be decoded."
);

/// A stored message of a claim check, or the reason why it cannot be read.
#[derive(FromPyObject)]
enum Stored {
    Message(PyBackedBytes),
    Reason(String),
}

impl Stored {
    fn message(&self) -> Result<&[u8], String> {
        match self {
            Stored::Message(bytes) => Ok(bytes),
            Stored::Reason(why) => Err(why.clone()),
        }
    }
}

/// Decodes change messages into Arrow record batches.
#[pyclass(subclass, frozen, module = "towpath._towpath", name = "Decoder")]
struct PyDecoder {
    core: crate::Decoder,
    kept: Vec<(String, DataType)>,
}

#[pymethods]
impl PyDecoder {
    #[new]
    #[pyo3(signature = (dialect="auto", schema=None, **options))]
    fn new(
        py: Python<'_>,
        dialect: &str,
        schema: Option<&Bound<'_, PyAny>>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let arguments = match options {
            Some(options) => options.copy()?,
            None => PyDict::new(py),
        };
        arguments.set_item("dialect", dialect)?;
        let kept = kept_types(&arguments)?;
        let mut options: Options =
            serde_path_to_error::deserialize(&mut Depythonizer::from_object(&arguments))
                .map_err(|error| invalid(py, error))?;
        options.schema = schema
            .filter(|schema| !schema.is_none())
            .map(table_schema)
            .transpose()?;
        let core = guarded(|| crate::Decoder::new(options))?.map_err(PyValueError::new_err)?;
        Ok(PyDecoder { core, kept })
    }

    #[pyo3(name = "_decode", signature = (values, unfetched=None, stored=None, *, start=0, max_bytes=usize::MAX))]
    fn decode_part<'py>(
        &self,
        py: Python<'py>,
        values: &Bound<'py, PyAny>,
        unfetched: Option<HashMap<u32, String>>,
        stored: Option<HashMap<usize, Stored>>,
        start: usize,
        max_bytes: usize,
    ) -> PyResult<(Bound<'py, PyAny>, Option<usize>)> {
        let values = messages(values)?;
        let stored = stored.unwrap_or_default();
        let messages = stored
            .iter()
            .map(|(index, stored)| (*index, stored.message()))
            .collect();
        let fetched = Fetched {
            schemas: unfetched.into_iter().flatten().collect(),
            messages,
        };
        let decode = |values: &dyn Array| {
            guarded(|| self.core.decode_part(values, &fetched, start, max_bytes))
        };
        let decoded = py.detach(|| match decode(values.as_ref()) {
            // Another thread may write the bytes meanwhile, for example in a NumPy array. Valid text may then become
            // invalid between two reads. A copy does not change: if it fails too, the error is in the input or in this
            // crate.
            failed @ (Err(_) | Ok(Err(CoreError::Input(_)))) => {
                copied(values.as_ref()).map_or(failed, |copy| decode(copy.as_ref()))
            }
            decoded => decoded,
        })?;
        let (batch, next) = decoded.map_err(|error| raise(py, error))?;
        Ok((
            batch.to_pyarrow(py)?,
            Some(next).filter(|next| *next < values.len()),
        ))
    }

    fn unknown_schemas(&self, py: Python<'_>, values: &Bound<'_, PyAny>) -> PyResult<Vec<u32>> {
        let values = messages(values)?;
        py.detach(|| guarded(|| self.core.unknown_schemas(values.as_ref())))?
            .map_err(|error| raise(py, error))
    }

    fn add_schema(
        &self,
        py: Python<'_>,
        id: u32,
        text: &str,
        references: Vec<String>,
    ) -> PyResult<()> {
        py.detach(|| guarded(|| self.core.add_schema(id, text, &references)))
    }

    fn claim_checks(
        &self,
        py: Python<'_>,
        values: &Bound<'_, PyAny>,
    ) -> PyResult<Vec<(usize, String)>> {
        let values = messages(values)?;
        py.detach(|| guarded(|| self.core.claim_checks(values.as_ref())))?
            .map_err(|error| raise(py, error))
    }

    #[getter]
    fn schema(&self) -> PyResult<PyArrowType<Schema>> {
        let schema = guarded(|| self.core.schema(&self.kept))?.map_err(PyValueError::new_err)?;
        Ok(PyArrowType(schema.as_ref().clone()))
    }

    #[getter]
    fn metrics<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let metrics = self.core.metrics();
        let dict = PyDict::new(py);
        dict.set_item("messages", metrics.messages)?;
        dict.set_item("rows", metrics.rows)?;
        dict.set_item("filtered", metrics.filtered)?;
        dict.set_item("dropped", metrics.dropped)?;
        dict.set_item("errors", metrics.errors)?;
        dict.set_item("missing_columns", metrics.missing)?;
        dict.set_item("zero_dates", metrics.zero_dates)?;
        Ok(dict)
    }

    #[getter]
    fn absent_columns(&self) -> Vec<String> {
        self.core
            .metrics()
            .absent_columns()
            .map(str::to_owned)
            .collect()
    }

    #[getter]
    fn columns(&self) -> Vec<&str> {
        self.core.columns().collect()
    }
}

/// Calls the core. A panic is a bug, and becomes an ordinary exception: pyo3's own is not an `Exception`, so it would
/// end a worker.
fn guarded<T>(call: impl FnOnce() -> T) -> PyResult<T> {
    // The core changes its state only after a call has succeeded, so a panic leaves no half-changed state.
    catch_unwind(AssertUnwindSafe(call)).map_err(|panic| {
        let text = panic
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| panic.downcast_ref::<&str>().copied());
        let what = shortened(text.unwrap_or("no description"), MAX_TEXT);
        PyRuntimeError::new_err(format!(
            "a bug in towpath, please report it with the message that causes it: {what}"
        ))
    })
}

/// Returns the text of an error about an unknown argument, from serde's text about a struct's field.
fn unknown_argument(text: &str) -> String {
    let (name, allowed) = text
        .trim_start_matches("unknown field ")
        .split_once(", expected one of ")
        .unwrap_or((text, ""));
    // Python passes the schema separately, so the options have no field for it.
    let allowed = allowed.replacen("dialect, ", "dialect, schema, ", 1);
    let meant = nearest(name, &allowed.split(", ").collect::<Vec<_>>())
        .map(|meant| format!("did you mean {meant}? "));
    format!(
        "unknown argument {name}; {}expected one of {allowed}",
        meant.unwrap_or_default()
    )
}

/// Returns the exception of an invalid option, which names the argument.
fn invalid(py: Python<'_>, error: serde_path_to_error::Error<PythonizeError>) -> PyErr {
    let path = error.path().to_string();
    let what = error.into_inner();
    let text = match what.to_string() {
        // The path adds nothing to the text. The text has serde's words for a struct.
        text if text.starts_with("unknown field ") => unknown_argument(&text.replace('`', "")),
        text if path == "." => text,
        text => format!("{path}: {text}"),
    };
    // pythonize or a serde visitor reports a wrong Python type.
    let is_type =
        text.contains("invalid type: ") || PyErr::from(what).is_instance_of::<PyTypeError>(py);
    if is_type {
        PyTypeError::new_err(text)
    } else {
        PyValueError::new_err(text)
    }
}

/// Returns the types of kept columns, if `keep` maps names to types, and replaces the argument by the names.
fn kept_types(arguments: &Bound<'_, PyDict>) -> PyResult<Vec<(String, DataType)>> {
    let Some(keep) = arguments.get_item("keep")? else {
        return Ok(Vec::new());
    };
    let Ok(types) = keep.cast::<PyDict>() else {
        return Ok(Vec::new());
    };
    arguments.set_item("keep", types.keys())?;
    types
        .iter()
        .map(|(name, data_type)| Ok((name.extract()?, DataType::from_pyarrow_bound(&data_type)?)))
        .collect()
}

fn table_schema(schema: &Bound<'_, PyAny>) -> PyResult<TableSchema> {
    if let Ok(ddl) = schema.extract::<String>() {
        return Ok(TableSchema::Ddl(ddl));
    }
    let Ok(arrow) = Schema::from_pyarrow_bound(schema) else {
        return Err(PyTypeError::new_err(format!(
            "schema: expected DDL text, a StructType or a pyarrow.Schema, not {}",
            schema.get_type()
        )));
    };
    Ok(TableSchema::Arrow(arrow.fields))
}

/// Imports messages from any object with the Arrow PyCapsule interface.
fn messages(values: &Bound<'_, PyAny>) -> PyResult<ArrayRef> {
    if values.hasattr("__arrow_c_array__")? {
        return Ok(make_array(ArrayData::from_pyarrow_bound(values)?));
    }
    if values.hasattr("__arrow_c_stream__")? {
        return combine_chunks(values);
    }
    let found = values.get_type().fully_qualified_name()?.to_string();
    Err(PyTypeError::new_err(format!(
        "expected an Arrow array or record batch (the PyCapsule interface), not {found}"
    )))
}

/// Copies messages. Views share the bytes of their texts.
fn copied(values: &dyn Array) -> Result<ArrayRef, ArrowError> {
    let data = values.to_data();
    let mut copy = MutableArrayData::new(vec![&data], false, data.len());
    copy.try_extend(0, 0, data.len())?;
    Ok(make_array(copy.freeze()))
}

/// Combines the chunks of a chunked array or a table.
fn combine_chunks(values: &Bound<'_, PyAny>) -> PyResult<ArrayRef> {
    let py = values.py();
    let pyarrow = py.import("pyarrow")?;
    let chunked = match pyarrow.call_method1("chunked_array", (values,)) {
        Ok(chunked) => chunked,
        Err(_) => pyarrow
            .call_method1("table", (values,))?
            .call_method0("to_struct_array")?,
    };
    let combined = match chunked.call_method0("combine_chunks") {
        // Arrow refuses to combine chunks only if they are too large.
        Err(error) if error.is_instance_of::<PyValueError>(py) => {
            return Err(PyValueError::new_err(
                "the messages have more than 2 GiB: decode fewer messages at once, or cast the column to large_binary",
            ));
        }
        combined => combined?,
    };
    Ok(make_array(ArrayData::from_pyarrow_bound(&combined)?))
}

/// Converts an error to its Python exception.
fn raise(py: Python<'_>, error: CoreError) -> PyErr {
    let error = match error {
        CoreError::Row(error) => error,
        CoreError::Input(what) => return PyValueError::new_err(what),
    };
    let raised = DecodeError::new_err(error.message.clone());
    match set_attributes(raised.value(py), error) {
        Ok(()) => raised,
        Err(failed) => failed,
    }
}

fn set_attributes(raised: &Bound<'_, PyAny>, error: Error) -> PyResult<()> {
    raised.setattr("message", error.message)?;
    raised.setattr("kind", error.kind.name())?;
    raised.setattr("column", error.column)?;
    raised.setattr("byte", error.byte)?;
    raised.setattr("row", error.row)?;
    raised.setattr("dialect", error.dialect)
}

/// Returns the supported dialects: name, aliases, producer, wire format and description of each.
#[pyfunction]
fn dialects(py: Python<'_>) -> PyResult<Bound<'_, PyList>> {
    let list = PyList::empty(py);
    for dialect in DIALECTS {
        let dict = PyDict::new(py);
        dict.set_item("name", dialect.name)?;
        dict.set_item("aliases", dialect.aliases)?;
        dict.set_item("producer", dialect.producer)?;
        dict.set_item("wire", dialect.wire.name())?;
        dict.set_item("description", dialect.description)?;
        list.append(dict)?;
    }
    Ok(list)
}

/// Returns whether a regular expression may match a whole text. True if the expression is invalid or too large.
#[pyfunction]
fn may_match(pattern: &str, text: &str) -> bool {
    Regex::new(&format!("^(?:{pattern})$")).map_or(true, |regex| regex.is_match(text))
}

/// Returns the name of a message's dialect, or None.
#[pyfunction]
fn detect(value: &Bound<'_, PyAny>) -> PyResult<Option<&'static str>> {
    let message = if let Ok(text) = value.cast::<PyString>() {
        text.to_str()?.as_bytes()
    } else if let Ok(bytes) = value.cast::<PyBytes>() {
        bytes.as_bytes()
    } else {
        return Err(PyTypeError::new_err("detect: expected bytes or str"));
    };
    guarded(|| crate::detect(message).map(|dialect| dialect.name))
}

/// Returns the table's columns, inferred from the types that messages declare.
#[allow(clippy::too_many_arguments, reason = "Python's arguments have names")]
#[pyfunction]
#[pyo3(signature = (values, dialect="auto", database=None, table=None, writer_schemas=None, unwrapped=false, op_column=None))]
fn infer_schema(
    py: Python<'_>,
    values: &Bound<'_, PyAny>,
    dialect: &str,
    database: Option<String>,
    table: Option<String>,
    writer_schemas: Option<Vec<WriterSchemaText>>,
    unwrapped: bool,
    op_column: Option<String>,
) -> PyResult<PyArrowType<Schema>> {
    let values = messages(values)?;
    let writer_schemas = writer_schemas.unwrap_or_default();
    let options = Options {
        dialect: dialect.to_owned(),
        database,
        table,
        writer_schemas,
        unwrapped,
        op_column,
        ..Options::default()
    };
    let schema = py.detach(|| guarded(|| crate::infer_schema(values.as_ref(), options)))?;
    schema.map(PyArrowType).map_err(|error| raise(py, error))
}

/// Returns the messages in a block of a file, and their number of bytes. `position` is the block's offset in the file.
#[pyfunction]
fn cut(
    py: Python<'_>,
    block: PyArrowType<ArrayData>,
    framing: &str,
    position: i64,
    limit: i64,
    last: bool,
) -> PyResult<(PyArrowType<RecordBatch>, usize)> {
    let framing = named("framing", framing, Framing::NAMES).map_err(PyValueError::new_err)?;
    let bytes = make_array(block.0);
    let bytes = bytes
        .as_primitive_opt::<UInt8Type>()
        .ok_or_else(|| PyTypeError::new_err("block: expected an array of uint8"))?;
    let bytes = bytes.values().inner().clone();
    let limit = usize::try_from(limit.saturating_sub(position)).unwrap_or(0);
    let cut = py.detach(|| {
        guarded(|| {
            crate::cut(
                &Block {
                    bytes: &bytes,
                    limit,
                    last,
                },
                framing,
            )
        })
    })?;
    let cut = cut.map_err(|damage| {
        PyValueError::new_err(format!(
            "byte {}: {}",
            position + damage.byte as i64,
            damage.what
        ))
    })?;
    let used = cut.used;
    let offsets =
        Int64Array::from_iter_values(cut.starts.iter().map(|start| position + *start as i64));
    let columns = cut
        .columns()
        .chain([("_offset", Arc::new(offsets) as ArrayRef)]);
    let batch = RecordBatch::try_from_iter_with_nullable(
        columns.map(|(name, column)| (name, column, true)),
    );
    Ok((
        PyArrowType(batch.map_err(|error| PyValueError::new_err(error.to_string()))?),
        used,
    ))
}

/// Compares two arrays of order values row by row: returns whether the value of `one` is newer. Null is older than any
/// value.
#[pyfunction]
fn is_newer(
    one: PyArrowType<ArrayData>,
    other: PyArrowType<ArrayData>,
) -> PyResult<PyArrowType<ArrayData>> {
    let (one, other) = (structs("one", one)?, structs("other", other)?);
    let newer = guarded(|| {
        let (one, other) = (Orders::new(&one)?, Orders::new(&other)?);
        let rows = 0..one.len().min(other.len());
        Ok(BooleanArray::from_iter(rows.map(|at| {
            let order = one.get(at);
            Some(order.is_some_and(|order| order.is_newer(other.get(at).as_ref())))
        })))
    })?;
    newer
        .map(|newer| PyArrowType(newer.into_data()))
        .map_err(|error: ArrowError| wrong(&error))
}

/// Returns the columns `surely`, `after` and `reached` of `order::bounds`: the statements that each change is after.
#[pyfunction]
fn statement_bounds(
    changes: PyArrowType<ArrayData>,
    statements: PyArrowType<ArrayData>,
) -> PyResult<PyArrowType<RecordBatch>> {
    let (changes, statements) = (
        structs("changes", changes)?,
        structs("statements", statements)?,
    );
    let found = guarded(|| bounds(&changes, &statements))?.map_err(|error| wrong(&error))?;
    batch([
        ("surely", Arc::new(found.surely) as ArrayRef),
        ("after", Arc::new(found.after)),
        ("reached", Arc::new(found.reached)),
    ])
}

/// Returns for each change whether it is the newest of its key, the event time of its order value, and the change it
/// replaced.
#[pyfunction]
fn newest_changes(
    py: Python<'_>,
    keys: PyArrowType<ArrayData>,
    orders: PyArrowType<ArrayData>,
) -> PyResult<PyArrowType<RecordBatch>> {
    let (keys, orders) = (structs("keys", keys)?, structs("orders", orders)?);
    let found = py
        .detach(|| guarded(|| newest(&keys, &orders)))?
        .map_err(|error| wrong(&error))?;
    batch([
        ("is_newest", Arc::new(found.is_newest) as ArrayRef),
        ("event_time", Arc::new(found.event_times)),
        ("replaced", Arc::new(found.replaced)),
    ])
}

/// Returns the outcome of each key's newest change. `rows` and `gone` are keys and order values of the target and its
/// tombstones.
#[pyfunction]
fn change_outcomes(
    py: Python<'_>,
    changes: (
        PyArrowType<ArrayData>,
        PyArrowType<ArrayData>,
        PyArrowType<ArrayData>,
    ),
    rows: (PyArrowType<ArrayData>, PyArrowType<ArrayData>),
    gone: (PyArrowType<ArrayData>, PyArrowType<ArrayData>),
) -> PyResult<PyArrowType<RecordBatch>> {
    let (keys, orders) = (
        structs("changes", changes.0)?,
        structs("changes", changes.1)?,
    );
    let deletes = make_array(changes.2.0);
    let deletes = deletes
        .as_boolean_opt()
        .ok_or_else(|| PyTypeError::new_err("changes: expected an array of booleans"))?;
    let (row_keys, row_orders) = (structs("rows", rows.0)?, structs("rows", rows.1)?);
    let (gone_keys, gone_orders) = (structs("gone", gone.0)?, structs("gone", gone.1)?);
    let changes = Changes {
        keys: &keys,
        orders: &orders,
        deletes,
    };
    let rows = Known {
        keys: &row_keys,
        orders: &row_orders,
    };
    let gone = Known {
        keys: &gone_keys,
        orders: &gone_orders,
    };
    let found = py
        .detach(|| guarded(|| outcomes(&changes, rows, gone)))?
        .map_err(|error| wrong(&error))?;
    batch([
        ("is_applied", Arc::new(found.is_applied) as ArrayRef),
        ("is_known", Arc::new(found.is_known)),
        ("event_time", Arc::new(found.event_times)),
    ])
}

/// A set of keys that filters the rows of a large table part by part.
#[pyclass(frozen, module = "towpath._towpath", name = "KeySet")]
struct PyKeySet(KeySet);

#[pymethods]
impl PyKeySet {
    #[new]
    fn new(keys: PyArrowType<ArrayData>) -> PyResult<Self> {
        let keys = structs("keys", keys)?;
        guarded(|| KeySet::new(&keys))?
            .map(PyKeySet)
            .map_err(|error| wrong(&error))
    }

    fn contains(
        &self,
        py: Python<'_>,
        keys: PyArrowType<ArrayData>,
    ) -> PyResult<PyArrowType<ArrayData>> {
        let keys = structs("keys", keys)?;
        let found = py
            .detach(|| guarded(|| self.0.contains(&keys)))?
            .map_err(|error| wrong(&error))?;
        Ok(PyArrowType(found.into_data()))
    }
}

fn structs(argument: &str, array: PyArrowType<ArrayData>) -> PyResult<StructArray> {
    let array = make_array(array.0);
    match array.as_struct_opt() {
        Some(structs) => Ok(structs.clone()),
        None => Err(PyTypeError::new_err(format!(
            "{argument}: expected an array of structs, not of {}",
            array.data_type()
        ))),
    }
}

fn batch<const N: usize>(columns: [(&str, ArrayRef); N]) -> PyResult<PyArrowType<RecordBatch>> {
    RecordBatch::try_from_iter(columns)
        .map(PyArrowType)
        .map_err(|error| wrong(&error))
}

fn wrong(error: &ArrowError) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// Returns the names in a table, in its order.
fn names<T>(table: &[(&'static str, T)]) -> Vec<&'static str> {
    table.iter().map(|(name, _)| *name).collect()
}

#[pymodule]
fn _towpath(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    for (constant, names) in [
        ("ERROR_KINDS", names(Kind::NAMES)),
        ("FRAMINGS", names(Framing::NAMES)),
        ("LAYOUTS", names(Layout::NAMES)),
        ("MODES", names(Mode::NAMES)),
        ("ORDER_FIELDS", FIELDS.to_vec()),
    ] {
        module.add(constant, PyTuple::new(module.py(), names)?)?;
    }
    module.add("DecodeError", module.py().get_type::<DecodeError>())?;
    module.add_class::<PyDecoder>()?;
    module.add_class::<PyKeySet>()?;
    module.add_function(wrap_pyfunction!(cut, module)?)?;
    module.add_function(wrap_pyfunction!(may_match, module)?)?;
    module.add_function(wrap_pyfunction!(dialects, module)?)?;
    module.add_function(wrap_pyfunction!(detect, module)?)?;
    module.add_function(wrap_pyfunction!(is_newer, module)?)?;
    module.add_function(wrap_pyfunction!(statement_bounds, module)?)?;
    module.add_function(wrap_pyfunction!(newest_changes, module)?)?;
    module.add_function(wrap_pyfunction!(change_outcomes, module)?)?;
    module.add_function(wrap_pyfunction!(infer_schema, module)?)
}
