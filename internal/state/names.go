package state

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/streamdedup/streamdedup/pipeline"
)

const (
	lockName  = "lock"
	suffix    = ".checkpoint"
	temporary = ".tmp" // behind suffix

	maxSlug = 64
)

// escape makes a name for a file out of any text, the same on every system: of
// at most 81 bytes, none of which any of them takes for anything else. Different
// texts have different names, also where large and small letters are the same.
// A text that is such a name already stays as it is.
func escape(text string) string {
	slug := make([]byte, 0, maxSlug)
	for i := 0; i < min(len(text), maxSlug); i++ {
		switch c := text[i]; {
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9', c == '_', c == '-',
			c == '.' && i > 0 && i < len(text)-1:
			slug = append(slug, c)
		case 'A' <= c && c <= 'Z':
			slug = append(slug, c-'A'+'a')
		default:
			slug = append(slug, '_')
		}
	}
	if text != "" && string(slug) == text && !isDevice(text) {
		return text
	}
	if len(slug) == 0 {
		slug = append(slug, '_')
	}
	hash := sha256.Sum256([]byte(text))
	// A dot would make a device's name of con.orders, too.
	return fmt.Sprintf("%s~%x", strings.ReplaceAll(string(slug), ".", "_"), hash[:8])
}

// isDevice is whether Windows takes a file's name for that of a device.
func isDevice(name string) bool {
	base, _, _ := strings.Cut(name, ".")
	if slices.Contains([]string{"con", "prn", "aux", "nul"}, base) {
		return true
	}
	port, number := strings.TrimRight(base, "0123456789"), strings.TrimLeft(base, "comlpt")
	return (port == "com" || port == "lpt") && len(number) == 1
}

// shardName is how the names of a partition's files begin.
func shardName(p pipeline.Partition) string {
	return escape(p.Topic) + "-" + strconv.Itoa(int(p.Number))
}

// fileName is the name of a checkpoint. Of two of the same shard the newer has
// the larger sequence number.
func fileName(shard string, sequence int64) string {
	return fmt.Sprintf("%s-%012d%s", shard, sequence, suffix)
}

// parseName reads what fileName made.
func parseName(name string) (shard string, sequence int64, ok bool) {
	name, ok = strings.CutSuffix(name, suffix)
	dash := strings.LastIndexByte(name, '-')
	if !ok || dash < 0 {
		return "", 0, false
	}
	number, err := strconv.ParseUint(name[dash+1:], 10, 62)
	return name[:dash], int64(number), err == nil
}
