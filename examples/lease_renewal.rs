//! Leases: five nodes each hold one, renew it periodically, and lose it when they fall silent.
//!
//! Both sides are timeouts. A node renews with a periodic task at a fixed rate. The registry keeps
//! one timeout per lease, which every renewal pushes out with `reset`; if it ever fires, the lease
//! is gone and the work goes to another node. One node freezes on the way, and comes back too late.
//!
//! ```text
//! cargo run --example lease_renewal             # about three seconds
//! cargo run --example lease_renewal -- --quick  # about one second
//! ```

mod options;

use hashed_wheel::{HashedWheelTimer, Period, Timeout};
use std::collections::BTreeMap;
use std::error::Error;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

const USAGE: &str = "\
usage: lease_renewal [--quick]

Five nodes hold leases and renew them; one freezes, loses its lease, and another node takes over.

  --quick    in one second instead of three";

const NODES: [&str; 5] = ["ant", "bee", "cat", "dog", "eel"];
const FREEZES: &str = "cat";

fn main() -> Result<(), Box<dyn Error>> {
    let lease = Duration::from_millis(if options::quick(USAGE) { 240 } else { 900 });
    // A third of the lease: two renewals may get lost before the lease does.
    let renewal = lease / 3;

    let timer = HashedWheelTimer::new(Duration::from_millis(10), 512);
    let registry = Arc::new(Registry {
        started: Instant::now(),
        lease,
        leases: Mutex::default(),
    });
    registry.say(format_args!(
        "five nodes with two shards of work each; a lease lasts {lease:?} and is renewed every {renewal:?}"
    ));

    let frozen = Arc::new(AtomicBool::new(false));
    let mut renewals = Vec::new();
    for (place, node) in (0_u32..).zip(NODES) {
        registry.grant(&timer, node)?;
        let (registry, frozen) = (Arc::clone(&registry), Arc::clone(&frozen));
        let renew = move |timeout: &Timeout| {
            if node == FREEZES && frozen.load(Relaxed) {
                return;
            }
            if !registry.renew(node) {
                registry.say(format_args!("{node}: my lease is gone, I stop working"));
                // From inside a periodic task: no further run.
                timeout.cancel();
            }
        };
        // The first runs are spread, so that the nodes do not all call at once.
        let first = renewal * (place + 1) / 5;
        renewals.push(timer.new_periodic(renew, first, Period::FixedRate(renewal))?);
    }

    thread::sleep(lease * 4 / 3);
    registry.say(format_args!("{FREEZES} freezes"));
    frozen.store(true, Relaxed);
    registry.print("before");

    thread::sleep(lease * 5 / 3);
    registry.say(format_args!("{FREEZES} thaws, and tries to renew"));
    frozen.store(false, Relaxed);

    thread::sleep(lease / 2);
    registry.print("after");
    for (node, renewal) in NODES.iter().zip(&renewals) {
        let stopped = renewal.cancel();
        registry.say(format_args!(
            "{node}: {}",
            if stopped {
                "signs off, renewals cancelled"
            } else {
                "had stopped renewing before"
            }
        ));
    }
    let unprocessed = timer.stop()?.len();
    let stats = timer.stats();
    registry.say(format_args!(
        "stopped: {unprocessed} leases were still running"
    ));
    println!(
        "\n{} renewals ran, {} lease expired, {} periodic tasks were cancelled; the latest task began {:.1} ms after its deadline",
        stats.periodic_runs,
        stats.expired,
        stats.cancelled,
        stats.max_lateness.as_secs_f64() * 1e3
    );
    if stats.expired != 1 {
        println!("(a machine that stalls for two thirds of a lease loses more than one)");
    }
    Ok(())
}

/// The holder of a lease, with the timeout that ends it.
struct Registry {
    started: Instant,
    lease: Duration,
    leases: Mutex<BTreeMap<&'static str, Lease>>,
}

struct Lease {
    expiry: Timeout,
    renewed: u32,
    shards: Vec<usize>,
}

impl Registry {
    fn grant(
        self: &Arc<Self>,
        timer: &HashedWheelTimer,
        node: &'static str,
    ) -> Result<(), Box<dyn Error>> {
        let registry = Arc::clone(self);
        let expiry = timer.new_timeout(move |_| registry.expired(node), self.lease)?;
        let mut leases = self.leases.lock().unwrap_or_else(PoisonError::into_inner);
        let shards = vec![leases.len() * 2, leases.len() * 2 + 1];
        self.say(format_args!("{node}: lease granted, shards {shards:?}"));
        leases.insert(
            node,
            Lease {
                expiry,
                renewed: 0,
                shards,
            },
        );
        Ok(())
    }

    /// True if the node still had its lease; it then runs for its full time again.
    fn renew(&self, node: &str) -> bool {
        let mut leases = self.leases.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(lease) = leases.get_mut(node) else {
            return false;
        };
        // False if the expiry has fired in this very moment and waits for the lock.
        let renewed = lease.expiry.reset(self.lease);
        lease.renewed += u32::from(renewed);
        renewed
    }

    /// The task of a lease's timeout: its shards go to the node that has the fewest.
    fn expired(&self, node: &str) {
        let mut leases = self.leases.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(gone) = leases.remove(node) else {
            return;
        };
        let heir = leases
            .iter_mut()
            .min_by_key(|(_, lease)| lease.shards.len());
        if let Some((heir, lease)) = heir {
            self.say(format_args!(
                "{node}: LEASE EXPIRED, {heir} takes shards {:?}",
                gone.shards
            ));
            lease.shards.extend(gone.shards);
        }
    }

    fn print(&self, when: &str) {
        let leases = self.leases.lock().unwrap_or_else(PoisonError::into_inner);
        for (node, lease) in leases.iter() {
            self.say(format_args!(
                "  {when}: {node} renewed {:>2} times, {:.3} s left, shards {:?}",
                lease.renewed,
                lease.expiry.remaining().as_secs_f64(),
                lease.shards
            ));
        }
    }

    fn say(&self, text: std::fmt::Arguments<'_>) {
        println!("{:>7.3} s  {text}", self.started.elapsed().as_secs_f64());
    }
}
