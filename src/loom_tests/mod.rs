//! Every protocol of the crate under every interleaving, as far as loom goes: run with
//!
//! ```sh
//! RUSTFLAGS="--cfg hashed_wheel_loom" cargo test --release --lib loom
//! ```
//!
//! and, for the long run, with `LOOM_MAX_PREEMPTIONS=3` in front; without it, a run has at most two
//! preemptions at places that matter.
//!
//! A test is a model, a closure that [`explore`] calls once for every interleaving of its threads,
//! and the list of its legal *ends*. Every run must come to one of them, and over all runs each must
//! have been reached: so a model that by mistake explores nothing fails, and a list that is longer
//! than the truth does, too.

mod timer;

use std::collections::HashMap;
use std::fmt::Debug;
use std::hash::Hash;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Instant;

/// Preemptions of a run, unless the environment says otherwise.
const PREEMPTIONS: usize = 2;
/// Steps of a run beyond which it is taken to spin without end.
const STEPS: usize = 4000;

/// Runs `model` in every interleaving. What it returns is how the run ended.
fn explore<E, const N: usize>(ends: [E; N], model: impl Fn() -> E + Send + Sync + 'static)
where
    E: Debug + Eq + Hash + Clone + Send + Sync + 'static,
{
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(Some(PREEMPTIONS));
    builder.max_branches = STEPS;

    let seen = Arc::new(Mutex::new(HashMap::<E, usize>::new()));
    let begun = Instant::now();
    let (counts, legal) = (Arc::clone(&seen), ends.clone());
    builder.check(move || {
        let end = model();
        assert!(legal.contains(&end), "not a legal end: {end:?}");
        *counts.lock().unwrap().entry(end).or_default() += 1;
    });

    let seen = seen.lock().unwrap();
    let runs: usize = seen.values().sum();
    println!(
        "{}: {runs} runs in {:.1?}: {seen:?}",
        thread::current().name().unwrap_or_default(),
        begun.elapsed()
    );
    for end in ends {
        assert!(seen.contains_key(&end), "no run ended so: {end:?}");
    }
}
