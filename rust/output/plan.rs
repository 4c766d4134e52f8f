//! The output plan, compiled once from the options.

use std::sync::Arc;

use arrow_schema::{DataType, Field, FieldRef, Fields};

use crate::event::Needs;
use crate::mysql::types::TypeFamily;
use crate::options::{Filter, Layout, Mode, Options, TableSchema, named};
use crate::output::budget::Budget;
use crate::output::converter::{ColumnOptions, depends_on_declared};
use crate::output::envelope::EnvelopeField;
use crate::output::fields::map_type;
use crate::output::images::{Images, Map, OUT_BEFORE, Table};
use crate::schema::ddl::{self, MAX_DEPTH};

/// The output plan, compiled once from the options.
pub(crate) struct Plan {
    pub layout: Layout,
    pub mode: Mode,
    /// The table's columns, if a schema is given.
    pub table: Option<Fields>,
    /// Name of the struct column that holds the table's columns; `None` if the columns are at top level.
    pub row_column: Option<String>,
    pub fields: Vec<EnvelopeField>,
    /// Bit set of `fields`.
    field_bits: u32,
    pub needs: Needs,
    pub filter: Filter,
    pub missing_is_error: bool,
    /// Options for the conversion of the table's columns.
    pub columns: ColumnOptions,
    /// Bound of the memory for a message's rows.
    pub budget: Budget,
}

impl Plan {
    pub fn new(options: &Options) -> Result<Self, String> {
        let table = table_fields(options)?;
        let fields = envelope_fields(options)?;
        if options.row_column.is_some() && options.layout == Layout::Change {
            return Err(
                "row_column: not available in layout change, which has the table's columns in before and after"
                    .into(),
            );
        }
        let columns = ColumnOptions::new(options, table.clone().unwrap_or_default())?;
        let labels = columns
            .values
            .iter()
            .map(|options| label_bytes(&options.labels))
            .sum();
        let images = images_per_row(options.layout, &fields);
        let mut plan = Plan {
            layout: options.layout,
            row_column: options.row_column.clone(),
            mode: options.mode,
            columns,
            needs: Needs {
                every_cell: false,
                images: false,
                types: false,
                jdbc_types: false,
                encodings: false,
                source: false,
            },
            filter: Filter::new(options)?,
            field_bits: fields
                .iter()
                .fold(0, |bits, field| bits | 1 << *field as u32),
            missing_is_error: options.missing_is_error,
            budget: Budget::new(
                options.max_expansion,
                &fields,
                table.as_ref(),
                labels,
                images,
            ),
            table,
            fields,
        };
        plan.needs = plan.needs();
        plan.images()?;
        Ok(plan)
    }

    fn needs(&self) -> Needs {
        use EnvelopeField as F;
        let has_images = self.has_field(F::Before) || self.has_field(F::After);
        let images = self.layout != Layout::Change
            || self.missing_is_error
            || has_images
            || self.has_field(F::MissingColumns);
        let maps = self.table.is_none() && has_images;
        let typed = self
            .table
            .iter()
            .flatten()
            .any(|field| depends_on_declared(field.data_type()));
        Needs {
            every_cell: maps || self.has_field(F::Changed) || self.layout == Layout::Upsert,
            images,
            types: self.has_field(F::ColumnTypes) || images && typed,
            jdbc_types: self.has_field(F::JdbcTypes),
            encodings: images && self.table.is_some(),
            source: self.has_field(F::Source),
        }
    }

    /// Returns the type of an image column.
    pub fn image_type(&self) -> DataType {
        match &self.table {
            Some(table) => DataType::Struct(table.clone()),
            None => map_type(DataType::Utf8),
        }
    }

    /// Creates the builders of the images, indexed by [`OUT_BEFORE`] and the following constants. Rows before may be
    /// changes of rows after.
    pub fn images(&self) -> Result<[Images; 3], String> {
        let has_both = self.layout != Layout::Change;
        let has_before = has_both || self.has_field(EnvelopeField::Before);
        let has_after = has_both || self.has_field(EnvelopeField::After) || self.has_hidden_base();
        Ok([
            self.image(has_before, true)?,
            self.image(has_after, false)?,
            Images::None,
        ])
    }

    fn image(&self, is_requested: bool, are_changes: bool) -> Result<Images, String> {
        Ok(match &self.table {
            _ if !is_requested => Images::None,
            Some(table) => Images::Table(Table::new(table, &self.columns.values, are_changes)?),
            None => Images::Map(Map::default()),
        })
    }

