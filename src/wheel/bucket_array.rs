//! A sparse array of buckets.
//!
//! Buckets are allocated in groups of 64: a group is made for its first entry and freed with its last. So an array of
//! 2^24 buckets with one entry in bucket 1 000 is a table of 262 144 null pointers and one group, number 15 (buckets 960
//! to 1 023), with bit 40 set in its occupancy word.
//!
//! An empty bucket has no buffer: the memory of a burst is freed when the burst has passed.

use super::bucket::Bucket;
use crate::time::Tick;
use crate::tuning::KEPT_BUCKET;

/// The number of buckets in a group: the bits of an occupancy word.
pub(super) const GROUP: usize = u64::BITS as usize;

#[derive(Debug)]
struct Group {
    /// Bit `i` is set while bucket `i` has entries.
    occupied: u64,
    buckets: [Bucket; GROUP],
}

/// A sparse array of buckets.
#[derive(Debug)]
pub(super) struct BucketArray {
    groups: Vec<Option<Box<Group>>>,
    /// The last group that became empty. Under steady load one group is freed as another is made.
    spare: Option<Box<Group>>,
    /// The initial capacity of a bucket, at most [`KEPT_BUCKET`].
    capacity_hint: usize,
}

impl BucketArray {
    pub(super) fn new(buckets: usize) -> BucketArray {
        let mut groups = Vec::new();
        groups.resize_with(buckets.div_ceil(GROUP), || None);
        BucketArray {
            groups,
            spare: None,
            capacity_hint: 1,
        }
    }

    /// The bucket at `index`, to push an entry into. Marks it as occupied.
    #[inline]
    pub(super) fn occupy(&mut self, index: usize) -> &mut Bucket {
        let spare = &mut self.spare;
        let group = self.groups[index / GROUP].get_or_insert_with(|| new_group(spare));
        let bucket = &mut group.buckets[index % GROUP];
        if group.occupied & bit(index) == 0 {
            group.occupied |= bit(index);
            bucket.reserve(self.capacity_hint);
        }
        bucket
    }

    /// Sets the initial capacity of buckets to the size of one that has just expired.
    ///
    /// Under steady load with 10 entries a bucket, this halves the cost of an insertion: growing the buffer from 4 to 8 to
    /// 16. Recycling buffers gained no more.
    pub(super) fn set_capacity_hint(&mut self, entries: usize) {
        self.capacity_hint = entries.clamp(1, KEPT_BUCKET).next_power_of_two();
    }

    /// The bucket at `index` if it has entries.
    pub(super) fn occupied_mut(&mut self, index: usize) -> Option<&mut Bucket> {
        let group = self.groups[index / GROUP].as_mut()?;
        (group.occupied & bit(index) != 0).then(|| &mut group.buckets[index % GROUP])
    }

    /// The bucket at `index` if it has entries.
    pub(super) fn occupied(&self, index: usize) -> Option<&Bucket> {
        let group = self.groups[index / GROUP].as_ref()?;
        (group.occupied & bit(index) != 0).then(|| &group.buckets[index % GROUP])
    }

    /// Marks the bucket at `index` as empty and frees its memory.
    pub(super) fn vacate(&mut self, index: usize) {
        let place = &mut self.groups[index / GROUP];
        let Some(group) = place else { return };
        group.buckets[index % GROUP].release();
        group.occupied &= !bit(index);
        if group.occupied == 0 {
            self.spare = place.take();
        }
    }

    /// The first bucket from `index` on that has entries.
    pub(super) fn next_occupied(&self, index: usize) -> Option<usize> {
        let first = index / GROUP;
        let in_first = self.occupancy(first) & (u64::MAX << (index % GROUP));
        if in_first != 0 {
            return Some(first * GROUP + in_first.trailing_zeros() as usize);
        }
        let next = (first + 1..self.groups.len()).find(|&group| self.occupancy(group) != 0)?;
        Some(next * GROUP + self.occupancy(next).trailing_zeros() as usize)
    }

    fn occupancy(&self, group: usize) -> u64 {
        match self.groups.get(group) {
            Some(Some(group)) => group.occupied,
            _ => 0,
        }
    }

    /// The earliest boundary at which a bucket in the group of `index` has work. None is before `coming`, so under dense
    /// load the search ends at the next bucket.
    pub(super) fn earliest_in_group(&self, index: usize, coming: Tick) -> Option<Tick> {
        let group = self.groups[index / GROUP].as_ref()?;
        let behind_index = index % GROUP + 1;
        let mut earliest = None;
        for distance in bits(group.occupied.rotate_right(behind_index as u32)) {
            let boundary = group.buckets[(behind_index + distance) % GROUP].boundary;
            if boundary == coming {
                return Some(coming);
            }
            earliest = Some(earliest.map_or(boundary, |least: Tick| least.min(boundary)));
        }
        earliest
    }

    /// Bytes of the buffers, the groups and the table of groups.
    pub(super) fn bytes(&self) -> usize {
        let mut bytes = self.groups.capacity() * size_of::<Option<Box<Group>>>();
        for group in self.groups.iter().chain([&self.spare]).flatten() {
            let buckets = bits(group.occupied).map(|place| group.buckets[place].bytes());
            bytes += size_of::<Group>() + buckets.sum::<usize>();
        }
        bytes
    }
}

#[cold]
#[inline(never)]
fn new_group(spare: &mut Option<Box<Group>>) -> Box<Group> {
    spare.take().unwrap_or_else(|| {
        Box::new(Group {
            occupied: 0,
            buckets: [Bucket::EMPTY; GROUP],
        })
    })
}

fn bit(index: usize) -> u64 {
    1 << (index % GROUP)
}

/// The numbers of the bits that are set in `word`.
fn bits(mut word: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let lowest = word.trailing_zeros();
        word &= word.wrapping_sub(1);
        (lowest < u64::BITS).then_some(lowest as usize)
    })
}

#[cfg(test)]
impl BucketArray {
    /// Every bucket that has entries, with its index, found by looking at all of them.
    pub(super) fn all_occupied(&self) -> Vec<(usize, &Bucket)> {
        let groups = self
            .groups
            .iter()
            .enumerate()
            .filter_map(|(i, g)| Some((i, g.as_ref()?)));
        let buckets = groups.flat_map(|(number, group)| {
            let numbered = group.buckets.iter().enumerate();
            numbered.map(move |(i, bucket)| (number * GROUP + i, bucket))
        });
        buckets.filter(|(_, bucket)| !bucket.is_empty()).collect()
    }

    /// Occupancy says what the buckets say, and nothing empty holds memory.
    pub(super) fn check(&self) {
        for group in self.groups.iter().flatten() {
            assert_ne!(group.occupied, 0, "an empty group is kept");
            for (i, bucket) in group.buckets.iter().enumerate() {
                let occupied = group.occupied & bit(i) != 0;
                assert_eq!(
                    occupied,
                    !bucket.is_empty(),
                    "occupancy of bucket {i} of a group"
                );
                assert!(occupied || bucket.bytes() == 0, "an empty buffer is kept");
            }
        }
        let spare = self.spare.iter().flat_map(|group| &group.buckets);
        assert!(self.spare.iter().all(|group| group.occupied == 0));
        assert!(spare.into_iter().all(|bucket| bucket.bytes() == 0));
    }
}
