//! Reading an index of due times, which is by kind, over several kinds.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use ::redb::ReadableTable;

use super::super::Id;
use super::layout::{Place, due_of, id_of, place};
use super::{Kinds, Result};
use crate::time::Millis;

/// The first and the last place that a kind can have.
pub(super) fn bounds(kind: u32) -> (Place, Place) {
    (
        place(kind, Millis::MIN, 0),
        place(kind, Millis::MAX, Id::MAX),
    )
}

/// The next entry of a kind, as it is ordered among those of other kinds: due time, id, which range, place, attempts.
type Head = Reverse<(Millis, Id, usize, Place, u32)>;

fn head(range: &mut ::redb::Range<'_, &'static Place, u32>, number: usize) -> Result<Option<Head>> {
    let Some(entry) = range.next() else {
        return Ok(None);
    };
    let (place, attempts) = entry?;
    let place = *place.value();
    Ok(Some(Reverse((
        due_of(&place),
        id_of(&place),
        number,
        place,
        attempts.value(),
    ))))
}

/// Shows the entries of handled kinds in the order of their due times, until `take` is false or `limit` have been taken. Returns the due time of
/// the first one that was not taken.
pub(super) fn in_order(
    index: &impl ReadableTable<&'static Place, u32>,
    kinds: &Kinds,
    limit: usize,
    mut take: impl FnMut(Place, u32) -> bool,
) -> Result<Option<Millis>> {
    let mut ranges = Vec::with_capacity(kinds.handled.len());
    let mut heads = BinaryHeap::with_capacity(kinds.handled.len());
    for (number, &kind) in kinds.handled.keys().enumerate() {
        let (low, high) = bounds(kind);
        let mut range = index.range::<&Place>(&low..=&high)?;
        heads.extend(head(&mut range, number)?);
        ranges.push(range);
    }
    let mut taken = 0;
    while let Some(Reverse((due, _, number, place, attempts))) = heads.pop() {
        if taken == limit || !take(place, attempts) {
            return Ok(Some(due));
        }
        taken += 1;
        heads.extend(head(&mut ranges[number], number)?);
    }
    Ok(None)
}
