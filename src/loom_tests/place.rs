//! Where the timer thread finds an armed slot: `slots/slot/place.rs` on real slots, queue and reader, with a list for a wheel.
//! At the end of each run the slot is armed and no call is under way. After one more look, the timer thread must have an entry of
//! the slot that counts, at its due tick or earlier. Not modelled: the backlog, equal entries, discarded pages.

use super::{Probe, Slot, arm_number, explore, unexplored};
use crate::entry::{Entry, Lane, SlotId};
use crate::queue::{PendingQueue, Reader};
use crate::slots::{Handle, Place, Slots};
use crate::sync::Ordering;
use crate::time::Tick;
use loom::thread;
use std::sync::Arc;

const ID: SlotId = SlotId::from_number(0);
/// A tick that is far at time zero.
const FAR: u64 = 1 << 28;
/// A slot that is due at this tick, or later but not far away, waits in a late lane.
const LATE: u64 = 100;

/// A timer with one slot.
struct Timer {
    slots: Slots<()>,
    queue: PendingQueue,
}

impl Timer {
    fn new() -> Arc<Timer> {
        Arc::new(Timer {
            slots: Slots::new(),
            queue: PendingQueue::new(),
        })
    }

    fn slot(&self) -> &Slot {
        self.slots.get(ID)
    }

    fn push(&self, shard: u32, lane: Lane, due: u64) {
        let shard = self.queue.shard(shard);
        self.queue.push(shard, lane, ID, Tick(due), || Tick::ZERO);
    }

    /// As `Shared::schedule`.
    fn arm(&self, shard: u32, due: u64) -> Place {
        let lane = lane(due);
        let (place, _) = arm_number(self.slot(), Probe::default().task(), due, lane);
        self.make_findable(place, lane, shard, due);
        place
    }

    /// As `Shared::is_found` and `Shared::enqueue`.
    fn make_findable(&self, place: Place, lane: Lane, shard: u32, due: u64) {
        match place {
            Place::Filed => {}
            Place::Far if self.slots.far(ID).load(Ordering::SeqCst) <= due => {}
            Place::Queued => self.queue.hasten(Tick(due), || Tick::ZERO),
            Place::Late if self.queue.expects(Tick(due)) => {}
            Place::Late => {
                let shard = self.queue.shard(shard);
                self.queue.expect(shard, Tick(due), false, || Tick::ZERO);
            }
            Place::Far => self.push(shard, Lane::Soon, due),
            Place::Nowhere => self.push(shard, lane, due),
        }
    }

    /// Cancels the timeout and frees the slot.
    fn end(&self) {
        assert!(self.slot().cancel(|| ()));
        let _ = self.slot().release_here(Handle::User);
        self.slot().free_here();
    }

    /// As `Timeout::reset`.
    fn reset(&self, shard: u32, due: u64) -> Place {
        assert!(self.slot().reset(Tick(due)));
        self.make_findable_for(shard, due)
    }

    /// As a future that exchanges its task, and a periodic one on an executor: the slot is not armed for a while.
    fn rearm(&self, shard: u32, due: u64) -> Place {
        let (running, task) = self.slot().begin_replace(ID).unwrap();
        let rearmed = self.slot().rearm(running, task, 1, Tick(due), 0);
        assert!(rearmed.is_ok());
        self.make_findable_for(shard, due)
    }

    /// As `Shared::make_findable_for`.
    fn make_findable_for(&self, shard: u32, due: u64) -> Place {
        let place = self.slot().place(Tick(due), lane(due));
        self.make_findable(place, Lane::Soon, shard, due);
        place
    }
}

fn lane(due: u64) -> Lane {
    match due {
        LATE..FAR => Lane::Late,
        _ => Lane::Soon,
    }
}

/// The timer thread.
struct Worker {
    timer: Arc<Timer>,
    reader: Reader,
    wheel: Vec<Entry>,
    now: Tick,
}

impl Worker {
    fn new(timer: &Arc<Timer>) -> Worker {
        Worker {
            timer: Arc::clone(timer),
            reader: Reader::default(),
            wheel: Vec::new(),
            now: Tick::ZERO,
        }
    }

