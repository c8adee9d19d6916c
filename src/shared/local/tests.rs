use super::*;
use crate::{HashedWheelTimer, ManualClock};
use std::thread;

fn timer() -> (HashedWheelTimer, Arc<Shared>) {
    let clock = ManualClock::new();
    let timer = HashedWheelTimer::builder().clock(&clock).build().unwrap();
    let shared = Arc::clone(timer.handle().shared());
    (timer, shared)
}

fn number_here(shared: &Shared) -> u32 {
    shared.with_local(|local| local.number)
}

#[test]
fn a_thread_keeps_its_number_for_a_timer_and_others_have_others() {
    let ((_one, one), (_two, two)) = (timer(), timer());
    assert_eq!((number_here(&one), number_here(&two)), (0, 0));
    let place = |shared: &Shared| shared.with_local(|local| ptr::from_ref(local).addr());
    let mine = place(&one);
    number_here(&two);
    assert_eq!(mine, place(&one), "the same, after another timer's");
    thread::scope(|scope| {
        scope.spawn(|| assert_eq!(number_here(&one), 1));
    });
}

#[test]
fn a_number_is_adopted_with_its_shard_when_its_thread_has_ended() {
    let (_timer, shared) = timer();
    assert_eq!(number_here(&shared), 0);
    for _ in 0..100 {
        let shared = Arc::clone(&shared);
        // Joined: then the thread's storage is gone.
        let number = thread::spawn(move || number_here(&shared)).join().unwrap();
        assert_eq!(number, 1);
    }
}

#[test]
fn what_is_kept_for_a_timer_that_is_gone_is_thrown_away_with_the_next() {
    let ((old, old_shared), (_new, new_shared)) = (timer(), timer());
    number_here(&old_shared);
    let registry = Arc::clone(&old_shared.registry);
    drop((old, old_shared));
    assert_eq!(
        Arc::strong_count(&registry),
        2,
        "this thread's local has it"
    );
    number_here(&new_shared);
    assert_eq!(Arc::strong_count(&registry), 1);
}

#[test]
fn a_call_without_thread_local_storage_gives_everything_back() {
    struct AtTheEnd(Arc<Shared>);
    impl Drop for AtTheEnd {
        fn drop(&mut self) {
            self.0
                .with_local(|local| local.put_slot(SlotId::from_number(7)));
        }
    }
    std::thread_local! {
        static LATE: RefCell<Option<AtTheEnd>> = const { RefCell::new(None) };
    }
    let (_timer, shared) = timer();
    // Claimed, so that it can be given back.
    let cache = SlotCache::new();
    let _ = cache.take(&shared.registry.pool, &shared.slots);
    let of_thread = Arc::clone(&shared);
    let thread = thread::spawn(move || {
        // Registered first, so that it goes after the locals.
        LATE.with(|late| *late.borrow_mut() = Some(AtTheEnd(Arc::clone(&of_thread))));
        assert_eq!(number_here(&of_thread), 0);
    });
    thread.join().unwrap();
    assert_eq!(number_here(&shared), 0, "all numbers are free");
    let next = SlotCache::new().take(&shared.registry.pool, &shared.slots);
    assert_eq!(next.slot().number(), 7);
}
