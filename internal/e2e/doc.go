// Package e2e runs the built program against Kafka and audits what comes out.
//
// It has nothing but tests. They need a broker, see internal/kafkatest, and signals
// that only Unix has.
package e2e