    /// Returns the name of the image at an index of [`Plan::images`].
    pub fn side(&self, image: usize, op_name: &str) -> &'static str {
        let is_deleted = self.layout == Layout::Upsert && op_name == "delete";
        if image == OUT_BEFORE || is_deleted {
            "before"
        } else {
            "after"
        }
    }

    /// Returns whether after images are built only because before images are changes of them.
    pub fn has_hidden_base(&self) -> bool {
        let (before, after) = (
            self.has_field(EnvelopeField::Before),
            self.has_field(EnvelopeField::After),
        );
        self.layout == Layout::Change && self.table.is_some() && before && !after
    }

    /// Returns for each column whether its values may be JSON objects, by the requested type or the user's declaration.
    pub fn has_objects(&self) -> Vec<bool> {
        let columns = self
            .table
            .iter()
            .flat_map(|table| table.iter())
            .zip(&self.columns.values);
        let has_objects = columns.map(|(field, options)| {
            let declared = options.declared.as_ref();
            field.data_type().is_nested()
                || declared.is_some_and(|declared| declared.family == TypeFamily::Json)
        });
        has_objects.collect()
    }

    /// Returns the name of a column of the table.
    #[allow(clippy::indexing_slicing, reason = "callers have columns of the table")]
    pub fn column(&self, column: usize) -> &str {
        self.columns.fields[column].name()
    }

    /// Returns the number of the table's columns.
    pub fn width(&self) -> usize {
        self.table.as_ref().map_or(0, |table| table.len())
    }

    /// Returns the number of envelope columns before the table's own.
    pub fn leading(&self) -> usize {
        usize::from(self.fields.first() == Some(&EnvelopeField::Op))
    }

    /// Returns whether an envelope column is in the output.
    #[inline]
    pub fn has_field(&self, field: EnvelopeField) -> bool {
        self.field_bits & 1 << field as u32 != 0
    }
}

/// Maximum number of labels in MySQL's SET.
const MAX_SET_LABELS: usize = 64;

/// Returns the bytes of the longest cell with these labels: one label of an enum, or all labels of a set.
fn label_bytes(labels: &[String]) -> usize {
    let lengths = labels.iter().map(|label| label.len() + 1);
    if labels.len() > MAX_SET_LABELS {
        lengths.max().unwrap_or(0)
    } else {
        lengths.sum()
    }
}

/// Returns the table's columns. All are nullable, because rows with an error are null.
fn table_fields(options: &Options) -> Result<Option<Fields>, String> {
    let fields = match &options.schema {
        None if options.layout == Layout::Change => return Ok(None),
        None => return Err("schema: required with the layouts changelog and upsert".into()),
        Some(TableSchema::Ddl(text)) => ddl::parse(text)?,
        Some(TableSchema::Arrow(fields)) => fields.iter().cloned().collect(),
    };
    if let Some(field) = fields.iter().find(|field| !is_shallow(field, MAX_DEPTH)) {
        return Err(format!(
            "schema: column {:?}: types are nested deeper than {MAX_DEPTH} levels",
            field.name()
        ));
    }
    Ok(Some(fields.iter().map(nullable).collect()))
}

fn envelope_fields(options: &Options) -> Result<Vec<EnvelopeField>, String> {
    let Some(names) = &options.fields else {
        return Ok(EnvelopeField::of_layout(options.layout));
    };
    let allowed = EnvelopeField::allowed(options.layout);
    let allowed: Vec<_> = allowed
        .into_iter()
        .map(|field| (field.name(options.layout), field))
        .collect();
    let table: Vec<_> = allowed
        .iter()
        .map(|(name, field)| (name.as_str(), *field))
        .collect();
    let mut fields = Vec::new();
    for name in names {
        let field = named("fields", name, &table)?;
        if fields.contains(&field) {
            return Err(format!("fields: duplicate {name:?}"));
        }
        fields.push(field);
    }
    Ok(fields)
}

/// Returns the number of row images in an output row.
fn images_per_row(layout: Layout, fields: &[EnvelopeField]) -> usize {
    if layout != Layout::Change {
        return 1;
    }
    let images = fields
        .iter()
        .filter(|field| matches!(field, EnvelopeField::Before | EnvelopeField::After));
    images.count()
}

/// Returns whether a field's type is nested at most `levels` deep.
fn is_shallow(field: &Field, levels: usize) -> bool {
    match field.data_type() {
        DataType::List(item) => levels > 0 && is_shallow(item, levels - 1),
        // The entries struct of a map does not count as a level.
        DataType::Map(entries, _) => is_shallow(entries, levels),
        DataType::Struct(fields) => fields
            .iter()
            .all(|field| levels > 0 && is_shallow(field, levels - 1)),
        _ => true,
    }
}

/// Returns the field with all nested fields nullable, except a map's entries and keys.
fn nullable(field: &FieldRef) -> FieldRef {
    let data_type = match field.data_type() {
        DataType::List(item) => DataType::List(nullable(item)),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(nullable).collect()),
        DataType::Map(entries, sorted) => {
            let data_type = match entries.data_type() {
                DataType::Struct(fields) => DataType::Struct(
                    fields
                        .iter()
                        .take(1)
                        .cloned()
                        .chain(fields.iter().skip(1).map(nullable))
                        .collect(),
                ),
                other => other.clone(),
            };
            DataType::Map(
                Arc::new(Field::new(entries.name(), data_type, false)),
                *sorted,
            )
        }
        other => other.clone(),
    };
    Arc::new(Field::new(field.name(), data_type, true))
}
