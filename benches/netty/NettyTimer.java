import io.netty.util.HashedWheelTimer;
import io.netty.util.Timeout;
import io.netty.util.TimerTask;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;

/**
 * The workloads of {@code benches/rivals} on Netty's timer.
 *
 * <p>Takes the arguments of a Rust child ({@code churn flight=1000 producers=1 …}) and prints the same line ({@code RESULT
 * wall_ns=… cpu_ns=…}). Before it measures, it runs the same workload on another timer until the compiler has seen it. Best
 * use: one task object for all timeouts where the task captures nothing of its own, an array as the ring of handles, leak
 * detection off, and no limit on pending timeouts.
 */
public final class NettyTimer {
    private static final long SECOND = 1_000_000_000L;
    private static final long MILLI = 1_000_000L;
    private static final long HOUR = 3600 * SECOND;

    /** Tasks that have run. Written by the timer's thread only, so a plain addition does. */
    private static volatile long run;

    /** The worker's own count; published through {@link #run}. */
    private static final TimerTask COUNT = timeout -> run = run + 1;

    private final Map<String, Long> numbers = new HashMap<>();
    private final long tickMicros;
    private final int slots;
    private final int flight;
    private final int producers;
    /** Which timeout a flight cancels: one at random, or the oldest. */
    private boolean randomly;

    private NettyTimer(String[] args) {
        for (int i = 1; i < args.length; i++) {
            int equals = args[i].indexOf('=');
            numbers.put(args[i].substring(0, equals), Long.parseLong(args[i].substring(equals + 1)));
        }
        tickMicros = number("tick_us");
        slots = (int) number("slots");
        flight = (int) number("flight");
        producers = (int) number("producers");
    }

    private long number(String key) {
        return numbers.getOrDefault(key, 1L);
    }

    public static void main(String[] args) throws Exception {
        if (args.length < 1) {
            System.err.println("usage: NettyTimer WORKLOAD [key=value]...");
            System.exit(2);
        }
        System.setProperty("io.netty.leakDetection.level", "disabled");
        NettyTimer timers = new NettyTimer(args);
        String line = switch (args[0]) {
            case "churn", "growth" -> timers.churn();
            case "fire" -> timers.fire();
            case "tails" -> timers.tails();
            case "oversubscribed" -> timers.oversubscribed();
            case "random" -> timers.random();
            case "fill" -> timers.fill();
            case "mixed" -> timers.mixed();
            case "server" -> timers.server();
            case "lateness" -> timers.lateness();
            case "hold", "idle" -> timers.rest();
            case "memory-pending" -> timers.memoryPending();
            default -> throw new IllegalArgumentException("no workload " + args[0]);
        };
        System.out.println("RESULT " + line);
        System.exit(0);
    }

    private HashedWheelTimer timer() {
        return new HashedWheelTimer(NettyTimer::thread, tickMicros, TimeUnit.MICROSECONDS, slots, false);
    }

    private static Thread thread(Runnable task) {
        Thread thread = new Thread(task, Machine.WORKER);
        thread.setDaemon(true);
        return thread;
    }

    private static Timeout arm(HashedWheelTimer timer, TimerTask task, long nanos) {
        return timer.newTimeout(task, nanos, TimeUnit.NANOSECONDS);
    }

    // churn: F in flight per producer; every op schedules one at 30 s (+0..1 s) and cancels the oldest.

    private String churn() throws Exception {
        double[] costs = churnWarm(producers);
        return "wall_ns=" + costs[0] + " cpu_ns=" + costs[1] + " backlog_ms=" + costs[2];
    }

    // random: the same, but one at random is cancelled.

    private String random() throws Exception {
        randomly = true;
        double[] costs = churnWarm(producers);
        return "wall_ns=" + costs[0] + " cpu_ns=" + costs[1];
    }

    // fill: only schedules, into a timer that has just been started.

    private String fill() throws Exception {
        long[] times = null;
        for (int round = 0; round < 4; round++) {
            System.gc();
            Thread.sleep(300);
            HashedWheelTimer timer = timer();
            timer.start();
            Flight own = new Flight(timer, 0, flight, false);
            long cpu = Machine.processCpu();
            long start = System.nanoTime();
            own.fill();
            long wall = System.nanoTime() - start;
            Machine.waitUntilQuiet();
            times = new long[] {wall, Machine.processCpu() - cpu};
            timer.stop();
        }
        return "wall_ns=" + (double) times[0] / flight + " cpu_ns=" + (double) times[1] / flight;
    }

