package com.github.streamdedup.peers;

import static org.apache.kafka.streams.StreamsConfig.AT_LEAST_ONCE;
import static org.apache.kafka.streams.StreamsConfig.EXACTLY_ONCE_V2;

import java.io.IOException;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.CloseOptions;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.processor.api.FixedKeyProcessor;
import org.apache.kafka.streams.processor.api.FixedKeyProcessorSupplier;
import org.apache.kafka.streams.state.StoreBuilder;
import org.apache.kafka.streams.state.Stores;

/** Kafka Streams: a window store in RocksDB with its changelog, a thread for each core. */
public final class StreamsPeer {
    private static final int COMMIT_MS = 200; // of transactions, as streamdedup's
    private static final int THREADS = Runtime.getRuntime().availableProcessors();

    private final Job job;
    private final String guarantee;

    private StreamsPeer(Job job, String guarantee) {
        this.job = job;
        this.guarantee = guarantee;
    }

    public static void main(String[] args) {
        Program.run(args, StreamsPeer::measure);
    }

    private static String measure(Job job) throws Exception {
        String guarantee = switch (job.peer()) {
            case "streams-eos" -> EXACTLY_ONCE_V2;
            case "streams-alo" -> AT_LEAST_ONCE;
            default -> throw new IllegalArgumentException("there is no peer " + job.peer() + " on Kafka Streams");
        };
        String commits = guarantee.equals(EXACTLY_ONCE_V2) ? "commits every " + COMMIT_MS + " ms" : "commits at their default";
        try (Topics topics = new Topics(job.brokers())) {
            Map<TopicPartition, Long> ends = topics.ends(job.in(), job.events());
            Job warmUp = job.warmUp();
            topics.createLike(warmUp.out(), job.in());
            try {
                new StreamsPeer(warmUp, guarantee).run(topics, Map.of());
            } finally {
                topics.delete(List.of(warmUp.out()));
            }
            Meter meter = new StreamsPeer(job, guarantee).run(topics, ends);
            return meter.json(job.peer(), version(), StateFolder.tableBytes(job.tables()),
                    guarantee + ", " + commits + ", window store, " + THREADS
                            + " threads, warmed up; bytes are of RocksDB's tables, without the changelog");
        }
    }

    /** Reads the job's records, up to a commit of these ends. */
    private Meter run(Topics topics, Map<TopicPartition, Long> ends) throws Exception {
        Meter meter = new Meter(job.events());
        // Rounds write to a topic of the same name, and must not find each other's offsets.
        String application = job.out() + "-" + System.nanoTime();
        KafkaStreams streams = new KafkaStreams(topology(meter), config(application));
        streams.setUncaughtExceptionHandler(e -> {
            meter.failed(e);
            return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
        });
        try {
            streams.start();
            meter.awaitAll();
            topics.awaitCommitted(application, ends, () -> streams.state().isRunningOrRebalancing());
            meter.stop();
        } finally {
            streams.close(CloseOptions.groupMembershipOperation(CloseOptions.GroupMembershipOperation.LEAVE_GROUP));
        }
        topics.deleteGroup(application);
        topics.delete(List.of(application + "-" + Seen.STORE + "-changelog"));
        return meter;
    }

    private static String version() throws IOException {
        Properties version = new Properties();
        try (var in = KafkaStreams.class.getResourceAsStream("/kafka/kafka-streams-version.properties")) {
            version.load(in);
        }
        return version.getProperty("version");
    }

    private Properties config(String application) {
        Properties config = new Properties();
        config.put(StreamsConfig.APPLICATION_ID_CONFIG, application);
        config.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, job.brokers());
        config.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, guarantee);
        if (guarantee.equals(EXACTLY_ONCE_V2)) {
            config.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, COMMIT_MS);
        }
        config.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, THREADS);
        config.put(StreamsConfig.STATE_DIR_CONFIG, job.tables().toString());
        config.put(StreamsConfig.consumerPrefix(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG), "earliest");
        return config;
    }

    private Topology topology(Meter meter) {
        StoreBuilder<?> seen = Stores.windowStoreBuilder(
                Stores.persistentWindowStore(Seen.STORE, Job.WINDOW, Job.WINDOW, false), Serdes.Bytes(), Serdes.ByteArray());
        StreamsBuilder builder = new StreamsBuilder();
        builder.stream(job.in(), Consumed.with(Serdes.ByteArray(), Serdes.ByteArray()))
                .processValues(new FixedKeyProcessorSupplier<byte[], byte[], byte[]>() {
                    @Override
                    public FixedKeyProcessor<byte[], byte[], byte[]> get() {
                        return new Seen(meter);
                    }

                    @Override
                    public Set<StoreBuilder<?>> stores() {
                        return Set.of(seen);
                    }
                })
                .to(job.out(), Produced.with(Serdes.ByteArray(), Serdes.ByteArray()));
        return builder.build();
    }
}
