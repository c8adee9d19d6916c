//! The child process: one run of one workload on one contestant.

use crate::case::{Case, Workload};
#[cfg(feature = "own")]
use crate::contestant::own;
use crate::contestant::{
    array, async_io, binary_heap, btree, delay_queue, hash_wheel, thread_pool, tokio_sleep,
};
#[cfg(feature = "more")]
use crate::contestant::{futures_timer, kestrel, nexus, timer_wheel};
use crate::workload::{self, Figures, format_line};

type Run = fn(&Case) -> Figures;

/// Runs and prints the line of figures. Ends the process without tearing the timer down: what
/// that costs is no part of any workload.
pub(crate) fn run(contestant: &str, args: &[String]) -> Result<(), String> {
    let case = Case::from_args(args)?;
    let found = match case.workload {
        Workload::Oversubscribed => oversubscribed(contestant),
        Workload::At => at(contestant),
        _ => any(contestant),
    };
    let run = found.ok_or_else(|| {
        let workload = case.workload.name();
        format!("there is no contestant `{contestant}` for {workload}")
    })?;
    let figures = run(&case);
    println!("{}", format_line(&figures));
    std::process::exit(0)
}

fn any(contestant: &str) -> Option<Run> {
    let run: Run = match contestant {
        #[cfg(feature = "own")]
        "hashed" => workload::run::<own::Hashed>,
        #[cfg(feature = "own")]
        "hierarchical" => workload::run::<own::Hierarchical>,
        "tokio" => workload::run::<tokio_sleep::Tokio>,
        "delayqueue" => workload::run::<delay_queue::Queue>,
        "hhwt" => workload::run::<hash_wheel::HashWheel>,
        "async-io" => workload::run::<async_io::AsyncIo>,
        "pool" => workload::run::<thread_pool::Pool>,
        "btreemap" => workload::run::<btree::Tree>,
        "binaryheap" => workload::run::<binary_heap::Heap>,
        #[cfg(feature = "more")]
        "nexus" => workload::run::<nexus::Nexus>,
        #[cfg(feature = "more")]
        "futures-timer" => workload::run::<futures_timer::FuturesTimer>,
        #[cfg(feature = "more")]
        "timerwheel" => workload::run::<timer_wheel::TimerWheel>,
        #[cfg(feature = "more")]
        "kestrel" => workload::run::<kestrel::Kestrel>,
        #[cfg(tokio_unstable)]
        "tokio-alt" => workload::run::<tokio_sleep::AltTimer>,
        "array" => workload::run::<array::Array>,
        _ => return None,
    };
    Some(run)
}

fn oversubscribed(contestant: &str) -> Option<Run> {
    let run: Run = match contestant {
        #[cfg(feature = "own")]
        "hashed" => workload::oversubscribed::run::<own::Hashed>,
        #[cfg(feature = "own")]
        "hierarchical" => workload::oversubscribed::run::<own::Hierarchical>,
        "tokio" => workload::oversubscribed::run::<tokio_sleep::MultiThread>,
        #[cfg(tokio_unstable)]
        "tokio-alt" => workload::oversubscribed::run::<tokio_sleep::AltTimer>,
        _ => return None,
    };
    Some(run)
}

#[cfg(feature = "own")]
fn at(contestant: &str) -> Option<Run> {
    match contestant {
        "hashed" => Some(workload::at::hashed),
        "hierarchical" => Some(workload::at::hierarchical),
        _ => None,
    }
}

#[cfg(not(feature = "own"))]
fn at(_contestant: &str) -> Option<Run> {
    None
}
