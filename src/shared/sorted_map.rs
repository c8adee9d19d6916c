//! A map for few entries: a sorted list. The standard library's takes several kilobytes of code for each type.

use std::collections::VecDeque;
use std::mem;

/// Its keys are numbers; those that grow are inserted fastest.
pub(super) struct SortedMap<V>(VecDeque<(u64, V)>);

impl<V> SortedMap<V> {
    fn find(&self, key: u64) -> Result<usize, usize> {
        self.0.binary_search_by_key(&key, |entry| entry.0)
    }

    /// Inserts a value. Returns the one that it replaces.
    pub(super) fn insert(&mut self, key: u64, value: V) -> Option<V> {
        match self.find(key) {
            Ok(place) => Some(mem::replace(&mut self.0[place].1, value)),
            Err(place) => {
                self.0.insert(place, (key, value));
                None
            }
        }
    }

    pub(super) fn remove(&mut self, key: u64) -> Option<V> {
        let place = self.find(key).ok()?;
        self.0.remove(place).map(|entry| entry.1)
    }

    pub(super) fn pop_first(&mut self) -> Option<V> {
        let first = self.0.front()?.0;
        self.remove(first)
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn into_values(self) -> impl Iterator<Item = V> {
        self.0.into_iter().map(|entry| entry.1)
    }
}

impl<V> Default for SortedMap<V> {
    fn default() -> Self {
        SortedMap(VecDeque::new())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_a_map_in_the_order_of_its_keys() {
        let mut map = SortedMap::default();
        for key in [5, 1, 9, 3, 7] {
            assert_eq!(map.insert(key, key * 10), None);
        }
        assert_eq!((map.insert(3, 33), map.len()), (Some(30), 5));
        assert_eq!(
            (map.remove(9), map.remove(9), map.remove(4)),
            (Some(90), None, None)
        );
        assert_eq!(map.pop_first(), Some(10));
        assert!(map.into_values().eq([33, 50, 70]));
    }
}
