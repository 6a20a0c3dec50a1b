package window

// Believes is whether a record with that time, read at now, moves the stream: both
// in milliseconds since the epoch.
func (c Config) Believes(t, now int64) bool { return distrust(t, now+c.maxAheadMillis()) == 0 }
