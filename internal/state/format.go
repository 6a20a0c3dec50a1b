package state

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/streamdedup/streamdedup/filter"
	"github.com/streamdedup/streamdedup/pipeline"
)

// FormatVersion is the version of a checkpoint's format. A program reads the
// version that it writes and refuses all others, by their numbers.
//
// A checkpoint of version 1 is a header of 16,384 bytes, the body, and a table of
// the body's sections, with nothing behind it. Integers are little-endian.
//
//	offset  bytes
//	     0      8  "sdd-ckpt"
//	     8      4  the format version
//	    12      4  CRC-32C of the header but for these four bytes
//	    16     16  topic ID of the input
//	    32     16  topic ID of the changelog
//	    48      4  the partition's number
//	    52      4  CRC-32C of the table
//	    56      8  length of the body
//	    64      8  offset of the input at which the copying of the body began
//	    72      8  and the one at which it ended
//	    80      8  offset of the changelog's partition when it began
//	    88      8  and when it ended
//	    96     64  8 x 8: hashes that each generation, the youngest first, was given
//	               before the copying began
//	   160         the input topic's name
//	               the filter's geometry in words
//	               what the filter keeps beside its body
//	               the shard's state, as pipeline.State.AppendBinary writes it:
//	               each a length of 4 bytes, and as many bytes
//	               zeros up to 16,384
//	 16384         the body, in sections of 1,048,576 bytes; the last may be shorter
//	               the table: CRC-32C of each section, 4 bytes each
//
// The first twelve bytes are the same in every version, so that one can tell
// another version from a damaged file. To change anything else, raise the
// version, keep the golden file of the old one in testdata, and let its test say
// that it is refused, or read it.
const FormatVersion = 1

const (
	magic        = "sdd-ckpt"
	headerBytes  = 16 << 10
	sectionBytes = 1 << 20
	sumBytes     = 4

	versionAt = len(magic)
	sumAt     = versionAt + 4
	sumEnd    = sumAt + 4
	wordsAt   = 160 // end of what has a fixed place
)

// What is wrong with a checkpoint that is refused.
var (
	errNotCheckpoint = errors.New("it is not a checkpoint")
	errVersion       = errors.New("it has another format version")
	errCutOff        = errors.New("it is cut off")
	errDamaged       = errors.New("it is damaged")
	errForeign       = errors.New("it is another's")
)

// castagnoli is the polynomial that processors have an instruction for.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func sum(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

// Identity says which topics a checkpoint is of. A topic that was deleted and
// made again has the same name and another ID, and none of the old one's records.
type Identity struct {
	Input, Changelog [16]byte
}

// header is all that a file holds before its body.
type header struct {
	head   pipeline.CheckpointHead
	topics Identity
	table  uint32 // its CRC
	crc    uint32 // the header's own
}

// sections is how many there are in a body of n bytes.
func sections(n uint64) uint64 {
	count := n / sectionBytes
	if n%sectionBytes > 0 {
		count++
	}
	return count
}

// fileBytes is the size of a whole file.
func (h *header) fileBytes() uint64 {
	return headerBytes + h.head.BodyBytes + sumBytes*sections(h.head.BodyBytes)
}

// check is whether the numbers can be true.
func (h *header) check() error {
	c := &h.head
	switch {
	case c.Partition.Topic == "" || c.Partition.Number < 0:
		return fmt.Errorf("there is no partition %q", c.Partition)
	case c.Begin > c.Next:
		return fmt.Errorf("it ends at offset %d, before its begin at %d", c.Next, c.Begin)
	case c.LogBegin > c.LogEnd:
		return fmt.Errorf("it ends at offset %d of the changelog, before its begin at %d", c.LogEnd, c.LogBegin)
	case c.BodyBytes > 1<<62:
		return fmt.Errorf("no body has %d bytes", c.BodyBytes)
	}
	return nil
}

// encode makes the block that decode reads.
func (h *header) encode() ([]byte, error) {
	if err := h.check(); err != nil {
		return nil, err
	}
	b := make([]byte, 0, headerBytes)
	b = append(b, magic...)
	b = binary.LittleEndian.AppendUint32(b, FormatVersion)
	b = binary.LittleEndian.AppendUint32(b, 0) // the CRC, below
	b = append(b, h.topics.Input[:]...)
	b = append(b, h.topics.Changelog[:]...)
	b = binary.LittleEndian.AppendUint32(b, uint32(h.head.Partition.Number))
	b = binary.LittleEndian.AppendUint32(b, h.table)
	b = binary.LittleEndian.AppendUint64(b, h.head.BodyBytes)
	for _, offset := range []int64{h.head.Begin, h.head.Next, h.head.LogBegin, h.head.LogEnd} {
		b = binary.LittleEndian.AppendUint64(b, uint64(offset))
	}
	for _, added := range h.head.Added {
		b = binary.LittleEndian.AppendUint64(b, added)
	}
	for _, words := range [][]byte{
		[]byte(h.head.Partition.Topic), []byte(h.head.Geometry), h.head.SetHead, h.head.State.AppendBinary(nil),
	} {
		b = binary.LittleEndian.AppendUint32(b, uint32(len(words)))
		b = append(b, words...)
	}
	if len(b) > headerBytes {
		return nil, fmt.Errorf("its header needs %d bytes, there is room for %d", len(b), headerBytes)
	}
	b = b[:headerBytes] // zeros, as made
	binary.LittleEndian.PutUint32(b[sumAt:], headerSum(b))
	return b, nil
}

