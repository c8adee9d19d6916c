use super::*;
use crate::time::Tick;

fn entry(number: u32) -> Entry {
    Entry::new(Tick(u64::from(number)), 5, number, 7)
}

#[test]
fn entries_come_out_in_order_over_many_laps() {
    let ring = Ring::new(4);
    assert_eq!(ring.bytes(), 4 * 3 * 8, "a stamp and two words a cell");
    assert_eq!(ring.pop(), None);
    for lap in 0..100 {
        for number in 0..4 {
            assert!(ring.push(entry(4 * lap + number)));
        }
        assert!(!ring.push(entry(u32::MAX)), "it is full");
        assert_eq!(ring.len(), 4);
        for number in 0..4 {
            assert_eq!(ring.pop(), Some(entry(4 * lap + number)));
        }
        assert_eq!((ring.pop(), ring.len()), (None, 0));
    }
}

#[test]
fn a_push_that_is_not_completed_holds_up_nobody() {
    let ring = Ring::new(4);
    let position = ring.begin_push();
    assert!(ring.push(entry(1)));
    assert_eq!(ring.len(), 2);
    assert_eq!(
        ring.pop(),
        None,
        "what comes after it has to wait, the caller has not"
    );
    ring.end_push(position, entry(0));
    assert_eq!(ring.pop(), Some(entry(0)));
    assert_eq!(ring.pop(), Some(entry(1)));
}
