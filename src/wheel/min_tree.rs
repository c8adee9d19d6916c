//! A tree of minima: the earliest of many ticks.

use crate::time::Tick;

/// A tree with 64 children per node, each node the least of them. The root is the earliest tick.
///
/// Lowering a tick usually writes one node, and at most four; raising one reads the 64 siblings on each of at most four
/// levels.
#[derive(Debug)]
pub(super) struct MinTree {
    /// The leaves first, the root (one node) last.
    levels: Vec<Vec<Tick>>,
}

impl MinTree {
    const CHILDREN: usize = 64;
    /// Later than any boundary: `Tick::NEVER` itself could be the boundary after the last.
    pub(super) const NOTHING: Tick = Tick(u64::MAX);

    pub(super) fn new(leaves: usize) -> MinTree {
        let mut levels = vec![vec![Self::NOTHING; leaves]];
        let mut nodes = leaves;
        while nodes > 1 {
            nodes = nodes.div_ceil(Self::CHILDREN);
            levels.push(vec![Self::NOTHING; nodes]);
        }
        MinTree { levels }
    }

    pub(super) fn first(&self) -> Option<Tick> {
        let root = self.levels.last()?.first()?;
        (*root != Self::NOTHING).then_some(*root)
    }

    /// Lowers the tick at `leaf` to `tick` if that is earlier.
    pub(super) fn lower(&mut self, leaf: usize, tick: Tick) {
        let mut node = leaf;
        for level in &mut self.levels {
            if level[node] <= tick {
                return;
            }
            level[node] = tick;
            node /= Self::CHILDREN;
        }
    }

    /// Sets the tick at `leaf`, earlier or later than before. No leaf is earlier than `coming`.
    pub(super) fn set(&mut self, leaf: usize, tick: Option<Tick>, coming: Tick) {
        let mut node = leaf;
        let mut least = tick.unwrap_or(Self::NOTHING);
        for level in &mut self.levels {
            level[node] = least;
            if least > coming {
                let first = node - node % Self::CHILDREN;
                let siblings = level[first..].iter().take(Self::CHILDREN);
                least = siblings.fold(least, |least, &tick| least.min(tick));
            }
            node /= Self::CHILDREN;
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.levels
            .iter()
            .map(|level| level.capacity() * size_of::<Tick>())
            .sum()
    }
}

#[cfg(test)]
impl MinTree {
    pub(super) fn leaves(&self) -> usize {
        self.levels[0].len()
    }

    /// Every node is the least of its children, with these leaves.
    pub(super) fn check(&self, mut expected: Vec<Tick>) {
        for level in &self.levels {
            assert_eq!(*level, expected);
            let parents = level.chunks(MinTree::CHILDREN);
            expected = parents
                .map(|children| *children.iter().min().unwrap())
                .collect();
        }
    }
}