// headerSum is the CRC of a header but for the CRC in it.
func headerSum(b []byte) uint32 {
	return crc32.Update(sum(b[:sumAt]), castagnoli, b[sumEnd:])
}

// decode reads what encode wrote, or what there is of it.
func decode(b []byte) (*header, error) {
	if n := min(len(b), len(magic)); string(b[:n]) != magic[:n] {
		return nil, errNotCheckpoint
	}
	if len(b) >= sumAt {
		if v := binary.LittleEndian.Uint32(b[versionAt:]); v != FormatVersion {
			return nil, fmt.Errorf("%w: it has %d, this program reads %d", errVersion, v, FormatVersion)
		}
	}
	if len(b) < headerBytes {
		return nil, fmt.Errorf("%w: %d bytes are not even a header", errCutOff, len(b))
	}
	h := &header{crc: binary.LittleEndian.Uint32(b[sumAt:])}
	if h.crc != headerSum(b) {
		return nil, fmt.Errorf("%w: the header's checksum is wrong", errDamaged)
	}
	if err := h.parse(b[sumEnd:]); err != nil {
		return nil, fmt.Errorf("%w: %w", errDamaged, err)
	}
	return h, nil
}

// parse reads what is behind the CRC.
func (h *header) parse(b []byte) error {
	c := &h.head
	b = b[copy(h.topics.Input[:], b):]
	b = b[copy(h.topics.Changelog[:], b):]
	c.Partition.Number = int32(binary.LittleEndian.Uint32(b))
	h.table = binary.LittleEndian.Uint32(b[4:])
	c.BodyBytes = binary.LittleEndian.Uint64(b[8:])
	b = b[16:]
	for _, offset := range []*int64{&c.Begin, &c.Next, &c.LogBegin, &c.LogEnd} {
		*offset = int64(binary.LittleEndian.Uint64(b))
		b = b[8:]
	}
	for i := range filter.Generations {
		c.Added[i] = binary.LittleEndian.Uint64(b[8*i:])
	}
	b = b[8*filter.Generations:]
	var words [4][]byte
	for i := range words {
		if len(b) < 4 {
			return errors.New("the header ends too early")
		}
		n := uint64(binary.LittleEndian.Uint32(b))
		if b = b[4:]; n > uint64(len(b)) {
			return errors.New("the header ends too early")
		}
		words[i], b = b[:n], b[n:]
	}
	c.Partition.Topic, c.Geometry, c.SetHead = string(words[0]), string(words[1]), words[2]
	state, rest, err := pipeline.ParseState(words[3])
	if err != nil {
		return err
	}
	if len(rest) > 0 {
		return fmt.Errorf("%d bytes follow the state", len(rest))
	}
	c.State = state
	return h.check()
}

// readHeader reads and checks all of a file of that size but its body.
func readHeader(r io.ReaderAt, size int64) (*header, []uint32, error) {
	b := make([]byte, max(min(size, headerBytes), 0))
	if _, err := r.ReadAt(b, 0); err != nil && !errors.Is(err, io.EOF) {
		return nil, nil, err
	}
	h, err := decode(b)
	if err != nil {
		return nil, nil, err
	}
	// The size of the file bounds what is allocated.
	if want := h.fileBytes(); uint64(size) < want {
		return nil, nil, fmt.Errorf("%w: it has %d bytes of %d", errCutOff, size, want)
	} else if uint64(size) > want {
		return nil, nil, fmt.Errorf("%w: it has %d bytes more than its %d", errDamaged, uint64(size)-want, want)
	}
	table := make([]byte, sumBytes*sections(h.head.BodyBytes))
	if _, err := r.ReadAt(table, headerBytes+int64(h.head.BodyBytes)); err != nil && !errors.Is(err, io.EOF) {
		return nil, nil, err
	}
	if h.table != sum(table) {
		return nil, nil, fmt.Errorf("%w: the checksum of its table is wrong", errDamaged)
	}
	sums := make([]uint32, len(table)/sumBytes)
	for i := range sums {
		sums[i] = binary.LittleEndian.Uint32(table[sumBytes*i:])
	}
	return h, sums, nil
}

// appendTable is the table as it stands in the file.
func appendTable(b []byte, sums []uint32) []byte {
	for _, s := range sums {
		b = binary.LittleEndian.AppendUint32(b, s)
	}
	return b
}
