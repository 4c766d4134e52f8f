//! Writer schemas of messages, by their ids in a schema registry.
//!
//! The schema of an id never changes, so it is compiled once and kept for the decoder's lifetime. The reason for a
//! failed fetch belongs to one call, and is not kept.

use std::sync::{Arc, PoisonError, RwLock};

use hashbrown::HashMap;

use super::avro_plan::WriterSchema;
use crate::error::{Fault, Kind, Result};

/// A compiled schema, or the reason why it cannot be compiled.
type Compiled = Result<Arc<WriterSchema>, Arc<str>>;

/// The known schemas of a decoder.
#[derive(Debug, Default)]
pub(crate) struct WriterSchemas {
    known: RwLock<Arc<HashMap<u32, Compiled>>>,
}

/// The schemas known to one call.
#[derive(Clone, Debug, Default)]
pub(crate) struct SchemaSnapshot {
    known: Arc<HashMap<u32, Compiled>>,
    /// Reasons why other schemas could not be fetched.
    unfetched: HashMap<u32, String>,
}

impl WriterSchemas {
    /// Adds a schema, unless its id is known. Fails with the reason if the schema cannot be used.
    pub fn add(&self, id: u32, text: &str, references: &[String]) -> Result<(), String> {
        if self.is_known(id) {
            return Ok(());
        }
        let compiled = WriterSchema::compile(text, references).map(Arc::new);
        let outcome = compiled.as_ref().map(drop).map_err(Clone::clone);
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        Arc::make_mut(&mut known)
            .entry(id)
            .or_insert(compiled.map_err(Arc::from));
        outcome
    }

    pub fn is_known(&self, id: u32) -> bool {
        self.known
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .contains_key(&id)
    }

    pub fn snapshot(&self, unfetched: HashMap<u32, String>) -> SchemaSnapshot {
        SchemaSnapshot {
            known: self
                .known
                .read()
                .unwrap_or_else(PoisonError::into_inner)
                .clone(),
            unfetched,
        }
    }
}

impl SchemaSnapshot {
    /// Returns the schema of an id, or a fault with the reason for its absence.
    pub fn find(&self, id: u32) -> Result<&Arc<WriterSchema>> {
        match self.known.get(&id) {
            Some(Ok(schema)) => Ok(schema),
            Some(Err(what)) => Err(fault(format!("schema id {id} cannot be used: {what}"))),
            None => Err(fault(match self.unfetched.get(&id) {
                Some(why) => format!("unknown schema id {id}: {why}"),
                None => format!(
                    "unknown schema id {id}; set schema_registry, or add it to writer_schemas"
                ),
            })),
        }
    }
}

#[cold]
fn fault(what: String) -> Fault {
    Fault::new(Kind::Envelope, what).at(1)
}
