package main

import (
	"io"
	"log/slog"
	"math"

	"github.com/streamdedup/streamdedup/sizing"
)

// ready says what the plan takes and does, refuses one that this machine cannot hold,
// and tells what the filters leave to Go's heap. stderr is for the plan as size prints it.
func (s *runSettings) ready(plan sizing.Plan, heap *heapKeeper, stderr io.Writer, log *slog.Logger) error {
	growing, err := s.growth(plan)
	if err != nil {
		return err
	}
	if err := s.announce(plan, growing, stderr, log); err != nil {
		return err
	}
	need := processNeed(plan, s.shares())
	heap.plan, heap.most = int64(need.heap), math.MaxInt64
	memory, known := machineMemory()
	if !known {
		return nil
	}
	if err := holds(need, memory, log); err != nil {
		return err
	}
	if outgrows(need, growing, memory) {
		log.Warn("filters may grow to more than this machine has, and that would end the process: --memory-limit bounds them",
			"memory_limit", growing, "bytes", plan.Bytes, "memory", memory)
	}
	heap.plan, heap.most = plannedHeap(need, memory), heapLimit(need, growing, memory)
	if heap.set != nil {
		log.Info("memory for Go's heap", "planned", heap.plan, "at_most", heap.most, "memory", memory)
	} else {
		log.Info("memory for Go's heap is what GOGC and GOMEMLIMIT say", "memory", memory)
	}
	return nil
}

// announce prints the plan, and what its filters may grow to, in the words of size where
// the log is for people, and logs it under size's names.
func (s *runSettings) announce(plan sizing.Plan, growing uint64, stderr io.Writer, log *slog.Logger) error {
	report, err := sizing.NewReport(plan, sizing.Deployment{GrowTo: growing, Shares: s.shares()})
	if err != nil {
		return err
	}
	log.Info("plan",
		"elements", report.Elements, "window", report.Window, "fpr", report.FPR,
		"partitions", report.Partitions, "bytes_per_partition", report.BytesPerPartition, "bytes", report.Bytes,
		"process_bytes", report.ProcessBytes, "generation_capacity", report.GenerationCapacity)
	if s.logFormat == "json" || s.logLevel == "warn" || s.logLevel == "error" {
		return nil
	}
	// Like the log: a disk without room for it, or a reader that is gone, stops nothing.
	_ = report.WritePlan(stderr)
	return nil
}

// holds refuses a plan of which this machine cannot hold one partition, and warns of
// one that needs others to take a share, or that fits only while little is read.
func holds(n need, memory uint64, log *slog.Logger) error {
	too := n.fits(memory)
	switch {
	case too == nil && n.peak <= memory:
		return nil
	case too == nil:
		log.Warn("the process may take more memory than this machine has while it catches up: it collects garbage more often then",
			"process_bytes", n.peak, "memory", memory, "bytes", n.plan.Bytes)
		return nil
	case !too.shareable():
		return withHint(too, too.Hint()+"\n"+sharedHint)
	}
	log.Warn("the plan does not fit into this machine: other instances must take a share of the partitions",
		"bytes", n.all, "memory", memory, "bytes_per_partition", n.plan.BytesPerPartition,
		"partitions", n.plan.Workload.Partitions, "partitions_that_fit", (memory-(n.one-n.plan.BytesPerPartition))/n.plan.BytesPerPartition)
	return nil
}

// outgrows is whether a plan that fits does not any more once its filters have grown as
// far as they may. Of one that does not fit it was said that others must take a share.
func outgrows(n need, growing, memory uint64) bool {
	return growing > n.plan.Bytes && n.all <= memory && growing-n.plan.Bytes > memory-n.all
}

// notGo is what a process takes besides the filters and what Go's limit counts: its
// code, and pages of the system for it.
const notGo = 32 << 20

// heapLimit is what is left of the memory for Go's heap when the filters have grown as
// far as they may, or, where that is more than there is, as planned. It is never less
// than a process needs that has little to do.
func heapLimit(n need, growing, memory uint64) int64 {
	filters := growing
	if filters > memory {
		filters = n.plan.Bytes
	}
	left := int64(memory) - int64(min(filters, memory)) - notGo
	return max(left, int64(n.all-n.plan.Bytes))
}

// plannedHeap is Go's limit by the plan, or less where the filters as planned leave less
// of the memory: then garbage is collected more often, and nobody ends the process for
// it. Where other instances take a share of the filters it is what any share needs.
func plannedHeap(n need, memory uint64) int64 {
	if n.all > memory {
		return int64(n.heap)
	}
	return min(int64(n.heap), heapLimit(n, n.plan.Bytes, memory))
}