    /** Wall and CPU nanoseconds per op, and milliseconds of backlog, of a JVM that has seen it three times. */
    private double[] churnWarm(int producers) throws Exception {
        long ops = number("ops") / producers;
        long warm = Math.max(ops, 3_000_000 / producers);
        int warmFlight = Math.min(flight, 100_000);
        for (int round = 0; round < 3; round++) {
            churnOnce(producers, warm, warmFlight, null);
        }
        System.gc();
        Thread.sleep(300);
        long[] times = churnOnce(producers, ops, flight, null);
        check(run == 0, "a timeout of 30 s has fired");
        double all = (double) ops * producers;
        return new double[] {times[0] / all, times[1] / all, times[2] / 1_000_000};
    }

    /**
     * Wall and CPU nanoseconds of all ops, and how long the worker went on after the last one. The CPU time includes
     * that and the garbage collector. With {@code tails}, every call is timed by itself.
     */
    private long[] churnOnce(int producers, long ops, int flight, Tails tails) throws Exception {
        HashedWheelTimer timer = timer();
        CyclicBarrier meeting = new CyclicBarrier(producers + 1);
        Thread[] threads = new Thread[producers];
        Tails[] each = new Tails[producers];
        for (int i = 0; i < producers; i++) {
            Flight own = new Flight(timer, i, flight, randomly);
            Tails ownTails = each[i] = new Tails();
            threads[i] = new Thread(() -> {
                try {
                    own.fill();
                    meeting.await();
                    meeting.await();
                    if (tails == null) {
                        own.churn(ops);
                    } else {
                        own.churnTimed(ops, ownTails);
                    }
                    meeting.await();
                } catch (Exception e) {
                    throw new IllegalStateException(e);
                }
            });
            threads[i].start();
        }
        meeting.await();
        Thread.sleep(100 + (long) flight * producers / 5_000);
        Machine.waitUntilQuiet();
        long cpu = Machine.processCpu();
        long start = System.nanoTime();
        meeting.await();
        meeting.await();
        long wall = System.nanoTime() - start;
        long backlog = Machine.waitUntilQuiet();
        cpu = Machine.processCpu() - cpu;
        for (int i = 0; i < producers; i++) {
            threads[i].join();
            if (tails != null) {
                tails.merge(each[i]);
            }
        }
        timer.stop();
        return new long[] {wall, cpu, backlog};
    }

    // tails: single calls, each timed by itself; two readings of the clock in a row beside them.

    private String tails() throws Exception {
        long ops = number("ops") / producers;
        long warm = Math.max(ops / 4, 1_000_000 / producers);
        for (int round = 0; round < 3; round++) {
            churnOnce(producers, warm, Math.min(flight, 100_000), new Tails());
        }
        System.gc();
        Thread.sleep(300);
        Tails tails = new Tails();
        churnOnce(producers, ops, flight, tails);
        check(run == 0, "a timeout of 30 s has fired");
        return tails.arm.figures("new_timeout") + tails.cancel.figures("cancel") + tails.clock.figures("clock");
    }

    private static final class Tails {
        final Histogram clock = new Histogram();
        final Histogram arm = new Histogram();
        final Histogram cancel = new Histogram();

        void merge(Tails other) {
            clock.merge(other.clock);
            arm.merge(other.arm);
            cancel.merge(other.cancel);
        }
    }

    /** The timeouts of one producer, oldest first. */
    private static final class Flight {
        private final HashedWheelTimer timer;
        private final Timeout[] ring;
        private final boolean randomly;
        private final SameRandom random;
        private int oldest;

        Flight(HashedWheelTimer timer, int number, int count, boolean randomly) {
            this.timer = timer;
            this.ring = new Timeout[count];
            this.randomly = randomly;
            this.random = new SameRandom(number + 1);
        }

        private Timeout schedule() {
            return arm(timer, COUNT, 30 * SECOND + random.below(SECOND));
        }

        void fill() {
            for (int i = 0; i < ring.length; i++) {
                ring[i] = schedule();
            }
        }

