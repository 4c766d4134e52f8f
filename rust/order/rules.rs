//! The rules that compare two order values.
//!
//! The first rule that knows both changes decides:
//!
//! | rule | compares |
//! |---|---|
//! | TiDB | commit times; within one commit, a row is newer than a delete (TiCDC writes a changed key as both) |
//! | binlog | places in one log; if place and event time contradict each other, Kafka's timestamps |
//! | failover | places in two logs: the fields of the struct |
//! | partition | offsets in one partition, unless the topic was recreated between the two |
//! | otherwise | the fields of the struct, from the first to the last |
//!
//! An offset is better than an event time. MySQL's event time is the start of the statement. So a statement that waited
//! for a lock comes later in the binlog with an earlier time.

use std::cmp::Ordering;

pub use super::order_values::Order;

/// Microseconds by which timestamps differ at least if the topic was recreated. Concurrent producers' timestamps differ
/// by some milliseconds.
const RECREATED_AFTER: i64 = 1_000_000;

impl<'a> Order<'a> {
    /// Returns whether this change is newer than another one. Every change is newer than an unknown one.
    pub fn is_newer(&self, other: Option<&Order<'_>>) -> bool {
        let Some(other) = other else { return true };
        if let Some(commits) = both(self.commit_ts, other.commit_ts) {
            return commits.is_gt()
                || commits.is_eq() && self.is_row == Some(true) && other.is_row == Some(false);
        }
        match both(self.log, other.log) {
            Some(Ordering::Equal) => self
                .is_after_in_log(other)
                .unwrap_or_else(|| self.is_after(other)),
            Some(_) => self > other,
            None => self.is_after(other),
        }
    }

    /// Returns the value with the later of both event times, so that changes of other partitions are compared with that
    /// time.
    pub fn not_before(self, other: Option<&Order<'_>>) -> Self {
        Order {
            event_time: self
                .event_time
                .max(other.and_then(|other| other.event_time)),
            ..self
        }
    }

    /// Returns whether the source's order of this statement and a change is known.
    ///
    /// In different partitions, without commit times and binlog places, canal's batches tell the order if times do not
    /// contradict them. Without batches, times tell it. Times are start times, so they say nothing within a batch:
    /// either may have waited for the other's lock. If the later batch has the earlier time, it may have waited, or
    /// canal may have sent it again.
    pub fn is_ordered(&self, change: &Order<'_>) -> bool {
        if self.is_certain(change) {
            return true;
        }
        match (
            both(self.event_time, change.event_time),
            self.compare_batches(change),
        ) {
            (None, _) | (_, Some(Ordering::Equal)) => false,
            (Some(times), None) => times.is_ne(),
            (Some(times), Some(batches)) => times.is_eq() || times == batches,
        }
    }

    /// Returns the order in which canal wrote two batches, if known.
    fn compare_batches(&self, other: &Order<'_>) -> Option<Ordering> {
        if self.produced_time == other.produced_time {
            return both(self.batch, other.batch);
        }
        both(self.produced_time, other.produced_time)
    }

    /// Returns whether this change is known to be older than a statement.
    pub fn is_before(&self, statement: &Order<'_>) -> bool {
        statement.is_ordered(self) && statement.is_newer(Some(self))
    }

    /// Returns whether this change is known to be newer than a statement.
    pub fn is_surely_after(&self, statement: &Order<'_>) -> bool {
        statement.is_ordered(self) && !statement.is_newer(Some(self))
    }

    /// Returns whether the order of two values is independent of times: they are in one log, in one partition, or in
    /// TiDB.
    pub fn is_certain(&self, other: &Order<'_>) -> bool {
        let logs = both(self.log, other.log);
        let is_failover = logs.is_some_and(Ordering::is_ne);
        both(self.commit_ts, other.commit_ts).is_some()
            || logs.is_some_and(Ordering::is_eq)
            || !is_failover && self.is_in_partition_of(other)
    }

    fn is_in_partition_of(&self, other: &Order<'_>) -> bool {
        both(self.topic, other.topic).is_some_and(Ordering::is_eq)
            && both(self.partition, other.partition).is_some_and(Ordering::is_eq)
    }

    /// Returns whether this change is after another one in the log. `None` if both have the same place, or one has no
    /// place.
    ///
    /// A change has a lower place and a later event time if the server's binlogs were reset. It has a higher place and
    /// an earlier event time if it waited for a lock. Kafka's timestamps distinguish the two cases.
    fn is_after_in_log(&self, other: &Order<'_>) -> Option<bool> {
        let files = both(self.file, other.file)?;
        let after = match files.then(both(self.at, other.at)?) {
            Ordering::Equal => return None,
            place => place.is_gt(),
        };
        let arrived = both(self.timestamp, other.timestamp);
        Some(match (after, both(self.event_time, other.event_time)) {
            (true, Some(Ordering::Less)) => arrived.is_some_and(Ordering::is_ge),
            (false, Some(Ordering::Greater)) => arrived.is_none_or(Ordering::is_gt),
            _ => after,
        })
    }

    fn is_after(&self, other: &Order<'_>) -> bool {
        if !self.is_in_partition_of(other) {
            return self > other;
        }
        let place = both(self.offset, other.offset).zip(both(self.step, other.step));
        let is_later = place.is_some_and(|(offsets, steps)| offsets.then(steps).is_gt());
        self.is_recreated_since(other) || is_later && !other.is_recreated_since(self)
    }

    /// Returns whether the topic was recreated between two changes of a partition: this change is later, but its offset
    /// is not higher.
    fn is_recreated_since(&self, other: &Order<'_>) -> bool {
        let is_lower = both(self.offset, other.offset).is_some_and(Ordering::is_le);
        let events = both(self.event_time, other.event_time);
        is_lower
            && match self.timestamp.zip(other.timestamp) {
                None => events.is_some_and(Ordering::is_gt),
                Some((one, other)) => {
                    one > other.saturating_add(RECREATED_AFTER)
                        && events.is_none_or(Ordering::is_ge)
                }
            }
    }
}

/// Compares two known values.
fn both<T: Ord>(one: Option<T>, other: Option<T>) -> Option<Ordering> {
    one.zip(other).map(|(one, other)| one.cmp(&other))
}