    /// The timer thread when it knows of a slot in late lanes that is due at `due`. The thread of that shard has said so.
    fn with_late_due(timer: &Arc<Timer>, shard: u32, due: u64) -> Worker {
        let (mut worker, queue) = (Worker::new(timer), &timer.queue);
        queue.expect(queue.shard(shard), Tick(due), false, || Tick::ZERO);
        worker.reader.look(queue);
        assert_eq!(worker.reader.late_due(), Tick(due));
        worker
    }

    /// The timer thread when the slot is filed for `due`, and free.
    fn filed(timer: &Arc<Timer>, due: u64) -> Worker {
        let mut worker = Worker::new(timer);
        assert_eq!(timer.arm(0, due), Place::Nowhere);
        worker.transfer();
        assert_eq!(worker.wheel, [Entry::new(Tick(due), ID)]);
        timer.end();
        worker
    }

    /// As `Engine::transfer`.
    fn transfer(&mut self) {
        let timer = Arc::clone(&self.timer);
        self.reader.look(&timer.queue);
        let mut taken = Vec::new();
        self.reader
            .take(&timer.queue, &mut |ids, lane| taken.push((ids[0], lane)));
        for (id, lane) in taken {
            timer.slots.clear_queued(&[id], lane);
            self.file();
        }
    }

    /// As `Engine::take_late`, all at once.
    fn take_late(&mut self) {
        self.reader.open_late(&self.timer.queue);
        self.transfer();
    }

    /// As `Engine::take_late`, a part.
    fn take_late_part(&mut self) {
        let timer = Arc::clone(&self.timer);
        self.reader.look(&timer.queue);
        let mut taken = 0;
        self.reader
            .take_late(&timer.queue, 1, &mut |ids, _| taken += ids.len());
        for _ in 0..taken {
            timer.slots.clear_queued(&[ID], Lane::Late);
            self.file();
        }
    }

    fn file(&mut self) {
        self.wheel.extend(self.timer.slots.file(ID, self.now));
    }

    /// As `Engine::meet`, at boundary `now`, without a claim. Returns `true` if the slot is due.
    fn meet(&mut self, now: u64) -> bool {
        self.now = Tick(now);
        let due = self.wheel.iter().position(|entry| entry.due() <= self.now);
        let Some(place) = due else { return false };
        let entry = self.wheel.remove(place);
        if self.timer.slots.clear_filed(&mut [entry], &[]) == 0 {
            return false;
        }
        match self.timer.slot().find() {
            Some(found) if found.due <= self.now => true,
            Some(_) => {
                self.file();
                false
            }
            None => false,
        }
    }

    /// Removes dead entries.
    fn sweep(&mut self) {
        let (slots, now) = (&self.timer.slots, self.now);
        self.wheel.retain(|entry| !slots.is_dead(*entry, now));
    }

    /// No call is under way: after one more look, the slot is in the wheel for `due` or earlier. If the timer thread knows that
    /// late numbers are due by then, it takes them.
    fn finds(mut self, due: u64) {
        self.transfer();
        if self.reader.late_due() <= Tick(due) {
            self.take_late();
        }
        let (slot, slots, now) = (self.timer.slot(), &self.timer.slots, self.now);
        assert_eq!(slot.status().due, Tick(due));
        let counts = |entry: &Entry| entry.due() <= Tick(due) && !slots.is_dead(*entry, now);
        assert!(self.wheel.iter().any(counts), "lost: {:?}", self.wheel);
        assert!(slot.disarm().is_some());
    }
}

/// The number of a free slot waits. The slot is armed again, through another shard, while the number is popped.
#[test]
fn a_slot_that_is_armed_while_its_number_is_popped_is_found() {
    for due in [3, 9] {
        explore([Place::Queued, Place::Nowhere, Place::Filed], move || {
            let timer = Timer::new();
            let mut worker = Worker::new(&timer);
            unexplored(|| {
                assert_eq!(timer.arm(0, 5), Place::Nowhere);
                timer.end();
            });
            let caller = thread::spawn({
                let timer = Arc::clone(&timer);
                move || timer.arm(1, due)
            });
            worker.transfer();
            let place = caller.join().unwrap();
            worker.finds(due);
            place
        });
    }
}

