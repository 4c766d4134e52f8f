//! Bounds of changes among the statements about their table.

use arrow_array::{Int32Array, StructArray};
use arrow_schema::ArrowError;

use super::Orders;
use super::rules::Order;

/// The bounds of each change among ordered statements. Statements count from 1. 0 is before the first one.
pub struct Bounds {
    /// Last statement that the change is after for certain: not only by event times, because an ALTER has the time of
    /// its start.
    pub surely: Int32Array,
    /// Last statement that the change is known to be after.
    pub after: Int32Array,
    /// Last statement that the change may be after.
    pub reached: Int32Array,
}

/// Finds the bounds of changes.
///
/// # Errors
///
/// Fails if the arrays are not order values, or one is null.
pub fn bounds(changes: &StructArray, statements: &StructArray) -> Result<Bounds, ArrowError> {
    let (changes, statements) = (Orders::new(changes)?, Orders::new(statements)?);
    let known = (0..statements.len()).map(|at| statements.known(at));
    let known: Vec<_> = known.collect::<Result<_, ArrowError>>()?;
    let statements: Vec<_> = (1..).zip(known).collect();
    let found = (0..changes.len()).map(|at| Ok(of_change(&changes.known(at)?, &statements)));
    let found: Vec<[i32; 3]> = found.collect::<Result<_, ArrowError>>()?;
    Ok(Bounds {
        surely: found
            .iter()
            .map(|[surely, ..]| *surely)
            .collect::<Vec<_>>()
            .into(),
        after: found
            .iter()
            .map(|[_, after, _]| *after)
            .collect::<Vec<_>>()
            .into(),
        reached: found
            .iter()
            .map(|[.., reached]| *reached)
            .collect::<Vec<_>>()
            .into(),
    })
}

fn of_change(change: &Order<'_>, statements: &[(i32, Order<'_>)]) -> [i32; 3] {
    let [mut surely, mut after, mut reached] = [0; 3];
    for (number, statement) in statements {
        if change.is_surely_after(statement) {
            after = *number;
            if change.is_certain(statement) {
                surely = *number;
            }
        }
        if !change.is_before(statement) {
            reached = *number;
        }
    }
    [surely, after, reached]
}
