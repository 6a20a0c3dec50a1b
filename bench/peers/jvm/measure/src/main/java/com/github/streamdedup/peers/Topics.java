package com.github.streamdedup.peers;

import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import java.util.function.BooleanSupplier;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AdminClientConfig;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;

/** What is to be known and done on the broker around a run. */
public final class Topics implements AutoCloseable {
    private static final long LOOK_AGAIN_MS = 20;

    private final Admin admin;

    public Topics(String brokers) {
        Properties config = new Properties();
        config.put(AdminClientConfig.BOOTSTRAP_SERVERS_CONFIG, brokers);
        admin = Admin.create(config);
    }

    /** The ends of a topic's partitions, which must have so many records between them. */
    public Map<TopicPartition, Long> ends(String topic, long events) throws InterruptedException, ExecutionException {
        Map<TopicPartition, Long> ends = admin.listOffsets(partitions(topic).stream()
                        .collect(Collectors.toMap(p -> p, p -> OffsetSpec.latest()))).all().get()
                .entrySet().stream().collect(Collectors.toMap(Map.Entry::getKey, e -> e.getValue().offset()));
        long there = ends.values().stream().mapToLong(Long::longValue).sum();
        if (there != events) {
            throw new IllegalArgumentException("topic " + topic + " has " + there + " records, not the " + events + " of --events");
        }
        return ends;
    }

    /** Makes a topic with as many partitions as another has. */
    public void createLike(String topic, String model) throws InterruptedException, ExecutionException {
        admin.createTopics(List.of(new NewTopic(topic, Optional.of(partitions(model).size()), Optional.empty()))).all().get();
    }

    /** Returns once a group, while it is alive, has committed all offsets up to these ends. */
    public void awaitCommitted(String group, Map<TopicPartition, Long> ends, BooleanSupplier alive)
            throws InterruptedException, ExecutionException {
        while (alive.getAsBoolean()) {
            Map<TopicPartition, OffsetAndMetadata> committed =
                    admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get();
            if (ends.entrySet().stream().allMatch(end -> end.getValue() == 0
                    || committed.get(end.getKey()) != null && committed.get(end.getKey()).offset() >= end.getValue())) {
                return;
            }
            Thread.sleep(LOOK_AGAIN_MS);
        }
        throw new IllegalStateException("group " + group + " ended before it committed its input");
    }

    public void deleteGroup(String group) throws InterruptedException, ExecutionException {
        admin.deleteConsumerGroups(List.of(group)).all().get();
    }

    public void delete(Collection<String> topics) throws InterruptedException, ExecutionException {
        admin.deleteTopics(topics).all().get();
    }

    private List<TopicPartition> partitions(String topic) throws InterruptedException, ExecutionException {
        return admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic).partitions().stream()
                .map(p -> new TopicPartition(topic, p.partition())).toList();
    }

    @Override
    public void close() {
        admin.close();
    }
}
