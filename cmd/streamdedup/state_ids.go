package main

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/streamdedup/streamdedup/filter"
	"github.com/streamdedup/streamdedup/internal/keys"
)

// How the partition of an ID is found.
const (
	byLine  = "line"
	byKafka = "kafka"
	toAll   = "all"
)

// longestLine bounds a line of an import. No ID is longer than a record.
const longestLine = 16 << 20

// idReader reads IDs, or hashes, with their times.
type idReader struct {
	extractor   *keys.Extractor
	clock       *keys.Clock // of the member time
	print       string
	latest      int64 // a later time is none
	partitioner string
	partitions  int32
	status      *status

	// headed says that a head was read whose fingerprint is ours.
	headed bool
	ids    importedIDs
	n      uint64
	digits uint64 // IDs that could be numbers
}

// importLine is a line of NDJSON. A head, an ID and a hash differ in what they have.
type importLine struct {
	Version     *int            `json:"streamdedup_export"`
	Fingerprint string          `json:"fingerprint"`
	ID          json.RawMessage `json:"id"`
	Hash        *string         `json:"hash"`
	Time        json.RawMessage `json:"time"`
	Partition   *int32          `json:"partition"`
}

func (r *idReader) ndjson(input io.Reader) error {
	lines := bufio.NewScanner(input)
	lines.Buffer(make([]byte, 1<<16), longestLine)
	for n := 1; lines.Scan(); n++ {
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		if err := r.line(lines.Bytes()); err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
	}
	return lines.Err()
}

func (r *idReader) line(text []byte) error {
	var l importLine
	if err := json.Unmarshal(text, &l); err != nil {
		return err
	}
	if l.Version != nil {
		return r.head(*l.Version, l.Fingerprint)
	}
	return r.take(&l, text)
}

// head checks the first line of an export.
func (r *idReader) head(version int, print string) error {
	switch {
	case version != exportVersion:
		return fmt.Errorf("the export has format version %d, this program reads %d", version, exportVersion)
	case print != r.print:
		return withHint(fmt.Errorf("the hashes are of fingerprint %s, these settings have %s: they would stand for other IDs", print, r.print),
			"give the --key, --hash-seed and --filter of the run that exported; hashes cannot be carried over to others, IDs can")
	}
	r.headed = true
	return nil
}

// take takes a line, of which value is an object with the member time.
func (r *idReader) take(l *importLine, value []byte) error {
	id, err := r.hash(l)
	if err != nil {
		return err
	}
	seen := seenID{hash: id}
	var ok bool
	if seen.time, ok = r.clock.Time(&keys.Record{Value: value}, 0); !ok {
		return noTime(l.Time)
	}
	if seen.time > r.latest {
		return withHint(fmt.Errorf("its time %s is ahead of the clock", stamp(seen.time)),
			"is its unit right (--time-format)? --max-ahead lets times through that are a little ahead")
	}
	if r.n++; r.n%(1<<16) == 0 {
		r.status.show("%s IDs read", formatIDs(r.n))
	}
	if r.partitioner == toAll {
		for p := range r.ids {
			r.ids[p] = append(r.ids[p], seen)
		}
		return nil
	}
	p, err := r.partition(l)
	if err != nil {
		return err
	}
	r.ids[p] = append(r.ids[p], seen)
	return nil
}

// noTime is the error of a line without a time that can be read.
func noTime(text []byte) error {
	if text == nil {
		return withHint(errors.New(`there is no "time"`), "give each line one: when its ID was first seen")
	}
	return withHint(fmt.Errorf("time %.80s is none that can be read, or not after 1970", text),
		"write it as 2025-06-01T12:00:00Z, or as a number since 1970 whose unit --time-format names")
}

// hash is the hash that the line has, or that of its ID.
func (r *idReader) hash(l *importLine) (filter.Hash, error) {
	switch {
	case l.Hash != nil && l.ID != nil:
		return 0, errors.New(`it has an "id" and a "hash": one of them is enough`)
	case l.Hash != nil && !r.headed:
		return 0, withHint(errors.New("a hash means nothing without the first line of its export, which says what it was made with"),
			"keep that line at the top of each part of an export that is cut up")
	case l.Hash != nil:
		h, err := strconv.ParseUint(*l.Hash, 16, 64)
		if err != nil || len(*l.Hash) != 16 {
			return 0, fmt.Errorf("hash %q is none: want 16 hexadecimal digits", *l.Hash)
		}
		return filter.Hash(h), nil
	case l.ID == nil:
		return 0, errors.New(`there is no "id" and no "hash"`)
	}
	h, err := r.extractor.HashWritten(l.ID)
	if err != nil {
		return 0, fmt.Errorf("id %.80s: %w", l.ID, err)
	}
	return h, nil
}

// kafka is what producers partition by unless they are told otherwise: murmur2 of
// the key.
var kafka = kgo.StickyKeyPartitioner(nil).ForTopic("")

// partition is that of one ID.
func (r *idReader) partition(l *importLine) (int32, error) {
	if r.partitioner == byKafka {
		key := r.extractor.KeyText(l.ID)
		if key == nil {
			return 0, errors.New("--partitioner kafka needs IDs: from a hash no partition can be told")
		}
		return int32(kafka.Partition(&kgo.Record{Key: key}, int(r.partitions))), nil
	}
	switch {
	case l.Partition == nil:
		return 0, withHint(errors.New(`there is no "partition"`), "give each line one, or take --partitioner kafka or all")
	case *l.Partition < 0 || *l.Partition >= r.partitions:
		return 0, fmt.Errorf("there is no partition %d, the input has %d", *l.Partition, r.partitions)
	}
	return *l.Partition, nil
}

// csv reads lines with columns: id or hash, time, and partition.
func (r *idReader) csv(input io.Reader) error {
	in := bufio.NewReaderSize(input, 1<<16)
	skipped := 0
	if mark, err := in.Peek(len(csvMark)); err == nil && string(mark) == csvMark {
		text, err := in.ReadString('\n')
		if err != nil {
			return err
		}
		skipped = 1
		if err := r.line([]byte(strings.TrimPrefix(text, csvMark))); err != nil {
			return fmt.Errorf("line 1: %w", err)
		}
	}
	rows := csv.NewReader(in)
	rows.ReuseRecord = true
	names, err := rows.Read()
	if errors.Is(err, io.EOF) {
		return errors.New("there is no line with the names of the columns")
	}
	if err != nil {
		return err
	}
	names = append([]string(nil), names...)
	for {
		row, err := rows.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := r.row(names, row); err != nil {
			at, _ := rows.FieldPos(0)
			return fmt.Errorf("line %d: %w", at+skipped, err)
		}
	}
}

// row takes a row of CSV as the line of NDJSON that it stands for.
func (r *idReader) row(names, row []string) error {
	var l importLine
	var value []byte
	for i, text := range row {
		switch names[i] {
		case "id":
			if keys.IsLiteral([]byte(text)) && text[0] != '"' && text[0] != '[' {
				r.digits++
			}
			l.ID = keys.AppendQuoted(nil, []byte(text))
		case "hash":
			l.Hash = &text
		case "time":
			l.Time = keys.AppendQuoted(nil, []byte(text))
			value = append(append([]byte(`{"time":`), l.Time...), '}')
		case "partition":
			n, err := strconv.ParseInt(text, 10, 32)
			if err != nil {
				return fmt.Errorf("partition %q is none", text)
			}
			number := int32(n)
			l.Partition = &number
		}
	}
	return r.take(&l, value)
}
