package keys

import "fmt"

// Text is the record's ID for people, as [Extractor.HashWritten] reads it: a string
// in quotes, a number, true or false, or an array of those for several parts. It is
// "" where the record has no ID. Bytes that are not UTF-8 stay as they are.
//
// It is for logs: it allocates, and counts no repeated header.
func (e *Extractor) Text(r *Record) string {
	if e.scan(r.Value) != Found {
		return ""
	}
	var b []byte
	for i := range e.specs {
		if b = append(b, ','); i == 0 {
			b[0] = '['
		}
		p := e.part(&e.specs[i], r)
		switch p.kind {
		case absent, nested, broken:
			return ""
		case raw, text:
			b = AppendQuoted(b, p.appendTo(nil))
		default:
			b = append(b, p.bytes...)
		}
	}
	if len(e.specs) == 1 {
		return string(b[1:])
	}
	return string(append(b, ']'))
}

// AppendQuoted appends text as a string that [Extractor.HashWritten] reads, byte for
// byte.
func AppendQuoted(b, text []byte) []byte {
	b = append(b, '"')
	for _, c := range text {
		switch {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c < ' ':
			b = fmt.Appendf(b, `\u%04x`, c)
		default:
			b = append(b, c)
		}
	}
	return append(b, '"')
}
