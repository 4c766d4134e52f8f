//! CPU time of this thread if the system provides it, otherwise wall time.

use std::time::Instant;

use criterion::measurement::{Measurement, ValueFormatter, WallTime};

pub struct CpuTime;

impl CpuTime {
    /// Returns the duration of a call, in nanoseconds.
    pub fn of(call: impl FnOnce()) -> u64 {
        let start = CpuTime.start();
        call();
        CpuTime.end(start)
    }

    /// Returns the thread's nanoseconds. Linux updates them when it schedules the thread, so yield first.
    fn nanos() -> Option<u64> {
        std::thread::yield_now();
        let statistics = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
        statistics.split(' ').next()?.parse().ok()
    }
}

impl Measurement for CpuTime {
    type Intermediate = (Option<u64>, Instant);
    type Value = u64;

    fn start(&self) -> Self::Intermediate {
        (CpuTime::nanos(), Instant::now())
    }

    fn end(&self, (cpu, wall): Self::Intermediate) -> u64 {
        match (cpu, CpuTime::nanos()) {
            (Some(start), Some(end)) => end - start,
            _ => wall.elapsed().as_nanos() as u64,
        }
    }

    fn add(&self, one: &u64, other: &u64) -> u64 {
        one + other
    }

    fn zero(&self) -> u64 {
        0
    }

    fn to_f64(&self, nanos: &u64) -> f64 {
        *nanos as f64
    }

    fn formatter(&self) -> &dyn ValueFormatter {
        WallTime.formatter()
    }
}
