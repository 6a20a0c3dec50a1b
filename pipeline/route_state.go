package pipeline

import (
	"fmt"
	"strconv"
	"strings"
)

// RouteVersion is the version of the text that a router keeps beside a committed
// offset, for itself and for the others of its group.
//
// The text is words with a space between them:
//
//	streamdedup-route/1 <partitions> <stream time> <next time> <word>
//
// The first number is how many partitions IDs are shared out to. The times are in
// milliseconds, or "-" where there is none: the stream time of what was routed, and
// that of a record which is read and held back. The word is "unread" while the
// first time is still to come, "stopped" where the partition goes no further until someone acts,
// else "routed".
const RouteVersion = 1

const routeName = "streamdedup-route/"

// The words of a route state.
const (
	routeUnread  = "unread"
	routeRouted  = "routed"
	routeStopped = "stopped"
)

// RouteState is how far a source partition is, for those that must not leave it
// behind.
type RouteState struct {
	// Partitions is how many partitions IDs are shared out to.
	Partitions int32
	// Time is the largest believed time of what was routed, zero before there is
	// one. Next is what it would be with the record that is held back, zero where
	// none is.
	Time, Next int64
	// Unread says that its first time is still to come.
	Unread bool
	// Stopped says that it goes no further.
	Stopped bool
}

// String is the text to keep beside the offset.
func (s RouteState) String() string {
	word := routeRouted
	switch {
	case s.Stopped:
		word = routeStopped
	case s.Unread:
		word = routeUnread
	}
	return fmt.Sprintf("%s%d %d %s %s %s", routeName, RouteVersion, s.Partitions, routeTime(s.Time), routeTime(s.Next), word)
}

func routeTime(t int64) string {
	if t == 0 {
		return "-"
	}
	return strconv.FormatInt(t, 10)
}

// ParseRouteState reads what [RouteState.String] wrote. It fails with [ErrNoState]
// for a text of another program, and with [ErrForeignState] for one of a later
// version.
func ParseRouteState(text string) (s RouteState, err error) {
	bad := fmt.Errorf("read the metadata of a routed offset %q: %w", text, ErrNoState)
	words := strings.Fields(text)
	if len(words) == 0 || !strings.HasPrefix(words[0], routeName) {
		return s, bad
	}
	version, err := strconv.Atoi(words[0][len(routeName):])
	if err != nil || version < 1 {
		return s, bad
	}
	if version > RouteVersion {
		return s, fmt.Errorf("read the metadata of a routed offset: it has format version %d, this program reads up to %d: %w",
			version, RouteVersion, ErrForeignState)
	}
	if len(words) != 5 {
		return s, bad
	}
	n, err := strconv.ParseInt(words[1], 10, 32)
	if err != nil || n < 1 {
		return s, bad
	}
	s.Partitions = int32(n)
	for i, to := range []*int64{&s.Time, &s.Next} {
		word := words[2+i]
		if word == "-" {
			continue
		}
		if *to, err = strconv.ParseInt(word, 10, 64); err != nil || *to <= 0 {
			return RouteState{}, bad
		}
	}
	switch words[4] {
	case routeRouted:
	case routeUnread:
		s.Unread = true
	case routeStopped:
		s.Stopped = true
	default:
		return RouteState{}, bad
	}
	return s, nil
}

// waits is the stream time that nobody may leave more than a slice behind, as far
// as this partition is concerned, whose records up to stable are not all routed.
func (s RouteState) waits() int64 {
	switch t := max(s.Time, s.Next); {
	case s.Stopped:
		return everyone
	case t > 0:
		return t
	case s.Unread:
		return nobody // its first time may be any
	}
	return everyone // none of its records has a time
}
