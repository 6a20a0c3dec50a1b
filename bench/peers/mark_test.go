package peers

import "testing"

// TestMark looks for a text in what is written in pieces.
func TestMark(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		pieces []string
		seen   bool
	}{
		{name: "in one piece", pieces: []string{"a restored b"}, seen: true},
		{name: "across pieces", pieces: []string{"a res", "t", "ored b"}, seen: true},
		{name: "twice", pieces: []string{"restored", "restored"}, seen: true},
		{name: "nearly", pieces: []string{"resto", "ored", " restore"}},
		{name: "nothing"},
	} {
		t.Run(test.name, func(t *testing.T) {
			m := newMark("restored")
			for _, piece := range test.pieces {
				if n, err := m.Write([]byte(piece)); n != len(piece) || err != nil {
					t.Fatalf("wrote %d of %d bytes, error %v", n, len(piece), err)
				}
			}
			select {
			case <-m.seen:
				if !test.seen {
					t.Error("it saw the text, which is not there")
				}
			default:
				if test.seen {
					t.Error("it did not see the text")
				}
			}
		})
	}
}
