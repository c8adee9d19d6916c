//! A type-erased task: in place up to 32 bytes, boxed beyond.
//!
//! [`StoredTask`] owns one closure: a pointer to a table of functions, and 32 bytes. It moves like any other value. In
//! a slot, the state word says which thread owns it.

use crate::time::Period;
use std::fmt;
use std::mem::{self, ManuallyDrop, MaybeUninit};
use std::sync::Arc;

/// The kind of a task: how it runs, and what `stop` does with it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// Runs once, wherever tasks run.
    Once,
    /// Runs again and again.
    Periodic,
    /// Wakes a future: always on the timer thread, never returned by `stop`.
    Future,
    /// A value of a delay queue: delivered on the timer thread. `stop` leaves it in its slot.
    Value,
}

impl Kind {
    /// Returns `true` for what the user's executor runs, `cancel_all` cancels and `stop` returns.
    pub(crate) fn is_task(self) -> bool {
        matches!(self, Kind::Once | Kind::Periodic)
    }
}

/// Receives values when they are due.
pub(crate) trait Receive<T>: Send + Sync + 'static {
    fn receive(self: Arc<Self>, value: T);
}

/// Room for a value, which is boxed if it needs more.
type Room<const WORDS: usize> = MaybeUninit<[u64; WORDS]>;
type Data = Room<4>;

/// A boxed task, to be called once with an `A`.
pub(crate) type BoxedTask<A> = Box<dyn FnOnce(&A) + Send>;

/// The functions of one closure type, which takes an `&A`. `data` points to the data of the [`StoredTask`].
struct Vtable<A> {
    kind: Kind,
    /// Runs the task. One of [`Kind::Periodic`] stays in place, any other is consumed.
    run: unsafe fn(data: *mut Data, given: &A),
    /// Drops the task; `None` if there is nothing to drop.
    drop: Option<unsafe fn(data: *mut Data)>,
    /// Moves the task into a box of its own.
    into_task: unsafe fn(data: *mut Data) -> BoxedTask<A>,
}

/// An owned, type-erased task, which takes an `&A` when it runs.
pub(crate) struct StoredTask<A: 'static> {
    vtable: &'static Vtable<A>,
    data: Data,
}

// SAFETY: every constructor requires a `Send` closure, and nothing else is inside.
unsafe impl<A> Send for StoredTask<A> {}

