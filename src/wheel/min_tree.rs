//! The earliest of many ticks.

use crate::time::Tick;

/// The earliest of many ticks: a tree with 64 children a node, each node the least of them.
///
/// Lowering a tick touches one node, as a rule, and never more than four; raising one looks at the
/// 64 siblings on each of at most four levels. The answer is the root.
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

    #[inline]
    pub(super) fn first(&self) -> Option<Tick> {
        let root = self.levels.last()?.first()?;
        (*root != Self::NOTHING).then_some(*root)
    }

    /// The tick at `leaf` is now `tick` if that is earlier.
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

    /// The tick at `leaf` is now `tick`, be it earlier or later than before. No leaf is earlier
    /// than `coming`.
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