/// The wheel meets the entry of a free slot, or sweeps it, while the slot is armed for later.
#[test]
fn a_slot_that_is_armed_for_later_while_its_entry_is_met_is_found() {
    for sweeps in [false, true] {
        explore([Place::Filed, Place::Nowhere], move || {
            let timer = Timer::new();
            let mut worker = unexplored(|| Worker::filed(&timer, 5));
            let caller = thread::spawn({
                let timer = Arc::clone(&timer);
                move || timer.arm(0, 9)
            });
            if sweeps {
                worker.sweep();
            } else {
                assert!(!worker.meet(5));
            }
            let place = caller.join().unwrap();
            worker.finds(9);
            place
        });
    }
}

/// The same where the timeout has been moved to later, and is moved again: the entry is filed anew, for one of the two.
#[test]
fn a_timeout_that_is_moved_while_its_entry_is_filed_anew_is_found() {
    for due in [7, 9] {
        explore([Place::Filed, Place::Nowhere], move || {
            let timer = Timer::new();
            let mut worker = unexplored(|| {
                let worker = Worker::filed(&timer, 5);
                assert_eq!(timer.arm(0, 8), Place::Filed);
                worker
            });
            let caller = thread::spawn({
                let timer = Arc::clone(&timer);
                move || timer.reset(0, due)
            });
            assert!(!worker.meet(5));
            let place = caller.join().unwrap();
            worker.finds(due);
            place
        });
    }
}

/// A slot that is filed late is armed for sooner, while the timer thread files it, lower, for another arming.
#[test]
fn a_slot_that_is_armed_for_sooner_while_it_is_filed_is_found() {
    explore([Place::Queued, Place::Filed, Place::Nowhere], || {
        let timer = Timer::new();
        let mut worker = unexplored(|| {
            let worker = Worker::filed(&timer, 9);
            assert_eq!(timer.arm(0, 5), Place::Nowhere);
            worker
        });
        let caller = thread::spawn({
            let timer = Arc::clone(&timer);
            move || {
                timer.end();
                timer.arm(0, 6)
            }
        });
        worker.transfer();
        let place = caller.join().unwrap();
        worker.finds(6);
        place
    });
}

/// Of two resets of one timeout, the first is suspended for ever after it has written the word. The second is found all the same:
/// for an earlier tick than the first, a later one, or the same.
#[test]
fn a_reset_is_found_although_another_is_suspended_before_its_push() {
    for due in [2, 3, 4] {
        explore([Place::Nowhere, Place::Filed], move || {
            let timer = Timer::new();
            let mut worker = unexplored(|| {
                let worker = Worker::filed(&timer, 9);
                assert_eq!(timer.arm(0, 9), Place::Filed);
                assert!(timer.slot().reset(Tick(3)), "and no more of it");
                worker
            });
            let caller = thread::spawn({
                let timer = Arc::clone(&timer);
                move || timer.reset(1, due)
            });
            let other = thread::spawn({
                let timer = Arc::clone(&timer);
                // A number that another call has pushed.
                move || timer.push(0, Lane::Soon, 9)
            });
            worker.transfer();
            other.join().unwrap();
            let place = caller.join().unwrap();
            worker.finds(due);
            place
        });
    }
}

/// A timeout is armed again, with another task, while its number is popped or its entry is met.
#[test]
fn a_timeout_that_is_armed_again_while_the_worker_looks_at_it_is_found() {
    explore([Place::Queued, Place::Nowhere, Place::Filed], || {
        let timer = Timer::new();
        let mut worker = Worker::new(&timer);
        unexplored(|| assert_eq!(timer.arm(0, 5), Place::Nowhere));
        let caller = thread::spawn({
            let timer = Arc::clone(&timer);
            move || timer.rearm(1, 5)
        });
        worker.transfer();
        let place = caller.join().unwrap();
        worker.finds(5);
        place
    });
    explore([Place::Nowhere, Place::Filed], || {
        let timer = Timer::new();
        let mut worker = unexplored(|| {
            let worker = Worker::filed(&timer, 5);
            assert_eq!(timer.arm(0, 9), Place::Filed);
            worker
        });
        let caller = thread::spawn({
            let timer = Arc::clone(&timer);
            move || timer.rearm(1, 9)
        });
        assert!(!worker.meet(5));
        let place = caller.join().unwrap();
        worker.finds(9);
        place
    });
}

