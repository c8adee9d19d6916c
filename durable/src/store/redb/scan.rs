//! A look at every entry of the indexes, once after an opening, some at a time, beside the store thread.
//!
//! An entry has a checksum, which is checked when it is read. But one whose kind is wrong, or which stands in the wrong place, is never read, and may hide those beside it. What
//! does not fit has the file verified: the store thread is woken, and opens it again.

use std::ops::Bound;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use ::redb::{ReadableDatabase, TableDefinition};

use super::layout::{INDEXES, Place, read_entry};
use super::work::damaged;
use super::{Result, Shared};
use crate::store::Wake;

/// So many entries at a time, and the pause after them.
const CHUNK: usize = 500;
const PAUSE: Duration = Duration::from_millis(1);

/// Begins it. Without a thread for it nothing is looked at.
pub(super) fn begin(shared: &Arc<Shared>, wake: &Wake) {
    let (shared, wake) = (Arc::clone(shared), Arc::clone(wake));
    let work = move || {
        for (table, _) in INDEXES {
            let mut from = None;
            loop {
                match shared.with("cannot read", |database| {
                    some(&database.begin_read()?, table, from)
                }) {
                    Ok(None) => break,
                    Ok(last) => from = last,
                    // Or it was closed meanwhile.
                    Err(_) => return wake(),
                }
                thread::sleep(PAUSE);
            }
        }
    };
    let named = thread::Builder::new().name("durable-scan".to_owned());
    if let Err(error) = named.spawn(work) {
        log::warn!("the indexes are not looked at: {error}");
    }
}

/// Looks at some entries, from this one on. The last of them, if there are more.
fn some(
    transaction: &::redb::ReadTransaction,
    table: TableDefinition<&'static Place, u64>,
    from: Option<Place>,
) -> Result<Option<Place>> {
    let table = transaction.open_table(table)?;
    let start = from.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
    let (mut last, mut many) = (from, 0);
    for entry in table
        .range::<&Place>((start, Bound::Unbounded))?
        .take(CHUNK)
    {
        let (place, value) = entry?;
        let (place, value) = (*place.value(), value.value());
        let found = table
            .get(&place)?
            .is_some_and(|found| found.value() == value);
        if !found || !read_entry(&place, value).1 || last.is_some_and(|last| last >= place) {
            return Err(damaged("an entry of an index does not fit"));
        }
        last = Some(place);
        many += 1;
    }
    Ok(last.filter(|_| many == CHUNK))
}
