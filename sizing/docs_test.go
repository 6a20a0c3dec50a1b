package sizing

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// docs/SIZING.md says what the code says of sources and of its constants.
func TestDocsSayWhatIsCalculated(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../docs/SIZING.md")
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, one := range Schedules {
		r, err := ParseRedelivery(one.Name)
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, fmt.Sprintf("| `%s` | %s | %s | %s |\n", one.Name, FormatDuration(r.Horizon), FormatDuration(r.Window), r.Says))
	}
	want = append(want,
		fmt.Sprintf("%d bytes an ID, and at most %d bytes a commit", changelogBytesAnID, changelogBytesACommit),
		fmt.Sprintf("`--peak` (%g) times", DefaultPeak), fmt.Sprintf("`--skew` (%g) times", DefaultSkew))
	if preparePeak != 8./7 || GrowthLimit != 2 || 24*time.Hour/commitsADay != 200*time.Millisecond {
		t.Error("a constant has changed that docs/SIZING.md puts into words")
	}
	for _, line := range want {
		if !strings.Contains(string(text), line) {
			t.Errorf("docs/SIZING.md does not say %q", line)
		}
	}
	_, table, _ := strings.Cut(string(text), "## How long copies come")
	if rows := strings.Count(table, "\n| `"); rows != len(Schedules) {
		t.Errorf("docs/SIZING.md has %d sources, the code %d", rows, len(Schedules))
	}
}