/// The slot is filed at a far tick, after an earlier far tick that has passed. Meanwhile it is armed for a tick between the two, or
/// after both.
#[test]
fn a_slot_that_is_armed_while_it_is_filed_far_away_is_found() {
    for due in [5, 9, 12] {
        explore([Place::Queued, Place::Nowhere, Place::Far], move || {
            let timer = Timer::new();
            let mut worker = unexplored(|| {
                let mut worker = Worker::filed(&timer, FAR);
                assert!(!worker.meet(FAR));
                assert_eq!(timer.arm(0, 2 * FAR + 9), Place::Nowhere);
                worker
            });
            let caller = thread::spawn({
                let timer = Arc::clone(&timer);
                move || {
                    timer.end();
                    timer.arm(1, 2 * FAR + due)
                }
            });
            worker.transfer();
            let place = caller.join().unwrap();
            worker.finds(2 * FAR + due);
            place
        });
    }
}

/// The handover: a slot that one thread has queued for late is armed by another for soon, while the timer thread sleeps or
/// falls asleep. The number waits in the first one's shard; the second wakes the timer thread.
#[test]
fn a_slot_that_waits_and_is_armed_for_sooner_wakes_the_worker() {
    explore([Place::Queued, Place::Nowhere, Place::Filed], || {
        let timer = Timer::new();
        timer.queue.parker.register_worker();
        let callers = thread::spawn({
            let timer = Arc::clone(&timer);
            move || {
                let _ = timer.arm(0, 9);
                timer.end();
                timer.arm(1, 3)
            }
        });
        let mut worker = Worker::new(&timer);
        let finds = |worker: &mut Worker| {
            worker.transfer();
            worker.wheel.iter().any(|entry| entry.due() == Tick(3))
        };
        while !finds(&mut worker) {
            // Another timeout is due at 7.
            let queue = &timer.queue;
            queue
                .parker
                .sleep(Tick(7), true, || None, || finds(&mut worker));
        }
        let place = callers.join().unwrap();
        worker.finds(3);
        place
    });
}

/// A free slot is armed for late, through another shard than the one in whose late lane its number waits, while the timer thread
/// takes the late numbers. Its due tick is that of the other slots there, or earlier.
#[test]
fn a_slot_that_is_armed_for_late_while_late_numbers_are_taken_is_found() {
    for due in [LATE, LATE + 9] {
        explore([Place::Late, Place::Nowhere, Place::Filed], move || {
            let timer = Timer::new();
            let mut worker = unexplored(|| Worker::with_late_due(&timer, 1, LATE + 9));
            unexplored(|| {
                assert_eq!(timer.arm(0, LATE + 9), Place::Nowhere);
                timer.end();
            });
            let caller = thread::spawn({
                let timer = Arc::clone(&timer);
                move || timer.arm(1, due)
            });
            worker.take_late();
            let place = caller.join().unwrap();
            worker.finds(due);
            place
        });
    }
}

/// The same for a timeout that is moved.
#[test]
fn a_timeout_that_is_moved_while_late_numbers_are_taken_is_found() {
    for due in [LATE, LATE + 8] {
        explore([Place::Late, Place::Nowhere, Place::Filed], move || {
            let timer = Timer::new();
            let mut worker = unexplored(|| {
                let worker = Worker::with_late_due(&timer, 1, LATE + 4);
                assert_eq!(timer.arm(0, LATE + 6), Place::Nowhere);
                worker
            });
            let caller = thread::spawn({
                let timer = Arc::clone(&timer);
                move || timer.reset(1, due)
            });
            worker.take_late();
            let place = caller.join().unwrap();
            worker.finds(due);
            place
        });
    }
}

/// The same for a slot that is nowhere: its number is pushed.
#[test]
fn a_slot_that_is_pushed_late_while_late_numbers_are_taken_is_found() {
    for due in [LATE, LATE + 9] {
        explore([Place::Nowhere], move || {
            let timer = Timer::new();
            let mut worker = unexplored(|| Worker::with_late_due(&timer, 0, LATE + 9));
            let caller = thread::spawn({
                let timer = Arc::clone(&timer);
                move || timer.arm(0, due)
            });
            worker.take_late();
            let place = caller.join().unwrap();
            worker.finds(due);
            place
        });
    }
}

