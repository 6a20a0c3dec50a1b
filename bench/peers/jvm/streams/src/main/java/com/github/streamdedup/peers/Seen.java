package com.github.streamdedup.peers;

import java.time.Duration;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.processor.PunctuationType;
import org.apache.kafka.streams.processor.api.FixedKeyProcessor;
import org.apache.kafka.streams.processor.api.FixedKeyProcessorContext;
import org.apache.kafka.streams.processor.api.FixedKeyRecord;
import org.apache.kafka.streams.state.WindowStore;
import org.apache.kafka.streams.state.WindowStoreIterator;

/** Forwards an event whose ID the window store does not have within the window around its time. */
final class Seen implements FixedKeyProcessor<byte[], byte[], byte[]> {
    static final String STORE = "seen";
    private static final byte[] NOTHING = {};
    private static final Duration LOOK_FOR_END = Duration.ofMillis(50);

    private final Meter meter;
    private FixedKeyProcessorContext<byte[], byte[]> context;
    private WindowStore<Bytes, byte[]> seen;

    Seen(Meter meter) {
        this.meter = meter;
    }

    @Override
    public void init(FixedKeyProcessorContext<byte[], byte[]> context) {
        this.context = context;
        seen = context.getStateStore(STORE);
        // The last commit is not to wait for its interval: at least once has 30 seconds.
        context.schedule(LOOK_FOR_END, PunctuationType.WALL_CLOCK_TIME, now -> {
            if (meter.hasAll()) {
                context.commit();
            }
        });
    }

    @Override
    public void process(FixedKeyRecord<byte[], byte[]> event) {
        meter.read();
        Bytes id = Bytes.wrap(EventId.bytes(event.value()));
        long window = Job.WINDOW.toMillis();
        try (WindowStoreIterator<byte[]> found = seen.fetch(id, event.timestamp() - window, event.timestamp() + window)) {
            if (found.hasNext()) {
                return;
            }
        }
        seen.put(id, NOTHING, event.timestamp());
        meter.passed();
        context.forward(event);
    }
}
