//! Words for operations. All dialects compare them without case.

use super::json_members::has_member;
use crate::error::{Fault, Kind, Result, excerpt};
use crate::event::{Envelope, Events, Op};
use crate::wire::json::Cursor;
use crate::wire::json_de::CowStr;

/// Returns the operation for a word.
#[inline]
pub(super) fn any_case(word: &str, operations: &[(&str, Op)]) -> Option<Op> {
    // Nearly all producers write the usual case, whose comparison is cheaper.
    let exact = operations.iter().find(|(known, _)| *known == word);
    exact
        .or_else(|| {
            operations
                .iter()
                .find(|(known, _)| known.eq_ignore_ascii_case(word))
        })
        .map(|(_, op)| *op)
}

/// Returns the fault of rows under an unknown word. Their operation cannot be guessed, and they must not be lost.
#[cold]
pub(super) fn unknown_operation(word: Option<&CowStr<'_>>) -> Fault {
    unknown_word(word.map_or("", |word| &word.0))
}

/// Returns the fault of rows under an unknown word that is not a JSON string.
#[cold]
pub(super) fn unknown_word(word: &str) -> Fault {
    Fault::new(
        Kind::Envelope,
        format!("unknown operation {} with rows", excerpt(word)),
    )
}

/// Returns the fault of a change without a row.
#[cold]
pub(super) fn no_row(op: Op) -> Fault {
    Fault::new(Kind::Envelope, format!("{} without a row", op.name()))
}

/// Returns the fault of a row without the image that its operation needs.
#[cold]
pub(super) fn no_image(op: Op) -> Fault {
    let what = format!("a row of this {} has no image", op.name());
    Fault::new(Kind::Envelope, what)
}

/// Returns the members of a dialect's messages.
type KnownMembers = fn() -> &'static [&'static str];

/// Refuses a record that was read as `other`, if a member unknown to its dialect may hold rows.
#[inline]
pub(super) fn check_other(
    record: &Cursor<'_>,
    known: KnownMembers,
    events: &Events<'_>,
) -> Result<()> {
    match events.rows.last() {
        Some(row) if row.op == Op::Other => check_members(record, known, events.envelope_of(row)),
        _ => Ok(()),
    }
}

#[cold]
fn check_members(
    record: &Cursor<'_>,
    known: KnownMembers,
    envelope: Option<&Envelope<'_>>,
) -> Result<()> {
    let may_have_rows = has_member(record, |name, first| {
        matches!(first, Some(b'{' | b'[')) && !known().contains(&name)
    });
    let word = envelope
        .and_then(|envelope| envelope.source.operation.as_deref())
        .unwrap_or_default();
    if may_have_rows {
        Err(unknown_word(word))
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_compared_without_case() {
        let words = [("INSERT", Op::Insert), ("u", Op::Update)];
        assert_eq!(any_case("Insert", &words), Some(Op::Insert));
        assert_eq!(any_case("U", &words), Some(Op::Update));
        assert_eq!(any_case("upsert", &words), None);
    }
}
