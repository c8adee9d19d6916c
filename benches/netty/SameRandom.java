/** The generator of the Rust program: the same sequence. */
final class SameRandom {
    private long state;

    SameRandom(long seed) {
        state = seed * 0x9E3779B97F4A7C15L | 1;
    }

    /** A number below {@code bound}. */
    long below(long bound) {
        state ^= state << 13;
        state ^= state >>> 7;
        state ^= state << 17;
        long high = Math.multiplyHigh(state, bound);
        return state < 0 ? high + bound : high;
    }
}
