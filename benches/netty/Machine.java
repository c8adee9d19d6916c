import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;

/** What the operating system and the JVM know about this process and the timer's thread. */
final class Machine {
    /** The name of the timer's thread, short enough for the kernel to keep it whole. */
    static final String WORKER = "netty-worker";

    private static final long SECOND = 1_000_000_000L;

    private Machine() {}

    static long processCpu() {
        return ((com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean())
                .getProcessCpuTime();
    }

    /** Waits until the process uses less than a fifth of a core, but no longer than 20 s; returns how long that took. */
    static long waitUntilQuiet() throws Exception {
        long start = System.nanoTime();
        while (true) {
            long cpu = processCpu();
            long waited = System.nanoTime() - start;
            // This clock moves in steps of 10 ms.
            Thread.sleep(100);
            if (waited > 20 * SECOND || processCpu() - cpu < 20_000_000) {
                return waited;
            }
        }
    }

    static long workerCpu() {
        for (Thread thread : Thread.getAllStackTraces().keySet()) {
            if (thread.getName().equals(WORKER)) {
                return ManagementFactory.getThreadMXBean().getThreadCpuTime(thread.getId());
            }
        }
        throw new IllegalStateException("the timer has no thread");
    }

    static long workerSleeps() throws IOException {
        try (DirectoryStream<Path> tasks = Files.newDirectoryStream(Path.of("/proc/self/task"))) {
            for (Path task : tasks) {
                if (Files.readString(task.resolve("comm")).trim().equals(WORKER)) {
                    return voluntarySwitches(Files.readString(task.resolve("status")));
                }
            }
        }
        throw new IllegalStateException("the timer has no thread");
    }

    private static long voluntarySwitches(String status) {
        String key = "voluntary_ctxt_switches:";
        String line = status.lines().filter(text -> text.startsWith(key)).findFirst().orElseThrow();
        return Long.parseLong(line.substring(key.length()).trim());
    }

    /** Bytes of the heap that are in use after a collection. */
    static long liveHeap() {
        System.gc();
        System.gc();
        return ManagementFactory.getMemoryMXBean().getHeapMemoryUsage().getUsed();
    }
}
