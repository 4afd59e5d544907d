//! Searches for one problem on several threads, each with a seed of its own.
//!
//! The threads race by evaluations and not by the clock. Of the threads that meet the bound, the
//! one with the fewest evaluations wins. Each other thread is stopped only when it has made more
//! evaluations than the winner. So the same seed and the same number of threads give the same
//! schedule, unless the time runs out.

use std::sync::{Mutex, PoisonError};

use binomesh_routing::schedule::search::{self, Found, NotFound, Options, Progress};
use binomesh_routing::schedule::{Problem, bounds};

use crate::parallel;
use crate::record::{self, Stopwatch};

/// The difference between the seeds of two threads: an odd number far from those that the searches
/// add themselves.
const SEED_STEP: u64 = 0x2545_f491_4f6c_dd1d;
/// The share of the time that the lower bound may take, so that some is left for the searches.
/// Guess: with more the searches find less, with less the bound may be lower.
const BOUND_SHARE: f64 = 0.5;
/// The shortest time that a progress line stays.
const TELL_SECONDS: f64 = 0.1;

/// The best schedule that is found within this time.
pub(crate) fn find(
    problem: &Problem,
    options: &Options,
    threads: u8,
    seconds: f64,
) -> Result<Found, NotFound> {
    let watch = Stopwatch::start();
    let has_time = || watch.elapsed().as_secs_f64() < seconds;
    let mut is_for_bound = || watch.elapsed().as_secs_f64() < seconds * BOUND_SHARE;
    let bound = bounds::lower_bound_while(problem, &mut is_for_bound);
    // The evaluations and the number of the leading thread.
    let winner = Mutex::new((u64::MAX, u64::MAX));
    let ahead = || *winner.lock().unwrap_or_else(PoisonError::into_inner);
    let search = |number: u64| {
        let options = Options {
            seed: options.seed.wrapping_add(number.wrapping_mul(SEED_STEP)),
            lower_bound: Some(bound),
            ..options.clone()
        };
        let mut told = -TELL_SECONDS;
        let mut goes_on = |progress: &Progress| {
            let now = watch.elapsed().as_secs_f64();
            if number == 0 && now - told >= TELL_SECONDS {
                told = now;
                tell(progress, now);
            }
            has_time() && (progress.evaluations, number) <= ahead()
        };
        let found = search::find(problem, &options, &mut goes_on)?;
        if found.schedule.steps <= bound.max(options.steps_enough) {
            let mut winner = winner.lock().unwrap_or_else(PoisonError::into_inner);
            *winner = (*winner).min((found.reached_after, number));
        }
        Ok::<Found, NotFound>(found)
    };
    let found = parallel::map(u64::from(threads), threads, search, |_| false, |_| {});
    let found = found
        .into_iter()
        .filter_map(|(number, found)| Some((number, found.ok()?)));
    let best =
        found.min_by_key(|(number, found)| (found.schedule.steps, found.reached_after, *number));
    best.map(|(_, found)| found).ok_or(NotFound)
}

fn tell(progress: &Progress, seconds: f64) {
    let Progress {
        lower_bound,
        trying,
        evaluations,
        ..
    } = progress;
    let Some(method) = progress.method else {
        return;
    };
    let best = progress
        .steps
        .map_or("none".to_owned(), |steps| steps.to_string());
    record::progress(format_args!(
        "{seconds:.0} s: best {best} steps, bound {lower_bound}; {method} tries {trying}, \
         {evaluations} evaluations"
    ));
}

#[cfg(test)]
mod tests {
    use binomesh_routing::schedule::{Collective, Request, Topology};

    use super::*;

    #[test]
    fn the_same_seed_and_threads_find_the_same_schedule() {
        let graph = Topology::generate("mesh:4x4").unwrap();
        let problem = Problem::new(graph, Request::paper(Collective::Aas, None)).unwrap();
        let options = Options {
            method: Some(search::Method::Tabu),
            ..Options::new(3)
        };
        let find = || find(&problem, &options, 3, 1e6).unwrap();
        let first = find();
        assert!(first.is_optimal());
        for _ in 0..4 {
            assert_eq!(find(), first);
        }
    }
}
