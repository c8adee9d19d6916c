//! Descriptors of this process, and what they are used for.

use rustix::fs::Mode;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit, umask};

use crate::options::Options;

/// For the store, the log, the listener, timers.
const RESERVED: usize = 48;

/// Each has a thread.
const MOST_LOOKUPS: usize = 256;

/// How many of what there can be at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Limits {
    pub(super) connections: usize,
    pub(super) calls: usize,
    /// Lookups of names.
    pub(super) lookups: usize,
    /// Connections to receivers that are kept for the next call.
    pub(super) idle: usize,
}

/// Lets the process have as many descriptors as the system allows it, and only its user read its files.
pub(super) fn apply(options: &Options) -> Limits {
    umask(Mode::RWXG | Mode::RWXO);
    let limit = getrlimit(Resource::Nofile);
    if let Some(maximum) = limit.maximum {
        let wanted = Rlimit {
            current: Some(maximum.min(1 << 20)),
            maximum: Some(maximum),
        };
        let _ = setrlimit(Resource::Nofile, wanted);
    }
    let descriptors = getrlimit(Resource::Nofile).current.unwrap_or(1 << 20);
    share(
        usize::try_from(descriptors).unwrap_or(usize::MAX),
        options.connections,
        options.calls,
    )
}

/// Clients get at most a third of the descriptors, so that they cannot take those of the calls.
fn share(descriptors: usize, connections: usize, calls: usize) -> Limits {
    let rest = descriptors.saturating_sub(RESERVED).max(6);
    let connections = connections.min(rest / 3);
    let calls = calls.min(rest / 3).max(2);
    let lookups = (calls / 2).min(MOST_LOOKUPS);
    Limits {
        connections,
        calls,
        lookups,
        idle: (rest - connections - calls - lookups).min(4096),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_leave_descriptors_to_the_calls() {
        for descriptors in [0, 64, 256, 1024, 4096, 1 << 20] {
            let limits = share(descriptors, 1024, 512);
            let used = limits.connections + limits.calls + limits.lookups + limits.idle;
            assert!(
                used + RESERVED <= descriptors.max(RESERVED + 6),
                "{limits:?} of {descriptors}"
            );
            assert!(
                limits.connections >= 2
                    && limits.calls >= 2
                    && limits.lookups >= 1
                    && limits.idle >= 1,
                "{limits:?}"
            );
        }
        let plenty = share(1 << 20, 1024, 512);
        assert_eq!((plenty.connections, plenty.calls), (1024, 512));
    }
}