        void churn(long ops) {
            for (long op = 0; op < ops; op++) {
                if (randomly) {
                    oldest = (int) random.below(ring.length);
                }
                exchange(schedule()).cancel();
            }
        }

        /** Puts the newest in the place of the oldest. */
        private Timeout exchange(Timeout next) {
            Timeout last = ring[oldest];
            ring[oldest] = next;
            oldest = oldest + 1 == ring.length ? 0 : oldest + 1;
            return last;
        }

        void churnTimed(long ops, Tails tails) {
            for (long op = 0; op < ops; op++) {
                long start = System.nanoTime();
                long end = System.nanoTime();
                tails.clock.record(end - start);
                long delay = 30 * SECOND + random.below(SECOND);
                start = System.nanoTime();
                Timeout next = arm(timer, COUNT, delay);
                end = System.nanoTime();
                tails.arm.record(end - start);
                Timeout last = exchange(next);
                start = System.nanoTime();
                last.cancel();
                end = System.nanoTime();
                tails.cancel.record(end - start);
            }
        }
    }

    // fire: timeouts due over 2 s, 3 s from now, in random order; the task counts.

    private String fire() throws Exception {
        for (int round = 0; round < 2; round++) {
            fireOnce(300_000, SECOND / 2, SECOND / 2);
        }
        System.gc();
        Thread.sleep(300);
        long cpu = fireOnce(flight, number("delay_ms") * MILLI, number("spread_ms") * MILLI);
        return "worker_cpu_ns=" + (double) cpu / flight;
    }

    private long fireOnce(int count, long delay, long spread) throws Exception {
        run = 0;
        HashedWheelTimer timer = timer();
        SameRandom random = new SameRandom(1);
        timer.start();
        long cpu = Machine.workerCpu();
        for (int i = 0; i < count; i++) {
            arm(timer, COUNT, delay + random.below(spread));
        }
        waitForTasks(count);
        cpu = Machine.workerCpu() - cpu;
        timer.stop();
        return cpu;
    }

    // lateness: the task stores how late it is; a bare thread parks until each boundary.

    private String lateness() throws Exception {
        long delay = number("delay_ms") * MILLI;
        long spread = number("spread_ms") * MILLI;
        latenessOnce(100_000, SECOND, SECOND / 2);
        System.gc();
        Thread.sleep(300);
        Bare bare = new Bare(tickMicros * 1_000);
        bare.start();
        long[] late = latenessOnce(flight, delay, spread);
        bare.done = true;
        bare.join();
        Arrays.sort(late);
        int early = 0;
        while (early < late.length && late[early] < 0) {
            early++;
        }
        return "p50_us=" + at(late, 0.5) + " p99_us=" + at(late, 0.99) + " p99.9_us=" + at(late, 0.999)
                + " max_us=" + at(late, 1.0) + " early=" + early
                + " bare_p50_us=" + bare.late.at(0.5) / 1000.0
                + " bare_p99.9_us=" + bare.late.at(0.999) / 1000.0
                + " bare_max_us=" + bare.late.max() / 1000.0;
    }

    private static double at(long[] sorted, double share) {
        return sorted[(int) ((sorted.length - 1) * share)] / 1000.0;
    }

    private long[] latenessOnce(int count, long delay, long spread) throws Exception {
        run = 0;
        long[] late = new long[count];
        HashedWheelTimer timer = timer();
        timer.start();
        SameRandom random = new SameRandom(1);
        for (int i = 0; i < count; i++) {
            long wait = delay + random.below(spread);
            arm(timer, new Late(late, i, System.nanoTime() + wait), wait);
        }
        waitForTasks(count);
        timer.stop();
        return late;
    }

    private static final class Late implements TimerTask {
        private final long[] late;
        private final int index;
        private final long deadline;

        Late(long[] late, int index, long deadline) {
            this.late = late;
            this.index = index;
            this.deadline = deadline;
        }

        @Override
        public void run(Timeout timeout) {
            late[index] = System.nanoTime() - deadline;
            run = run + 1;
        }
    }

    /** A thread that parks until each boundary and notes how late it wakes. */
    private static final class Bare extends Thread {
        final Histogram late = new Histogram();
        volatile boolean done;
        private final long tick;

        Bare(long tick) {
            this.tick = tick;
        }

