package keys

import "strings"

// NamesTime reports whether a key spec names what is by its name a time. A retry of
// the same event may carry another one, and is then another event.
func NamesTime(s string) bool {
	kind, name, _ := strings.Cut(s, ":")
	switch kind {
	case "json":
		if path, err := parsePath(name); err == nil {
			name = path[len(path)-1].name
		}
	case "header", "column":
	default:
		return false
	}
	return isTimeName(name)
}

// timeWords end the names of times, as the last of their words or alone.
var timeWords = []string{"timestamp", "time", "ts", "at", "date", "datetime"}

func isTimeName(name string) bool {
	name = strings.TrimLeft(name, "@_$")
	for _, word := range timeWords {
		n := len(name) - len(word)
		if n < 0 || !strings.EqualFold(name[n:], word) {
			continue
		}
		if n == 0 {
			return word != "at"
		}
		switch before := name[n-1]; {
		case before == '_', before == '-', before == '.':
			return true
		case 'a' <= before && before <= 'z', '0' <= before && before <= '9':
			if name[n] < 'a' { // as in receivedAt
				return true
			}
		}
	}
	return false
}
