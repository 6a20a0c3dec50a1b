package com.github.streamdedup.peers;

import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.time.Duration;
import java.util.List;
import org.apache.flink.api.common.JobID;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.configuration.CheckpointingOptions;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.configuration.MemorySize;
import org.apache.flink.configuration.PipelineOptions;
import org.apache.flink.configuration.RestartStrategyOptions;
import org.apache.flink.configuration.StateBackendOptions;
import org.apache.flink.configuration.TaskManagerOptions;
import org.apache.flink.connector.base.DeliveryGuarantee;
import org.apache.flink.connector.kafka.sink.KafkaRecordSerializationSchema;
import org.apache.flink.connector.kafka.sink.KafkaSink;
import org.apache.flink.connector.kafka.source.KafkaSource;
import org.apache.flink.connector.kafka.source.enumerator.initializer.OffsetsInitializer;
import org.apache.flink.connector.kafka.source.reader.deserializer.KafkaRecordDeserializationSchema;
import org.apache.flink.core.execution.CheckpointType;
import org.apache.flink.core.execution.CheckpointingMode;
import org.apache.flink.runtime.jobgraph.JobGraph;
import org.apache.flink.runtime.minicluster.MiniCluster;
import org.apache.flink.runtime.minicluster.MiniClusterConfiguration;
import org.apache.flink.runtime.util.EnvironmentInformation;
import org.apache.flink.state.rocksdb.RocksDBOptions;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Flink: keyed state with a time to live in a cluster within this process, a slot for each core, at least once. */
public final class FlinkPeer {
    private static final Duration CHECKPOINTS = Duration.ofSeconds(10);
    private static final MemorySize MANAGED = MemorySize.ofMebiBytes(512); // RocksDB's caches and buffers
    private static final int SLOTS = Runtime.getRuntime().availableProcessors();

    private final Job job;
    private final String backend;

    private FlinkPeer(Job job, String backend) {
        this.job = job;
        this.backend = backend;
    }

    public static void main(String[] args) {
        Program.run(args, FlinkPeer::measure);
    }

    private static String measure(Job job) throws Exception {
        String backend = switch (job.peer()) {
            case "flink-heap" -> "hashmap";
            case "flink-rocksdb" -> "rocksdb";
            default -> throw new IllegalArgumentException("there is no peer " + job.peer() + " on Flink");
        };
        try (Topics topics = new Topics(job.brokers())) {
            topics.ends(job.in(), job.events());
            Job warmUp = job.warmUp();
            topics.createLike(warmUp.out(), job.in());
            try {
                new FlinkPeer(warmUp, backend).run();
            } finally {
                topics.delete(List.of(warmUp.out()));
            }
            return new FlinkPeer(job, backend).run();
        }
    }

    /** Reads the job's records, up to a checkpoint that has them all, and says what that took. */
    private String run() throws Exception {
        Meter meter = new Meter(job.events());
        FirstOnly.METER.set(meter);
        MiniClusterConfiguration cluster = new MiniClusterConfiguration.Builder()
                .setConfiguration(new Configuration().set(TaskManagerOptions.MANAGED_MEMORY_SIZE, MANAGED))
                .setNumSlotsPerTaskManager(SLOTS).withRandomPorts().build();
        // A cluster that goes on holds the state of the job before for a while, which then seems to shrink the next.
        long before = usedHeap();
        try (MiniCluster flink = new MiniCluster(cluster)) {
            flink.start();
            JobGraph graph = graph();
            JobID id = graph.getJobID();
            flink.submitJob(graph).get();
            flink.requestJobResult(id).thenAccept(r -> meter.failed(r.getSerializedThrowable()
                    .map(e -> e.deserializeError(FlinkPeer.class.getClassLoader()))
                    .orElseGet(() -> new IllegalStateException("the job ended before its input"))));
            meter.awaitAll();
            // A checkpoint is complete when the sinks have had all that came before it acknowledged.
            flink.triggerCheckpoint(id, CheckpointType.DEFAULT).get();
            meter.stop();
            String result = result(meter, before);
            flink.cancelJob(id).get();
            flink.requestJobResult(id).get();
            return result;
        }
    }

    private String result(Meter meter, long before) throws IOException {
        boolean onHeap = backend.equals("hashmap");
        return meter.json(job.peer(), EnvironmentInformation.getVersion(),
                onHeap ? usedHeap() - before : StateFolder.tableBytes(job.tables()),
                "at least once, checkpoints every " + CHECKPOINTS.toSeconds() + " s, value state with TTL, " + SLOTS
                        + " slots, warmed up; values only, without keys; bytes are of "
                        + (onHeap ? "the heap after a collection" : "RocksDB's tables"));
    }

    private static long usedHeap() {
        System.gc();
        return ManagementFactory.getMemoryMXBean().getHeapMemoryUsage().getUsed();
    }

    private JobGraph graph() throws IOException {
        Configuration config = new Configuration();
        config.set(StateBackendOptions.STATE_BACKEND, backend);
        config.set(RocksDBOptions.LOCAL_DIRECTORIES, job.tables().toString());
        config.set(CheckpointingOptions.CHECKPOINTS_DIRECTORY, job.state().resolve("checkpoints").toUri().toString());
        config.set(CheckpointingOptions.INCREMENTAL_CHECKPOINTS, true);
        config.set(RestartStrategyOptions.RESTART_STRATEGY, "none");
        config.set(PipelineOptions.OBJECT_REUSE, true);
        StreamExecutionEnvironment env = StreamExecutionEnvironment.getExecutionEnvironment(config);
        env.setParallelism(SLOTS);
        env.enableCheckpointing(CHECKPOINTS.toMillis(), CheckpointingMode.AT_LEAST_ONCE);
        env.fromSource(source(), WatermarkStrategy.noWatermarks(), "events")
                .keyBy(EventId::string)
                .filter(new FirstOnly())
                .sinkTo(sink());
        return env.getStreamGraph().getJobGraph();
    }

    private KafkaSource<byte[]> source() {
        return KafkaSource.<byte[]>builder()
                .setBootstrapServers(job.brokers())
                .setTopics(job.in())
                .setStartingOffsets(OffsetsInitializer.earliest())
                .setDeserializer(KafkaRecordDeserializationSchema.valueOnly(ByteArrayDeserializer.class))
                .build();
    }

    private KafkaSink<byte[]> sink() {
        return KafkaSink.<byte[]>builder()
                .setBootstrapServers(job.brokers())
                .setDeliveryGuarantee(DeliveryGuarantee.AT_LEAST_ONCE)
                .setRecordSerializer(KafkaRecordSerializationSchema.<byte[]>builder()
                        .setTopic(job.out())
                        .setKafkaValueSerializer(ByteArraySerializer.class)
                        .build())
                .build();
    }
}
