use super::*;

fn at(text: &str) -> Millis {
    let time: Timestamp = text.parse().unwrap();
    time.as_millisecond()
}

fn cron(expression: &str, zone: &str) -> Rule {
    Rule::cron(expression, zone, CatchUp::Once).unwrap()
}

/// The times after one, as UTC.
fn times(rule: &Rule, from: &str, many: usize) -> Vec<String> {
    let mut time = at(from);
    let mut times = Vec::new();
    for _ in 0..many {
        time = rule.after(time, time).unwrap();
        times.push(Timestamp::from_millisecond(time).unwrap().to_string());
    }
    times
}

#[test]
fn a_period_keeps_its_phase() {
    let rule = Rule::every(Duration::from_secs(1), CatchUp::Once).unwrap();
    for (slot, time, next) in [
        (500, 500, 1500),
        (500, 1499, 1500),
        (500, 1500, 2500),
        (500, 99_999, 100_500),
        (500, 0, 500),
        (-500, -501, -500),
    ] {
        assert_eq!(rule.after(slot, time), Some(next), "{slot} {time}");
    }
    assert_eq!(rule.after(Millis::MAX - 5, Millis::MAX - 5), None);
}

#[test]
fn a_skipped_local_time_runs_at_the_first_moment_after_the_gap() {
    // 2 o'clock became 3 o'clock on 29 March 2026.
    let half_past_two = cron("30 2 * * *", "Europe/Berlin");
    assert_eq!(
        times(&half_past_two, "2026-03-28T00:00:00Z", 3),
        [
            "2026-03-28T01:30:00Z",
            "2026-03-29T01:00:00Z",
            "2026-03-30T00:30:00Z"
        ]
    );
    // All that is skipped comes at one moment, which is one slot.
    let often = cron("*/20 * * * *", "Europe/Berlin");
    assert_eq!(
        times(&often, "2026-03-29T00:30:00Z", 3),
        [
            "2026-03-29T00:40:00Z",
            "2026-03-29T01:00:00Z",
            "2026-03-29T01:20:00Z"
        ]
    );
    // Half an hour is skipped here, on 4 October 2026, from 2 o'clock on.
    let island = cron("10 2 * * *", "Australia/Lord_Howe");
    assert_eq!(
        times(&island, "2026-10-03T00:00:00Z", 1),
        ["2026-10-03T15:30:00Z"]
    );
}

#[test]
fn a_doubled_local_time_runs_once() {
    // 3 o'clock became 2 o'clock on 25 October 2026.
    let half_past_two = cron("30 2 * * *", "Europe/Berlin");
    assert_eq!(
        times(&half_past_two, "2026-10-24T12:00:00Z", 2),
        ["2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"]
    );
    // Also from the middle of the hour that comes again.
    assert_eq!(
        times(&half_past_two, "2026-10-25T01:10:00Z", 1),
        ["2026-10-26T01:30:00Z"]
    );
    let often = cron("*/30 * * * *", "Europe/Berlin");
    assert_eq!(
        times(&often, "2026-10-24T23:59:00Z", 4),
        [
            "2026-10-25T00:00:00Z",
            "2026-10-25T00:30:00Z",
            "2026-10-25T02:00:00Z",
            "2026-10-25T02:30:00Z"
        ]
    );
}

#[test]
fn expressions_have_seconds_names_and_nicknames() {
    for (expression, next) in [
        ("*/10 * * * * *", "2026-01-01T00:00:10Z"),
        ("0 9 * * MON-FRI", "2026-01-01T09:00:00Z"),
        ("@weekly", "2026-01-04T00:00:00Z"),
        ("0 0 L * *", "2026-01-31T00:00:00Z"),
        ("0 0 29 2 *", "2028-02-29T00:00:00Z"),
    ] {
        let rule = cron(expression, "UTC");
        assert_eq!(times(&rule, "2026-01-01T00:00:00Z", 1), [next]);
    }
}

#[test]
fn what_cannot_be_read_is_refused_with_its_value() {
    for (expression, zone, part) in [
        ("", "UTC", "\"\""),
        ("* * *", "UTC", "\"* * *\""),
        ("61 * * * *", "UTC", "\"61 * * * *\""),
        ("* * * * *", "Europe/Atlantis", "\"Europe/Atlantis\""),
        ("* * * * *", "", "\"\""),
    ] {
        match Rule::cron(expression, zone, CatchUp::Once) {
            Err(Error::Config(text)) => assert!(text.contains(part), "{text}"),
            other => panic!("{expression:?} {zone:?}: {other:?}"),
        }
    }
    for period in [Duration::ZERO, Duration::from_micros(999), Duration::MAX] {
        let refused = Rule::every(period, CatchUp::Once);
        assert!(matches!(refused, Err(Error::Config(_))), "{period:?}");
    }
}

#[test]
fn a_date_that_never_comes_has_no_time() {
    assert_eq!(cron("0 0 30 2 *", "UTC").after(0, 0), None);
}

#[test]
fn a_rule_is_its_text() {
    for text in [
        "every 60000 ms",
        "skip every 1 ms",
        "cron 0 9 * * MON-FRI Europe/Berlin",
        "skip cron */10 * * * * * UTC",
    ] {
        assert_eq!(Rule::parse(text).unwrap().to_string(), text);
    }
    for text in ["", "every", "every 0 ms", "every x ms", "cron UTC", "daily"] {
        assert!(Rule::parse(text).is_none(), "{text}");
    }
}

#[test]
fn what_was_missed_runs_once_or_is_skipped() {
    let hour = 3_600_000;
    for catch_up in [CatchUp::Once, CatchUp::Skip] {
        let rule = Rule::every(Duration::from_millis(hour as u64), catch_up).unwrap();
        let once = catch_up == CatchUp::Once;
        for (now, next, run) in [
            (hour - 50, 2 * hour, true),
            (hour, 2 * hour, true),
            (hour + GRACE, 2 * hour, true),
            (hour + GRACE + 1, 2 * hour, once),
            (2 * hour, 3 * hour, once),
            (9 * hour + 1, 10 * hour, once),
        ] {
            let next = Some(next);
            assert_eq!(
                rule.turn(hour, now),
                Turn { next, run },
                "{catch_up:?} {now}"
            );
        }
        // A period shorter than the grace: missed when the next one is there.
        let rule = Rule::every(Duration::from_millis(100), catch_up).unwrap();
        let turn = |next, run| Turn {
            next: Some(next),
            run,
        };
        assert_eq!(rule.turn(0, 99), turn(100, true));
        assert_eq!(rule.turn(0, 100), turn(200, once));
    }
}
