//! A task as a slot holds it: in place if it is small, boxed if it is not.
//!
//! [`StoredTask`] owns one closure with its type forgotten: a pointer to a table of functions and
//! 32 bytes. It is moved like any other value; where it lies in a slot, the slot's state word says
//! whose it is.

use crate::Timeout;
use std::fmt;
use std::mem::{self, ManuallyDrop, MaybeUninit};
use std::time::Duration;

/// What `stop` gives back through [`Timeout::take_task`], and what a boxed task looks like.
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

/// What an executor or a thread factory is given: to be called once, on whatever thread it likes.
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

/// When a periodic task comes again.
///
/// A period below one tick runs at every tick. Runs of one timeout never overlap.
///
/// ```
/// use hashed_wheel::{HashedWheelTimer, Period};
/// use std::time::Duration;
///
/// let timer = HashedWheelTimer::default();
/// // Every ten seconds, counted from the first: for what follows the clock.
/// let rate = Period::FixedRate(Duration::from_secs(10));
/// timer.new_periodic(|_| println!("heartbeat"), Duration::ZERO, rate)?;
/// // With ten seconds of rest after each run: for what may take long.
/// let delay = Period::FixedDelay(Duration::from_secs(10));
/// timer.new_periodic(|_| println!("clean up"), Duration::from_secs(60), delay)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Period {
    /// Run *n* is due at the first deadline + *n* × period. The phase is kept for ever; what was
    /// missed is skipped.
    FixedRate(Duration),
    /// The next run is due this long after the end of the one before.
    FixedDelay(Duration),
}

/// What is to be done with the task when it is due or when its timer stops.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// Runs once, wherever tasks run.
    Once,
    /// Runs again and again.
    Periodic,
    /// Wakes a future: always on the timer thread, and never among what `stop` returns.
    Future,
}

type Data = MaybeUninit<[u64; 4]>;

/// The functions of one closure type. `data` points to what [`StoredTask`] was made with.
struct Vtable {
    kind: Kind,
    /// Runs a task of [`Kind::Once`] or [`Kind::Future`] and consumes it.
    run: unsafe fn(data: *mut Data, timeout: &Timeout),
    /// Runs a task of [`Kind::Periodic`] and leaves it in place.
    run_again: unsafe fn(data: *mut Data, timeout: &Timeout),
    /// Drops the task; `None` if there is nothing to drop.
    drop: Option<unsafe fn(data: *mut Data)>,
    /// Moves the task into a box of its own.
    into_task: unsafe fn(data: *mut Data) -> Task,
}

/// An owned task with its type forgotten.
pub(crate) struct StoredTask {
    vtable: &'static Vtable,
    data: Data,
}

// SAFETY: every constructor asks for a closure that is `Send`, and nothing else is inside.
unsafe impl Send for StoredTask {}

impl StoredTask {
    /// A task that runs once.
    #[inline]
    pub(crate) fn once<F: FnOnce(&Timeout) + Send + 'static>(task: F) -> Self {
        StoredTask {
            vtable: &OnceTask::<F, false>::VTABLE,
            data: put(task),
        }
    }

    /// A task that wakes a future.
    #[inline]
    pub(crate) fn future<F: FnOnce(&Timeout) + Send + 'static>(task: F) -> Self {
        StoredTask {
            vtable: &OnceTask::<F, true>::VTABLE,
            data: put(task),
        }
    }

    /// A task that runs again and again.
    pub(crate) fn periodic<F: FnMut(&Timeout) + Send + 'static>(task: F, period: Period) -> Self {
        StoredTask {
            vtable: &PeriodicTask::<F>::VTABLE,
            data: put_boxed(Box::new(PeriodicTask { period, task })),
        }
    }

    #[inline]
    pub(crate) fn kind(&self) -> Kind {
        self.vtable.kind
    }

    /// Runs the task, which is not periodic.
    #[inline]
    pub(crate) fn run(self, timeout: &Timeout) {
        debug_assert_ne!(self.kind(), Kind::Periodic);
        let mut this = ManuallyDrop::new(self);
        // SAFETY: the data is that of the table, and is not used again: `this` is not dropped.
        unsafe { (this.vtable.run)(&raw mut this.data, timeout) }
    }

    /// Runs the periodic task once.
    pub(crate) fn run_again(&mut self, timeout: &Timeout) {
        debug_assert_eq!(self.kind(), Kind::Periodic);
        // SAFETY: the data is that of the table, and stays where it is.
        unsafe { (self.vtable.run_again)(&raw mut self.data, timeout) }
    }

    /// The period of a periodic task.
    pub(crate) fn period(&self) -> Period {
        debug_assert_eq!(self.kind(), Kind::Periodic);
        // SAFETY: a periodic task lies in a box of `PeriodicTask<F>`, which is `repr(C)` and begins
        // with its period whatever `F` is.
        unsafe { *self.data.as_ptr().cast::<*const Period>().read() }
    }

    /// The task in a box of its own, to be called once.
    pub(crate) fn into_task(self) -> Task {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: the data is that of the table, and is not used again: `this` is not dropped.
        unsafe { (this.vtable.into_task)(&raw mut this.data) }
    }

    /// The closure that [`StoredTask::once`] was made with.
    ///
    /// # Safety
    /// `F` is the type it was made with.
    pub(crate) unsafe fn into_once<F>(self) -> F {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: the caller vouches for the type; `this` is not dropped.
        unsafe { take(&raw mut this.data) }
    }

    /// The closure that [`StoredTask::periodic`] was made with.
    ///
    /// # Safety
    /// `F` is the type it was made with.
    pub(crate) unsafe fn into_periodic<F>(self) -> F {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: the caller vouches for the type; `this` is not dropped.
        unsafe { take_boxed::<PeriodicTask<F>>(&raw mut this.data) }.task
    }
}

