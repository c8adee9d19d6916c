use super::*;

const MS: u64 = 1_000_000;

#[test]
fn deadlines_round_up_and_the_present_rounds_down() {
    let scale = Scale::new(10 * MS);
    let due: Vec<_> = [0, 1, 10 * MS - 1, 10 * MS, 10 * MS + 1]
        .map(|d| scale.due(d).0)
        .into();
    assert_eq!(due, [1, 1, 1, 1, 2]);
    let passed: Vec<_> = [0, 1, 10 * MS - 1, 10 * MS, 20 * MS]
        .map(|d| scale.passed(d).0)
        .into();
    assert_eq!(passed, [0, 0, 0, 1, 2]);
}

#[test]
fn a_boundary_is_never_before_the_deadline_that_was_rounded_to_it() {
    for tick in [50_000, MS, MS + 1, 7 * MS, 3_600_000 * MS] {
        let scale = Scale::new(tick);
        for deadline in [
            0,
            1,
            tick - 1,
            tick,
            tick + 1,
            1 << 50,
            scale.horizon / 2,
            scale.horizon - tick,
        ] {
            let due = scale.due(deadline);
            let time = scale.time_of(due).expect("before the end of time");
            assert!(time >= deadline);
            assert!(due == Tick(1) || scale.time_of(due.previous()).unwrap() < deadline);
            assert_eq!(scale.passed(time), due);
        }
    }
}

#[test]
fn the_end_of_time_never_comes() {
    let scale = Scale::new(MS);
    assert_eq!(scale.due(FOREVER), Tick::NEVER);
    assert!(scale.due(FOREVER - 1) < Tick::NEVER);
    assert_eq!(scale.time_of(scale.due(FOREVER - 1)), None);
    assert_eq!(scale.time_of(Tick::NEVER), None);
    assert_eq!(nanos(Duration::MAX), FOREVER);
    assert_eq!(nanos(Duration::from_nanos(FOREVER)), FOREVER);
    assert_eq!(nanos(Duration::new(3, 7)), 3_000_000_007);
}

#[test]
fn with_a_fine_tick_what_lies_beyond_2_to_the_45_ticks_never_comes() {
    let scale = Scale::new(50_000);
    let last = 50_000 * (Tick::NEVER.0 - 1);
    assert_eq!(scale.due(last), Tick::NEVER.previous());
    assert_eq!(scale.due(last + 1), Tick::NEVER);
    assert_eq!(scale.due(FOREVER - 1), Tick::NEVER);
    assert_eq!(scale.time_of(Tick::NEVER.previous()), Some(last));
    let years = Duration::from_nanos(last).as_secs() / 31_556_952;
    assert_eq!(years, 55);
}
