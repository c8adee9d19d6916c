/** The histogram of the Rust program: exact below 64 ns, three percent above, no allocation once it is made. */
final class Histogram {
    private static final int BITS = 5;
    private static final int STEPS = 1 << BITS;
    private static final int TOP = 40;

    private final long[] counts = new long[(TOP - BITS + 1) * STEPS];
    private long max;

    void record(long nanos) {
        counts[index(nanos)]++;
        if (nanos > max) {
            max = nanos;
        }
    }

    void merge(Histogram other) {
        for (int i = 0; i < counts.length; i++) {
            counts[i] += other.counts[i];
        }
        max = Math.max(max, other.max);
    }

    long max() {
        return max;
    }

    /** The value that this share of all recorded values does not exceed; the upper end of its step. */
    long at(double share) {
        long all = 0;
        for (long count : counts) {
            all += count;
        }
        long wanted = Math.max(1, (long) Math.ceil(share * all));
        long seen = 0;
        for (int i = 0; i < counts.length; i++) {
            seen += counts[i];
            if (seen >= wanted) {
                return Math.min(upper(i), max);
            }
        }
        return max;
    }

    /** The figures of the row {@code tails}. */
    String figures(String name) {
        return " " + name + "/p50_ns=" + at(0.5)
                + " " + name + "/p99_ns=" + at(0.99)
                + " " + name + "/p99.9_ns=" + at(0.999)
                + " " + name + "/p99.99_ns=" + at(0.9999)
                + " " + name + "/p99.999_ns=" + at(0.99999)
                + " " + name + "/max_ns=" + max;
    }

    private static int index(long nanos) {
        int high = 63 - Long.numberOfLeadingZeros(nanos | 1);
        if (high < BITS) {
            return (int) nanos;
        }
        int shift = high - BITS;
        int step = (int) (nanos >>> shift) - STEPS;
        return Math.min((shift + 1) * STEPS + step, (TOP - BITS + 1) * STEPS - 1);
    }

    private static long upper(int index) {
        if (index < STEPS) {
            return index;
        }
        return ((long) (STEPS + index % STEPS + 1) << (index / STEPS - 1)) - 1;
    }
}
