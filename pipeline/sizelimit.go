package pipeline

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// SizeLimit is how large a record the output takes, and what that was before. A
// rebuild leaves out what was too large when it was read: it never came out, also
// when the output would take it by now.
type SizeLimit struct {
	Now    int64 // in bytes, by the source's own measure; zero where no limit is known
	Before int64 // the least one that counted before Since, zero where none did
	Since  int64 // the offset from which Now counts
}

// String is what parseLimit reads.
func (l SizeLimit) String() string { return fmt.Sprintf("%d,%d,%d", l.Now, l.Before, l.Since) }

func parseLimit(s string) (l SizeLimit, err error) {
	numbers := strings.Split(s, ",")
	if len(numbers) != 3 {
		return l, errors.New("three numbers are needed")
	}
	for i, to := range []*int64{&l.Now, &l.Before, &l.Since} {
		if *to, err = strconv.ParseInt(numbers[i], 10, 64); err != nil {
			return l, err
		}
	}
	return l, nil
}

// change is the limit when a batch that begins at offset was read under another.
func (l SizeLimit) change(limit, offset int64) SizeLimit {
	if limit == 0 || limit == l.Now {
		return l
	}
	return SizeLimit{Now: limit, Before: l.least(), Since: offset}
}

// least is the smallest that counts for some record.
func (l SizeLimit) least() int64 {
	if l.Before > 0 && l.Before < l.Now {
		return l.Before
	}
	return l.Now
}

// from forgets what counted only before the first offset that matters.
func (l SizeLimit) from(first int64) SizeLimit {
	if l.Since <= first {
		l.Before, l.Since = 0, 0
	}
	return l
}