impl<A> StoredTask<A> {
    /// A task that runs once.
    pub(crate) fn once<F: FnOnce(&A) + Send + 'static>(task: F) -> Self {
        StoredTask {
            vtable: const { &Vtable::once::<F>(Kind::Once) },
            data: put(task),
        }
    }

    /// A task that wakes a future.
    pub(crate) fn future<F: FnOnce(&A) + Send + 'static>(task: F) -> Self {
        StoredTask {
            vtable: const { &Vtable::once::<F>(Kind::Future) },
            data: put(task),
        }
    }

    /// A task that runs again and again.
    pub(crate) fn periodic<F: FnMut(&A) + Send + 'static>(task: F, period: Period) -> Self {
        StoredTask {
            vtable: const { &Vtable::periodic::<F>() },
            data: put(Box::new(PeriodicTask { period, task })),
        }
    }

    /// A value that `receiver` receives when it is due.
    pub(crate) fn value<T: Send + 'static, R: Receive<T>>(value: T, receiver: Arc<R>) -> Self {
        let addressed = Addressed {
            receiver: Arc::into_raw(receiver),
            value: put(value),
        };
        StoredTask {
            vtable: const { &Vtable::value::<T, R>() },
            data: put(addressed),
        }
    }

    pub(crate) fn kind(&self) -> Kind {
        self.vtable.kind
    }

    /// Runs the task, which is not periodic.
    pub(crate) fn run(self, given: &A) {
        debug_assert_ne!(self.kind(), Kind::Periodic);
        let mut this = ManuallyDrop::new(self);
        // SAFETY: the data is that of the table, and is not used again: `this` is not dropped.
        unsafe { (this.vtable.run)(&raw mut this.data, given) }
    }

    /// Runs the periodic task once.
    pub(crate) fn run_again(&mut self, given: &A) {
        debug_assert_eq!(self.kind(), Kind::Periodic);
        // SAFETY: the data is that of the table, and stays where it is.
        unsafe { (self.vtable.run)(&raw mut self.data, given) }
    }

    /// The period of a periodic task.
    pub(crate) fn period_mut(&mut self) -> &mut Period {
        debug_assert_eq!(self.kind(), Kind::Periodic);
        // SAFETY: a periodic task lies in a box of `PeriodicTask<F>`, which is `repr(C)` and begins
        // with its period whatever `F` is. The box is this task's alone.
        unsafe { &mut *self.data.as_ptr().cast::<*mut Period>().read() }
    }

    /// The task in a box of its own, to be called once.
    pub(crate) fn into_task(self) -> BoxedTask<A> {
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

    /// The value that [`StoredTask::value`] was made with.
    ///
    /// # Safety
    /// `T` and `R` are the types it was made with.
    pub(crate) unsafe fn into_value<T, R>(self) -> T {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: the caller vouches for the types; `this` is not dropped.
        unsafe { take_value::<T, R>(&raw mut this.data) }.0
    }

    /// The address of the receiver of a value.
    ///
    /// # Safety
    /// It was made by [`StoredTask::value`]. It may have been moved out since.
    pub(crate) unsafe fn receiver(&self) -> *const () {
        // SAFETY: an `Addressed<R>` is `repr(C)` and begins with this pointer whatever `R` is. It is not followed.
        unsafe { self.data.as_ptr().cast::<*const ()>().read() }
    }

    /// The closure that [`StoredTask::periodic`] was made with.
    ///
    /// # Safety
    /// `F` is the type it was made with.
    pub(crate) unsafe fn into_periodic<F>(self) -> F {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: the caller vouches for the type; `this` is not dropped.
        unsafe { take::<Box<PeriodicTask<F>>, 4>(&raw mut this.data) }.task
    }
}

impl<A> fmt::Debug for StoredTask<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("StoredTask").field(&self.kind()).finish()
    }
}

impl<A> Drop for StoredTask<A> {
    fn drop(&mut self) {
        if let Some(drop) = self.vtable.drop {
            // SAFETY: the data is that of the table, and nothing uses it after this.
            unsafe { drop(&raw mut self.data) }
        }
    }
}

/// Returns `true` if an `F` is stored in place, `false` if it is boxed.
const fn fits<F, const WORDS: usize>() -> bool {
    size_of::<F>() <= size_of::<Room<WORDS>>() && align_of::<F>() <= align_of::<Room<WORDS>>()
}

fn put<F, const WORDS: usize>(task: F) -> Room<WORDS> {
    let mut data = Room::<WORDS>::uninit();
    // SAFETY: what is written fits: a box is a thin pointer, and there is room for one, aligned to 8.
    unsafe {
        if fits::<F, WORDS>() {
            data.as_mut_ptr().cast::<F>().write(task);
        } else {
            data.as_mut_ptr().cast::<Box<F>>().write(Box::new(task));
        }
    }
    data
}

/// # Safety
/// `data` was made by `put::<F>` and is not used again.
unsafe fn take<F, const WORDS: usize>(data: *mut Room<WORDS>) -> F {
    if fits::<F, WORDS>() {
        // SAFETY: `put` has written an `F` here.
        unsafe { data.cast::<F>().read() }
    } else {
        // SAFETY: `put` has boxed the `F`.
        *unsafe { data.cast::<Box<F>>().read() }
    }
}

/// A value and its receiver, of which it holds a reference count.
#[repr(C)]
struct Addressed<R> {
    receiver: *const R,
    value: Room<3>,
}

/// A periodic task. The period comes first, where [`StoredTask::period_mut`] finds it.
#[repr(C)]
struct PeriodicTask<F> {
    period: Period,
    task: F,
}

