//! `classic`: the wheel of the literature, and of the original, taken literally.
//!
//! It models Netty's `HashedWheelTimer` before any improvement. A row of buckets, a power of two of
//! them; a bucket is a linked list; an entry carries the rounds it has left. The worker comes by at
//! **every** tick, whether or not anything is there, walks **every** entry of the tick's bucket, fires those
//! with no rounds left and takes a round off the others.
//!
//! In its favour: nodes lie in one array and are linked by number, so nothing is allocated for each
//! timeout. What it does not model is the original's queue of cancelled timeouts: cancelling is the front's
//! business here, as it is for all contestants, and what was cancelled leaves the lists in sweeps.

use hashed_wheel::unstable::{Entry, Liveness, Tick, Wheel, WheelCounters};

/// No node.
const NONE: u32 = u32::MAX;

#[derive(Debug)]
pub(crate) struct Classic {
    now: u64,
    filed: usize,
    buckets: Vec<List>,
    nodes: Vec<Node>,
    /// The first of the nodes that are not in use.
    free: u32,
    /// The bucket that the next sweep begins with.
    sweeping: usize,
    counters: WheelCounters,
}

#[derive(Clone, Copy, Debug)]
struct List {
    first: u32,
    last: u32,
}

#[derive(Clone, Copy, Debug)]
struct Node {
    entry: Entry,
    rounds: u64,
    next: u32,
}

impl Classic {
    /// `slots` is rounded up to a power of two, as in the original.
    pub(crate) fn new(slots: usize) -> Classic {
        let empty = List {
            first: NONE,
            last: NONE,
        };
        Classic {
            now: 0,
            filed: 0,
            buckets: vec![empty; slots.next_power_of_two()],
            nodes: Vec::new(),
            free: NONE,
            sweeping: 0,
            counters: WheelCounters {
                levels: 1,
                ..WheelCounters::default()
            },
        }
    }

    fn bucket_of(&self, tick: u64) -> usize {
        tick as usize & (self.buckets.len() - 1)
    }

    fn take_node(&mut self, node: Node) -> u32 {
        if self.free == NONE {
            self.nodes.push(node);
            return self.nodes.len() as u32 - 1;
        }
        let number = self.free;
        self.free = self.nodes[number as usize].next;
        self.nodes[number as usize] = node;
        number
    }

    fn append(&mut self, bucket: usize, number: u32) {
        let List { first, last } = self.buckets[bucket];
        if first == NONE {
            self.buckets[bucket].first = number;
        } else {
            self.nodes[last as usize].next = number;
        }
        self.buckets[bucket].last = number;
    }

    /// Takes the node behind `previous` (or the first) out of its list.
    fn unlink(&mut self, bucket: usize, previous: u32, number: u32) {
        let next = self.nodes[number as usize].next;
        if previous == NONE {
            self.buckets[bucket].first = next;
        } else {
            self.nodes[previous as usize].next = next;
        }
        if next == NONE {
            self.buckets[bucket].last = previous;
        }
        self.nodes[number as usize].next = self.free;
        self.free = number;
        self.filed -= 1;
    }

    fn sweep_list(&mut self, bucket: usize, liveness: &dyn Liveness) -> usize {
        let mut numbers = Vec::new();
        let mut number = self.buckets[bucket].first;
        while number != NONE {
            numbers.push(number);
            number = self.nodes[number as usize].next;
        }
        let entry_of = |number: &u32| self.nodes[*number as usize].entry;
        let mut left: Vec<Entry> = numbers.iter().map(entry_of).collect();
        liveness.remove_dead(&mut left);
        let mut left = left.into_iter().peekable();
        let mut previous = NONE;
        for &number in &numbers {
            let entry = self.nodes[number as usize].entry;
            if left.next_if_eq(&entry).is_some() {
                previous = number;
            } else {
                self.unlink(bucket, previous, number);
            }
        }
        numbers.len()
    }
}

impl Wheel for Classic {
    #[inline]
    fn now(&self) -> Tick {
        Tick(self.now)
    }

    #[inline]
    fn len(&self) -> usize {
        self.filed
    }

    #[inline]
    fn insert(&mut self, entry: Entry) {
        let coming = self.now + 1;
        let boundary = entry.due().0.max(coming);
        let node = Node {
            entry,
            rounds: (boundary - coming) / self.buckets.len() as u64,
            next: NONE,
        };
        let number = self.take_node(node);
        self.append(self.bucket_of(boundary), number);
        self.filed += 1;
    }

    /// Always the next tick: the original sleeps from one to the next.
    #[inline]
    fn next_expiration(&self) -> Option<Tick> {
        Some(Tick(self.now + 1))
    }

    fn advance(&mut self, Tick(to): Tick, due: &mut Vec<Entry>, _: &dyn Liveness) {
        self.now = to;
        self.counters.bucket_visits += 1;
        let bucket = self.bucket_of(to);
        let mut previous = NONE;
        let mut number = self.buckets[bucket].first;
        while number != NONE {
            let Node { entry, next, .. } = self.nodes[number as usize];
            let rounds = &mut self.nodes[number as usize].rounds;
            if *rounds == 0 {
                self.unlink(bucket, previous, number);
                due.push(entry);
            } else {
                *rounds -= 1;
                self.counters.passed_over += 1;
                previous = number;
            }
            number = next;
        }
    }

    fn sweep_bucket(&mut self, liveness: &dyn Liveness) -> usize {
        let mut looked = 0;
        while looked == 0 && self.filed > 0 {
            looked = self.sweep_list(self.sweeping, liveness);
            self.sweeping = self.bucket_of(self.sweeping as u64 + 1);
        }
        looked
    }

    fn counters(&self) -> WheelCounters {
        self.counters
    }

    fn bytes(&self) -> usize {
        self.buckets.capacity() * size_of::<List>() + self.nodes.capacity() * size_of::<Node>()
    }
}
