//! A reader that comes while a push is under way.

use super::super::probe::{Step, looked};
use super::*;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;

#[test]
fn a_reader_that_comes_between_any_two_steps_of_an_owner_gets_everything_once_and_in_order() {
    /// Runs the reader inside the owner's look at an entry, the `at`-th one.
    struct Interrupting<'a> {
        slots: &'a Slots,
        left: Cell<usize>,
        reader: RefCell<(Reader, Wheel<'a>)>,
        queue: &'a PendingQueue,
    }
    impl Liveness for Interrupting<'_> {
        fn prefetch(&self, _: Entry) {}
        fn is_dead(&self, entry: Entry) -> bool {
            let left = self.left.get().wrapping_sub(1);
            self.left.set(left);
            let dead = self.slots.is_dead(entry);
            if left == 0 {
                let (reader, wheel) = &mut *self.reader.borrow_mut();
                reader.look(self.queue, 0);
                reader.transfer(self.queue, Take::Everything, 40, wheel);
            }
            dead
        }
    }
    for at in 1..600 {
        let slots = Slots::new(4000);
        let queue = PendingQueue::new();
        let interrupting = Interrupting {
            slots: &slots,
            left: Cell::new(at * 5),
            reader: RefCell::new((Reader::default(), Wheel::new(&slots))),
            queue: &queue,
        };
        // A third lives on: most are dead, so that promotions happen.
        for number in 0..4000 {
            queue.push(0, queue.shard(0), entry(number, 5), &interrupting, || {
                Tick(0)
            });
            if number % 3 != 0 && number > 50 {
                slots.kill(number - 50);
            }
        }
        let (mut reader, mut wheel) = interrupting.reader.into_inner();
        while {
            reader.look(&queue, 0);
            reader.transfer(&queue, Take::Everything, 1000, &mut wheel) > 0
        } {}
        assert!(
            wheel.filed.is_sorted_by(|a, b| a < b),
            "doubled or out of order at {at}"
        );
        let filed: VecDeque<_> = wheel.filed.into();
        let live = (0..4000).filter(|number| !slots.is_dead(entry(*number, 5)));
        assert!(
            live.into_iter()
                .all(|number| filed.binary_search(&number).is_ok()),
            "lost at {at}"
        );
    }
}

/// A reader that comes while an owner is in the middle of a push.
struct Visitor {
    queue: Arc<PendingQueue>,
    slots: Arc<Slots>,
    reader: Reader,
    due: Option<Tick>,
    now: u64,
    /// The time that passes between two visits.
    pause: u64,
    /// In the order in which they were first filed. An entry that a scan has copied may be filed again.
    filed: Vec<u32>,
    is_filed: Vec<bool>,
}

impl Visitor {
    fn due_of(number: u32) -> u64 {
        [5, 9][number as usize % 2]
    }

    /// Takes all that it wants. `pushed` entries are there.
    fn visit(&mut self, pushed: u32) {
        self.now += self.pause;
        loop {
            self.reader.look(&self.queue, self.now);
            let take = self.due.map_or(Take::Everything, |due| Take::Soon {
                due,
                near: due,
                now: self.now,
            });
            let mut wheel = Wheel::new(&self.slots);
            let moved = self.reader.transfer(&self.queue, take, 500, &mut wheel);
            for number in wheel.filed {
                if !std::mem::replace(&mut self.is_filed[number as usize], true) {
                    self.filed.push(number);
                }
            }
            if moved == 0 && !self.reader.is_interrupted() {
                break;
            }
        }
        let wanted = self.due.unwrap_or(Tick::NEVER);
        for number in 0..pushed {
            let entry = entry(number, Visitor::due_of(number));
            assert!(
                entry.due() > wanted || self.is_filed[number as usize] || self.slots.is_dead(entry),
                "{number} of {pushed} is hidden or lost"
            );
        }
    }
}

/// Lets a visitor come at every `period`-th time that an owner reaches `step`. Returns how often it came.
fn interrupt_pushes(step: Step, period: u32, due: Option<Tick>, pause: u64) -> u32 {
    let count = if cfg!(miri) { 2500 } else { 6000 };
    let queue = Arc::new(PendingQueue::new());
    let slots = Arc::new(Slots::new(count as usize));
    let visitor = Rc::new(RefCell::new(Visitor {
        queue: Arc::clone(&queue),
        slots: Arc::clone(&slots),
        reader: Reader::default(),
        due,
        now: 0,
        pause,
        filed: Vec::new(),
        is_filed: vec![false; count as usize],
    }));
    let (pushed, visits) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
    looked::interrupt_by({
        let (visitor, pushed, visits) =
            (Rc::clone(&visitor), Rc::clone(&pushed), Rc::clone(&visits));
        let mut reached = 0;
        move |at| {
            reached += u32::from(at == step);
            if at == step && reached % period == 0 {
                visitor.borrow_mut().visit(pushed.get());
                visits.set(visits.get() + 1);
            }
        }
    });
    // A third lives on: most are dead, so that promotions happen.
    for number in 0..count {
        push(&queue, 0, entry(number, Visitor::due_of(number)), &slots);
        pushed.set(number + 1);
        if number % 3 != 0 && number > 50 {
            slots.kill(number - 50);
        }
    }
    looked::interrupt_by(|_| {});
    let mut visitor = visitor.borrow_mut();
    visitor.due = None;
    visitor.visit(count);
    for due in [5, 9] {
        let filed = (visitor.filed.iter()).filter(|number| Visitor::due_of(**number) == due);
        assert!(filed.is_sorted(), "out of order");
    }
    assert_eq!(queue.len(), 0);
    visits.get()
}

#[test]
fn a_push_that_is_interrupted_at_any_step_hides_loses_and_disorders_nothing() {
    let takes = [
        (None, 0),
        (Some(Tick(5)), 0),
        (Some(Tick(9)), 0),
        (Some(Tick(5)), reader::AGE / 2),
    ];
    for (step, often) in [
        (Step::Written, 29),
        (Step::Published, 29),
        (Step::Trimming, 1),
        (Step::Claimed, 1),
        (Step::Copied, 1),
        (Step::Pushed, 1),
        (Step::Announced, 1),
        (Step::Compacted, 1),
    ] {
        for (due, pause) in takes {
            for period in [1, 2, 3, 5, 11, 23] {
                let visits = interrupt_pushes(step, period * often, due, pause);
                assert!(visits > 0 || period > 1, "{step:?} was never reached");
            }
        }
    }
}
