use super::*;

#[test]
fn times_are_rounded_up_to_milliseconds() {
    let at = |nanos: u64| millis_of(UNIX_EPOCH + Duration::from_nanos(nanos));
    assert_eq!(at(0), 0);
    assert_eq!(at(1), 1);
    assert_eq!(at(1_000_000), 1);
    assert_eq!(at(1_000_001), 2);
}

#[test]
fn times_before_1970_are_rounded_up_too() {
    let before = |nanos: u64| millis_of(UNIX_EPOCH - Duration::from_nanos(nanos));
    assert_eq!(before(1), 0);
    assert_eq!(before(1_000_000), -1);
    assert_eq!(before(1_999_999), -1);
}

#[test]
fn the_ends_of_time_saturate() {
    let mut end = UNIX_EPOCH;
    let mut step = Duration::from_secs(1 << 62);
    while step > Duration::from_nanos(1) {
        while let Some(later) = end.checked_add(step) {
            end = later;
        }
        step /= 2;
    }
    assert_eq!(millis_of(end), NEVER);
    assert_eq!(SystemWall.after(Duration::MAX), NEVER);
    assert!(time_of(NEVER) > SystemTime::now());
    assert!(time_of(Millis::MIN) <= UNIX_EPOCH);
}

#[test]
fn a_time_survives_the_conversion() {
    for millis in [0, 1, -1, 1_700_000_000_123, -86_400_000] {
        assert_eq!(millis_of(time_of(millis)), millis);
    }
}

#[test]
fn now_is_rounded_down_and_after_is_rounded_up() {
    let clock = ManualClock::new();
    let wall = ManualWall(clock.clone());
    clock.advance(Duration::from_micros(1500));
    assert_eq!(wall.now(), 1);
    assert_eq!(wall.after(Duration::ZERO), 2);
    assert_eq!(wall.until(2), Duration::from_micros(500));
    assert_eq!(wall.until(1), Duration::ZERO);
}
