use super::*;
use std::time::{Duration, Instant};

#[test]
fn it_goes_as_fast_as_an_instant_and_starts_no_earlier() {
    let before = Instant::now();
    let clock = Monotonic::start(false);
    let after = Instant::now();
    for _ in 0..1000 {
        // From below and from above, with the readings in between: no tolerance is needed.
        let least = after.elapsed();
        let nanos = clock.nanos();
        let most = before.elapsed();
        assert!(least <= Duration::from_nanos(nanos) && Duration::from_nanos(nanos) <= most);
    }
    std::thread::sleep(Duration::from_millis(2));
    assert!(clock.nanos() >= 2_000_000);
}
