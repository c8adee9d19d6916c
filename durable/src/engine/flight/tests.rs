use super::*;

fn claim(id: Id, alone: bool) -> Claim {
    Claim {
        id,
        token: id,
        handler: 0,
        key: None,
        payload: vec![0; 10],
        due: 0,
        attempt: 1,
        alone,
    }
}

#[test]
fn a_claim_whose_attempt_is_counted_runs_although_the_store_has_failed() {
    let flight = Flight::default();
    flight.push(vec![claim(1, false), claim(2, true)]);
    assert!(flight.park(claim(3, false)));
    flight.abandon();
    assert_eq!(flight.ahead(), (1, 10));
    assert_eq!(flight.next().map(|claim| claim.id), Some(2));
    assert!(flight.next().is_none());
    assert_eq!(flight.ahead(), (0, 0));
}
