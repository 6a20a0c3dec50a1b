package com.github.streamdedup.peers;

import com.sun.management.OperatingSystemMXBean;
import java.lang.management.ManagementFactory;
import java.util.Locale;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.atomic.AtomicLong;

/**
 * Counts the records of one run and takes its times, from the first record on. The CPU time is that of the whole
 * process: compilers, garbage collection and RocksDB's threads are in it.
 */
public final class Meter {
    private static final OperatingSystemMXBean PROCESS =
            (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();

    private final long events;
    private final AtomicLong read = new AtomicLong();
    private final AtomicLong passed = new AtomicLong();
    private final CompletableFuture<Void> all = new CompletableFuture<>();
    private long beganNanos;
    private long beganCpu;
    private long tookNanos;
    private long usedCpu;

    public Meter(long events) {
        this.events = events;
    }

    /** A record came in. */
    public void read() {
        long n = read.incrementAndGet();
        if (n == 1) {
            beganNanos = System.nanoTime();
            beganCpu = PROCESS.getProcessCpuTime();
        }
        if (n == events) {
            all.complete(null);
        }
    }

    /** It was no copy. */
    public void passed() {
        passed.incrementAndGet();
    }

    /** The stream processor gave up. */
    public void failed(Throwable cause) {
        all.completeExceptionally(cause);
    }

    /** Whether every record was seen, which is before the last of them is out. */
    public boolean hasAll() {
        return all.isDone();
    }

    /** Returns once every record was seen. */
    public void awaitAll() throws InterruptedException, ExecutionException {
        all.get();
    }

    /** What was read is written and committed: the clocks stop. */
    public void stop() {
        tookNanos = System.nanoTime() - beganNanos;
        usedCpu = PROCESS.getProcessCpuTime() - beganCpu;
    }

    /** The result as run.sh prints it, given what the processor remembers its IDs in. */
    public String json(String peer, String version, long stateBytes, String note) {
        double seconds = tookNanos / 1e9;
        return String.format(Locale.ROOT,
                "{\"peer\":\"%s\",\"version\":\"%s\",\"what\":\"topic\",\"events\":%d,\"seconds\":%.3f,\"cpu_seconds\":%.3f,"
                        + "\"events_per_second\":%.0f,\"cpu_ns_per_event\":%.0f,\"bytes_per_id\":%.1f,\"note\":\"%s\"}",
                peer, version, events, seconds, usedCpu / 1e9, events / seconds, (double) usedCpu / events,
                (double) stateBytes / passed.get(), note);
    }
}
