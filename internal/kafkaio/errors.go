package kafkaio

import (
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/streamdedup/streamdedup/pipeline"
)

// Error is a failure that an operator can do something about.
type Error struct {
	err  error
	hint string
}

// Error says what failed, where, with which value.
func (e *Error) Error() string { return e.err.Error() }

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.err }

// Hint says what to do next.
func (e *Error) Hint() string { return e.hint }

// hinted makes an Error; the text is that of fmt.Errorf.
func hinted(hint, format string, args ...any) error {
	return &Error{err: fmt.Errorf(format, args...), hint: hint}
}

// isFenced is whether another producer has taken the transactional ID, or the
// coordinator has taken it from us after a time-out: the broker's answer is the
// same.
func isFenced(err error) bool {
	return errors.Is(err, kerr.ProducerFenced) || errors.Is(err, kerr.InvalidProducerEpoch)
}

// isForgotten is whether the coordinator does not know the producer any more,
// which happens to one that was idle for a week.
func isForgotten(err error) bool {
	return errors.Is(err, kerr.InvalidProducerIDMapping) || errors.Is(err, kerr.UnknownProducerID) ||
		errors.Is(err, kerr.TransactionalIDNotFound)
}

// isStale is whether the group knows us, and not as what we said to be: it has moved
// on since we were told.
func isStale(err error) bool {
	return errors.Is(err, kerr.IllegalGeneration) || errors.Is(err, kerr.StaleMemberEpoch) || errors.Is(err, kerr.FencedMemberEpoch)
}

// errUnreadable is an error of a read that no retry can heal.
var errUnreadable = errors.New("cannot be read")

// isFinal is whether the broker has answered, and the same question would get the
// same answer.
func isFinal(err error) bool {
	var broker *kerr.Error
	return errors.Is(err, errUnreadable) || errors.Is(err, pipeline.ErrNotOurs) || errors.As(err, &broker) && !broker.Retriable
}

// isPassing is whether a broker, or the way to one, may do better in a moment: one of
// several is down, or a leader is being elected.
func isPassing(err error) bool {
	var broker *kerr.Error
	if errors.As(err, &broker) {
		return broker.Retriable
	}
	var way net.Error
	return errors.As(err, &way) || errors.Is(err, io.EOF)
}

// isForbidden is whether no retry can help until someone grants a right.
func isForbidden(err error) bool {
	for _, forbidden := range []error{
		kerr.TopicAuthorizationFailed, kerr.GroupAuthorizationFailed, kerr.TransactionalIDAuthorizationFailed,
		kerr.ClusterAuthorizationFailed, kerr.SaslAuthenticationFailed,
	} {
		if errors.Is(err, forbidden) {
			return true
		}
	}
	return false
}
