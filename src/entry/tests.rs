use super::*;

#[test]
fn all_parts_come_back_from_an_entry_and_from_its_words() {
    let last_seq = (1 << Entry::SEQ_BITS) - 1;
    for due in [Tick::ZERO, Tick(1), Tick(1 << 44), Tick::NEVER] {
        for seq in [0, 2, 0x1555, last_seq] {
            for (number, epoch) in [(0, 0), (3, u32::MAX), (u32::MAX, 5)] {
                let slot = SlotId::from_number(number);
                let entry = Entry::new(due, seq, slot, epoch);
                for entry in [entry, Entry::from_words(entry.to_words())] {
                    assert_eq!((entry.due(), entry.seq()), (due, seq));
                    assert_eq!((entry.slot(), entry.epoch()), (slot, epoch));
                    assert_eq!(entry.slot().number(), number);
                }
                let later = entry.at(Tick(77));
                assert_eq!((later.due(), later.at(due)), (Tick(77), entry));
            }
        }
    }
}
