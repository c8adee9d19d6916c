use super::*;

#[test]
#[cfg(target_pointer_width = "64")]
fn futures_are_small() {
    assert_eq!(size_of::<Sleep>(), 48);
    assert_eq!(size_of::<Interval>(), 64);
    assert_eq!(size_of::<WithTimeout<()>>(), 48);
    assert_eq!(size_of::<WithTimeout<[u64; 8]>>(), 48 + 64);
}

#[test]
fn futures_can_be_sent_shared_and_moved() {
    fn check<T: Send + Sync + Unpin + std::fmt::Debug + 'static>() {}
    check::<Sleep>();
    check::<Interval>();
    check::<WithTimeout<std::future::Ready<()>>>();
}
