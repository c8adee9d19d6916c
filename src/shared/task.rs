//! Names for boxed closures.

use super::timeout::Timeout;

/// A boxed task: returned by [`Timeout::take_task`], and accepted wherever a task is.
///
/// Any closure that takes a `&Timeout` is a task and needs no box; up to 32 bytes of captures are stored
/// without an allocation. A box is for tasks of different types in one place:
///
/// ```
/// use hashed_wheel::{HashedWheelTimer, Task};
/// use std::time::Duration;
///
/// let timer = HashedWheelTimer::default();
/// let tasks: Vec<Task> = vec![Box::new(|_| println!("one")), Box::new(|_| println!("another"))];
/// for task in tasks {
///     timer.new_timeout(task, Duration::from_secs(1))?;
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub type Task = Box<dyn FnOnce(&Timeout) + Send>;

/// The job that an executor or a thread factory is given, to call once on any thread.
///
/// ```
/// use hashed_wheel::{HashedWheelTimer, Job};
/// use std::thread;
///
/// fn on_a_thread_of_its_own(job: Job) {
///     thread::spawn(job);
/// }
///
/// let timer = HashedWheelTimer::builder().executor(on_a_thread_of_its_own).build()?;
/// # Ok::<(), hashed_wheel::ConfigError>(())
/// ```
pub type Job = Box<dyn FnOnce() + Send>;
