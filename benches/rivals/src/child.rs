//! The child process: one run of one workload on one contestant.

use crate::case::Case;
#[cfg(feature = "own")]
use crate::contestant::own;
use crate::contestant::{
    array, async_io, binary_heap, btree, delay_queue, hash_wheel, thread_pool, tokio_sleep,
};
use crate::workload::{self, Figures, format_line};

/// Runs and prints the line of figures. Ends the process without tearing the timer down: what
/// that costs is no part of any workload.
pub(crate) fn run(contestant: &str, args: &[String]) -> Result<(), String> {
    let case = Case::from_args(args)?;
    let run: fn(&Case) -> Figures = match contestant {
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
        "array" => workload::run::<array::Array>,
        other => return Err(format!("there is no contestant `{other}`")),
    };
    let figures = run(&case);
    println!("{}", format_line(&figures));
    std::process::exit(0)
}
