package com.github.streamdedup.peers;

import java.util.concurrent.atomic.AtomicReference;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.functions.RichFilterFunction;
import org.apache.flink.api.common.state.StateTtlConfig;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;

/** Lets an event pass whose ID, the key, has no state yet. */
final class FirstOnly extends RichFilterFunction<byte[]> {
    /** Of the run: a function is copied as bytes into the cluster, which is in this process. */
    static final AtomicReference<Meter> METER = new AtomicReference<>();

    private transient Meter meter;
    private transient ValueState<Boolean> seen;

    @Override
    public void open(OpenContext context) {
        meter = METER.get();
        ValueStateDescriptor<Boolean> descriptor = new ValueStateDescriptor<>("seen", Boolean.class);
        descriptor.enableTimeToLive(StateTtlConfig.newBuilder(Job.WINDOW).build());
        seen = getRuntimeContext().getState(descriptor);
    }

    @Override
    public boolean filter(byte[] event) throws Exception {
        meter.read();
        if (seen.value() != null) {
            return false;
        }
        seen.update(true);
        meter.passed();
        return true;
    }
}
