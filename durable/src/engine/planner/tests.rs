use super::*;

fn planner() -> Planner {
    Planner::new(4, 50, vec![usize::MAX, 2])
}

fn load(running: usize, ahead: usize) -> Load {
    Load {
        running,
        ahead,
        bytes: 0,
        queued: false,
        suspect: false,
        by_kind: vec![0, 0],
    }
}

fn at(waiting: Option<Millis>, suspect: Option<Millis>) -> Earliest {
    Earliest {
        waiting,
        suspect,
        recurring: None,
    }
}

#[test]
fn twice_the_free_threads_or_what_was_finished_lately() {
    let mut planner = planner();
    planner.set(at(Some(100), None));
    assert_eq!(planner.plan(100, &load(0, 0), false).limit, 8);
    assert_eq!(planner.plan(100, &load(3, 0), false).limit, 2);
    assert_eq!(planner.plan(100, &load(3, 1), false).limit, 1);
    assert_eq!(planner.plan(100, &load(4, 0), false).limit, 0);
    let now = Instant::now();
    planner.finish(now, 20);
    planner.finish(now + PACE / 2, 10);
    assert_eq!(planner.plan(100, &load(4, 0), false).limit, 30);
    assert_eq!(planner.plan(100, &load(4, 5), false).limit, 25);
    planner.finish(now + PACE * 5 / 4, 0);
    assert_eq!(planner.plan(100, &load(4, 0), false).limit, 10);
    planner.finish(now + PACE * 2, 0);
    assert_eq!(planner.plan(100, &load(4, 0), false).limit, 0);
    planner.finish(now + PACE * 2, 1 << 20);
    assert_eq!(planner.plan(100, &load(4, 0), false).limit, MOST_AHEAD);
}

#[test]
fn claims_are_made_half_the_lead_ahead_or_by_a_transaction_that_is_made_anyway() {
    let mut planner = planner();
    planner.set(at(Some(1000), None));
    assert_eq!(planner.next_claim(&load(0, 0)), Some(975));
    assert!(planner.plan(974, &load(0, 0), false).is_empty());
    assert!(planner.plan(949, &load(0, 0), true).is_empty());
    let claim = planner.plan(950, &load(0, 0), true);
    assert_eq!((claim.until, claim.limit), (1000, 8));
    assert_eq!(planner.plan(975, &load(0, 0), false).until, 1025);
    // What never comes is not waited for.
    planner.set(at(Some(NEVER), None));
    assert_eq!(planner.next_claim(&load(0, 0)), None);
    assert!(planner.plan(NEVER, &load(0, 0), true).is_empty());
}

#[test]
fn one_suspect_at_a_time_and_only_if_it_begins_at_once() {
    let mut planner = planner();
    planner.set(at(None, Some(500)));
    assert_eq!(planner.next_claim(&load(0, 0)), Some(500));
    assert_eq!(planner.plan(499, &load(0, 0), true).suspect, None);
    assert_eq!(planner.plan(500, &load(3, 0), false).suspect, Some(500));
    let busy = load(4, 0);
    let queued = Load {
        queued: true,
        ..load(0, 1)
    };
    let other = Load {
        suspect: true,
        ..load(1, 0)
    };
    for load in [busy, queued, other] {
        assert_eq!(planner.plan(500, &load, true).suspect, None);
        assert_eq!(planner.next_claim(&load), None);
    }
}

#[test]
fn room_is_by_kind() {
    let mut planner = planner();
    let busy = Load {
        by_kind: vec![7, 2],
        ..load(4, 0)
    };
    assert_eq!(planner.room(&load(0, 0)), [usize::MAX, 2]);
    assert_eq!(planner.room(&busy), [usize::MAX - 7, 0]);
    assert!(planner.pause(vec![true, false]) && !planner.pause(vec![true, false]));
    assert_eq!(planner.room(&busy), [0, 0]);
}

#[test]
fn payloads_are_bounded() {
    let mut planner = planner();
    planner.set(at(Some(0), None));
    let full = Load {
        bytes: AHEAD_BYTES,
        ..load(0, 1)
    };
    assert!(planner.plan(0, &full, true).is_empty());
    let most = Load {
        bytes: AHEAD_BYTES - 1,
        ..load(0, 1)
    };
    assert_eq!(planner.plan(0, &most, true).bytes, 1);
}

#[test]
fn pauses_after_errors_grow_and_differ_and_end_with_an_answer() {
    let mut planner = planner();
    let now = Instant::now();
    assert!(!planner.is_pausing(now));
    let mut pauses = Vec::new();
    for number in 0..20 {
        assert_eq!(planner.fail(now), number == 0);
        assert!(planner.is_pausing(now));
        pauses.push(planner.retry().unwrap() - now);
    }
    let (first, longest) = PAUSES;
    assert!(pauses[0] >= first / 2 && pauses[0] <= first);
    assert!(
        pauses[10..]
            .iter()
            .all(|pause| *pause >= longest / 2 && *pause <= longest)
    );
    assert!(pauses[10] != pauses[11]);
    let later = now + Duration::from_secs(1);
    assert!(planner.succeed(later));
    assert!(!planner.succeed(later) && !planner.is_pausing(now));
}

#[test]
fn a_store_that_fails_and_answers_in_turn_is_told_of_once_a_second() {
    let mut planner = planner();
    let start = Instant::now();
    let told = (0..5000_u64).filter(|&millis| {
        let now = start + Duration::from_millis(millis);
        if millis % 2 == 0 {
            planner.fail(now)
        } else {
            planner.succeed(now)
        }
    });
    assert_eq!(told.count(), 5);
    // What was kept back is told later.
    assert!(planner.succeed(start + Duration::from_secs(9)));
    assert!(!planner.fail(start + Duration::from_millis(9500)));
    assert!(planner.fail(start + Duration::from_millis(10_100)));
}

#[test]
fn a_recurring_job_is_advanced_when_its_run_can_be_claimed() {
    let mut planner = Planner::new(2, 50, vec![usize::MAX]);
    planner.set(Earliest {
        recurring: Some(1000),
        ..Earliest::default()
    });
    let idle = Load {
        by_kind: vec![0],
        ..Load::default()
    };
    assert_eq!(planner.slots(974, &idle), None);
    assert_eq!(planner.slots(975, &idle), Some((1025, 4)));
    assert_eq!(planner.next_claim(&idle), Some(975));
    let full = Load {
        running: 2,
        by_kind: vec![2],
        ..Load::default()
    };
    assert_eq!(planner.slots(2000, &full), None);
    assert_eq!(planner.next_claim(&full), None);
    planner.put_off_slots(1100);
    assert_eq!(planner.next_claim(&idle), Some(1075));
}
