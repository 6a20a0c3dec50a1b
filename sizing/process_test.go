package sizing

import "testing"

func TestProcess_Parts(t *testing.T) {
	t.Parallel()
	w := billion
	w.Partitions = 8
	p := solve(t, w)
	all := p.Process(IO{})
	if all.Filters != p.Bytes || all.Bytes() != all.Filters+all.Journals+all.Kafka+all.Heap+all.Garbage {
		t.Errorf("%+v of a plan of %d bytes", all, p.Bytes)
	}
	if got := all.GoLimit() + all.Filters + codeBytes; got != all.Bytes() {
		t.Errorf("with Go's limit it takes %d bytes, want %d", got, all.Bytes())
	}
	if lives := all.GoLimit() - all.Garbage; lives != all.Garbage {
		t.Errorf("%d bytes of garbage beside %d that live in Go's heap, want as many", all.Garbage, lives)
	}
	half := p.Process(IO{Partitions: 4})
	if half.Filters != p.Bytes/2 || half.Heap >= all.Heap {
		t.Errorf("half of the partitions take %+v, all of them %+v", half, all)
	}
	if slow := p.Process(IO{RecordsPerSecond: 1000}); slow.Kafka >= all.Kafka || slow.Journals >= all.Journals {
		t.Errorf("at 1,000 records a second %+v, catching up %+v", slow, all)
	}
	if large := p.Process(IO{RecordBytes: 1 << 20}); large.Kafka > fetched+written+cycleBytes+aheadBytes {
		t.Errorf("large records take %+v: a cycle ends before", large)
	}
	if twice := p.Process(IO{Shares: true}); twice.Kafka != 2*all.Kafka || twice.Filters != all.Filters || twice.GoLimit() <= all.GoLimit() {
		t.Errorf("with all records twice in it %+v, once %+v", twice, all)
	}
	// One ID in 1,024 of seven full generations and of the filling one takes 32 bytes.
	want := 8 * float64(p.Planned) * 8 / 7 / 1024 * 32
	if got := float64(all.Heap - baseHeap - 8*partitionHeap); got < 0.999*want || got > 1.001*want {
		t.Errorf("%.0f bytes of samples, want %.0f", got, want)
	}
	w.Elements = 1000
	if small := solve(t, w).Process(IO{}); small.Journals > 8*minJournal {
		t.Errorf("small filters have journals of %d bytes", small.Journals)
	}
}
