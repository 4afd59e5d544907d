//! Runs numbered tasks, such as seeds, on several threads, with results that do not depend on the
//! threads.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// The results of `run` for the numbers below `count`, by number. Results behind the lowest number
/// whose result is `enough` are not kept. `tell` sees all results so far after each.
pub fn map<T: Send>(
    count: u64,
    threads: u8,
    run: impl Fn(u64) -> T + Sync,
    enough: impl Fn(&T) -> bool + Sync,
    tell: impl Fn(&BTreeMap<u64, T>) + Sync,
) -> BTreeMap<u64, T> {
    let (next, end) = (AtomicU64::new(0), AtomicU64::new(count));
    let results = Mutex::new(BTreeMap::new());
    let work = || loop {
        let number = next.fetch_add(1, Ordering::Relaxed);
        if number >= end.load(Ordering::Relaxed) {
            break;
        }
        let result = run(number);
        if enough(&result) {
            end.fetch_min(number + 1, Ordering::Relaxed);
        }
        let mut results = results.lock().unwrap_or_else(|poison| poison.into_inner());
        results.insert(number, result);
        tell(&results);
    };
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(work);
        }
    });
    let results = results.into_inner();
    let mut results = results.unwrap_or_else(|poison| poison.into_inner());
    results.split_off(&end.into_inner());
    results
}

/// How many threads the processors can run at once.
pub fn processors() -> u8 {
    let count = std::thread::available_parallelism().map_or(1, usize::from);
    u8::try_from(count).unwrap_or(u8::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_the_same_whatever_the_threads() {
        for threads in [1, 4] {
            let all = map(50, threads, |n| n * n, |_| false, |_| {});
            assert!(all.iter().all(|(n, square)| *square == n * n) && all.len() == 50);
            let some = map(50, threads, |n| n, |n| *n == 7 || *n == 30, |_| {});
            assert!(some.into_keys().eq(0..=7));
        }
    }
}