impl fmt::Debug for StoredTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("StoredTask").field(&self.kind()).finish()
    }
}

impl Drop for StoredTask {
    #[inline]
    fn drop(&mut self) {
        if let Some(drop) = self.vtable.drop {
            // SAFETY: the data is that of the table, and nothing uses it after this.
            unsafe { drop(&raw mut self.data) }
        }
    }
}

/// Whether an `F` lies in place; otherwise a `Box<F>` does.
const fn fits<F>() -> bool {
    size_of::<F>() <= size_of::<Data>() && align_of::<F>() <= align_of::<Data>()
}

#[inline]
fn put<F>(task: F) -> Data {
    if !fits::<F>() {
        return put_boxed(Box::new(task));
    }
    let mut data = Data::uninit();
    // SAFETY: it fits, as was just seen.
    unsafe { data.as_mut_ptr().cast::<F>().write(task) };
    data
}

fn put_boxed<T>(boxed: Box<T>) -> Data {
    let mut data = Data::uninit();
    // SAFETY: a thin pointer fits in 32 bytes that are aligned to 8.
    unsafe {
        data.as_mut_ptr()
            .cast::<*mut T>()
            .write(Box::into_raw(boxed));
    }
    data
}

/// # Safety
/// `data` was made by `put::<F>` and is not used again.
#[inline]
unsafe fn take<F>(data: *mut Data) -> F {
    if fits::<F>() {
        // SAFETY: `put` has written an `F` here.
        unsafe { data.cast::<F>().read() }
    } else {
        // SAFETY: `put` has boxed the `F`.
        *unsafe { take_boxed::<F>(data) }
    }
}

/// # Safety
/// `data` was made by `put_boxed::<T>` and is not used again.
unsafe fn take_boxed<T>(data: *mut Data) -> Box<T> {
    // SAFETY: `put_boxed` has written here what `Box::into_raw` gave it.
    unsafe { Box::from_raw(data.cast::<*mut T>().read()) }
}

/// The table for a closure that is called once.
struct OnceTask<F, const FUTURE: bool>(F);

impl<F: FnOnce(&Timeout) + Send + 'static, const FUTURE: bool> OnceTask<F, FUTURE> {
    const VTABLE: Vtable = Vtable {
        kind: if FUTURE { Kind::Future } else { Kind::Once },
        run: Self::run,
        run_again: |_, _| unreachable!("the task runs once"),
        drop: if mem::needs_drop::<F>() || !fits::<F>() {
            Some(Self::drop)
        } else {
            None
        },
        into_task: Self::into_task,
    };

    /// # Safety
    /// `data` was made by `put::<F>` and is not used again.
    unsafe fn run(data: *mut Data, timeout: &Timeout) {
        // SAFETY: as the caller vouches.
        let task = unsafe { take::<F>(data) };
        task(timeout);
    }

    /// # Safety
    /// `data` was made by `put::<F>` and is not used again.
    unsafe fn drop(data: *mut Data) {
        // SAFETY: as the caller vouches.
        drop(unsafe { take::<F>(data) });
    }

    /// # Safety
    /// `data` was made by `put::<F>` and is not used again.
    unsafe fn into_task(data: *mut Data) -> Task {
        if fits::<F>() {
            // SAFETY: as the caller vouches.
            Box::new(unsafe { take::<F>(data) })
        } else {
            // SAFETY: as the caller vouches, and `put` has boxed it.
            unsafe { take_boxed::<F>(data) }
        }
    }
}

/// A periodic task with its period in front, where [`StoredTask::period`] finds it.
#[repr(C)]
struct PeriodicTask<F> {
    period: Period,
    task: F,
}

impl<F: FnMut(&Timeout) + Send + 'static> PeriodicTask<F> {
    const VTABLE: Vtable = Vtable {
        kind: Kind::Periodic,
        run: |_, _| unreachable!("the task is periodic"),
        run_again: Self::run_again,
        drop: Some(Self::drop),
        into_task: Self::into_task,
    };

    /// # Safety
    /// `data` was made by `put_boxed::<Self>` and nobody else uses it meanwhile.
    unsafe fn run_again(data: *mut Data, timeout: &Timeout) {
        // SAFETY: as the caller vouches, a pointer to a live `Self` lies here.
        let this = unsafe { &mut **data.cast::<*mut Self>() };
        (this.task)(timeout);
    }

    /// # Safety
    /// `data` was made by `put_boxed::<Self>` and is not used again.
    unsafe fn drop(data: *mut Data) {
        // SAFETY: as the caller vouches.
        drop(unsafe { take_boxed::<Self>(data) });
    }

    /// # Safety
    /// `data` was made by `put_boxed::<Self>` and is not used again.
    unsafe fn into_task(data: *mut Data) -> Task {
        // SAFETY: as the caller vouches.
        let mut task = unsafe { take_boxed::<Self>(data) }.task;
        Box::new(move |timeout| task(timeout))
    }
}