/// The same while the timer thread takes a part of the late numbers.
#[test]
fn a_slot_that_is_armed_for_late_while_some_late_numbers_are_taken_is_found() {
    explore([Place::Late, Place::Nowhere, Place::Filed], || {
        let timer = Timer::new();
        let mut worker = Worker::new(&timer);
        unexplored(|| {
            assert_eq!(timer.arm(0, LATE + 9), Place::Nowhere);
            timer.end();
        });
        let caller = thread::spawn({
            let timer = Arc::clone(&timer);
            move || timer.arm(1, LATE)
        });
        worker.take_late_part();
        let place = caller.join().unwrap();
        worker.finds(LATE);
        place
    });
}

/// The timer thread takes the late numbers, among them that of an armed slot, beside a call that arms or moves the slot for `due`.
fn take_late_beside(call: impl FnOnce(&Timer) -> Place + Send + 'static, due: u64) -> Place {
    let timer = Timer::new();
    let mut worker = Worker::new(&timer);
    unexplored(|| assert_eq!(timer.arm(0, LATE + 9), Place::Nowhere));
    let caller = thread::spawn({
        let timer = Arc::clone(&timer);
        move || call(&timer)
    });
    worker.take_late();
    let place = caller.join().unwrap();
    worker.finds(due);
    place
}

/// A slot whose number waits in a late lane is moved, or armed, for soon, while the timer thread takes the late numbers: its number
/// then waits in both lanes. It is armed for late again.
#[test]
fn a_slot_that_is_armed_for_soon_while_late_numbers_are_taken_is_found() {
    explore([Place::Nowhere, Place::Filed], || {
        take_late_beside(|timer| timer.reset(1, 5), 5)
    });
    let arm_for_soon = |timer: &Timer| {
        timer.end();
        timer.arm(1, 5)
    };
    explore([Place::Nowhere, Place::Filed], move || {
        take_late_beside(arm_for_soon, 5)
    });
    let ends = [Place::Queued, Place::Late, Place::Nowhere, Place::Filed];
    explore(ends, move || {
        let arm_for_late_again = move |timer: &Timer| {
            let _ = arm_for_soon(timer);
            timer.end();
            timer.arm(0, LATE)
        };
        take_late_beside(arm_for_late_again, LATE)
    });
}

/// The mark of the late lane is cleared while a call adds that of the soon lane. Once the slot is nowhere, no mark is left: it is
/// armed for late once more.
#[test]
fn a_mark_that_is_cleared_while_another_is_added_does_not_stay() {
    explore([Place::Nowhere], || {
        let timer = Timer::new();
        let mut worker = Worker::new(&timer);
        unexplored(|| {
            assert_eq!(timer.arm(0, LATE + 9), Place::Nowhere);
            timer.end();
        });
        let caller = thread::spawn({
            let timer = Arc::clone(&timer);
            move || {
                let _ = timer.arm(1, 5);
                timer.end();
            }
        });
        worker.take_late();
        caller.join().unwrap();
        worker.transfer();
        assert!(!worker.meet(5));
        let place = timer.arm(0, LATE);
        worker.finds(LATE);
        place
    });
}

/// The handover between late lanes: a slot that one thread has queued is armed by another for a tick before the timer thread
/// means to take late numbers, while the timer thread sleeps or falls asleep.
#[test]
fn a_slot_that_waits_late_and_is_armed_for_less_late_wakes_the_worker() {
    explore([Place::Late], || {
        let timer = Timer::new();
        timer.queue.parker.register_worker();
        let callers = thread::spawn({
            let timer = Arc::clone(&timer);
            move || {
                let _ = timer.arm(0, LATE + 9);
                timer.end();
                timer.arm(1, LATE)
            }
        });
        let mut worker = Worker::new(&timer);
        let knows = |worker: &mut Worker| {
            worker.reader.look(&timer.queue);
            worker.reader.late_due() <= Tick(LATE)
        };
        while !knows(&mut worker) {
            let (queue, plan) = (&timer.queue, worker.reader.late_due());
            queue
                .parker
                .sleep(plan, true, || None, || knows(&mut worker));
        }
        let place = callers.join().unwrap();
        worker.finds(LATE);
        place
    });
}