        @Override
        public void run() {
            long start = System.nanoTime();
            long boundary = start + tick;
            while (!done) {
                long now = System.nanoTime();
                if (now < boundary) {
                    LockSupport.parkNanos(boundary - now);
                    continue;
                }
                late.record(now - boundary);
                boundary = start + tick * ((now - start) / tick + 1);
            }
        }
    }

    // oversubscribed: a task every 1 ms beside threads that compute, and beside threads that use the timer.

    private String oversubscribed() throws Exception {
        churnOnce(2, 1_000_000, flight, null);
        churnOnce(2, 1_000_000, flight, null);
        System.gc();
        boolean spinFirst = number("round") % 2 == 0;
        Half first = new Half(spinFirst);
        Half second = new Half(!spinFirst);
        Half spinning = spinFirst ? first : second;
        Half scheduling = spinFirst ? second : first;
        return spinning.figures("spinning") + scheduling.figures("scheduling")
                + " scheduling/p99_ratio=" + scheduling.gap(0.99) / spinning.gap(0.99)
                + " scheduling/mops_per_s=" + scheduling.ops.get() / (scheduling.seconds * 1e6);
    }

    private final class Half {
        final AtomicLong ops = new AtomicLong();
        double seconds;
        private volatile boolean stop;
        private final long[] times = new long[(int) (4 * number("watch_ms"))];
        private volatile int count;
        private long[] gaps;

        Half(boolean spinning) throws Exception {
            HashedWheelTimer timer = timer();
            timer.start();
            Thread[] threads = new Thread[producers];
            long begin = System.nanoTime();
            for (int i = 0; i < producers; i++) {
                int number = i;
                threads[i] = new Thread(() -> {
                    if (spinning) {
                        spin();
                    } else {
                        schedule(timer, number);
                    }
                });
                threads[i].start();
            }
            Thread.sleep(200);
            long start = System.nanoTime();
            every(timer, MILLI, () -> {
                int next = count;
                if (next < times.length) {
                    times[next] = System.nanoTime() - start;
                    count = next + 1;
                }
            });
            Thread.sleep(number("watch_ms"));
            long end = System.nanoTime() - start;
            stop = true;
            for (Thread thread : threads) {
                thread.join();
            }
            seconds = (System.nanoTime() - begin) / 1e9;
            fillGaps(end);
            timer.stop();
        }

        private void spin() {
            SameRandom random = new SameRandom(1);
            long sum = 0;
            while (!stop) {
                sum += random.below(1 << 20);
            }
            ops.addAndGet(sum & 1);
        }

        private void schedule(HashedWheelTimer timer, int number) {
            Flight own = new Flight(timer, number, flight, false);
            own.fill();
            long done = 0;
            while (!stop) {
                own.churn(64);
                arm(timer, COUNT, MILLI + own.random.below(49 * MILLI));
                done += 64;
            }
            ops.addAndGet(done);
        }

        private void fillGaps(long end) {
            int runs = count;
            while (runs > 0 && times[runs - 1] >= end) {
                runs--;
            }
            gaps = new long[runs + 1];
            long last = 0;
            for (int i = 0; i <= runs; i++) {
                long time = i == runs ? end : times[i];
                gaps[i] = time - last;
                last = time;
            }
            Arrays.sort(gaps);
        }

        double gap(double share) {
            int rank = (int) Math.ceil(share * gaps.length);
            return gaps[Math.min(Math.max(rank, 1), gaps.length) - 1] / 1000.0;
        }

        String figures(String name) {
            return " " + name + "/runs=" + (gaps.length - 1)
                    + " " + name + "/p99_gap_us=" + gap(0.99)
                    + " " + name + "/max_gap_us=" + gap(1.0);
        }
    }

    /** Runs {@code task} every {@code period} nanoseconds, phase kept, missed runs skipped: it schedules itself again. */
    private static void every(HashedWheelTimer timer, long period, Runnable task) {
        long start = System.nanoTime();
        TimerTask again = new TimerTask() {
            @Override
            public void run(Timeout timeout) {
                task.run();
                long now = System.nanoTime();
                long next = start + ((now - start) / period + 1) * period;
                try {
                    arm(timer, this, next - now);
                } catch (IllegalStateException stopped) {
                    // The end of the workload.
                }
            }
        };
        arm(timer, again, period);
    }

