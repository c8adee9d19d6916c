use super::*;

#[test]
fn every_number_has_its_own_place_and_chunks_follow_each_other() {
    assert_eq!(locate(0), (0, 0));
    assert_eq!(locate(FIRST_CHUNK - 1), (0, 255));
    assert_eq!(locate(FIRST_CHUNK), (1, 0));
    let mut expected = (0, 0);
    for number in 0..100_000 {
        assert_eq!(locate(number), expected);
        expected.1 += 1;
        if expected.1 == (FIRST_CHUNK as usize) << expected.0 {
            expected = (expected.0 + 1, 0);
        }
    }
    let (chunk, offset) = locate(u32::MAX - FIRST_CHUNK);
    assert_eq!(chunk, CHUNKS - 1);
    assert!(offset < (FIRST_CHUNK as usize) << chunk);
}

#[test]
fn slots_keep_their_address_while_the_slab_grows() {
    let slab = Slab::<()>::new();
    let first = slab.grow(64);
    // SAFETY: the number was just given out.
    let before = ptr::from_ref(unsafe { slab.slot(first) });
    for _ in 0..1000 {
        slab.grow(64);
    }
    // SAFETY: as above.
    assert_eq!(before, ptr::from_ref(unsafe { slab.slot(first) }));
    assert_eq!(slab.used(), 64 * 1001);
    assert!(slab.iter().all(|(_, slot)| slot.is_free()));
    assert_eq!(slab.bytes(), 64 * 64 * 1001);
}

#[test]
fn chunks_of_any_size_are_zeroed_and_aligned() {
    for slots in [256, 1 << 14, (1 << 15) - 1, 1 << 15, 1 << 17] {
        for _ in 0..3 {
            let allocation = Allocation::new(slots);
            let large = slots >= 1 << 15;
            assert_eq!(allocation.mapped, large && mapped::MAPS, "{slots} slots");
            let first = allocation.first_slot::<()>();
            assert!(first.is_aligned());
            for place in [0, slots / 2, slots - 1] {
                // SAFETY: there are so many slots, and all zeroes is a valid one.
                let slot = unsafe { &*first.add(place) };
                assert!(slot.is_free() && slot.next_free() == 0);
                // What the next one gets must not be what this one has left.
                slot.set_next_free(7);
                assert_eq!(slot.next_free(), 7);
            }
        }
    }
}

#[test]
#[cfg(target_os = "linux")]
fn large_chunks_go_back_to_the_system() {
    const CHUNK: usize = 256 << 20;
    let address_space = || {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find(|line| line.starts_with("VmSize:"));
        let kilobytes = line.and_then(|line| line.split_whitespace().nth(1));
        kilobytes.unwrap().parse::<usize>().unwrap() << 10
    };
    let before = address_space();
    for _ in 0..16 {
        drop(Allocation::new(CHUNK / size_of::<Slot<()>>()));
    }
    // Other tests have memory of their own meanwhile, but not so much.
    assert!(address_space() < before + 8 * CHUNK);
}
