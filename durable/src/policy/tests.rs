use super::*;

const POLICY: Policy = Policy {
    max_attempts: 25,
    first: Duration::from_secs(1),
    most: Duration::from_secs(3600),
};

#[test]
fn delays_double_up_to_the_longest() {
    for attempts in 1..200 {
        let whole = Duration::from_secs(1 << (attempts - 1).min(12)).min(POLICY.most);
        for id in 0..50 {
            let delay = POLICY.delay(id, attempts);
            assert!(delay >= whole / 2 && delay <= whole, "{attempts} {delay:?}");
        }
    }
}

#[test]
fn delays_of_different_jobs_differ() {
    let mut delays: Vec<_> = (0..100).map(|id| POLICY.delay(id, 3)).collect();
    delays.sort();
    delays.dedup();
    assert!(delays.len() > 90);
}

#[test]
fn extreme_settings_do_not_overflow() {
    let policy = Policy {
        max_attempts: u32::MAX,
        first: Duration::MAX,
        most: Duration::MAX,
    };
    assert!(policy.delay(1, u32::MAX) >= Duration::MAX / 2);
    let policy = Policy {
        first: Duration::ZERO,
        most: Duration::ZERO,
        ..policy
    };
    assert_eq!(policy.delay(1, 7), Duration::ZERO);
}

#[test]
fn a_long_reason_is_cut_between_two_characters() {
    for length in [0, 1, MAX_REASON - 1, MAX_REASON] {
        let reason = "x".repeat(length);
        assert_eq!(shortened(reason.clone()), reason);
    }
    let cut = shortened("x".repeat(MAX_REASON + 1));
    assert!(cut == "x".repeat(MAX_REASON - 3) + "…");
    for unit in ["ä", "键", "🙂", "xä", "x键", "x🙂"] {
        let reason = unit.repeat(MAX_REASON);
        let cut = shortened(reason.clone());
        assert!(cut.len() <= MAX_REASON && cut.len() > MAX_REASON - 7);
        assert!(reason.starts_with(cut.strip_suffix('…').unwrap()));
    }
}
