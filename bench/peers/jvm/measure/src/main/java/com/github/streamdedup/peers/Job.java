package com.github.streamdedup.peers;

import java.nio.file.Path;
import java.time.Duration;
import java.util.HashMap;
import java.util.Map;

/** What run.sh asks for: read so many records of a topic once, and write those that are no copies to another. */
public record Job(String peer, String brokers, String in, String out, long events, Path state) {
    /** As long as copies must be caught; the stream is no longer than that, so nobody has to forget anything. */
    public static final Duration WINDOW = Duration.ofHours(24);

    /** So many records bring the hot code through the compilers. */
    private static final long WARM_UP = 500_000;

    public static Job parse(String[] args) {
        Map<String, String> flags = new HashMap<>();
        for (int i = 0; i < args.length; i += 2) {
            if (!args[i].startsWith("--") || i + 1 == args.length) {
                throw new IllegalArgumentException("read argument " + args[i] + ": want --NAME VALUE");
            }
            flags.put(args[i].substring(2), args[i + 1]);
        }
        Job job = new Job(want(flags, "peer"), want(flags, "brokers"), want(flags, "in"), want(flags, "out"),
                Long.parseLong(want(flags, "events")), Path.of(want(flags, "state")).toAbsolutePath());
        if (!flags.isEmpty()) {
            throw new IllegalArgumentException("there is no flag --" + flags.keySet().iterator().next());
        }
        return job;
    }

    private static String want(Map<String, String> flags, String name) {
        String value = flags.remove(name);
        if (value == null) {
            throw new IllegalArgumentException("flag --" + name + " is missing");
        }
        return value;
    }

    /** Where RocksDB is to be; the warm-up's tables, which stay, are not below it. */
    public Path tables() {
        return state.resolve("tables");
    }

    /** The same work on the head of the input, into a topic that nobody reads. */
    public Job warmUp() {
        return new Job(peer, brokers, in, out + "-warm-up", Math.min(events, WARM_UP), state.resolve("warm-up"));
    }
}
