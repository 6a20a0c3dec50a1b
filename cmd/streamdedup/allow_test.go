package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// written makes a file of a test's own.
func written(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// A first copy that a false positive withholds comes out when its ID is allowed,
// once.
func TestAllowIDLetsAWithheldIDThroughOnce(t *testing.T) {
	var in strings.Builder
	for n := range 20_000 {
		fmt.Fprintln(&in, n)
	}
	args := []string{"filter", "--capacity", "20k", "--fpr", "0.01", "--summary", "none"}
	_, out, _ := exec(in.String(), args...)
	came := map[string]bool{}
	for line := range strings.Lines(out) {
		came[line] = true
	}
	withheld := ""
	for line := range strings.Lines(in.String()) {
		if !came[line] {
			withheld = strings.TrimSpace(line)
			break
		}
	}
	if withheld == "" {
		t.Fatal("no ID is withheld: the test tests nothing")
	}
	// A line has bytes and no type: the number and the text are one ID.
	for _, id := range []string{withheld, `"` + withheld + `"`, `["` + withheld + `"]`} {
		allowed := written(t, "ids", "\n"+id+"\r\n")
		code, out, stderr := exec(in.String()+in.String(), append(args, "--allow-id", allowed)...)
		if n := strings.Count("\n"+out, "\n"+withheld+"\n"); code != exitOK || n != 1 {
			t.Errorf("with %s allowed: exit code %d, %s came out %d times, want once; stderr:\n%s", id, code, withheld, n, stderr)
		}
	}
}

func TestAllowIDNamesTheLineThatIsNoID(t *testing.T) {
	f := func(text, want string, keys ...string) {
		t.Helper()
		args := []string{"filter", "--allow-id", written(t, "ids", text)}
		for _, k := range keys {
			args = append(args, "--key", k)
		}
		code, _, stderr := exec("", args...)
		if code != exitFailed || !strings.Contains(stderr, want) || !strings.Contains(stderr, "\nhint: ") {
			t.Errorf("%q: exit code %d, stderr:\n%swant 1, a hint and %s", text, code, stderr, want)
		}
	}
	f("a\n\nb\n\"\"\n", `ids: line 4: "\"\"" is no ID: an empty ID is none`, "json:id")
	f("a\n[\"a\"]\n", `ids: line 1: "a" is no ID: an ID of 2 parts is an array of 2`, "json:id", "json:n")
	f("[\"a\",{}]\n", `ids: line 1: "[\"a\",{}]" is no ID: a part of an ID is no array or object`, "json:id", "json:n")
	if code, _, stderr := exec("", "filter", "--allow-id", "nosuch"); code != exitFailed || !strings.Contains(stderr, "read --allow-id: open nosuch") {
		t.Errorf("exit code %d, stderr:\n%s", code, stderr)
	}
}

// read is a file's text.
func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
