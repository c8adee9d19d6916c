use super::*;

#[test]
fn ticks_have_neighbours_and_names() {
    assert_eq!((Tick(7).next(), Tick(7).previous()), (Tick(8), Tick(6)));
    assert_eq!(Tick::ZERO.previous(), Tick::ZERO);
    assert_eq!(format!("{:?}", Tick(7)), "tick 7");
    assert_eq!(format!("{:?}", Tick::NEVER), "never");
}