    // mixed: timeouts at 30 s that are cancelled after 5 ms on average, and some that fire after 1 to 20 ms.

    private static final int STEPS_AHEAD = 256;

    private String mixed() throws Exception {
        mixedOnce(3_000);
        System.gc();
        Thread.sleep(300);
        return mixedOnce((int) number("watch_ms"));
    }

    private String mixedOnce(int steps) throws Exception {
        run = 0;
        int far = (int) (number("ops") / 1000 / producers);
        int firing = flight / 1000 / producers;
        long[] late = new long[steps * firing * producers];
        int[] lives = lives();
        HashedWheelTimer timer = timer();
        timer.start();
        Thread[] threads = new Thread[producers];
        long cpu = Machine.processCpu();
        long start = System.nanoTime();
        for (int i = 0; i < producers; i++) {
            int number = i;
            threads[i] = new Thread(() -> {
                SameRandom random = new SameRandom(number + 1);
                List<List<Timeout>> ahead = new ArrayList<>();
                for (int step = 0; step < STEPS_AHEAD; step++) {
                    ahead.add(new ArrayList<>());
                }
                int next = number * steps * firing;
                for (int step = 0; step < steps; step++) {
                    sleepUntil(start + step * MILLI);
                    List<Timeout> over = ahead.get(step % STEPS_AHEAD);
                    for (Timeout timeout : over) {
                        timeout.cancel();
                    }
                    over.clear();
                    for (int call = 0; call < far; call++) {
                        Timeout timeout = arm(timer, COUNT, 30 * SECOND);
                        ahead.get((step + lives[(int) random.below(lives.length)]) % STEPS_AHEAD).add(timeout);
                    }
                    for (int call = 0; call < firing; call++) {
                        long wait = number("delay_ms") * MILLI + random.below(number("spread_ms") * MILLI);
                        arm(timer, new Late(late, next++, System.nanoTime() + wait), wait);
                    }
                }
            });
            threads[i].start();
        }
        for (Thread thread : threads) {
            thread.join();
        }
        double wall = System.nanoTime() - start;
        waitForTasks(late.length);
        Machine.waitUntilQuiet();
        double used = Machine.processCpu() - cpu;
        timer.stop();
        Arrays.sort(late);
        int early = 0;
        while (early < late.length && late[early] < 0) {
            early++;
        }
        double calls = (double) steps * (far + firing) * producers;
        return "cpu_percent=" + 100 * used / (steps * (double) MILLI) + " cpu_ns=" + used / calls
                + " mops_per_s=" + calls / wall * 1000
                + " p50_us=" + at(late, 0.5) + " p99_us=" + at(late, 0.99) + " p99.9_us=" + at(late, 0.999)
                + " max_us=" + at(late, 1.0) + " early=" + early;
    }

    /** Numbers of steps, exponentially distributed around five. */
    private static int[] lives() {
        int[] lives = new int[4096];
        for (int i = 0; i < lives.length; i++) {
            long steps = Math.round(-5.0 * Math.log((i + 0.5) / lives.length));
            lives[i] = (int) Math.min(Math.max(steps, 1), STEPS_AHEAD - 2);
        }
        return lives;
    }

    private static void sleepUntil(long time) {
        long left = time - System.nanoTime();
        while (left > 0) {
            LockSupport.parkNanos(left);
            left = time - System.nanoTime();
        }
    }

    // server: idle timeouts of connections, put off by traffic. Netty has no reset: cancelled and scheduled again.

    private String server() throws Exception {
        serverOnce(250);
        System.gc();
        Thread.sleep(300);
        return serverOnce((int) number("watch_ms") / 10);
    }