impl<A> Vtable<A> {
    /// The table for a closure that is called once.
    const fn once<F: FnOnce(&A) + Send + 'static>(kind: Kind) -> Self {
        Vtable {
            kind,
            run: run_once::<A, F>,
            drop: if mem::needs_drop::<F>() || !fits::<F, 4>() {
                Some(drop_once::<F>)
            } else {
                None
            },
            into_task: box_once::<A, F>,
        }
    }

    /// The table for a value.
    const fn value<T: Send + 'static, R: Receive<T>>() -> Self {
        Vtable {
            kind: Kind::Value,
            run: run_value::<A, T, R>,
            drop: Some(drop_value::<T, R>),
            into_task: |_| unreachable!("a value is no task"),
        }
    }

    /// The table for a closure that is called again and again.
    const fn periodic<F: FnMut(&A) + Send + 'static>() -> Self {
        Vtable {
            kind: Kind::Periodic,
            run: run_periodic::<A, F>,
            drop: Some(drop_once::<Box<PeriodicTask<F>>>),
            into_task: box_periodic::<A, F>,
        }
    }
}

/// # Safety
/// `data` was made by `put::<F>` and is not used again.
unsafe fn run_once<A, F: FnOnce(&A)>(data: *mut Data, given: &A) {
    // SAFETY: as the caller vouches.
    let task = unsafe { take::<F, 4>(data) };
    task(given);
}

/// # Safety
/// `data` was made by [`StoredTask::value`] of these types and is not used again.
unsafe fn take_value<T, R>(data: *mut Data) -> (T, Arc<R>) {
    // SAFETY: as the caller vouches; the pointer came from `Arc::into_raw`, with its count.
    unsafe {
        let mut addressed = take::<Addressed<R>, 4>(data);
        let receiver = Arc::from_raw(addressed.receiver);
        (take::<T, 3>(&raw mut addressed.value), receiver)
    }
}

/// # Safety
/// As for [`take_value`].
unsafe fn run_value<A, T, R: Receive<T>>(data: *mut Data, _: &A) {
    // SAFETY: as the caller vouches.
    let (value, receiver) = unsafe { take_value::<T, R>(data) };
    receiver.receive(value);
}

/// # Safety
/// As for [`take_value`].
unsafe fn drop_value<T, R>(data: *mut Data) {
    // SAFETY: as the caller vouches.
    drop(unsafe { take_value::<T, R>(data) });
}

/// # Safety
/// `data` was made by `put::<F>` and is not used again.
unsafe fn drop_once<F>(data: *mut Data) {
    // SAFETY: as the caller vouches.
    drop(unsafe { take::<F, 4>(data) });
}

/// # Safety
/// `data` was made by `put::<F>` and is not used again.
unsafe fn box_once<A, F: FnOnce(&A) + Send + 'static>(data: *mut Data) -> BoxedTask<A> {
    if fits::<F, 4>() {
        // SAFETY: as the caller vouches.
        Box::new(unsafe { take::<F, 4>(data) })
    } else {
        // SAFETY: as the caller vouches, and `put` has boxed it.
        unsafe { data.cast::<Box<F>>().read() }
    }
}

/// # Safety
/// `data` was made by `put::<Box<PeriodicTask<F>>>` and nobody else uses it meanwhile.
unsafe fn run_periodic<A, F: FnMut(&A)>(data: *mut Data, given: &A) {
    // SAFETY: as the caller vouches, a box with a `PeriodicTask<F>` lies here.
    let this = unsafe { &mut **data.cast::<Box<PeriodicTask<F>>>() };
    (this.task)(given);
}

/// # Safety
/// `data` was made by `put::<Box<PeriodicTask<F>>>` and is not used again.
unsafe fn box_periodic<A, F: FnMut(&A) + Send + 'static>(data: *mut Data) -> BoxedTask<A> {
    // SAFETY: as the caller vouches.
    let mut task = unsafe { take::<Box<PeriodicTask<F>>, 4>(data) }.task;
    Box::new(move |given| task(given))
}
