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
