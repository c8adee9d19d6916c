use super::Round;

#[test]
fn a_round_that_removes_less_than_an_eighth_puts_off_the_next() {
    let after = |steps: &[(usize, usize)]| {
        let mut round = Round {
            left: 16,
            ..Round::default()
        };
        for &(looked, removed) in steps {
            round.step(looked, removed, 100);
        }
        if round.left == 0 {
            assert_eq!((round.looked, round.removed), (0, 0), "it has ended");
        }
        (round.left, round.not_before)
    };
    assert_eq!(after(&[(8, 0)]), (8, 0), "it is not over yet");
    assert_eq!(after(&[(8, 0), (8, 1)]), (0, 108));
    assert_eq!(after(&[(8, 0), (8, 2)]), (0, 0), "an eighth is enough");
}
