use super::*;

/// Random numbers of every size.
fn numbers(seed: u64) -> impl Iterator<Item = u64> {
    let mut number = seed;
    std::iter::repeat_with(move || {
        number ^= number << 13;
        number ^= number >> 7;
        number ^= number << 17;
        number >> (number % 64)
    })
}

fn of(values: &[u64]) -> Lateness {
    let (recorder, mut lateness) = (Recorder::default(), Lateness::default());
    for &value in values {
        recorder.record(value);
    }
    recorder.read(&mut lateness);
    lateness
}

#[test]
fn the_buckets_follow_each_other_without_a_gap() {
    assert_eq!(bucket_of(0), 0);
    for bucket in 0..BUCKETS - 1 {
        let last = last_of(bucket);
        assert_eq!((bucket_of(last), bucket_of(last + 1)), (bucket, bucket + 1));
    }
    assert_eq!(last_of(BUCKETS - 1), (1 << 44) - 1);
    for beyond in [(1 << 44) - 1, 1 << 44, u64::MAX] {
        assert_eq!(bucket_of(beyond), BUCKETS - 1);
    }
}

#[test]
fn a_bucket_is_an_eighth_as_wide_as_what_it_holds_or_a_unit() {
    for bucket in 1..BUCKETS {
        let first = last_of(bucket - 1) + 1;
        let width = last_of(bucket) - last_of(bucket - 1);
        assert!(width <= (first / 8).max(1 << UNIT_BITS), "{bucket}");
    }
}

#[test]
fn quantiles_are_those_of_a_sorted_list_within_the_bound() {
    for (round, len) in (1_u64..).zip([1, 2, 3, 9, 10, 99, 100, 101, 5000]) {
        let mut values: Vec<u64> = numbers(round).take(len).collect();
        let lateness = of(&values);
        values.sort_unstable();
        assert_eq!(lateness.count(), len as u64);
        assert_eq!(lateness.max(), Duration::from_nanos(values[len - 1]));
        for (percent, told) in [
            (50, lateness.p50()),
            (90, lateness.p90()),
            (99, lateness.p99()),
            (100, lateness.quantile(1.0)),
            (25, lateness.quantile(0.25)),
            (0, lateness.quantile(0.0)),
        ] {
            let exact = values[(len * percent).div_ceil(100).max(1) - 1];
            let told = told.as_nanos() as u64;
            assert!(told >= exact, "{percent} %: {told} < {exact}");
            let error = told - exact;
            assert!(
                error < (exact / 8).max(1 << UNIT_BITS) || exact >= 1 << 44,
                "{percent} %: {told}, {exact}"
            );
        }
    }
}

#[test]
fn the_buckets_that_are_shown_hold_all_runs_in_rising_order() {
    let mut values: Vec<u64> = numbers(7).take(3000).collect();
    let lateness = of(&values);
    values.sort_unstable();
    let (mut below, mut last) = (0, None);
    for (latest, count) in lateness.buckets() {
        assert!(count > 0 && last < Some(latest));
        last = Some(latest);
        below += count as usize;
        let exact = values.partition_point(|&value| u128::from(value) <= latest.as_nanos());
        assert_eq!(below, exact, "{latest:?}");
    }
    assert_eq!((below, last), (values.len(), Some(lateness.max())));
}

#[test]
fn what_is_empty_or_all_in_time_reads_zero() {
    for lateness in [Lateness::default(), of(&[0; 10])] {
        assert_eq!([lateness.p50(), lateness.p99()], [Duration::ZERO; 2]);
        assert_eq!(lateness.quantile(f64::NAN), Duration::ZERO);
    }
    let text = format!("{:?}", of(&[5_000]));
    assert_eq!(
        text,
        "Lateness { count: 1, p50: 5µs, p90: 5µs, p99: 5µs, max: 5µs }"
    );
}

#[test]
fn a_difference_has_what_came_since() {
    let mut all = Lateness::default();
    for nanos in [1, 1_000_000, 50_000_000, 1 << 50] {
        all.record(Duration::from_nanos(nanos));
    }
    let earlier = all.clone();
    assert_eq!(all.since(&earlier), Lateness::default());
    assert_eq!(all.since(&Lateness::default()), all);
    for nanos in [2_000_000, 3_000_000, 7] {
        all.record(Duration::from_nanos(nanos));
    }
    let since = all.since(&earlier);
    assert_eq!(since.count(), 3);
    let max = since.max().as_nanos();
    assert!((3_000_000..3_000_000 * 9 / 8).contains(&max), "{max}");
    assert_eq!(since.quantile(1.0), since.max());
    // A new record of the timer's life is exact.
    all.record(Duration::from_nanos((1 << 50) + 1));
    assert_eq!(
        all.since(&earlier).max(),
        Duration::from_nanos((1 << 50) + 1)
    );
    // As late as the latest of its life: the last bucket tells nothing apart.
    let before = all.clone();
    all.record(Duration::from_nanos(1 << 45));
    assert_eq!(all.since(&before).max(), all.max());
}

#[test]
fn a_difference_of_strangers_is_empty() {
    let (mut few, mut many) = (Lateness::default(), Lateness::default());
    few.record(Duration::from_millis(1));
    for _ in 0..3 {
        many.record(Duration::from_millis(1));
        many.record(Duration::from_millis(9));
    }
    assert_eq!(few.since(&many), Lateness::default());
}

#[test]
fn any_duration_is_recorded() {
    let mut lateness = Lateness::default();
    for duration in [Duration::ZERO, Duration::MAX] {
        lateness.record(duration);
    }
    assert_eq!(lateness.count(), 2);
    assert_eq!(lateness.max(), Duration::from_nanos(u64::MAX));
    assert_eq!(lateness.p50(), Duration::from_nanos(1023));
}
