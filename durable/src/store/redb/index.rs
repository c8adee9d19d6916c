//! Reading an index of due times, which is by kind, over several kinds.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use ::redb::ReadableTable;

use super::super::Id;
use super::Result;
use super::layout::{Place, due_of, id_of, place, read_entry};
use super::work::damaged;
use crate::time::Millis;

/// The first and the last place that a kind can have.
pub(super) fn bounds(kind: u32) -> (Place, Place) {
    (
        place(kind, Millis::MIN, 0),
        place(kind, Millis::MAX, Id::MAX),
    )
}

/// The next entry of a kind, as it is ordered among those of other kinds: due time, id, which range, place, value.
type Head = Reverse<(Millis, Id, usize, Place, u64)>;

fn head(range: &mut ::redb::Range<'_, &'static Place, u64>, number: usize) -> Result<Option<Head>> {
    let Some(entry) = range.next() else {
        return Ok(None);
    };
    let (place, value) = entry?;
    let (place, value) = (*place.value(), value.value());
    // A wrong due time would hide every job behind this one, and a wrong id would claim another job.
    if !read_entry(&place, value).1 {
        return Err(damaged("the checksum of an entry of an index is wrong"));
    }
    Ok(Some(Reverse((
        due_of(&place),
        id_of(&place),
        number,
        place,
        value,
    ))))
}

/// Shows entries in the order of their due times, of each of these kinds as many as it has room for, until `take` is false.
pub(super) fn in_order(
    index: &impl ReadableTable<&'static Place, u64>,
    kinds: impl Iterator<Item = (u32, usize)>,
    mut take: impl FnMut(Place, u64) -> bool,
) -> Result<()> {
    let mut ranges = Vec::new();
    let mut heads = BinaryHeap::new();
    for (kind, room) in kinds.filter(|&(_, room)| room > 0) {
        let (low, high) = bounds(kind);
        let mut range = index.range::<&Place>(&low..=&high)?;
        heads.extend(head(&mut range, ranges.len())?);
        ranges.push((range, room));
    }
    while let Some(Reverse((_, _, number, place, value))) = heads.pop() {
        if !take(place, value) {
            break;
        }
        let (range, room) = &mut ranges[number];
        *room -= 1;
        if *room > 0 {
            heads.extend(head(range, number)?);
        }
    }
    Ok(())
}

/// The due time of the earliest entry.
pub(super) fn earliest(
    index: &impl ReadableTable<&'static Place, u64>,
    kinds: impl Iterator<Item = (u32, usize)>,
) -> Result<Option<Millis>> {
    let mut first = None;
    in_order(index, kinds, |place, _| {
        first = Some(due_of(&place));
        false
    })?;
    Ok(first)
}
