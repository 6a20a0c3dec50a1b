package pipeline

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// sizeLimit is how large a record the output takes, and what that was before. A
// rebuild leaves out what was too large when it was read: it never came out, also
// when the output would take it by now.
type sizeLimit struct {
	now    int64 // zero where no limit is known
	before int64 // the least one that counted before since, zero where none did
	since  int64 // the offset from which now counts
}

// String is what parseLimit reads.
func (l sizeLimit) String() string { return fmt.Sprintf("%d,%d,%d", l.now, l.before, l.since) }

func parseLimit(s string) (l sizeLimit, err error) {
	numbers := strings.Split(s, ",")
	if len(numbers) != 3 {
		return l, errors.New("three numbers are needed")
	}
	for i, to := range []*int64{&l.now, &l.before, &l.since} {
		if *to, err = strconv.ParseInt(numbers[i], 10, 64); err != nil {
			return l, err
		}
	}
	return l, nil
}

// change is the limit when a batch that begins at offset was read under another.
func (l sizeLimit) change(limit, offset int64) sizeLimit {
	if limit == 0 || limit == l.now {
		return l
	}
	return sizeLimit{now: limit, before: l.least(), since: offset}
}

// least is the smallest that counts for some record.
func (l sizeLimit) least() int64 {
	if l.before > 0 && l.before < l.now {
		return l.before
	}
	return l.now
}

// from forgets what counted only before the first offset that matters.
func (l sizeLimit) from(first int64) sizeLimit {
	if l.since <= first {
		l.before, l.since = 0, 0
	}
	return l
}
