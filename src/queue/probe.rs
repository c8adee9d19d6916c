//! What tests see of the queue from inside: the steps of a push, what it looks at, which way a race went. Nothing of it is
//! compiled elsewhere.

/// The steps of a push, and two of the timer thread, where tests interrupt them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Step {
    /// The entry is in its cell; the tail has not moved.
    Written,
    /// The tail has moved.
    Published,
    /// Before the head passes dead entries.
    Trimming,
    /// The next chunk is claimed; nothing leads to it yet.
    Claimed,
    /// The live entries of the first chunk are copied to a batch.
    Copied,
    /// The batch is in the overflow.
    Pushed,
    /// The batch is announced; the head has not moved.
    Announced,
    /// The overflow is copied; the copy is not in its place.
    Compacted,
    /// The timer thread is about to read a chunk that it does not take out.
    Scanning,
    /// It has read the root, and not yet what was announced of that chain.
    Rooted,
}

/// Counts what a push looks at and moves, and interrupts it, in tests.
pub(super) mod looked {
    use super::Step;
    #[cfg(all(test, not(hashed_wheel_loom)))]
    use std::cell::Cell;

    #[cfg(all(test, not(hashed_wheel_loom)))]
    thread_local! {
        static LOOKED: Cell<usize> = const { Cell::new(0) };
        static MOVED: Cell<usize> = const { Cell::new(0) };
        static INTERRUPT: Cell<Option<Interrupt>> = const { Cell::new(None) };
    }

    #[cfg(all(test, not(hashed_wheel_loom)))]
    type Interrupt = Box<dyn FnMut(Step)>;

    /// Sets what is called at each step of this thread.
    #[cfg(all(test, not(hashed_wheel_loom)))]
    pub(in crate::queue) fn interrupt_by(interrupt: impl FnMut(Step) + 'static) {
        INTERRUPT.set(Some(Box::new(interrupt)));
    }

    #[inline]
    pub(in crate::queue) fn reach(step: Step) {
        #[cfg(all(test, not(hashed_wheel_loom)))]
        if let Some(mut interrupt) = INTERRUPT.take() {
            interrupt(step);
            INTERRUPT.set(Some(interrupt));
        }
        let _ = step;
    }

    #[inline]
    pub(in crate::queue) fn note(entries: usize) {
        #[cfg(all(test, not(hashed_wheel_loom)))]
        LOOKED.set(LOOKED.get() + entries);
        let _ = entries;
    }

    #[inline]
    pub(in crate::queue) fn note_moved(entries: usize) {
        #[cfg(all(test, not(hashed_wheel_loom)))]
        MOVED.set(MOVED.get() + entries);
        let _ = entries;
    }

    /// What this thread has looked at and moved since the last call.
    #[cfg(all(test, not(hashed_wheel_loom)))]
    pub(in crate::queue) fn take() -> (usize, usize) {
        (LOOKED.take(), MOVED.take())
    }
}

/// Tells the models which way a race went.
pub(crate) mod way {
    /// The owner was faster.
    pub(crate) const LOST: u8 = 1;
    /// The reader has moved the head for the owner.
    pub(crate) const HELPED: u8 = 2;
    /// The reader had taken what a batch holds.
    pub(crate) const VOID: u8 = 4;
    /// The owner has put a copy in the place of its overflow.
    pub(crate) const REPLACED: u8 = 8;

    #[cfg(not(all(test, hashed_wheel_loom)))]
    #[inline]
    pub(in crate::queue) fn note(_way: u8) {}

    #[cfg(all(test, hashed_wheel_loom))]
    mod noting {
        use std::cell::Cell;
        // All threads of a model are run by one thread.
        std::thread_local! {
            static WAYS: Cell<u8> = const { Cell::new(0) };
        }
        pub(in crate::queue) fn note(way: u8) {
            WAYS.set(WAYS.get() | way);
        }
        /// All that was noted since the last call.
        pub(crate) fn take() -> u8 {
            WAYS.take()
        }
    }
    #[cfg(all(test, hashed_wheel_loom))]
    pub(in crate::queue) use noting::note;
    #[cfg(all(test, hashed_wheel_loom))]
    pub(crate) use noting::take;
}