    private String serverOnce(int steps) throws Exception {
        int each = flight / producers;
        int count = (int) (number("ops") / 100 / producers);
        long idle = number("delay_ms") * MILLI;
        AtomicInteger fired = new AtomicInteger();
        AtomicLong resets = new AtomicLong();
        TimerTask close = timeout -> fired.incrementAndGet();
        HashedWheelTimer timer = timer();
        timer.start();
        CyclicBarrier meeting = new CyclicBarrier(producers + 1);
        Thread[] threads = new Thread[producers];
        for (int i = 0; i < producers; i++) {
            int number = i;
            threads[i] = new Thread(() -> {
                SameRandom random = new SameRandom(number + 1);
                Timeout[] open = new Timeout[each];
                int[] silentFrom = new int[each];
                long latest = Math.max(1, steps - (idle / MILLI + 500) / 10);
                for (int place = 0; place < each; place++) {
                    silentFrom[place] = place % 100 == 0 ? 10 + (int) random.below(latest) : Integer.MAX_VALUE;
                    open[place] = arm(timer, close, idle + 2 * SECOND);
                }
                for (int place = each - 1; place > 0; place--) {
                    int other = (int) random.below(place + 1);
                    int from = silentFrom[place];
                    silentFrom[place] = silentFrom[other];
                    silentFrom[other] = from;
                }
                try {
                    meeting.await();
                    meeting.await();
                    long start = System.nanoTime();
                    int next = 0;
                    long done = 0;
                    for (int step = 0; step < steps; step++) {
                        sleepUntil(start + step * 10 * MILLI);
                        for (int call = 0; call < count; call++) {
                            if (step < silentFrom[next]) {
                                open[next].cancel();
                                open[next] = arm(timer, close, idle);
                                done++;
                            }
                            next = next + 1 == each ? 0 : next + 1;
                        }
                    }
                    resets.addAndGet(done);
                    meeting.await();
                } catch (Exception e) {
                    throw new IllegalStateException(e);
                }
            });
            threads[i].start();
        }
        meeting.await();
        Thread.sleep(200);
        long cpu = Machine.processCpu();
        long start = System.nanoTime();
        meeting.await();
        meeting.await();
        double wall = System.nanoTime() - start;
        double used = Machine.processCpu() - cpu;
        int closed = fired.get();
        timer.stop();
        int silent = (each + 99) / 100 * producers;
        check(closed == silent, closed + " connections were closed, " + silent + " were silent");
        return "cpu_ns=" + used / resets.get() + " cpu_percent=" + 100 * used / wall
                + " mops_per_s=" + resets.get() / wall * 1000 + " fired=" + closed;
    }

    // hold and idle: a timer at rest, watched.

    private String rest() throws Exception {
        HashedWheelTimer timer = timer();
        arm(timer, COUNT, 20_000_000);
        SameRandom random = new SameRandom(1);
        for (int i = 0; i < flight; i++) {
            arm(timer, COUNT, HOUR + random.below(23 * HOUR));
        }
        waitForTasks(1);
        // Long enough for the compiler to have seen the walk over the buckets.
        Thread.sleep(flight == 0 ? 1000 : 3000);
        long start = System.nanoTime();
        long cpu = Machine.workerCpu();
        long sleeps = Machine.workerSleeps();
        Thread.sleep(number("watch_ms"));
        cpu = Machine.workerCpu() - cpu;
        sleeps = Machine.workerSleeps() - sleeps;
        double wall = System.nanoTime() - start;
        return "worker_cpu_percent=" + 100 * cpu / wall + " wakeups_per_s=" + sleeps * SECOND / wall;
    }

    // memory: the live heap after a collection, because what a JVM keeps resident is its own choice.

    private String memoryPending() throws Exception {
        HashedWheelTimer timer = timer();
        timer.start();
        long before = Machine.liveHeap();
        SameRandom random = new SameRandom(1);
        for (int i = 0; i < flight; i++) {
            arm(timer, new Capture(i, i + 1, i + 2), HOUR + random.below(HOUR));
        }
        Thread.sleep(1000);
        long bytes = Machine.liveHeap() - before;
        check(timer.pendingTimeouts() == flight, "not all are pending");
        return "bytes_per_timeout=" + (double) bytes / flight;
    }

    /** A task that captures 24 bytes. */
    private static final class Capture implements TimerTask {
        private final long a;
        private final long b;
        private final long c;

        Capture(long a, long b, long c) {
            this.a = a;
            this.b = b;
            this.c = c;
        }

        @Override
        public void run(Timeout timeout) {
            run = a + b + c;
        }
    }

    private static void waitForTasks(long count) throws Exception {
        long start = System.nanoTime();
        while (run < count) {
            check(System.nanoTime() - start < 100 * SECOND, run + " of " + count + " have fired");
            Thread.sleep(10);
        }
    }

    private static void check(boolean holds, String otherwise) {
        if (!holds) {
            throw new IllegalStateException(otherwise);
        }
    }
}
