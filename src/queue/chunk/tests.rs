use super::*;
use std::panic::{AssertUnwindSafe, catch_unwind};

#[test]
#[cfg_attr(miri, ignore = "a million words")]
fn no_chunk_is_handed_out_that_a_position_cannot_name() {
    let chunks = Chunks::new();
    chunks.use_up();
    for _ in 0..2 {
        let result = catch_unwind(AssertUnwindSafe(|| chunks.claim(ChunkId::NONE).0));
        let panic = result.expect_err("all are in use");
        let message = panic.downcast_ref::<&str>().expect("it has a message");
        assert!(message.contains("no room for more"), "{message}");
    }
    let last = ChunkId(LIMIT - 1);
    chunks.release(last);
    assert_eq!(
        chunks.free.claim_one(0),
        last.0,
        "one that was released is found"
    );
}
