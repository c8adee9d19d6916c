//! The child process: one run of one workload on one contestant.

use crate::case::{Case, Workload};
use crate::contestant::{array, binary_heap, delay_queue, nexus, own, thread_pool, tokio_sleep};
use crate::workload::{self, Figures, format_line};

type Run = fn(&Case) -> Figures;

/// Runs and prints the line of figures. Ends the process without tearing the timer down: what
/// that costs is no part of any workload.
pub(crate) fn run(contestant: &str, args: &[String]) -> Result<(), String> {
    let case = Case::from_args(args)?;
    let found = match case.workload {
        Workload::Oversubscribed => oversubscribed(contestant),
        Workload::At => own_only(
            contestant,
            [workload::at::hashed, workload::at::hierarchical],
        ),
        Workload::MemoryMixed | Workload::MemoryHeld => own_only(
            contestant,
            [workload::held::hashed, workload::held::hierarchical],
        ),
        Workload::DelayQueue => delay_queue(contestant),
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
        "hashed" => workload::run::<own::Hashed>,
        "hierarchical" => workload::run::<own::Hierarchical>,
        "tokio" => workload::run::<tokio_sleep::Tokio>,
        "delayqueue" => workload::run::<delay_queue::Queue>,
        "pool" => workload::run::<thread_pool::Pool>,
        "nexus" => workload::run::<nexus::Nexus>,
        "binaryheap" => workload::run::<binary_heap::Heap>,
        "array" => workload::run::<array::Array>,
        _ => return None,
    };
    Some(run)
}

fn oversubscribed(contestant: &str) -> Option<Run> {
    let run: Run = match contestant {
        "hashed" => workload::oversubscribed::run::<own::Hashed>,
        "hierarchical" => workload::oversubscribed::run::<own::Hierarchical>,
        "tokio" => workload::oversubscribed::run::<tokio_sleep::MultiThread>,
        _ => return None,
    };
    Some(run)
}

/// The two queues of values: this crate's on its hashed wheel, and tokio-util's behind a mutex.
fn delay_queue(contestant: &str) -> Option<Run> {
    match contestant {
        "hashed" => Some(workload::run::<own::Values>),
        "delayqueue" => Some(workload::run::<delay_queue::Queue>),
        _ => None,
    }
}

fn own_only(contestant: &str, [hashed, hierarchical]: [Run; 2]) -> Option<Run> {
    match contestant {
        "hashed" => Some(hashed),
        "hierarchical" => Some(hierarchical),
        _ => None,
    }
}
